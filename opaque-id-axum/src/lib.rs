#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod extract;
pub mod lent;
mod respond;

pub use opaque_id_web::axum::OldIdsService;
pub use opaque_id_web::{
    Accepted, InvalidPage, Links, ListingQuery, NoKeyring, NotFound, OldIdsLayer, Opened,
    OpenedAny, PageQuery, Refusal, Rejection, RequestKeyring, RequestOldIds, Viewed,
};

pub use self::extract::{Form, Json, Path, Query};
pub use self::respond::{lend_keyring, lend_keyring_by, map_refusal, panic_on_raw_ids};

/// Guides.
#[cfg(doc)]
pub mod guide {
    #[doc = "[which key]: opaque_id_core::manual#which-key\n"]
    #[doc = include_str!("guide/moving.md")]
    pub mod moving {}
}
