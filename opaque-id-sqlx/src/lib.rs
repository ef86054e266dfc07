#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod error;
mod internal;
mod mapping;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod sequence;
#[cfg(feature = "sqlite")]
mod sqlite;

pub use error::{MappingError, SequenceError};
pub use internal::Internal;
pub use mapping::{MapDatabase, UuidMap};
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::SqlxOpaqueId as OpaqueId;
pub use sequence::Sequence;

#[doc(hidden)]
pub use opaque_id_core::__private;
