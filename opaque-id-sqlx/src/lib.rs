#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod compat;
mod internal;
#[cfg(feature = "mapping")]
pub mod mapping;
mod newtype;

pub use compat::ArgumentBuffer;
pub use internal::Internal;
#[cfg(all(
    feature = "mapping",
    any(feature = "postgres", feature = "mysql", feature = "sqlite")
))]
pub use mapping::run::retry;
/// Runs a call for opaque-id-packs and for `opaque-id packs`.
#[cfg(feature = "mapping")]
#[doc(hidden)]
pub use mapping::run::run;
#[cfg(feature = "mapping")]
pub use mapping::{
    run::{SupportedConnection, SupportedDatabase},
    sequence::{Sequence, SequenceError},
    uuid_map::{MappingError, UuidColumn, UuidMap},
};
#[doc(hidden)]
pub use newtype::driver as __driver;
#[doc(hidden)]
pub use opaque_id_core::__private;
#[doc(no_inline)]
pub use opaque_id_core::__private::{AnyId, IntoModel};
#[cfg(feature = "async-graphql7")]
#[doc(no_inline)]
pub use opaque_id_core::graphql;
#[doc(no_inline)]
pub use opaque_id_core::resource::OpaqueId;
#[cfg(feature = "serde")]
#[doc(no_inline)]
pub use opaque_id_core::trusted;
#[doc(no_inline)]
pub use opaque_id_core::{
    Cursor, External, IdError, IdRange, IntoView, KeyError, Keyring, KeyringError, MasterSecret,
    OpenError, Position, RequestError, form, generator, inspect, key, keyring, layout, manual,
    old_ids, page, resource,
};
#[doc(hidden)]
pub use opaque_id_derive::fill_part as __fill_part;
pub use opaque_id_derive::{
    SqlxAnyId as AnyId, SqlxIdNewtype as IdNewtype, SqlxIntoModel as IntoModel,
    SqlxOpaqueId as OpaqueId, SqlxView as View,
};
#[cfg(feature = "mapping")]
#[doc(no_inline)]
pub use opaque_id_sql::Retry;
#[cfg(any(feature = "mapping", feature = "tokens"))]
#[doc(no_inline)]
pub use opaque_id_sql::{Dialect, PageSql, SqlPart};
