#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod internal;
#[cfg(feature = "postgres")]
mod postgres;

pub use internal::Internal;
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::SqlxOpaqueId as OpaqueId;

#[doc(hidden)]
pub use opaque_id_core::__private;
