//! Mapping tables and sequences: [the guide](guide), and the hash of a hashed index.

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
mod cells;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod run;
#[cfg(feature = "async")]
pub(crate) mod run_async;
pub(crate) mod sequence;
#[cfg(feature = "sqlite")]
mod sqlite;
pub(crate) mod uuid_map;

#[doc(no_inline)]
pub use opaque_id_sql::mapping::{guide, uuid_hash};
