#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod compat;
mod internal;
pub mod migration;
#[cfg(feature = "mysql")]
mod mysql;
mod newtype;
#[cfg(feature = "postgres")]
mod postgres;
mod run;
mod sequence;
#[cfg(feature = "sqlite")]
mod sqlite;
mod uuid_map;

pub use internal::Internal;
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
    SeaOrmAnyId as AnyId, SeaOrmIdNewtype as IdNewtype, SeaOrmIntoModel as IntoModel,
    SeaOrmOpaqueId as OpaqueId, SeaOrmView as View,
};
#[doc(no_inline)]
pub use opaque_id_sql::{Dialect, PageSql, Retry, SqlPart};
/// For opaque-id-packs.
#[doc(hidden)]
pub use run::run;
pub use run::{SupportedConnection, retry};
pub use sequence::Sequence;
pub use uuid_map::{UuidColumn, UuidMap};

/// [The guide](mapping::guide) to mapping tables, and the hash that a hashed index contains.
pub mod mapping {
    #[doc(no_inline)]
    pub use opaque_id_sql::mapping::{guide, uuid_hash};
}

/// The error of the calls of a [`UuidMap`] and a [`UuidColumn`].
pub type MappingError = opaque_id_sql::MappingError<sea_orm::DbErr>;

/// The error of a [`Sequence`]'s calls.
pub type SequenceError = opaque_id_sql::SequenceError<sea_orm::DbErr>;
