use std::sync::atomic::{AtomicUsize, Ordering};

use crate::form::{AuthenticatedFormOf, FormOf, MappedForm, SealedFormOf};
use crate::internal::InternalId;
use crate::key::Key;

/// The longest prefix, in bytes.
pub(crate) const MAX_PREFIX_LEN: usize = 63;

/// A resource: a kind of thing that has ids. Derived, never written by hand.
///
/// ```
/// use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")] // key = Uuid7, form = "text"
/// struct User {
///     id: Internal<User>,
///     name: String,
/// }
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let user = User { id: Internal::generate(), name: "Ada".into() };
/// let shown: External<User> = keyring.seal(user.id);
/// assert!(shown.to_string().starts_with("user_"));
/// assert_eq!(keyring.open(shown)?, user.id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a resource",
    label = "not a resource",
    note = "write `#[derive(OpaqueId)] #[opaque_id(prefix = \"…\")]` above it"
)]
pub trait OpaqueId: Sized + 'static {
    /// The kind of internal key.
    type Key: Key;
    /// How external ids look: [`Text`](crate::Text), [`Tagged`](crate::Tagged) or
    /// [`UuidForm`](crate::UuidForm) if they are sealed, [`Mapped`](crate::Mapped) or
    /// [`MappedUuid`](crate::MappedUuid) if they stand in a mapping table.
    type Form: FormOf<Self::Key>;
    /// The internal id of the adapter whose derive was used.
    type Internal: InternalId<Resource = Self>;
    /// What text ids start with: 1–63 of `[a-z0-9_]`, first a letter, last not `_` (TypeID's rule).
    const PREFIX: &'static str;
    /// What subkeys are derived from; the prefix unless set. Keep it when a prefix is renamed, and old
    /// blocks still open. Give no two resources the same: they would open each other's blocks. A resource that
    /// changes its kind of key needs a new one, which [`Keyring::prepare`](crate::Keyring::prepare) checks.
    const DOMAIN: &'static str;

    #[doc(hidden)]
    fn resource() -> &'static Resource;
}

/// A resource whose ids a keyring seals and opens. For bounds; every resource of a sealed form is one.
///
/// ```
/// use opaque_id_core::{Internal, Keyring, SealedResource};
///
/// fn show<T: SealedResource>(keyring: &Keyring, id: Internal<T>) -> String {
///     keyring.seal(id).to_string()
/// }
/// ```
pub trait SealedResource: OpaqueId<Form: SealedFormOf<<Self as OpaqueId>::Key>> {}

impl<T: OpaqueId<Form: SealedFormOf<<T as OpaqueId>::Key>>> SealedResource for T {}

/// A resource whose ids carry a tag, so that made-up ones are refused without the database: those of the tagged
/// form, and those of integer keys. For bounds; every such resource is one.
///
/// The internal id that a client names with such an id may be a [`Position`](crate::Position) in a list.
///
/// ```
/// use opaque_id_core::{AuthenticatedResource, External, Keyring, OpenError, Position};
///
/// fn after<T: AuthenticatedResource>(
///     keyring: &Keyring,
///     id: External<T>,
/// ) -> Result<Position<T::Internal>, OpenError> {
///     keyring.open(id).map(Position::from)
/// }
/// ```
pub trait AuthenticatedResource:
    OpaqueId<Form: AuthenticatedFormOf<<Self as OpaqueId>::Key>> + SealedResource
{
}

impl<T: OpaqueId<Form: AuthenticatedFormOf<<T as OpaqueId>::Key>>> AuthenticatedResource for T {}

/// A resource whose ids stand in a mapping table. For bounds; every resource of a mapped form is one.
///
/// ```
/// use opaque_id_core::{External, MappedResource, Uuid};
///
/// fn from_partner<T: MappedResource>(theirs: Uuid) -> External<T> {
///     theirs.into()
/// }
/// ```
pub trait MappedResource: OpaqueId<Key = i64, Form: MappedForm> {}

impl<T: OpaqueId<Key = i64, Form: MappedForm>> MappedResource for T {}

/// What is stored for a resource's keys: `Uuid` or `i64`.
pub type ReprOf<T> = <<T as OpaqueId>::Key as Key>::Repr;

/// One resource's entry in the subkey tables of all keyrings.
#[derive(Debug)]
pub struct Resource {
    /// One more than the index; 0 until it is first asked for.
    index_plus_one: AtomicUsize,
}

impl Resource {
    /// # Panics
    /// At compile time, where the derive calls it, on a bad prefix or an empty domain.
    #[must_use]
    pub const fn new(prefix: &str, domain: &str) -> Self {
        assert!(
            is_prefix(prefix),
            "a prefix is 1 to 63 of a-z, 0-9 and _, starts with a letter and does not end with _"
        );
        assert!(!domain.is_empty(), "a domain is not empty");
        Self {
            index_plus_one: AtomicUsize::new(0),
        }
    }

    /// A small number that no other resource of the process has.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        match self.index_plus_one.load(Ordering::Relaxed) {
            0 => self.register(),
            index => index - 1,
        }
    }

    #[cold]
    fn register(&self) -> usize {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let new = NEXT.fetch_add(1, Ordering::Relaxed);
        match self
            .index_plus_one
            .compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed)
        {
            Ok(_) => new - 1,
            Err(earlier) => earlier - 1,
        }
    }
}

/// Whether this can be a prefix (TypeID's rule).
#[must_use]
pub(crate) const fn is_prefix(prefix: &str) -> bool {
    let bytes = prefix.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PREFIX_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        i += 1;
    }
    bytes[0].is_ascii_lowercase() && bytes[bytes.len() - 1] != b'_'
}

#[cfg(test)]
mod tests {
    use super::is_prefix;

    #[test]
    fn prefixes() {
        for good in ["a", "user", "v2_doc", "a__b", &"a".repeat(63)] {
            assert!(is_prefix(good), "{good}");
        }
        for bad in ["", "_a", "a_", "2a", "User", "a-b", "ü", &"a".repeat(64)] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }
}
