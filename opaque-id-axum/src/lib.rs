#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;

pub use opaque_id_web::axum::OldIdsService;
pub use opaque_id_web::{
    InvalidPage, Links, ListingQuery, NotFound, OldIdsLayer, Opened, PageQuery, Refusal, Refused,
    Rejection,
};

pub use self::extract::{Form, Json, Path, Query};

// Its examples must compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/MOVING.md")]
mod moving {}
