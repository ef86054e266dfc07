#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// So that the derive's `::opaque_id_core` also resolves in this crate's own tests.
extern crate self as opaque_id_core;

mod any_id;
mod base32;
mod cursor;
pub mod error;
mod example;
mod external;
mod fork;
pub mod form;
pub mod generator;
#[doc(hidden)]
pub mod hazmat;
pub mod inspect;
mod internal;
pub mod key;
mod key_id;
pub mod keyring;
pub mod layout;
mod metrics;
pub mod old_ids;
pub mod page;
mod prefix;
mod private;
mod random;
mod range;
mod request;
pub mod resource;
mod rfc9562;
#[cfg(any(feature = "schemars1", feature = "utoipa6"))]
mod schema;
#[cfg(feature = "serde")]
mod serde;
mod slot;
mod subkeys;
mod token;
#[cfg(feature = "serde")]
pub mod trusted;
mod view;

#[doc = include_str!("manual.md")]
pub mod manual {}

// Its examples must compile.
#[cfg(doctest)]
#[doc = include_str!("../../docs/OPERATIONS.md")]
mod operations {}

#[doc(hidden)]
pub mod __private;

#[cfg(feature = "derive")]
#[doc(hidden)]
pub use opaque_id_derive::fill_part as __fill_part;
#[cfg(feature = "derive")]
pub use opaque_id_derive::{
    CoreAnyId as AnyId, CoreIntoModel as IntoModel, CoreOpaqueId as OpaqueId, CoreView as View,
};

pub use self::any_id::AnyId;
pub use self::cursor::Cursor;
pub use self::error::{AnyIdError, KeyError, KeyringError, OpenError, ParseError, TokenError};
pub use self::external::External;
pub use self::internal::Internal;
pub use self::keyring::{Keyring, MasterSecret};
pub use self::range::{IdRange, Position};
pub use self::request::{IntoModel, RequestError};
pub use self::resource::OpaqueId;
pub use self::view::IntoView;
