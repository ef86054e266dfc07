//! Traits that only this family of crates implements or names.
//!
//! `Internal<T>` also "implements" `Serialize`, `Deserialize` and `Display`, under a bound that nothing satisfies. Types lose nothing by
//! it, and the compiler says to seal the id, where it would otherwise propose a feature of serde.

use core::marker::PhantomData;

use uuid::Uuid;

/// A supertrait of `Key`, `Repr`, `Form` and `InternalId`, so that only this crate and its adapters implement them.
pub trait Private {}

/// The bounds that `trusted` needs on a stored key.
#[cfg(feature = "serde")]
pub trait SerdeRepr: serde_core::Serialize + serde_core::de::DeserializeOwned {}
#[cfg(feature = "serde")]
impl<R: serde_core::Serialize + serde_core::de::DeserializeOwned> SerdeRepr for R {}

/// Without the feature `serde` a stored key needs no more bounds.
#[cfg(not(feature = "serde"))]
pub trait SerdeRepr {}
#[cfg(not(feature = "serde"))]
impl<R> SerdeRepr for R {}

/// Stands for `Internal<T>` in bounds that never hold, so that rustc prints our message.
///
/// With `Internal<T>: MayLeave` it would print the foreign trait's message.
#[derive(Debug)]
pub struct InternalIdOf<T>(PhantomData<fn() -> T>);

/// Stands for `Internal<T>` in the bounds of conversions into it, for the same reason. `K` is the kind of key.
#[derive(Debug)]
pub struct RawKeyOf<T, K>(PhantomData<fn() -> (T, K)>);

/// Implemented for other types of internal ids of the resource, and where no check of a raw key can fail: for the UUIDs of a resource
/// with `key = Uuid`.
///
/// `Raw` is the only parameter, so that an adapter knows that its own `Internal<T>` is none of them.
#[diagnostic::on_unimplemented(
    message = "a raw key does not become an internal id by itself",
    label = "this is a raw key, not an internal id",
    note = "in `query!` and `query_as!` of sqlx, tell the macro the column's type: in `sqlx.toml`, which `opaque-id sqlx-toml` writes, or in the query, by `SELECT id AS \"id: _\"`",
    note = "elsewhere, check the key: `Internal::from_key(key)?`"
)]
pub trait MayEnter<Raw> {
    /// What is stored.
    type Repr;
    /// Returns what is stored.
    fn enter(raw: Raw) -> Self::Repr;
}

impl<T> MayEnter<Uuid> for RawKeyOf<T, Uuid> {
    type Repr = Uuid;

    fn enter(raw: Uuid) -> Uuid {
        raw
    }
}

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "internal ids must not leave the application: they cannot be serialized, deserialized or displayed",
    label = "this holds an internal id",
    note = "seal it: use `External<_>` in the types of the API; `keyring.seal(id)` creates it and `keyring.open(external)?` converts it back",
    note = "inside a trust boundary (job queue, cache), opt in with `#[serde(with = \"…::trusted\")]`, where `…` is the path of your opaque-id crate"
)]
pub trait MayLeave {
    /// Never called.
    fn never<R>() -> R;
}

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "an internal id does not become a raw key by itself",
    label = "this is an internal id, or becomes one by `sqlx.toml`",
    note = "in `query_as!` of sqlx, a UUID that is no id needs a line in `sqlx.toml`, which `opaque-id sqlx-toml` writes, or, in the query, `SELECT trace AS \"trace: _\"`",
    note = "elsewhere, take the key: `id.expose_key()`"
)]
pub trait MayBeRaw {
    /// Never called.
    fn never<R>() -> R;
}
