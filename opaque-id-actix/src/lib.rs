#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;
mod respond;

pub use opaque_id_web::actix::OldIdsService;
pub use opaque_id_web::{
    Accepted, InvalidPage, Links, ListingQuery, NoKeyring, NotFound, OldIdsLayer, Opened,
    OpenedAny, PageQuery, Refusal, RequestKeyring, RequestOldIds, Viewed,
};

pub use self::extract::{Form, Json, Path, Query};
pub use self::respond::{map_refusal, panic_on_raw_ids};
