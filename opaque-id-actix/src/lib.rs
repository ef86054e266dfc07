#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;
mod respond;

pub use opaque_id_web::actix::OldIdsService;
pub use opaque_id_web::{
    InvalidPage, Links, ListingQuery, NotFound, OldIdsLayer, Opened, PageQuery, Refusal,
};

pub use self::extract::{Form, Json, Path, Query};
pub use self::respond::map_refusal;
