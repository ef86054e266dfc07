#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod internal;
mod mapping;
pub mod migration;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod sequence;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use error::{MappingError, SequenceError};
pub use internal::Internal;
pub use mapping::{MapConnection, UuidMap};
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::SeaOrmOpaqueId as OpaqueId;
pub use sequence::Sequence;

#[doc(hidden)]
pub use opaque_id_core::__private;
