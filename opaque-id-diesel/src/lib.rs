#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod cells;
mod internal;
#[cfg(feature = "mysql")]
mod mysql;
mod newtype;
#[cfg(feature = "postgres")]
mod postgres;
mod run;
#[cfg(feature = "async")]
mod run_async;
mod sequence;
#[cfg(feature = "sqlite")]
mod sqlite;
mod uuid_map;

pub use internal::{Id, Internal, StoredIn};
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
#[doc(no_inline)]
pub use opaque_id_sql::{Dialect, PageSql, Retry, SqlPart};
/// For opaque-id-packs.
#[doc(hidden)]
pub use run::run;
pub use run::{SupportedBackend, retry};
/// For opaque-id-packs.
#[cfg(feature = "async")]
#[doc(hidden)]
pub use run_async::run_async;
#[cfg(feature = "async")]
pub use run_async::{AsyncSupportedBackend, retry_async};
#[cfg(feature = "async")]
pub use sequence::AsyncSequence;
pub use sequence::Sequence;
#[cfg(feature = "async")]
pub use uuid_map::{AsyncUuidColumn, AsyncUuidMap};
pub use uuid_map::{UuidColumn, UuidMap};

/// [The guide](mapping::guide) to mapping tables, and the hash that a hashed index contains.
pub mod mapping {
    #[doc(no_inline)]
    pub use opaque_id_sql::mapping::{guide, uuid_hash};
}

/// The error of the calls of a [`UuidMap`] and a [`UuidColumn`].
pub type MappingError = opaque_id_sql::MappingError<diesel::result::Error>;

/// The error of a [`Sequence`]'s calls.
pub type SequenceError = opaque_id_sql::SequenceError<diesel::result::Error>;
