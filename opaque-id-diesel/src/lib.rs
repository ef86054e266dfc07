#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "async")]
mod asynchronous;
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

#[cfg(feature = "async")]
pub use asynchronous::{AsyncMapBackend, AsyncSequence, AsyncUuidMap};
pub use error::{MappingError, SequenceError};
pub use internal::{Id, Internal, StoredIn};
pub use mapping::{MapBackend, UuidMap};
#[doc(no_inline)]
pub use opaque_id_core::*;
pub use opaque_id_derive::DieselOpaqueId as OpaqueId;
pub use sequence::Sequence;

#[doc(hidden)]
pub use opaque_id_core::__private;
