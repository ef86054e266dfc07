//! What the derive and the adapters need of the core. Not for users, but covered by semver: an adapter
//! of one version works with every later core of the same major version.

use core::marker::PhantomData;

#[cfg(feature = "serde")]
pub use serde_core;

pub use crate::mapping::{Answer, Locked, Mapping, Statement, Step, Steps, Value, Work};
pub use crate::resource::Resource;
pub use crate::sequence::{Blocks, TakeBlock, create_sequences_sql};

/// Seals `Key`, `Repr`, `Form` and `InternalId`: only this crate and its adapters implement them.
pub trait Sealed {}

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

/// Implements serde's traits for an `Internal<T>` in a way that never applies.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_serde {
    ($name:ident) => {
        /// Never applies: it is here so that the compiler says to seal the id.
        impl<T: $crate::OpaqueId> $crate::__private::serde_core::Serialize for $name<T>
        where
            $crate::__private::InternalIdOf<T>: $crate::__private::MayLeave,
        {
            fn serialize<S: $crate::__private::serde_core::Serializer>(
                &self,
                _: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                <$crate::__private::InternalIdOf<T> as $crate::__private::MayLeave>::never()
            }
        }

        /// Never applies: it is here so that the compiler says to open an external id.
        impl<'de, T: $crate::OpaqueId> $crate::__private::serde_core::Deserialize<'de> for $name<T>
        where
            $crate::__private::InternalIdOf<T>: $crate::__private::MayLeave,
        {
            fn deserialize<D: $crate::__private::serde_core::Deserializer<'de>>(
                _: D,
            ) -> ::core::result::Result<Self, D::Error> {
                <$crate::__private::InternalIdOf<T> as $crate::__private::MayLeave>::never()
            }
        }
    };
}

/// Without the feature `serde` there is nothing to forbid.
#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_serde {
    ($name:ident) => {};
}

pub use crate::{internal_id_serde, uuid_map_cache};
