#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// So that the derive's `::opaque_id_core` also resolves in this crate's own tests.
extern crate self as opaque_id_core;

mod base32;
mod cursor;
mod error;
mod external;
mod fork;
mod form;
pub mod generator;
pub mod hazmat;
mod inspect;
mod internal;
mod key;
mod keyring;
mod mapping;
mod range;
mod resource;
mod sequence;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "serde")]
pub mod trusted;

#[doc = include_str!("mapping/guide.md")]
pub mod mapping_tables {}

#[doc(hidden)]
pub mod __private;

#[cfg(feature = "derive")]
pub use opaque_id_derive::CoreOpaqueId as OpaqueId;

pub use cursor::Cursor;
pub use error::{
    EntryFault, GenerateError, IdFault, KeyError, KeyFault, KeyringError, OpenError, ParseError,
};
pub use external::External;
pub use form::{
    AuthenticatedFormOf, Form, FormOf, MAX_TEXT_LEN, Mapped, MappedForm, MappedUuid, SealedFormOf,
    Tagged, Text, TextBuffer, UuidForm,
};
pub use generator::Generate;
pub use inspect::{Inspection, Oddity, inspect};
pub use internal::{Internal, InternalId};
pub use key::{
    DraftUuid7, Int64Layout, Key, Repr, Shards, StructuredKey, TimeKey, Ulid, Uuid6, Uuid7,
    Uuid8Layout,
};
pub use keyring::{
    CheckValue, ENV_VARIABLE, KeyId, Keyring, KeyringBuilder, MasterSecret, RuntimeError,
    RuntimeResource,
};
pub use mapping::{Dialect, MappingError, Plan, uuid_hash};
pub use range::{IdRange, Position};
pub use resource::{AuthenticatedResource, MappedResource, OpaqueId, ReprOf, SealedResource};
pub use sequence::SequenceError;
pub use uuid::Uuid;
