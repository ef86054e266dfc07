#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;
mod respond;

pub use opaque_id_web::axum::OldIdsService;
pub use opaque_id_web::{
    InvalidPage, Links, ListingQuery, NotFound, OldIdsLayer, Opened, PageQuery, Refusal, Rejection,
};

pub use self::extract::{Form, Json, Path, Query};
pub use self::respond::map_refusal;

/// Guides.
#[cfg(doc)]
pub mod guide {
    #[doc = "[which key]: opaque_id_core::key\n"]
    #[doc = include_str!("guide/moving.md")]
    pub mod moving {}
}
