#![doc = include_str!("../README.md")]
// cargo documents crates in any order, and links need this root until this crate is documented.
#![doc(html_root_url = "https://docs.rs/opaque-id-sql/latest")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "mapping")]
#[doc(hidden)]
pub mod call;
#[cfg(feature = "mapping")]
#[doc(hidden)]
pub mod catalog;
/// The SQL dialects of the databases.
pub mod dialect;
#[cfg(feature = "mapping")]
mod engine;
#[cfg(feature = "mapping")]
pub mod mapping;
mod page_sql;
#[cfg(feature = "mapping")]
pub mod sequence;
#[cfg(feature = "mapping")]
#[doc(hidden)]
pub mod statement;

pub use self::dialect::{Dialect, Retry};
#[cfg(feature = "mapping")]
pub use self::engine::Engine;
#[cfg(feature = "mapping")]
pub use self::mapping::MappingError;
pub use self::page_sql::{PageSql, SqlPart};
#[cfg(feature = "mapping")]
pub use self::sequence::SequenceError;

/// Items for the macros.
#[doc(hidden)]
pub mod __private {
    pub use opaque_id_core;

    #[cfg(feature = "mapping")]
    pub use crate::mapping::check_name;
}
