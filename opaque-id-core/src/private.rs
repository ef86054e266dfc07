//! Traits that only this family of crates implements or names.
//!
//! `Internal<T>` and its newtypes also "implement" `Serialize`, `Deserialize` and `Display`, under a bound
//! that nothing satisfies. The compiler then says to seal the id instead of proposing a feature of serde.

use core::marker::PhantomData;

use uuid::Uuid;

/// The supertrait of traits that only this crate and its adapters implement.
pub trait Private {}

/// The bounds of a stored key for `trusted`.
#[cfg(feature = "serde")]
pub trait SerdeRepr: serde_core::Serialize + serde_core::de::DeserializeOwned {}
#[cfg(feature = "serde")]
impl<R: serde_core::Serialize + serde_core::de::DeserializeOwned> SerdeRepr for R {}

/// Without the feature `serde` there are no bounds.
#[cfg(not(feature = "serde"))]
pub trait SerdeRepr {}
#[cfg(not(feature = "serde"))]
impl<R> SerdeRepr for R {}

/// A stand-in for `Internal<T>` in bounds that never hold.
///
/// With `Internal<T>: MayLeave`, rustc would print the foreign trait's message instead of ours.
#[derive(Debug)]
pub struct InternalIdOf<T>(PhantomData<fn() -> T>);

/// A stand-in for `Internal<T>` in the bounds of conversions into it. `K` is the kind of key.
#[derive(Debug)]
pub struct RawKeyOf<T, K>(PhantomData<fn() -> (T, K)>);

/// A conversion that cannot fail: from other types of internal ids of the resource, and from UUIDs for a
/// resource with `key = Uuid`.
///
/// `Raw` is the only parameter, so that an adapter's own `Internal<T>` cannot be one of these types.
#[diagnostic::on_unimplemented(
    message = "an external id or a raw key does not become an internal id by itself",
    label = "this is no internal id",
    note = "open an external id: `keyring.open(external)?`",
    note = "check a raw key: `Internal::from_key(key)?`",
    note = "in `query!` and `query_as!` of sqlx, tell the macro the column's type: in `sqlx.toml`, which `opaque-id sqlx-toml` writes, or in the query, by `SELECT id AS \"id: _\"`"
)]
pub trait MayEnter<Raw> {
    /// The stored type.
    type Repr;
    /// Returns the stored value.
    fn enter(raw: Raw) -> Self::Repr;
}

impl<T> MayEnter<Uuid> for RawKeyOf<T, Uuid> {
    type Repr = Uuid;

    fn enter(raw: Uuid) -> Uuid {
        raw
    }
}

/// A bound that nothing satisfies.
#[diagnostic::on_unimplemented(
    message = "internal ids must not leave the application: they cannot be serialized, deserialized or displayed",
    label = "this holds an internal id",
    note = "seal it: use `External<_>` in the types of the API; `keyring.seal(id)` creates it and `keyring.open(external)?` converts it back",
    note = "in a model with `#[view(into = …)]`, a field of a newtype has `#[view(as = External<_>)]`",
    note = "inside a trust boundary (job queue, cache, JSON column), opt in with `#[serde(with = \"…::trusted\")]`, where `…` is the path of your opaque-id crate",
    note = "in a message of a log or an error, show `keyring::log_id(id)`"
)]
pub trait MayLeave {}

/// A bound that nothing satisfies.
#[diagnostic::on_unimplemented(
    message = "an internal id does not become a raw key by itself",
    label = "this is an internal id, or becomes one by `sqlx.toml`",
    note = "in `query_as!` of sqlx, a UUID that is no id needs a line in `sqlx.toml`, which `opaque-id sqlx-toml` writes, or, in the query, `SELECT trace AS \"trace: _\"`",
    note = "elsewhere, take the key: `id.expose_key()`"
)]
pub trait MayBeRaw {
    /// Is never called.
    fn never<R>() -> R;
}
