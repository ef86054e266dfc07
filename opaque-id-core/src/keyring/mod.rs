//! The keyring: up to four master secrets. One of them seals.

mod builder;
#[cfg(unix)]
mod command;
mod file;
mod logs;
mod opened;
mod runtime;
mod secret;
mod shared;
mod table;
#[cfg(feature = "tokens")]
mod tokens;

use core::fmt;
use std::sync::Arc;

pub use self::builder::{ENV_VARIABLE, KeyringBuilder};
#[cfg(unix)]
pub use self::command::UnwrapByCommand;
pub use self::file::UnwrapSecrets;
#[doc(hidden)]
pub use self::file::read_file;
#[doc(hidden)]
pub use self::logs::debug_id;
pub use self::logs::{log_id, reveal_in_logs};
use self::opened::{Count, Opened};
pub use self::runtime::RuntimeResource;
use self::secret::Secret;
pub(crate) use self::secret::example_subkeys;
pub use self::secret::{CheckValue, MasterSecret};
pub use self::shared::{SharedKeyring, Watch};
use crate::cursor::{self, Cursor};
use crate::error::OpenError;
pub use crate::error::{Invalid, KeyringError};
use crate::external::External;
use crate::form::{self, SealedFormOf};
use crate::key::Repr;
pub use crate::key_id::KeyId;
use crate::range::Position;
use crate::resource::{InternalId, OpaqueId, ReprOf, SealedResource};
use crate::subkeys::{IdSubkeys, Label, Subkeys};

/// Up to four master secrets. One of them seals, and all of them open.
///
/// A keyring is `Send`, `Sync` and cheap to clone. Create one at start and put it into the application's
/// state, or a [`SharedKeyring`] to replace secrets without a restart. After the first use of a resource
/// and the first opening in a thread, sealing and opening ids neither allocates nor locks. Secrets are
/// wiped on drop, and `Debug` shows only key ids.
///
/// `docs/OPERATIONS.md` has the steps of a rotation.
///
/// A domain belongs to one kind of key. If two resources disagree, [`prepare`](Self::prepare) returns an
/// error; without it, the first use of the second resource panics.
///
/// ```
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let (first, second) = (MasterSecret::generate(), MasterSecret::generate());
/// let old = Keyring::builder().sealing(0, first.clone()).build()?;
/// let new = Keyring::builder().sealing(1, second).opening(0, first).build()?;
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
    opened: Arc<Opened>,
}

impl Keyring {
    fn new(sealing: KeyId, secrets: [Option<Secret>; 4], opened: Arc<Opened>) -> Self {
        Self(Arc::new(Inner { sealing, secrets, opened }))
    }

    /// Returns the keyring of an audience, such as a partner. Its ids differ, so two audiences cannot tell
    /// which of their ids belong to the same row. It opens no id of another audience. OpenID Connect calls
    /// such ids pairwise.
    ///
    /// Its secrets are derived from this keyring's, so both rotate together and have the same counts.
    /// Deriving it and each resource's first use take some microseconds, so keep it while this keyring is in
    /// use.
    ///
    /// ```
    /// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "user", form = "tagged")]
    /// struct User;
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let (ours, theirs) = (keyring.for_audience("partner-a"), keyring.for_audience("partner-b"));
    /// let id = Internal::<User>::generate();
    /// assert_eq!(ours.open(ours.seal(id))?, id);
    /// assert!(theirs.open(ours.seal(id)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn for_audience(&self, name: &str) -> Self {
        let for_audience = |secret: &Option<Secret>| Some(secret.as_ref()?.for_audience(name));
        let secrets = self.0.secrets.each_ref().map(for_audience);
        Self::new(self.0.sealing, secrets, Arc::clone(&self.0.opened))
    }

    /// Seals an internal id. The external id stays the same until the sealing secret changes.
    #[must_use]
    #[inline]
    pub fn seal<I: InternalId<Resource: SealedResource>>(&self, id: I) -> External<I::Resource> {
        let (keys, key_id) = self.sealing_subkeys::<I::Resource>();
        let sealed = <FormOf<I::Resource>>::seal(keys, key_id, *id.as_repr());
        External::new(sealed)
    }

    /// Opens an external id. Success shows neither that the row exists nor, unless ids carry a tag
    /// ([`AuthenticatedResource`](crate::resource::AuthenticatedResource)), that the id is genuine.
    ///
    /// # Errors
    /// [`OpenError`] if the keyring lacks the secret, or the id cannot be genuine. Answer a client "not
    /// found" in both cases.
    #[inline]
    pub fn open<T: SealedResource>(&self, id: External<T>) -> Result<T::Internal, OpenError> {
        let key_id = id.key_id();
        let keys = self.subkeys::<T>(key_id)?;
        let Some(id) = internal::<T::Internal>(<FormOf<T>>::open(keys, id.body())) else {
            return Err(not_genuine::<T>());
        };
        let count = match <FormOf<T> as SealedFormOf<T::Key>>::IS_AUTHENTICATED {
            true => Count::Authenticated,
            false => Count::Unauthenticated,
        };
        self.0.opened.count(count, key_id);
        Ok(id)
    }

    /// Opens an id of an earlier form of the resource without counting it.
    pub(crate) fn read<T: OpaqueId, F: SealedFormOf<T::Key>>(
        &self,
        id: F::Body,
    ) -> Option<ReprOf<T>> {
        F::open(self.secret(F::key_id(id))?.subkeys::<T>(), id)
    }

    pub(crate) fn count_genuine(&self, key_id: KeyId) {
        self.0.opened.count(Count::Authenticated, key_id);
    }

    /// Seals the position of an internal id in a list. It is the cursor of the page that ends or begins with
    /// this id.
    #[must_use]
    pub fn seal_cursor<I: InternalId>(&self, id: I) -> Cursor<I::Resource> {
        let (keys, key_id) = self.sealing_subkeys::<I::Resource>();
        Cursor::new(cursor::seal(keys, key_id, cursor::block(*id.as_repr())))
    }

    /// Opens a cursor. A made-up cursor is refused, except with probability 2^-40.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn open_cursor<T: OpaqueId>(
        &self,
        cursor: Cursor<T>,
    ) -> Result<Position<T::Internal>, OpenError> {
        let sealed = cursor.sealed();
        let key_id = sealed.key_id();
        let keys = self.subkeys::<T>(key_id)?;
        let block = cursor::open(keys, sealed);
        let id = block.and_then(|block| internal(cursor::unblock::<T::Key>(keys, block)));
        let id: T::Internal = id.ok_or_else(not_genuine::<T>)?;
        self.0.opened.count(Count::Authenticated, key_id);
        Ok(Position::from_row(id))
    }

    /// Seals an id again with the sealing secret, without the database. An id of this secret does not change.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn renew<T: SealedResource>(&self, id: External<T>) -> Result<External<T>, OpenError> {
        self.open(id).map(|id| self.seal(id))
    }

    /// Returns the key id of the sealing secret.
    #[must_use]
    pub fn sealing_key_id(&self) -> KeyId {
        self.0.sealing
    }

    /// Returns the key ids of all secrets, in order.
    pub fn key_ids(&self) -> impl Iterator<Item = KeyId> + '_ {
        KeyId::ALL.into_iter().filter(|key_id| self.has(*key_id))
    }

    /// Returns the number of genuine ids, cursors and tokens that this keyring and its clones have opened with a
    /// secret: any with a correct tag of 40 bits or more, and other ids that were [confirmed](Self::confirm).
    ///
    /// When neither this count nor [`unconfirmed_count`](Self::unconfirmed_count) grows for a retiring
    /// secret, no client needs the secret any more.
    #[must_use]
    pub fn opened_count(&self, key_id: KeyId) -> u64 {
        self.count(Count::Authenticated, key_id) + self.confirmed_count(key_id)
    }

    fn confirmed_count(&self, key_id: KeyId) -> u64 {
        let opened = self.count(Count::Unauthenticated, key_id);
        self.count(Count::Confirmed, key_id).min(opened)
    }

    /// Returns the number of ids without a tag that were opened with a secret and not
    /// [confirmed](Self::confirm). Any client can make them up, so do not keep a secret for this count alone.
    /// In an application that confirms, it counts ids without a row and renewed ids.
    #[must_use]
    pub fn unconfirmed_count(&self, key_id: KeyId) -> u64 {
        self.count(Count::Unauthenticated, key_id).saturating_sub(self.confirmed_count(key_id))
    }

    /// Confirms that an opened id has a row, for [`opened_count`](Self::opened_count). It does nothing
    /// for ids with a tag of 40 bits or more, because opening counts them. Call it once per opened id;
    /// more ids than were opened are never counted.
    #[inline]
    pub fn confirm<T: SealedResource>(&self, id: External<T>) {
        if !<FormOf<T> as SealedFormOf<T::Key>>::IS_AUTHENTICATED {
            self.0.opened.count(Count::Confirmed, id.key_id());
        }
    }

    fn count(&self, what: Count, key_id: KeyId) -> u64 {
        self.0.opened.get(what, key_id)
    }

    /// Sets the metrics of the crate `metrics` that the keyring counts itself. Call it where your exporter is
    /// read, or every few seconds.
    ///
    /// | metric | meaning |
    /// |---|---|
    /// | `opaque_id_opened_total` with `key_id` | a counter of [`opened_count`](Self::opened_count) |
    /// | `opaque_id_opened_without_tag_total` with `key_id` | a counter of opened ids without a tag, including made-up ones |
    /// | `opaque_id_sealing_key_id` | a gauge of [`sealing_key_id`](Self::sealing_key_id) |
    ///
    /// Two more counters need no call. `opaque_id_refused_total` counts refused ids and cursors, with
    /// `resource` and `reason` (`malformed`, `other_resource`, `unknown_key_id`, `not_genuine`,
    /// `old_id_ended`, `old_id_never_shown`, `old_id_ambiguous`). The resource is `any` for an
    /// [`AnyId`](crate::AnyId) with another prefix. `opaque_id_old_ids_total` counts accepted old ids, with
    /// `resource` and `form`.
    #[cfg(feature = "metrics")]
    pub fn record_metrics(&self) {
        for key_id in self.key_ids() {
            let labels = [("key_id", key_id.to_string())];
            metrics::counter!("opaque_id_opened_total", &labels)
                .absolute(self.opened_count(key_id));
            metrics::counter!("opaque_id_opened_without_tag_total", &labels)
                .absolute(self.count(Count::Unauthenticated, key_id));
        }
        metrics::gauge!("opaque_id_sealing_key_id").set(self.sealing_key_id().get());
    }

    /// Returns a value that shows whether two environments have the same secret under a key id, and reveals
    /// nothing about it. Returns `None` without such a secret.
    #[must_use]
    pub fn check_value(&self, key_id: KeyId) -> Option<CheckValue> {
        self.secret(key_id).map(Secret::check_value)
    }

    /// Compares the secrets with the remembered check values and returns the text to remember from now on:
    /// the check values of all secrets. Without this check, a lost file of secrets that is made again changes
    /// every id.
    ///
    /// Call it at start, and when a [`SharedKeyring`] has replaced its secrets. Pass `None` at the first start, and write the result into
    /// a row of the database.
    ///
    /// ```
    /// use opaque_id_core::{Keyring, KeyringError, MasterSecret};
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let remembered = keyring.recognize(None)?; // a row of the database
    /// assert_eq!(keyring.recognize(Some(&remembered))?, remembered);
    ///
    /// let other = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let error = other.recognize(Some(&remembered)).unwrap_err();
    /// assert!(matches!(error, KeyringError::NotRecognized { .. }));
    /// # Ok::<(), KeyringError>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyringError::NotRecognized`] if no secret of this keyring was remembered.
    pub fn recognize(&self, remembered: Option<&str>) -> Result<String, KeyringError> {
        let found = self.key_ids().filter_map(|key_id| self.check_value(key_id));
        let found: Vec<_> = found.map(|check_value| check_value.to_string()).collect();
        let is_known = |text: &str| text.split(',').any(|known| found.iter().any(|it| it == known));
        match remembered {
            Some(expected) if !is_known(expected) => Err(KeyringError::NotRecognized {
                expected: expected.chars().take(64).collect(),
                found: found.join(","),
            }),
            _ => Ok(found.join(",")),
        }
    }

    /// Derives a resource's subkeys now instead of at its first use, and checks its domain and its prefix.
    /// Call it at start, once per resource.
    ///
    /// # Errors
    /// [`KeyringError::Domain`] if another resource has the same domain and another kind of key,
    /// [`KeyringError::Prefix`] if another prepared resource has the same prefix, and
    /// [`KeyringError::CursorPrefix`] if ids of one look like cursors of the other.
    pub fn prepare<T: OpaqueId>(&self) -> Result<(), KeyringError> {
        self.0.secrets.iter().flatten().try_for_each(Secret::prepare::<T>)
    }

    /// Derives a subkey of `N` bytes from the secret with this key id, for a label and a domain, and passes
    /// it to `act`. Returns `None` without such a secret and for the public example secret. It is for crates
    /// of this family; FORMAT.md lists their labels.
    ///
    /// `act` runs on a stack that is wiped afterwards. It must put its results from the subkey on the heap.
    #[doc(hidden)]
    pub fn with_subkey<const N: usize, R>(
        &self,
        key_id: KeyId,
        label: Label,
        domain: &str,
        act: impl FnOnce(&[u8; N]) -> R,
    ) -> Option<R> {
        let secret = self.secret(key_id).filter(|secret| !secret.is_public)?;
        Some(secret::with_subkey(&secret.prk, label, domain, act))
    }

    /// Derives the subkeys of a domain's ids and cursors from the secret with this key id, joined as in
    /// FORMAT.md, like [`with_subkey`](Self::with_subkey). It is for the command `opaque-id`.
    #[doc(hidden)]
    pub fn with_id_subkeys<R>(
        &self,
        key_id: KeyId,
        domain: &str,
        act: impl FnOnce(&IdSubkeys) -> R,
    ) -> Option<R> {
        let secret = self.secret(key_id).filter(|secret| !secret.is_public)?;
        Some(secret.with_id_subkeys(domain, act))
    }

    fn secret(&self, key_id: KeyId) -> Option<&Secret> {
        self.0.secrets[key_id.index()].as_ref()
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same = |key_id| match (self.secret(key_id), other.secret(key_id)) {
            (None, None) => true,
            (Some(secret), Some(other)) => secret.is_same(other),
            _ => false,
        };
        self.0.sealing == other.0.sealing && KeyId::ALL.into_iter().all(is_same)
    }

    /// Returns whether one is a clone of the other. It is for crates of this family that cache values derived
    /// from a keyring.
    #[doc(hidden)]
    #[must_use]
    pub fn is_clone_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn has(&self, key_id: KeyId) -> bool {
        self.secret(key_id).is_some()
    }

    #[inline]
    fn sealing_subkeys<T: OpaqueId>(&self) -> (&Subkeys, KeyId) {
        match self.subkeys::<T>(self.0.sealing) {
            Ok(keys) => (keys, self.0.sealing),
            Err(_) => unreachable!("a keyring holds its sealing secret"),
        }
    }

    #[inline]
    fn subkeys<T: OpaqueId>(&self, key_id: KeyId) -> Result<&Subkeys, OpenError> {
        match self.secret(key_id) {
            Some(secret) => Ok(secret.subkeys::<T>()),
            None => Err(unknown::<T>(key_id)),
        }
    }
}

type FormOf<T> = <T as OpaqueId>::Form;

#[inline]
fn internal<I: InternalId>(repr: Option<ReprOf<I::Resource>>) -> Option<I> {
    let repr = repr?;
    // `from_repr` is not used because its error shares memory with the id: the CPU writes that in two pieces
    // and cannot read it as one.
    let fixed = <FormOf<I::Resource> as form::FormOf<<I::Resource as OpaqueId>::Key>>::FIXED;
    repr.has(fixed).then(|| I::from_checked(repr))
}

#[cold]
fn not_genuine<T: OpaqueId>() -> OpenError {
    OpenError::NotGenuine.counted(T::PREFIX)
}

#[cold]
fn unknown<T: OpaqueId>(key_id: KeyId) -> OpenError {
    OpenError::UnknownKeyId { key_id }.counted(T::PREFIX)
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring")
            .field("sealing", &self.0.sealing)
            .field("key_ids", &self.key_ids().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
