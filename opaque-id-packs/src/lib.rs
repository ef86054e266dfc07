#![cfg_attr(feature = "sqlx", doc = include_str!("../README.md"))]
#![cfg_attr(
    not(feature = "sqlx"),
    doc = "Encrypted columns and tables of packs: the README has the introduction."
)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
mod call;
mod ciphers;
mod column;
mod dictionary;
#[cfg(feature = "diesel")]
pub mod diesel;
mod encoding;
mod encrypted;
#[cfg(any(feature = "sqlx", feature = "diesel", feature = "seaorm"))]
mod encrypted_column;
mod error;
pub mod format;
mod group;
mod id_column;
mod index;
mod merged;
#[cfg(feature = "metrics")]
mod metrics;
mod name;
mod order;
#[cfg(any(feature = "sqlx", feature = "diesel", feature = "seaorm"))]
mod pack_table;
mod packs;
#[doc(hidden)]
mod runtime;
#[cfg(feature = "seaorm")]
pub mod seaorm;
mod settings;
mod split;
#[cfg(feature = "sqlx")]
pub mod sqlx;
mod statement;
mod stored;
mod table;
#[doc(hidden)]
mod values;
#[cfg(test)]
mod vectors;

pub use self::cache::CacheStats;
pub use self::call::{Conversion, Converted, Rekeyed, Verified};
pub use self::column::ColumnName;
pub use self::encoding::{Encoding, Grouped, InGroup, Json, Lenient, Raw, Text, Undecoded};
pub use self::encrypted::Encrypted;
pub use self::error::{Location, PackError, TableError};
pub use self::group::Group;
pub use self::index::{Blind, Fingerprint, Normalizer};
pub use self::merged::Merged;
pub use self::name::TableName;
pub use self::order::{ByEncryptedKey, ByKey, KeyOrder, Order};
pub use self::packs::{Pages, Update};
pub use self::settings::Settings;

// The links of the documents precede the documents.
#[cfg(all(doc, feature = "sqlx"))]
#[doc = "[PACKS-FORMAT.md]: crate::guide::format"]
#[doc = "[SECURITY.md]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/security/#packs"]
#[doc = "[change]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#change-a-table-of-packs-or-a-column"]
#[doc = "[erase]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#erase-deleted-rows"]
#[doc = "[convert]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#encrypt-a-column-that-has-plaintext"]
#[doc = "[keys]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#erase-groups-from-backups"]
#[doc = "[move]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#move-a-table-into-packs"]
#[doc = "[restore]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#restore-a-pack"]
#[doc = "[rotate]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#rotate-a-secret"]
#[doc = "[watch]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/operations/#watch-ids-and-packs\n"]
#[doc = include_str!("guide.md")]
pub mod guide {
    #[doc = "[PACKS.md]: crate::guide"]
    #[doc = "[FORMAT.md]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/format/#1-secrets-and-subkeys"]
    #[doc = "[SECURITY.md]: https://docs.rs/opaque-id-core/latest/opaque_id_core/guide/security/#packs\n"]
    #[doc = include_str!("guide/format.md")]
    pub mod format {}
}

/// The items for `opaque-id packs` and for tests of calls without an ORM.
#[doc(hidden)]
pub mod __private {
    pub use crate::call::{Damage, PackCall, Reader, UnreadRange};
    pub use crate::encrypted::{EncryptedOf, MayLeave};
    pub use crate::packs::Packs;
    pub use crate::runtime::{Layout, RuntimePacks, RuntimePage};
    pub use crate::values::Values;
}
