//! Mapping tables and sequences: [the guide](guide), and the hash of a hashed index.

#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
pub(crate) mod run;
pub(crate) mod sequence;
pub(crate) mod uuid_map;

#[doc(no_inline)]
pub use opaque_id_sql::mapping::{guide, uuid_hash};
