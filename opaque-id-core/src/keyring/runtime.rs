use core::fmt;
use core::marker::PhantomData;

use thiserror::Error;

use super::secret::Secret;
use super::{KeyId, Keyring};
use crate::cursor;
use crate::error::{InvalidKey, MalformedId, OpenError};
use crate::form::{Form, SealedFormOf, Tagged, TextBuffer};
use crate::key::Key;
use crate::prefix::{cursor_prefix, is_prefix, prefix_rule};
use crate::subkeys::Subkeys;

/// A resource whose prefix is known only at run time: for tools that read it from a command line or a
/// file. Applications derive [`OpaqueId`](crate::OpaqueId) instead, which also keeps resources apart.
///
/// ```
/// use opaque_id_core::form::Text;
/// use opaque_id_core::keyring::RuntimeResource;
/// use opaque_id_core::{Keyring, MasterSecret};
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let invoices = RuntimeResource::<i64, Text>::new(&keyring, "invoice", "invoice")?;
/// let id = invoices.seal(42)?;
/// assert_eq!(invoices.open(&id)?.0, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RuntimeResource<K, F> {
    prefix: String,
    sealing: KeyId,
    /// By key id.
    subkeys: [Option<Box<Subkeys>>; 4],
    form: PhantomData<fn() -> (K, F)>,
}

/// What a [`RuntimeResource`] refuses, and why.
///
/// ```
/// use opaque_id_core::form::Text;
/// use opaque_id_core::keyring::{RuntimeError, RuntimeResource};
/// use opaque_id_core::{Keyring, MasterSecret};
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let error = RuntimeResource::<i64, Text>::new(&keyring, "Invoice", "invoice").unwrap_err();
/// assert_eq!(error, RuntimeError::Prefix);
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Not a prefix.
    #[error("invalid prefix: expected {}", prefix_rule!())]
    Prefix,
    /// An empty domain.
    #[error("empty domain; leave it out to use the prefix")]
    Domain,
    /// Not an id of the resource.
    #[error("invalid id: {0}")]
    Parse(MalformedId),
    /// An id that can't be opened.
    #[error(transparent)]
    Open(OpenError),
    /// A key that can't be sealed.
    #[error("invalid key: {0}")]
    Key(InvalidKey),
}

impl<K: Key, F: SealedFormOf<K>> RuntimeResource<K, F> {
    /// Derives the subkeys of a domain, under each secret of the keyring.
    ///
    /// # Errors
    /// [`RuntimeError::Prefix`] and [`RuntimeError::Domain`].
    pub fn new(keyring: &Keyring, prefix: &str, domain: &str) -> Result<Self, RuntimeError> {
        if !is_prefix(prefix) {
            return Err(RuntimeError::Prefix);
        }
        if domain.is_empty() {
            return Err(RuntimeError::Domain);
        }
        let derive = |secret: &Option<Secret>| Some(secret.as_ref()?.derive(domain));
        let subkeys = keyring.0.secrets.each_ref().map(derive);
        Ok(Self {
            prefix: prefix.into(),
            sealing: keyring.sealing_key_id(),
            subkeys,
            form: PhantomData,
        })
    }

    /// The text of a key's external id.
    ///
    /// # Errors
    /// [`RuntimeError::Key`] if the form has no room for it.
    pub fn seal(&self, key: K) -> Result<String, RuntimeError> {
        let repr = key.into_repr();
        F::check(repr).map_err(RuntimeError::Key)?;
        let keys = self.keys(self.sealing)?;
        let id = F::seal(keys, self.sealing, repr);
        Ok(F::write(&self.prefix, id, &mut TextBuffer::new()).into())
    }

    /// The key of an external id, and the key id of the secret that sealed it.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] and [`RuntimeError::Open`].
    pub fn open(&self, text: &str) -> Result<(K, KeyId), RuntimeError> {
        let id = F::parse(&self.prefix, text).map_err(RuntimeError::Parse)?;
        let key_id = F::key_id(id);
        let keys = self.keys(key_id)?;
        self.checked(F::open(keys, id), key_id)
    }

    /// The external id under the sealing secret; see [`Keyring::renew`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn renew(&self, text: &str) -> Result<String, RuntimeError> {
        self.open(text).and_then(|(key, _)| self.seal(key))
    }

    /// The text of the cursor of a key's place in a list.
    ///
    /// # Errors
    /// [`RuntimeError::Key`] if the form has no room for the key.
    pub fn seal_cursor(&self, key: K) -> Result<String, RuntimeError> {
        let repr = key.into_repr();
        F::check(repr).map_err(RuntimeError::Key)?;
        let sealed = cursor::seal(self.keys(self.sealing)?, self.sealing, repr);
        let prefix = cursor_prefix(&self.prefix);
        Ok(format!(
            "{prefix}{}",
            Tagged::write("", sealed, &mut TextBuffer::new())
        ))
    }

    /// The key whose place in a list a cursor is, and the key id of the secret that sealed it.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] and [`RuntimeError::Open`].
    pub fn open_cursor(&self, text: &str) -> Result<(K, KeyId), RuntimeError> {
        let sealed =
            Tagged::parse(&cursor_prefix(&self.prefix), text).map_err(RuntimeError::Parse)?;
        let key_id = sealed.key_id();
        self.checked(cursor::open(self.keys(key_id)?, sealed), key_id)
    }

    /// The key of what was opened, if anything was.
    fn checked(&self, repr: Option<K::Repr>, key_id: KeyId) -> Result<(K, KeyId), RuntimeError> {
        repr.filter(|repr| F::check(*repr).is_ok())
            .map(|repr| (K::from_checked(repr), key_id))
            .ok_or(RuntimeError::Open(OpenError::InvalidPlaintext))
    }

    fn keys(&self, key_id: KeyId) -> Result<&Subkeys, RuntimeError> {
        let keys = self.subkeys[key_id.index()].as_deref();
        keys.ok_or(RuntimeError::Open(OpenError::UnknownKeyId { key_id }))
    }
}

impl<K, F> fmt::Debug for RuntimeResource<K, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuntimeResource")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}
