#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;
mod old_ids;
mod opened;
mod page;
mod problem;
mod refusal;
#[cfg(any(feature = "schemars1", feature = "utoipa6"))]
mod schema;

pub use self::extract::{Form, Json, Path, Query};
pub use self::old_ids::{OldIdsLayer, OldIdsService};
pub use self::opened::Opened;
pub use self::page::{InvalidPage, Links, ListingQuery, PageQuery};
pub use self::refusal::{NotFound, Refusal, Refused, Rejection};

// Its examples must compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/MOVING.md")]
mod moving {}
