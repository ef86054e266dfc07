#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod internal;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use internal::{Id, Internal, StoredIn};
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::DieselOpaqueId as OpaqueId;

#[doc(hidden)]
pub use opaque_id_core::__private;
