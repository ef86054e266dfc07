//! Resources and their internal ids.
//!
//! Drivers read more values as keys than a schema should have: NULL and `'abc'` as 0, 1.9 as 1, 16 characters
//! of text as 16 bytes. So an adapter checks the type that the driver reports, and every decoded value ends
//! in `InternalId::from_repr`. Its errors are the same for every ORM. NULL is the exception,
//! because diesel and SeaORM recognize an outer join without a row by their own error.

use core::fmt::Debug;
use core::hash::Hash;

use crate::error::KeyError;
use crate::form::{AuthenticatedFormOf, FormOf, MappedForm, SealedFormOf};
use crate::key::{Key, Repr};
use crate::private::Private;
use crate::slot::Slot;

/// A resource: a kind of thing that has ids. Derive it; do not implement it by hand.
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
    note = "add `#[derive(OpaqueId)] #[opaque_id(prefix = \"…\")]` to the type"
)]
// rust-analyzer shows the key and the form of a type.
#[cfg_attr(rust_analyzer, doc(notable_trait))]
pub trait OpaqueId: Sized + 'static {
    /// The kind of internal key.
    type Key: Key;
    /// The form of external ids: [`Text`](crate::form::Text), [`Short`](crate::form::Short),
    /// [`Tagged`](crate::form::Tagged) or [`UuidForm`](crate::form::UuidForm) if they are sealed,
    /// [`Mapped`](crate::form::Mapped) or [`MappedUuid`](crate::form::MappedUuid) if they are in a
    /// mapping table.
    type Form: FormOf<Self::Key>;
    /// The internal id of the derive's adapter.
    type Internal: InternalId<Resource = Self>;
    /// The prefix of text ids: 1 to 63 characters of `[a-z0-9_]`. The first is a letter and the last is not
    /// `_` (TypeID's rule).
    const PREFIX: &'static str;
    /// The domain that subkeys are derived from, by default the prefix. Keep it when you rename a prefix, so
    /// that old blocks still open. Two resources with one domain would open each other's blocks. A resource
    /// that changes its kind of key needs a new domain ([`Keyring::prepare`](crate::Keyring::prepare) checks
    /// this).
    const DOMAIN: &'static str;

    #[doc(hidden)]
    fn slot() -> &'static Slot;
}

/// A resource with ids that a keyring seals and opens, for use as a bound.
pub trait SealedResource: OpaqueId<Form: SealedFormOf<<Self as OpaqueId>::Key>> {}

impl<T: OpaqueId<Form: SealedFormOf<<T as OpaqueId>::Key>>> SealedResource for T {}

/// A resource with ids that carry a tag: one with the tagged form, or with an integer key in the text or uuid
/// form. Made-up ids are refused without the database.
///
/// An internal id that was opened from such an id converts into a [`Position`](crate::Position) in a list.
pub trait AuthenticatedResource:
    OpaqueId<Form: AuthenticatedFormOf<<Self as OpaqueId>::Key>> + SealedResource
{
}

impl<T: OpaqueId<Form: AuthenticatedFormOf<<T as OpaqueId>::Key>>> AuthenticatedResource for T {}

/// A resource with ids in a mapping table, for use as a bound.
pub trait MappedResource: OpaqueId<Key = i64, Form: MappedForm> {}

impl<T: OpaqueId<Key = i64, Form: MappedForm>> MappedResource for T {}

/// The stored type of a resource's keys: `Uuid`, `i64`, `i32` or `u32`.
pub type ReprOf<T> = <<T as OpaqueId>::Key as Key>::Repr;

/// An internal id of any adapter: the stored value of a [`Resource`](Self::Resource).
///
/// Application code needs it only to be generic over adapters. Only this crate, its adapters and
/// `#[derive(IdNewtype)]` implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an internal id",
    label = "not an internal id",
    note = "an internal id is an `Internal<_>` of this crate or of an adapter, by value, or a newtype of one: `#[derive(IdNewtype)] struct UserId(Internal<User>);`",
    note = "seal the ids of an `Option` or a `Vec` by `keyring.view(ids)`"
)]
pub trait InternalId:
    Copy + Eq + Ord + Hash + Debug + Send + Sync + Unpin + Private + 'static
{
    /// The resource of the id.
    type Resource: OpaqueId;

    /// Checks a stored value and converts it into an internal id.
    ///
    /// # Errors
    /// [`KeyError::Invalid`] if the resource cannot have such a key.
    fn from_repr(repr: ReprOf<Self::Resource>) -> Result<Self, KeyError>;

    /// Converts a value that the resource's form has accepted.
    #[doc(hidden)]
    fn from_checked(repr: ReprOf<Self::Resource>) -> Self;

    /// Returns the value to store.
    fn as_repr(&self) -> &ReprOf<Self::Resource>;

    /// Converts the id into another type of internal ids of the resource.
    #[doc(hidden)]
    fn convert<I: InternalId<Resource = Self::Resource>>(self) -> I {
        I::from_checked(*self.as_repr())
    }
}

/// Returns one of the last keys of a resource. No row has it. The last bits of a key are not fixed.
#[must_use]
pub fn stand_in<T: SealedResource>(number: u32) -> T::Internal {
    let (_, last) = ReprOf::<T>::range(<T::Form as FormOf<T::Key>>::FIXED);
    let block = last.to_plaintext(0) - (u128::from(number) << ReprOf::<T>::TAG_BITS);
    T::Internal::from_checked(ReprOf::<T>::from_plaintext(block, 0).unwrap_or(last))
}

/// Converts any bits into an internal id. Equal bits give equal ids.
#[must_use]
pub fn id_from_bits<I: InternalId>(bits: u128) -> I {
    type FormOfId<I> = <<I as InternalId>::Resource as OpaqueId>::Form;
    I::from_checked(Repr::from_bits(bits, <FormOfId<I> as FormOf<_>>::FIXED))
}

/// The `Internal<T>` of a crate, as opposed to a newtype.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an `Internal<_>`",
    label = "not an `Internal<_>` of this crate or of an adapter",
    note = "a newtype has one internal id: `struct PartId(Internal<Part>);`",
    note = "check a raw key: `Internal::from_key(key)?.into()`"
)]
pub trait IsInternal: InternalId {}
