#![doc = include_str!("../README.md")]
// rustdoc links there while cargo has not yet documented this crate: it documents crates in any order.
#![doc(html_root_url = "https://docs.rs/opaque-id-sql/latest")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[doc(hidden)]
pub mod call;
pub mod dialect;
mod engine;
pub mod mapping;
mod page_sql;
pub mod sequence;
#[doc(hidden)]
pub mod statement;

pub use self::dialect::{Dialect, Retry};
pub use self::engine::Engine;
pub use self::mapping::MappingError;
pub use self::page_sql::{PageSql, SqlPart};
pub use self::sequence::SequenceError;

/// For the macros.
#[doc(hidden)]
pub mod __private {
    pub use opaque_id_core;

    pub use crate::mapping::check_name;
}
