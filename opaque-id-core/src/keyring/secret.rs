//! Master secrets and their subkeys.

use core::fmt;
use core::hint::black_box;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::KeyId;
use super::table::Table;
use crate::error::{self, Invalid, KeyringError, SecretProblem};
use crate::form::{Form, Tagged};
use crate::key::Key;
use crate::prefix::Prefixes;
use crate::random::fill_by_system;
use crate::resource::OpaqueId;
use crate::subkeys::{IdSubkeys, Label, Subkeys, expand, expand_ids};

const SALT: &[u8] = b"opaque-id.v1";

/// A master secret: 32 random bytes at one place on the heap. It is wiped on drop, and `Debug` hides it.
pub struct MasterSecret(Box<Zeroizing<[u8; 32]>>);

impl MasterSecret {
    /// Generates a secret with the operating system's random number generator.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn generate() -> Self {
        Self::filled(|bytes| fill_by_system(bytes))
    }

    /// The key id of the example ids in documentation.
    pub const EXAMPLE_KEY_ID: u8 = 3;

    /// Returns the public secret of the example ids in documentation, such as
    /// [`External::example`](crate::External::example): the ASCII text `opaque-id: example, not a secret`.
    /// Use it in tests, and for [`opening`](super::KeyringBuilder::opening) in servers that should accept the
    /// examples. With it a keyring opens only the example of each resource, because every client could make
    /// up other ids. A keyring does not seal with it, and variables and files with it are refused.
    #[must_use]
    pub fn example() -> Self {
        Self::filled(|bytes| *bytes = *b"opaque-id: example, not a secret")
    }

    /// Moving the bytes would leave copies that are not wiped.
    fn filled(fill: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut bytes = Box::new(Zeroizing::new([0; 32]));
        fill(&mut bytes);
        Self(bytes)
    }

    /// Parses 64 hex digits of either case.
    ///
    /// # Errors
    /// [`Invalid`]. It contains none of the digits.
    pub fn from_hex(hex: &str) -> Result<Self, Invalid> {
        if let Some(at) = hex.chars().position(|c| !c.is_ascii_hexdigit()) {
            return Err(SecretProblem::NotHex { position: at + 1 }.into());
        }
        if hex.len() != 64 {
            return Err(SecretProblem::Length { found: hex.len() }.into());
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        Ok(Self::filled(|bytes| {
            for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().as_chunks::<2>().0) {
                *byte = nibble(digits[0]) << 4 | nibble(digits[1]);
            }
        }))
    }

    /// Returns the text without its runs of 48 or more hex digits, because they may be a misplaced secret.
    #[must_use]
    pub fn redact(text: &str) -> String {
        error::redact(text)
    }

    /// Passes the secret as 64 lower-case hex digits to `read`, and wipes them afterwards.
    pub fn expose_hex<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        let mut hex = Zeroizing::new(String::with_capacity(64));
        for byte in self.0.iter() {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
            }
        }
        read(&hex)
    }

    pub(super) fn is_one_byte(&self) -> bool {
        bool::from(self.0[1..].ct_eq(&self.0[..31]))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        bool::from(self.0.ct_eq(&**other.0))
    }

    pub(super) fn is_example(&self) -> bool {
        self.is_same(&Self::example())
    }

    /// Derives a subkey of `N` bytes for a label and a domain, and passes it to `act`. It is for crates of
    /// this family.
    ///
    /// `act` runs on a stack that is wiped afterwards. It must put its results from the subkey on the heap.
    #[doc(hidden)]
    pub fn with_subkey<const N: usize, R>(
        &self,
        label: Label,
        domain: &str,
        act: impl FnOnce(&[u8; N]) -> R,
    ) -> R {
        with_subkey(&extract(self), label, domain, act)
    }
}

impl Clone for MasterSecret {
    fn clone(&self) -> Self {
        Self::filled(|bytes| bytes.copy_from_slice(&**self.0))
    }
}

/// Copies the bytes. The caller must wipe its own copy.
impl From<[u8; 32]> for MasterSecret {
    fn from(mut bytes: [u8; 32]) -> Self {
        let secret = Self::filled(|place| place.copy_from_slice(&bytes));
        bytes.zeroize();
        secret
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(..)")
    }
}

/// Eight hex digits that distinguish secrets: four bytes of HKDF-SHA-256 with the label `check` and an empty
/// domain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CheckValue([u8; 4]);

impl fmt::Display for CheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", u32::from_be_bytes(self.0))
    }
}

impl fmt::Debug for CheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CheckValue({self})")
    }
}

pub(super) struct Secret {
    pub(super) prk: Prk,
    table: Table,
    domains: Mutex<BTreeMap<&'static str, &'static str>>,
    prefixes: Mutex<Prefixes<'static, usize>>,
    pub(super) is_public: bool,
}

impl Secret {
    pub(super) fn new(master: &MasterSecret) -> Self {
        Self::of(extract(master), master.is_example())
    }

    fn of(prk: Prk, is_public: bool) -> Self {
        Self {
            prk,
            table: Table::new(),
            domains: Mutex::default(),
            prefixes: Mutex::default(),
            is_public,
        }
    }

    pub(super) fn again(&self) -> Self {
        let mut prk = Box::new(Zeroizing::new([0; 32]));
        prk.copy_from_slice(&**self.prk);
        Self::of(prk, self.is_public)
    }

    pub(super) fn for_audience(&self, name: &str) -> Self {
        let derive = |bytes: &[u8; 32]| Self::new(&MasterSecret::from(*bytes));
        // An audience of a public secret is public.
        Self { is_public: self.is_public, ..with_subkey(&self.prk, Label::Audience, name, derive) }
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        bool::from(self.prk.ct_eq(&**other.prk))
    }

    #[inline]
    pub(super) fn subkeys<T: OpaqueId>(&self) -> &Subkeys {
        let index = T::slot().index(T::Key::KIND_NUMBER);
        self.table.get(index, || match self.claim_domain::<T>() {
            Ok(()) => self.derive(T::DOMAIN),
            Err(error) => panic!("{error}"),
        })
    }

    pub(super) fn prepare<T: OpaqueId>(&self) -> Result<(), KeyringError> {
        self.claim_prefix::<T>()?;
        self.claim_domain::<T>()?;
        self.subkeys::<T>();
        Ok(())
    }

    fn claim_prefix<T: OpaqueId>(&self) -> Result<(), KeyringError> {
        let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
        // All instances of a generic resource have the same slot.
        let slot = core::ptr::from_ref(T::slot()).addr();
        match prefixes.claim(T::PREFIX, slot, T::Form::NAME == Tagged::NAME) {
            Ok(()) => Ok(()),
            Err((other, _)) if other == T::PREFIX => Err(KeyringError::Prefix { prefix: other }),
            Err((other, _)) => Err(KeyringError::CursorPrefix { resource: other.min(T::PREFIX) }),
        }
    }

    /// With two kinds of key, a network of two rounds and one of four would have the same round keys, and the
    /// ids of one kind would open as the other's.
    pub(super) fn claim_domain<T: OpaqueId>(&self) -> Result<(), KeyringError> {
        let mut domains = self.domains.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = domains.entry(T::DOMAIN).or_insert(T::Key::KIND);
        match *kind == T::Key::KIND {
            true => Ok(()),
            false => Err(KeyringError::Domain {
                domain: T::DOMAIN,
                resource: T::PREFIX,
                expected: kind,
                found: T::Key::KIND,
            }),
        }
    }

    pub(super) fn derive(&self, domain: &str) -> Box<Subkeys> {
        on_wiped_stack(|| Box::new(Subkeys::derive(&hkdf(&self.prk), domain, self.is_public)))
    }

    pub(super) fn with_id_subkeys<R>(&self, domain: &str, act: impl FnOnce(&IdSubkeys) -> R) -> R {
        on_wiped_stack(|| {
            let mut subkeys = Zeroizing::new([0; size_of::<IdSubkeys>()]);
            expand_ids(&hkdf(&self.prk), domain, &mut subkeys);
            act(&subkeys)
        })
    }

    pub(super) fn check_value(&self) -> CheckValue {
        with_subkey(&self.prk, Label::Check, "", |value| CheckValue(*value))
    }
}

pub(crate) fn example_subkeys(domain: &str) -> (Box<Subkeys>, KeyId) {
    let key_id = KeyId::new(MasterSecret::EXAMPLE_KEY_ID).expect("at most 3");
    (Secret::new(&MasterSecret::example()).derive(domain), key_id)
}

/// The key that HKDF extracts from a master secret (RFC 5869, section 2.2).
pub(super) type Prk = Box<Zeroizing<[u8; 32]>>;

fn extract(master: &MasterSecret) -> Prk {
    let mut prk = Box::new(Zeroizing::new([0; 32]));
    on_wiped_stack(|| {
        let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(SALT), &**master.0);
        prk.copy_from_slice(&extracted);
        extracted.as_mut_slice().zeroize();
    });
    prk
}

fn hkdf(prk: &Prk) -> Hkdf<Sha256> {
    Hkdf::from_prk(&***prk).expect("as long as the hash")
}

pub(super) fn with_subkey<const N: usize, R>(
    prk: &Prk,
    label: Label,
    domain: &str,
    act: impl FnOnce(&[u8; N]) -> R,
) -> R {
    on_wiped_stack(|| {
        let mut subkey = Zeroizing::new([0; N]);
        expand(&hkdf(prk), label, domain, &mut *subkey);
        act(&subkey)
    })
}

/// HKDF and the expansion of AES keys use less, even in builds without optimization.
const DEPTH: usize = 32 * 1024;

/// Runs `act`, then overwrites the stack that it has used.
///
/// This is best effort: the compiler may have made copies elsewhere.
#[inline(never)]
pub(super) fn on_wiped_stack<R>(act: impl FnOnce() -> R) -> R {
    let result = run(act);
    wipe();
    result
}

#[inline(never)]
fn run<R>(act: impl FnOnce() -> R) -> R {
    black_box(act())
}

#[inline(never)]
fn wipe() {
    let mut stack = [0_u64; DEPTH / size_of::<u64>()];
    // `zeroize` writes even memory that is never read again.
    black_box(&mut stack).zeroize();
}
