#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod internal;
pub mod migration;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use internal::Internal;
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::SeaOrmOpaqueId as OpaqueId;

#[doc(hidden)]
pub use opaque_id_core::__private;
