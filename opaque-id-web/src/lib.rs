#![doc = include_str!("../README.md")]
// cargo documents crates in any order, and links need this root until this crate is documented.
#![doc(html_root_url = "https://docs.rs/opaque-id-web/latest")]
#![cfg_attr(docsrs, feature(doc_cfg))]

/// Dereferences extractors to their content.
#[doc(hidden)]
#[macro_export]
macro_rules! __deref {
    ($($name:ident)*) => {$(
        impl<T> ::core::ops::Deref for $name<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.0
            }
        }

        impl<T> ::core::ops::DerefMut for $name<T> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.0
            }
        }
    )*};
}

#[cfg(feature = "actix-web4")]
pub mod actix;
#[cfg(feature = "axum-core05")]
pub mod axum;
mod old_ids;
mod opened;
mod page;
mod placed;
mod problem;
mod raw_ids;
mod refusal;
#[cfg(any(
    feature = "schemars08",
    feature = "schemars09",
    feature = "schemars1",
    feature = "utoipa5",
    feature = "utoipa6"
))]
mod schema;
mod scope;
mod viewed;

/// Guides for frameworks without their own crate.
#[cfg(doc)]
pub mod guide {
    #[doc = include_str!("guide/poem.md")]
    pub mod poem {}

    #[doc = include_str!("guide/rocket.md")]
    pub mod rocket {}
}

pub use self::old_ids::{Header, OldIdsLayer, RequestOldIds};
pub use self::opened::{Accepted, Opened, OpenedAny};
pub use self::page::{InvalidPage, Links, ListingQuery, PageQuery};
pub use self::placed::{FormContent, JsonContent};
pub use self::problem::{PROBLEM_JSON, Problem};
pub use self::raw_ids::assert_no_raw_id;
pub use self::refusal::{NoKeyring, NotFound, Refusal, Rejection};
pub use self::scope::{Failed, Lent, Place, extract};
pub use self::viewed::{RequestKeyring, Viewed};
