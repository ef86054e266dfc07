//! What only this family of crates implements or names.

use core::marker::PhantomData;

/// Closes `Key`, `Repr`, `Form` and `InternalId`: only this crate and its adapters implement them.
pub trait Private {}

/// What `trusted` needs of a stored key.
#[cfg(feature = "serde")]
pub trait SerdeRepr: serde_core::Serialize + serde_core::de::DeserializeOwned {}
#[cfg(feature = "serde")]
impl<R: serde_core::Serialize + serde_core::de::DeserializeOwned> SerdeRepr for R {}

/// Without the feature `serde` a stored key needs nothing more.
#[cfg(not(feature = "serde"))]
pub trait SerdeRepr {}
#[cfg(not(feature = "serde"))]
impl<R> SerdeRepr for R {}

/// Stands for `Internal<T>` in bounds that never hold, so that rustc prints our message.
///
/// With `Internal<T>: MayLeave` it would print the foreign trait's.
#[derive(Debug)]
pub struct InternalIdOf<T>(PhantomData<fn() -> T>);

/// Implemented by nothing.
#[diagnostic::on_unimplemented(
    message = "internal ids do not leave the application: they are neither serialised, deserialised nor displayed",
    label = "this holds an internal id",
    note = "seal it: put `External<_>` into the types of the API, filled by `keyring.seal(id)`, and read back by `keyring.open(external)?`",
    note = "inside a trust boundary (job queue, cache), name the way through: `#[serde(with = \"…::trusted\")]` with the path of your opaque-id crate"
)]
pub trait MayLeave {
    /// Never called.
    fn never<R>() -> R;
}
