#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "axum-core05")]
pub mod axum;
mod old_ids;
mod opened;
mod page;
mod problem;
mod refusal;
#[cfg(any(feature = "schemars1", feature = "utoipa6"))]
mod schema;

pub use self::old_ids::{Header, OfRequest, OldIdsLayer};
pub use self::opened::{Failed, Opened, extract};
pub use self::page::{InvalidPage, Links, ListingQuery, PageQuery};
pub use self::problem::{PROBLEM_JSON, Problem};
pub use self::refusal::{NotFound, Record, Refusal, Refused, Rejection};
