use core::fmt;

use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, Zeroizing};

use super::subkeys::{Subkeys, Table};
use crate::error::EntryFault;
use crate::hazmat::AesBlock;
use crate::resource::Resource;

const SALT: &[u8] = b"opaque-id.v1";

/// A master secret: 32 random bytes. Wiped on drop; `Debug` hides it.
///
/// ```
/// use opaque_id_core::{Keyring, MasterSecret};
///
/// let secret = MasterSecret::generate();
/// assert_eq!(secret.to_hex().len(), 64);
/// let keyring = Keyring::builder().sealing(0, secret).build()?;
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
#[derive(Clone)]
pub struct MasterSecret(Zeroizing<[u8; 32]>);

impl MasterSecret {
    /// A fresh secret from the operating system's randomness.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate() -> Self {
        let mut bytes = Zeroizing::new([0; 32]);
        crate::generator::fill_by_system(&mut *bytes);
        Self(bytes)
    }

    /// Reads 64 hex digits of either case.
    ///
    /// # Errors
    /// [`EntryFault::Length`] or [`EntryFault::NotHex`], without any of the digits.
    pub fn from_hex(hex: &str) -> Result<Self, EntryFault> {
        if let Some(at) = hex.chars().position(|c| !c.is_ascii_hexdigit()) {
            return Err(EntryFault::NotHex { position: at + 1 });
        }
        if hex.len() != 64 {
            return Err(EntryFault::Length { found: hex.len() });
        }
        let nibble = |digit: u8| match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        let mut bytes = Zeroizing::new([0; 32]);
        for (byte, digits) in bytes.iter_mut().zip(hex.as_bytes().as_chunks::<2>().0) {
            *byte = nibble(digits[0]) << 4 | nibble(digits[1]);
        }
        Ok(Self(bytes))
    }

    /// The secret itself, as 64 lower-case hex digits: what [`from_hex`](Self::from_hex) reads.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut hex = Zeroizing::new(String::with_capacity(64));
        for byte in self.0.iter() {
            for nibble in [byte >> 4, byte & 15] {
                hex.push(char::from_digit(u32::from(nibble), 16).unwrap_or_default());
            }
        }
        hex
    }

    pub(super) fn is_zero(&self) -> bool {
        bool::from(self.0.ct_eq(&[0; 32]))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        bool::from(self.0.ct_eq(&*other.0))
    }
}

impl MasterSecret {
    /// What [`PseudoOrderedGenerator`](crate::generator::PseudoOrderedGenerator) encrypts windows with:
    /// AES-128 under HKDF-SHA-256 of the secret with label `window` and an empty domain.
    pub(crate) fn windows(&self) -> AesBlock {
        let mut key = Zeroizing::new([0; 16]);
        Secret::new(self).expand(b"window\0", &mut *key);
        AesBlock::new(&key)
    }
}

/// The caller wipes its own copy.
impl From<[u8; 32]> for MasterSecret {
    fn from(mut bytes: [u8; 32]) -> Self {
        let secret = Self(Zeroizing::new(bytes));
        bytes.zeroize();
        secret
    }
}

impl fmt::Debug for MasterSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterSecret(..)")
    }
}

/// Eight hex digits that tell two secrets apart: HKDF-SHA-256 of the secret with label `check` and an
/// empty domain, four bytes. [`Keyring::check_value`](super::Keyring::check_value) gives it.
///
/// ```
/// use opaque_id_core::Keyring;
///
/// let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
/// let value = keyring.check_value(keyring.sealing_key_id()).expect("a keyring holds its sealing secret");
/// assert_eq!(value.to_string(), "8a7d224f");
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
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

/// A master secret at work: what HKDF extracted from it, and the subkeys derived so far.
pub(super) struct Secret {
    prk: Zeroizing<[u8; 32]>,
    table: Table,
}

impl Secret {
    pub(super) fn new(master: &MasterSecret) -> Self {
        let (mut extracted, _) = Hkdf::<Sha256>::extract(Some(SALT), &*master.0);
        let prk = Zeroizing::new(extracted.into());
        extracted.as_mut_slice().zeroize();
        Self {
            prk,
            table: Table::new(),
        }
    }

    #[inline]
    pub(super) fn subkeys(&self, resource: &Resource) -> &Subkeys {
        self.table.get(resource, || self.derive(resource.domain()))
    }

    pub(super) fn derive(&self, domain: &str) -> Subkeys {
        Subkeys::derive(&self.hkdf(), domain)
    }

    pub(super) fn check_value(&self) -> CheckValue {
        let mut value = [0; 4];
        self.expand(b"check\0", &mut value);
        CheckValue(value)
    }

    fn expand(&self, info: &[u8], output: &mut [u8]) {
        self.hkdf()
            .expand(info, output)
            .expect("far below HKDF's limit of 8160 bytes");
    }

    fn hkdf(&self) -> Hkdf<Sha256> {
        Hkdf::from_prk(&*self.prk).expect("as long as the hash")
    }
}
