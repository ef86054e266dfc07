//! Resources that are known only at run time, for tools.

use core::fmt;
use core::marker::PhantomData;

use super::secret::{Secret, on_wiped_stack};
use super::{KeyId, Keyring};
use crate::cursor;
use crate::error::{IdError, Invalid, KeyProblem, OpenError, TextProblem};
use crate::form::{Form, FormKind, SealedFormOf, Short, Tagged, Text, TextBuffer, UuidForm};
use crate::key::{AnyKey, Key, KeyKind, Repr, StructuredKey, Ulid, Uuid, Uuid7};
use crate::prefix::{cursor_prefix, is_prefix};
use crate::subkeys::{IdSubkeys, Subkeys};

/// A resource that is known only at run time, for tools that read its prefix, kind of key and form from a
/// command line or a file. Applications should derive [`OpaqueId`](crate::OpaqueId) instead.
///
/// ```
/// use opaque_id_core::form::FormKind;
/// use opaque_id_core::key::{AnyKey, KeyKind};
/// use opaque_id_core::keyring::RuntimeResource;
/// use opaque_id_core::{Keyring, MasterSecret};
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let kind: KeyKind = "i64".parse()?;
/// let invoices = RuntimeResource::new(&keyring, "invoice", "invoice", kind, FormKind::TEXT)?;
/// let id = invoices.seal(AnyKey::Int(42))?;
/// assert_eq!(invoices.open(&id)?.0, AnyKey::Int(42));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RuntimeResource {
    pub(super) prefix: String,
    pub(super) sealing: KeyId,
    subkeys: [Option<Box<Subkeys>>; 4],
    pub(super) typed: &'static dyn Typed,
}

impl RuntimeResource {
    /// Creates a resource and derives the subkeys of its domain from each secret of the keyring.
    ///
    /// # Errors
    /// [`Invalid`] if the prefix or the domain is invalid, or if the kind of key has no such form.
    pub fn new(
        keyring: &Keyring,
        prefix: &str,
        domain: &str,
        key: KeyKind,
        form: FormKind,
    ) -> Result<Self, Invalid> {
        let resource = Self::without_subkeys(prefix, keyring.sealing_key_id(), key, form)?;
        if domain.is_empty() {
            return Err(Invalid::setting("empty domain; leave it out to use the prefix"));
        }
        let derive = |secret: &Option<Secret>| Some(secret.as_ref()?.derive(domain));
        Ok(Self { subkeys: keyring.0.secrets.each_ref().map(derive), ..resource })
    }

    /// Creates a resource from subkeys of [`with_id_subkeys`](Keyring::with_id_subkeys), without the secrets.
    /// It opens ids and cursors, but no grants. It is for the command `opaque-id`.
    ///
    /// # Errors
    /// The same as [`new`](Self::new).
    #[doc(hidden)]
    pub fn with_subkeys<'s>(
        prefix: &str,
        key: KeyKind,
        form: FormKind,
        subkeys: impl Fn(KeyId) -> Option<&'s IdSubkeys>,
    ) -> Result<Self, Invalid> {
        let resource = Self::without_subkeys(prefix, KeyId::ALL[0], key, form)?;
        let subkeys = KeyId::ALL.map(|key_id| {
            let id_subkeys = subkeys(key_id)?;
            Some(on_wiped_stack(|| Box::new(Subkeys::from_ids(id_subkeys))))
        });
        Ok(Self { subkeys, ..resource })
    }

    fn without_subkeys(
        prefix: &str,
        sealing: KeyId,
        key: KeyKind,
        form: FormKind,
    ) -> Result<Self, Invalid> {
        if !is_prefix(prefix) {
            return Err(TextProblem::Prefix.into());
        }
        let (prefix, typed) = (prefix.to_owned(), typed(key, form)?);
        Ok(Self { prefix, sealing, subkeys: [const { None }; 4], typed })
    }

    /// Seals a key and returns the text of its external id.
    ///
    /// # Errors
    /// [`IdError::InvalidKey`] if the key is not of the resource's kind, or if the form has no room for it.
    pub fn seal(&self, key: AnyKey) -> Result<String, IdError> {
        self.seal_with(self.sealing, key)
    }

    /// Seals a key with the secret of a key id, such as to find an id in older logs.
    ///
    /// # Errors
    /// [`IdError::Open`] if there is no such secret, and the errors of [`seal`](Self::seal).
    pub fn seal_with(&self, key_id: KeyId, key: AnyKey) -> Result<String, IdError> {
        self.typed.seal(self, key_id, key)
    }

    /// Opens an external id. Returns its key and its secret's key id.
    ///
    /// # Errors
    /// [`IdError::InvalidId`] or [`IdError::Open`].
    pub fn open(&self, text: &str) -> Result<(AnyKey, KeyId), IdError> {
        self.typed.open(self, text)
    }

    /// Returns the number of tag bits in the resource's ids. Without a tag, another secret opens an id to
    /// another key. A resource with 40 bits or more refuses made-up ids and the ids of other resources.
    #[must_use]
    pub fn tag_bits(&self) -> u32 {
        self.typed.tag_bits()
    }

    /// Returns the kind of key for messages, [`Key::KIND`].
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.typed.kind()
    }

    /// Seals the position of a key in a list and returns the text of its cursor.
    ///
    /// # Errors
    /// The same as [`seal`](Self::seal).
    pub fn seal_cursor(&self, key: AnyKey) -> Result<String, IdError> {
        let key = self.typed.block(key).map_err(IdError::InvalidKey)?;
        let sealed = cursor::seal(self.keys(self.sealing)?, self.sealing, key);
        let prefix = cursor_prefix(&self.prefix);
        Ok(format!("{prefix}{}", Tagged::write("", sealed, &mut TextBuffer::new())))
    }

    /// Opens a cursor. Returns the key of its position and its secret's key id.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn open_cursor(&self, text: &str) -> Result<(AnyKey, KeyId), IdError> {
        let sealed =
            Tagged::parse(&cursor_prefix(&self.prefix), text).map_err(IdError::InvalidId)?;
        let (key_id, keys) = (sealed.key_id(), self.keys(sealed.key_id())?);
        let key = cursor::open(keys, sealed).and_then(|block| self.typed.key(keys, block));
        Ok((key.ok_or(OpenError::NotGenuine)?, key_id))
    }

    pub(super) fn keys(&self, key_id: KeyId) -> Result<&Subkeys, OpenError> {
        let keys = self.subkeys[key_id.index()].as_deref();
        keys.ok_or(OpenError::UnknownKeyId { key_id })
    }
}

impl fmt::Debug for RuntimeResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeResource").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

pub(super) trait Typed: Send + Sync {
    fn kind(&self) -> &'static str;
    fn tag_bits(&self) -> u32;
    fn seal(&self, of: &RuntimeResource, key_id: KeyId, key: AnyKey) -> Result<String, IdError>;
    fn open(&self, of: &RuntimeResource, text: &str) -> Result<(AnyKey, KeyId), IdError>;
    fn block(&self, key: AnyKey) -> Result<u128, Invalid>;
    fn key(&self, keys: &Subkeys, block: u128) -> Option<AnyKey>;
}

struct Types<K, F>(PhantomData<fn() -> (K, F)>);

impl<K: Key, F: SealedFormOf<K>> Types<K, F> {
    fn repr(key: AnyKey) -> Result<K::Repr, Invalid> {
        let other = KeyProblem::OutOfRange("it is not of this kind of key, or too large for it");
        let repr = K::Repr::from_any(key).ok_or(other)?;
        F::check(repr).map(|()| repr)
    }

    fn checked(repr: Option<K::Repr>) -> Option<AnyKey> {
        repr.filter(|repr| F::check(*repr).is_ok()).map(Repr::to_any)
    }
}

impl<K: Key, F: SealedFormOf<K>> Typed for Types<K, F> {
    fn kind(&self) -> &'static str {
        K::KIND
    }

    fn tag_bits(&self) -> u32 {
        F::TAG_BITS
    }

    fn seal(&self, of: &RuntimeResource, key_id: KeyId, key: AnyKey) -> Result<String, IdError> {
        let repr = Self::repr(key).map_err(IdError::InvalidKey)?;
        let id = F::seal(of.keys(key_id)?, key_id, repr);
        Ok(F::write(&of.prefix, id, &mut TextBuffer::new()).into())
    }

    fn open(&self, of: &RuntimeResource, text: &str) -> Result<(AnyKey, KeyId), IdError> {
        let id = F::parse(&of.prefix, text).map_err(IdError::InvalidId)?;
        let key_id = F::key_id(id);
        let key = Self::checked(F::open(of.keys(key_id)?, id));
        Ok((key.ok_or(OpenError::NotGenuine)?, key_id))
    }

    fn block(&self, key: AnyKey) -> Result<u128, Invalid> {
        Self::repr(key).map(cursor::block)
    }

    fn key(&self, keys: &Subkeys, block: u128) -> Option<AnyKey> {
        Self::checked(cursor::unblock::<K>(keys, block))
    }
}

fn typed(key: KeyKind, form: FormKind) -> Result<&'static dyn Typed, Invalid> {
    fn of<K: Key, F: SealedFormOf<K>>() -> &'static dyn Typed {
        &Types::<K, F>(PhantomData)
    }
    Ok(match (key, form) {
        (KeyKind::UUID7, FormKind::TEXT) => of::<Uuid7, Text>(),
        (KeyKind::UUID7, FormKind::TAGGED) => of::<Uuid7, Tagged>(),
        (KeyKind::UUID7, FormKind::UUID) => of::<Uuid7, UuidForm>(),
        (KeyKind::ULID, FormKind::TEXT) => of::<Ulid, Text>(),
        (KeyKind::ULID, FormKind::TAGGED) => of::<Ulid, Tagged>(),
        (KeyKind::STRUCTURED, FormKind::TEXT) => of::<StructuredKey, Text>(),
        (KeyKind::STRUCTURED, FormKind::TAGGED) => of::<StructuredKey, Tagged>(),
        (KeyKind::STRUCTURED, FormKind::UUID) => of::<StructuredKey, UuidForm>(),
        (KeyKind::UUID, FormKind::TEXT) => of::<Uuid, Text>(),
        (KeyKind::UUID, FormKind::TAGGED) => of::<Uuid, Tagged>(),
        (KeyKind::I64, FormKind::TEXT) => of::<i64, Text>(),
        (KeyKind::I64, FormKind::SHORT) => of::<i64, Short>(),
        (KeyKind::I64, FormKind::UUID) => of::<i64, UuidForm>(),
        (KeyKind::I32, FormKind::TEXT) => of::<i32, Text>(),
        (KeyKind::I32, FormKind::SHORT) => of::<i32, Short>(),
        (KeyKind::I32, FormKind::UUID) => of::<i32, UuidForm>(),
        (KeyKind::U32, FormKind::TEXT) => of::<u32, Text>(),
        (KeyKind::U32, FormKind::SHORT) => of::<u32, Short>(),
        (KeyKind::U32, FormKind::UUID) => of::<u32, UuidForm>(),
        _ => {
            return Err(Invalid::setting(match form {
                form if form.is_mapped() => {
                    "ids of a mapped form are not sealed: look them up in the mapping table"
                }
                FormKind::TAGGED => {
                    "integers have no tagged form because their text form has a tag already: use the text form"
                }
                FormKind::SHORT => {
                    "only integers have a short form: use the text or the tagged form"
                }
                _ => {
                    "a ULID and an arbitrary UUID have no uuid form: use the text or the tagged form"
                }
            }));
        }
    })
}
