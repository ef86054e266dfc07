#![doc = include_str!("../README.md")]
// cargo documents crates in any order, and links need this root until this crate is documented.
#![doc(html_root_url = "https://docs.rs/opaque-id-core/latest")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The derive's `::opaque_id_core` must also resolve in this crate's own tests.
extern crate self as opaque_id_core;

mod any_id;
mod base32;
mod cursor;
pub mod error;
mod example;
mod external;
mod extractor;
mod fields;
mod fork;
pub mod form;
pub mod generator;
#[cfg(feature = "async-graphql7")]
pub mod graphql;
#[doc(hidden)]
pub mod hazmat;
/// Inspection of ids without any secret.
pub mod inspect;
mod internal;
pub mod key;
mod key_id;
pub mod keyring;
pub mod layout;
mod metrics;
pub mod old_ids;
pub mod page;
mod parts;
mod prefix;
mod private;
mod random;
mod range;
mod request;
pub mod resource;
mod rfc9562;
#[cfg(any(
    feature = "schemars08",
    feature = "schemars09",
    feature = "schemars1",
    feature = "utoipa5",
    feature = "utoipa6"
))]
mod schema;
#[cfg(feature = "serde")]
mod serde;
mod slot;
mod subkeys;
#[cfg(feature = "tokens")]
mod token;
#[cfg(feature = "serde")]
pub mod trusted;
mod view;

#[doc = include_str!("manual.md")]
pub mod manual {}

/// The repository's guides and specifications. The one to moving a live API is in
/// [opaque-id-axum](https://docs.rs/opaque-id-axum/latest/opaque_id_axum/guide/).
// Nothing else in a package's folder is published. The text before a document defines its links to other
// documents, because it takes precedence.
#[cfg(doc)]
pub mod guide {
    #[doc = "[by form]: crate::manual#which-form\n[defense]: crate::guide::cryptography\n[a line for each version]: https://docs.rs/opaque-id-sqlx08"]
    #[doc = "[the guide for moving]: https://docs.rs/opaque-id-axum/latest/opaque_id_axum/guide/moving/"]
    #[doc = "[specification]: crate::guide::format\n[the runbook]: crate::guide::operations\n"]
    #[doc = include_str!("guide/why.md")]
    pub mod why {}

    #[doc = "[old ids]: https://docs.rs/opaque-id-axum/latest/opaque_id_axum/guide/moving/\n"]
    #[doc = "[groups]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/#groups"]
    #[doc = "[packs guide]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/#encrypt-a-column-that-has-plaintext"]
    #[doc = "[SECURITY.md]: crate::guide::security\n"]
    #[doc = include_str!("guide/operations.md")]
    pub mod operations {}

    #[doc = "[CRYPTOGRAPHY.md]: crate::guide::cryptography\n[side channels]: crate::guide::cryptography#side-channels"]
    #[doc = "[a sweep]: crate::guide::operations#erase-deleted-rows\n[once]: crate::manual#grants\n[clippy.toml]: crate::guide::clippy"]
    #[doc = "[groups]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/#groups"]
    #[doc = "[packs]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/\n"]
    #[doc = include_str!("guide/security.md")]
    pub mod security {}

    /// A `clippy.toml` that reports the calls that [`security`] lists, and the frameworks' own extractors.
    #[doc = concat!("```toml\n", include_str!("guide/clippy.toml"), "```")]
    pub mod clippy {}

    #[doc = "[FORMAT.md]: crate::guide::format\n[SECURITY.md]: crate::guide::security"]
    #[doc = "[PACKS-FORMAT.md]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/format/\n"]
    #[doc = include_str!("guide/cryptography.md")]
    pub mod cryptography {}

    #[doc = "[PACKS-FORMAT.md]: https://docs.rs/opaque-id-packs/latest/opaque_id_packs/guide/format/\n"]
    #[doc = include_str!("guide/format.md")]
    pub mod format {}

    #[doc = include_str!("guide/newtypes.md")]
    pub mod newtypes {}

    #[doc = include_str!("guide/testing.md")]
    pub mod testing {}

    #[doc = "[schema of an id]: crate::manual#schemas\n"]
    #[doc = include_str!("guide/typescript.md")]
    pub mod typescript {}
}

#[doc(hidden)]
pub mod __private;

/// Writes no impls, because this crate has no driver.
#[doc(hidden)]
#[macro_export]
macro_rules! __newtype {
    ($($newtype:tt)*) => {};
}

#[cfg(feature = "derive")]
#[doc(hidden)]
pub use opaque_id_derive::fill_part as __fill_part;
#[cfg(feature = "derive")]
pub use opaque_id_derive::{
    CoreAnyId as AnyId, CoreIdNewtype as IdNewtype, CoreIntoModel as IntoModel,
    CoreOpaqueId as OpaqueId, CoreView as View,
};

pub use self::any_id::AnyId;
pub use self::cursor::Cursor;
pub use self::error::{IdError, KeyError, KeyringError, OpenError};
pub use self::external::External;
pub use self::internal::Internal;
pub use self::keyring::{Keyring, MasterSecret};
pub use self::range::{IdRange, Position};
pub use self::request::{IntoModel, RequestError};
pub use self::resource::OpaqueId;
pub use self::view::IntoView;
