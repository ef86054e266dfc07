#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod internal;
#[cfg(feature = "mapping")]
pub mod mapping;
mod multi;
#[cfg(feature = "mysql")]
mod mysql;
mod newtype;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use internal::{Id, Internal, StoredIn};
/// Runs a call for opaque-id-packs.
#[cfg(feature = "mapping")]
#[doc(hidden)]
pub use mapping::run::run;
/// Runs a call for opaque-id-packs.
#[cfg(feature = "async")]
#[doc(hidden)]
pub use mapping::run_async::run_async;
#[cfg(feature = "mapping")]
pub use mapping::{
    run::{SupportedBackend, retry},
    sequence::{Sequence, SequenceError},
    uuid_map::{MappingError, UuidColumn, UuidMap},
};
#[cfg(feature = "async")]
pub use mapping::{
    run_async::{AsyncSupportedBackend, retry_async},
    sequence::AsyncSequence,
    uuid_map::{AsyncUuidColumn, AsyncUuidMap},
};
#[doc(hidden)]
pub mod __multi {
    pub use diesel;

    pub use crate::multi::{Read, UuidKey, error};
}
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
    DieselAnyId as AnyId, DieselIdNewtype as IdNewtype, DieselIntoModel as IntoModel,
    DieselOpaqueId as OpaqueId, DieselView as View,
};
#[cfg(feature = "mapping")]
#[doc(no_inline)]
pub use opaque_id_sql::Retry;
#[cfg(any(feature = "mapping", feature = "tokens"))]
#[doc(no_inline)]
pub use opaque_id_sql::{Dialect, PageSql, SqlPart};
