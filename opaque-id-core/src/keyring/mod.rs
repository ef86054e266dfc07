//! The keyring: up to four master secrets, of which one seals.

mod batch;
mod builder;
mod opened;
mod runtime;
mod secret;
mod subkeys;

use core::fmt;
use std::sync::Arc;

pub use self::batch::{OpenAll, SealAll};
pub use self::builder::{ENV_VARIABLE, KeyringBuilder};
pub use self::runtime::{RuntimeError, RuntimeResource};
pub use self::secret::{CheckValue, MasterSecret};
pub(crate) use self::subkeys::Subkeys;

use self::opened::Opened;
use self::secret::Secret;
use crate::error::OpenError;
use crate::external::External;
use crate::form::Sealing;
use crate::internal::InternalId;
use crate::resource::{OpaqueId, ReprOf, Resource, SealedResource};

/// The number of a secret in a keyring: 0, 1, 2 or 3. Each external id carries it in the open.
///
/// ```
/// use opaque_id_core::KeyId;
///
/// assert_eq!(KeyId::new(3).map(KeyId::get), Some(3));
/// assert_eq!(KeyId::new(4), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(u8);

impl KeyId {
    /// `None` unless it is 0, 1, 2 or 3.
    #[must_use]
    pub const fn new(key_id: u8) -> Option<Self> {
        if key_id <= 3 {
            Some(Self(key_id))
        } else {
            None
        }
    }

    /// The low two bits.
    #[inline]
    pub(crate) const fn truncated(key_id: u8) -> Self {
        Self(key_id & 3)
    }

    /// The number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }

    #[inline]
    fn index(self) -> usize {
        usize::from(self.0 & 3)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Up to four master secrets, one of which seals while all of them open.
///
/// Cheap to clone, `Send` and `Sync`: make one at start and put it into the application's state. The
/// first use of a resource derives its subkeys (a few microseconds), the first opening of a thread
/// makes its counters; from then on nothing here allocates or locks, and the subkeys are found in
/// about a nanosecond. Secrets are wiped on drop, and `Debug` shows key ids only.
///
/// To rotate: make the new secret the sealing one and keep the old one for opening; let
/// [`renew`](Self::renew) bring old ids to the new secret; when
/// [`opened_count`](Self::opened_count) says that nobody sends the old ones any more, retire it.
///
/// ```
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let old = Keyring::builder().sealing(0, [7; 32]).build()?;
/// let new = Keyring::builder().sealing(1, [8; 32]).opening(0, [7; 32]).build()?;
///
/// let id = Internal::<User>::generate();
/// let before = old.seal(id);
/// assert_eq!(new.open(before)?, id);
/// assert_eq!(new.renew(before)?, new.seal(id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Keyring(Arc<Inner>);

struct Inner {
    sealing: KeyId,
    secrets: [Option<Secret>; 4],
    opened: Opened,
}

impl Keyring {
    fn new(sealing: KeyId, secrets: [Option<Secret>; 4]) -> Self {
        Self(Arc::new(Inner {
            sealing,
            secrets,
            opened: Opened::default(),
        }))
    }

    /// Seals an internal id. The same id always gives the same external id, until the sealing secret
    /// changes.
    #[must_use]
    #[inline]
    pub fn seal<I: InternalId<Resource: SealedResource>>(&self, id: I) -> External<I::Resource> {
        let keys = self.sealing_subkeys(I::Resource::resource());
        let sealed = FormOf::<I::Resource>::seal(keys, self.0.sealing, *id.as_repr());
        External::new(sealed)
    }

    /// Opens an external id. Whether such a row exists, the database tells.
    ///
    /// # Errors
    /// [`OpenError`] if the keyring lacks the secret, or the id can't be genuine. To a client both are
    /// "not found".
    #[inline]
    pub fn open<T: SealedResource>(&self, id: External<T>) -> Result<T::Internal, OpenError> {
        let key_id = id.key_id();
        let keys = self.subkeys(key_id, T::resource())?;
        let id = internal::<T>(FormOf::<T>::open(keys, id.id()))?;
        self.0.opened.count(key_id, 1);
        Ok(id)
    }

    /// Seals many ids, in batches and without allocating: a fraction of the price of as many
    /// [`seal`](Self::seal)s in the text form and the tagged form.
    ///
    /// ```
    /// # use opaque_id_core::{External, Internal, Keyring, OpaqueId};
    /// # #[derive(OpaqueId)]
    /// # #[opaque_id(prefix = "user")]
    /// # struct User;
    /// # let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
    /// # let rows = [(Internal::<User>::generate(), "Ada"), (Internal::generate(), "Grace")];
    /// let ids = keyring.seal_all(rows.iter().map(|row| row.0));
    /// for (row, id) in rows.iter().zip(ids) {
    ///     assert_eq!(id, keyring.seal(row.0));
    /// }
    /// # Ok::<(), opaque_id_core::KeyringError>(())
    /// ```
    #[must_use]
    pub fn seal_all<I>(&self, ids: I) -> SealAll<'_, I::IntoIter>
    where
        I: IntoIterator<Item: InternalId<Resource: SealedResource>>,
    {
        SealAll::new(self, ids.into_iter())
    }

    /// Opens many ids, in batches and without allocating; each has a result of its own, in order.
    ///
    /// ```
    /// # use opaque_id_core::{External, Internal, Keyring, OpaqueId};
    /// # #[derive(OpaqueId)]
    /// # #[opaque_id(prefix = "user")]
    /// # struct User;
    /// # let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
    /// # let asked: Vec<External<User>> = vec![keyring.seal(Internal::generate())];
    /// let ids: Result<Vec<_>, _> = keyring.open_all(asked).collect();
    /// assert_eq!(ids?.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn open_all<T, I>(&self, ids: I) -> OpenAll<'_, T, I::IntoIter>
    where
        T: SealedResource,
        I: IntoIterator<Item = External<T>>,
    {
        OpenAll::new(self, ids.into_iter())
    }

    /// Brings an id to the sealing secret, without the database. An id that has it already stays as it
    /// is.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn renew<T: SealedResource>(&self, id: External<T>) -> Result<External<T>, OpenError> {
        self.open(id).map(|id| self.seal(id))
    }

    /// The key id of the secret that seals.
    #[must_use]
    pub fn sealing_key_id(&self) -> KeyId {
        self.0.sealing
    }

    /// The key ids of all secrets, in order.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        (0..4)
            .map(KeyId)
            .filter(|key_id| self.0.secrets[key_id.index()].is_some())
    }

    /// How many ids have been opened with a secret, by this keyring and its clones. When it stands still
    /// for a retiring secret, nobody needs it any more.
    #[must_use]
    pub fn opened_count(&self, key_id: KeyId) -> u64 {
        self.0.opened.get(key_id)
    }

    /// A value that tells whether two environments hold the same secret under a key id, and nothing
    /// about the secret. `None` if there is no such secret.
    ///
    /// ```
    /// use opaque_id_core::{KeyId, Keyring};
    ///
    /// let [production, staging] = [[7; 32], [8; 32]]
    ///     .map(|secret| Keyring::builder().sealing(0, secret).build().expect("a good secret"));
    /// let key_id = production.sealing_key_id();
    /// assert_eq!(production.check_value(key_id).expect("held").to_string(), "8a7d224f");
    /// assert_ne!(production.check_value(key_id), staging.check_value(key_id));
    /// ```
    #[must_use]
    pub fn check_value(&self, key_id: KeyId) -> Option<CheckValue> {
        self.0.secrets[key_id.index()]
            .as_ref()
            .map(Secret::check_value)
    }

    #[inline]
    fn sealing_subkeys(&self, resource: &Resource) -> &Subkeys {
        match self.subkeys(self.0.sealing, resource) {
            Ok(keys) => keys,
            Err(_) => unreachable!("a keyring holds its sealing secret"),
        }
    }

    #[inline]
    fn subkeys(&self, key_id: KeyId, resource: &Resource) -> Result<&Subkeys, OpenError> {
        match &self.0.secrets[key_id.index()] {
            Some(secret) => Ok(secret.subkeys(resource)),
            None => Err(unknown(key_id)),
        }
    }
}

/// The form of a resource, with its steps.
type FormOf<T> = <T as OpaqueId>::Form;

/// The internal id of what an external one opened to, if anything.
#[inline]
fn internal<T: OpaqueId>(repr: Option<ReprOf<T>>) -> Result<T::Internal, OpenError> {
    repr.and_then(|repr| T::Internal::from_repr(repr).ok())
        .ok_or(OpenError::InvalidPlaintext)
}

#[cold]
fn unknown(key_id: KeyId) -> OpenError {
    OpenError::UnknownKeyId { key_id }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("sealing", &self.0.sealing)
            .field("key_ids", &self.key_ids().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
