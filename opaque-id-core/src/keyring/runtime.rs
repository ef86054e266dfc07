//! Resources whose prefix is known only at run time, for tools.

use core::fmt;
use core::marker::PhantomData;
use std::time::SystemTime;

use thiserror::Error;

use super::secret::Secret;
use super::{KeyId, Keyring, grant, stack};
use crate::cursor;
use crate::error::{Invalid, OpenError};
use crate::form::{Form, SealedFormOf, Tagged, TextBuffer};
use crate::key::Key;
use crate::prefix::{cursor_prefix, is_prefix, prefix_rule};
use crate::subkeys::{IdSubkeys, Subkeys};
use crate::token::{GRANT, Purpose};

/// A resource whose prefix is known only at run time, for tools that read it from a command line or a
/// file. Applications should derive [`OpaqueId`](crate::OpaqueId) instead: it gives each resource its own types.
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

/// An error of a [`RuntimeResource`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The text is not a valid prefix.
    #[error("invalid prefix: expected {}", prefix_rule!())]
    Prefix,
    /// The domain is empty.
    #[error("empty domain; leave it out to use the prefix")]
    Domain,
    /// The text is not an id of the resource.
    #[error("invalid id: {0}")]
    Parse(Invalid),
    /// The id cannot be opened.
    #[error(transparent)]
    Open(OpenError),
    /// The key cannot be sealed.
    #[error("invalid key: {0}")]
    Key(Invalid),
}

impl<K: Key, F: SealedFormOf<K>> RuntimeResource<K, F> {
    /// Creates a resource. Derives the subkeys of its domain from each secret of the keyring.
    ///
    /// # Errors
    /// [`RuntimeError::Prefix`] or [`RuntimeError::Domain`].
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

    /// Creates a resource from subkeys that [`with_id_subkeys`](Keyring::with_id_subkeys) lent, without the secrets. It opens ids and
    /// cursors, and no grants. For the command `opaque-id`, which does not seal with it; it is no keyring, since the subkeys of
    /// other resources cannot be derived.
    ///
    /// # Errors
    /// [`RuntimeError::Prefix`].
    #[doc(hidden)]
    pub fn of_subkeys<'s>(
        prefix: &str,
        subkeys: impl Fn(KeyId) -> Option<&'s IdSubkeys>,
    ) -> Result<Self, RuntimeError> {
        if !is_prefix(prefix) {
            return Err(RuntimeError::Prefix);
        }
        let subkeys = KeyId::ALL.map(|key_id| {
            let of_ids = subkeys(key_id)?;
            Some(stack::wiped(|| Box::new(Subkeys::of_ids(of_ids))))
        });
        Ok(Self { prefix: prefix.into(), sealing: KeyId::ALL[0], subkeys, form: PhantomData })
    }

    /// Seals a key and returns the text of its external id.
    ///
    /// # Errors
    /// [`RuntimeError::Key`] if the form has no room for the key.
    pub fn seal(&self, key: K) -> Result<String, RuntimeError> {
        self.seal_with(self.sealing, key)
    }

    /// Seals a key with the secret of a key id, such as one that sealed earlier: older logs have this id.
    ///
    /// # Errors
    /// [`RuntimeError::Open`] if there is no such secret, and as [`seal`](Self::seal).
    pub fn seal_with(&self, key_id: KeyId, key: K) -> Result<String, RuntimeError> {
        let repr = key.into_repr();
        F::check(repr).map_err(RuntimeError::Key)?;
        let id = F::seal(self.keys(key_id)?, key_id, repr);
        Ok(F::write(&self.prefix, id, &mut TextBuffer::new()).into())
    }

    /// Opens an external id and returns its key, and the key id of the secret that sealed it.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] or [`RuntimeError::Open`].
    pub fn open(&self, text: &str) -> Result<(K, KeyId), RuntimeError> {
        let id = F::parse(&self.prefix, text).map_err(RuntimeError::Parse)?;
        let key_id = F::key_id(id);
        let keys = self.keys(key_id)?;
        self.checked(F::open(keys, id), key_id)
    }

    /// Converts an external id to the sealing secret; see [`Keyring::renew`].
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn renew(&self, text: &str) -> Result<String, RuntimeError> {
        self.open(text).and_then(|(key, _)| self.seal(key))
    }

    /// Seals the position of a key in a list and returns the text of its cursor.
    ///
    /// # Errors
    /// [`RuntimeError::Key`] if the form has no room for the key.
    pub fn seal_cursor(&self, key: K) -> Result<String, RuntimeError> {
        let repr = key.into_repr();
        F::check(repr).map_err(RuntimeError::Key)?;
        let sealed = cursor::seal(self.keys(self.sealing)?, self.sealing, repr);
        let prefix = cursor_prefix(&self.prefix);
        Ok(format!("{prefix}{}", Tagged::write("", sealed, &mut TextBuffer::new())))
    }

    /// Opens a cursor and returns the key of its position, and the key id of the secret that sealed it.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] or [`RuntimeError::Open`].
    pub fn open_cursor(&self, text: &str) -> Result<(K, KeyId), RuntimeError> {
        let sealed =
            Tagged::parse(&cursor_prefix(&self.prefix), text).map_err(RuntimeError::Parse)?;
        let key_id = sealed.key_id();
        self.checked(cursor::open::<K>(self.keys(key_id)?, sealed), key_id)
    }

    /// Opens a grant for its purpose, whatever the time, and returns its key, the key id of the secret that sealed it, and when it
    /// expires.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] or [`RuntimeError::Open`].
    pub fn open_grant(
        &self,
        text: &str,
        purpose: &str,
    ) -> Result<(K, KeyId, SystemTime), RuntimeError> {
        let (key, key_id, payload) = self.open_token(GRANT, &[purpose], text)?;
        let expires = grant::expiry(&payload);
        Ok((key, key_id, expires.ok_or(RuntimeError::Open(OpenError::InvalidPlaintext))?))
    }

    /// Seals a key and a payload as a token of a kind, whose parts FORMAT.md has. For the command `opaque-id`.
    ///
    /// # Errors
    /// [`RuntimeError::Key`] if the form has no room for the key.
    #[doc(hidden)]
    pub fn seal_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        key: K,
        payload: &[u8],
    ) -> Result<String, RuntimeError> {
        let repr = key.into_repr();
        F::check(repr).map_err(RuntimeError::Key)?;
        let (keys, purpose) = (self.keys(self.sealing)?, Purpose::new(kind, parts));
        Ok(purpose.seal(&self.prefix, keys, self.sealing, repr, payload))
    }

    /// Opens a token of a kind, whatever its payload, and returns its key, the key id of the secret that sealed it, and the payload.
    /// For the command `opaque-id`.
    ///
    /// # Errors
    /// [`RuntimeError::Parse`] or [`RuntimeError::Open`].
    #[doc(hidden)]
    pub fn open_token(
        &self,
        kind: &'static str,
        parts: &[&str],
        text: &str,
    ) -> Result<(K, KeyId, Vec<u8>), RuntimeError> {
        let purpose = Purpose::new(kind, parts);
        let token = purpose.parse(&self.prefix, text).map_err(RuntimeError::Parse)?;
        let (repr, payload) = purpose.open(self.keys(token.key_id)?, &token).unzip();
        let (key, key_id) = self.checked(repr, token.key_id)?;
        Ok((key, key_id, payload.unwrap_or_default()))
    }

    /// Converts an opened value into a key, if it is one.
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
        f.debug_struct("RuntimeResource").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}
