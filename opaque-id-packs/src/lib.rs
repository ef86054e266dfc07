#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod cache;
// They contain plaintexts. `PackCall` says of which table they are.
#[allow(missing_debug_implementations)]
#[doc(hidden)]
pub mod call;
mod encoding;
mod error;
pub mod format;
#[cfg(feature = "metrics")]
mod metrics;
mod name;
mod order;
mod pack_table;
mod packs;
mod runtime;
mod sealers;
mod settings;
mod split;
mod statement;
mod table;
pub mod tune;

pub use self::call::{Merged, Rekeyed, Verified};
#[cfg(feature = "postcard")]
pub use self::encoding::Postcard;
pub use self::encoding::{Encoding, Json, Raw};
pub use self::error::{Location, PackError, Refusal};
pub use self::name::TableName;
pub use self::order::{ByKey, KeyOrder, Order, Sealed};
pub use self::packs::{Pages, Update};
pub use self::settings::Settings;

/// For the macros, and for `opaque-id packs`.
#[doc(hidden)]
pub mod __private {
    pub use opaque_id_core;
    pub use opaque_id_sql;

    pub use crate::call::{Merged, Rekeyed, Verified};
    pub use crate::encoding::{Encoding, Json};
    pub use crate::error::Refusal;
    pub use crate::name::TableName;
    pub use crate::order::{ByKey, KeyOrder, Order};
    pub use crate::packs::{Packs, Pages, Update};
    pub use crate::runtime::RuntimePacks;
    pub use crate::settings::Settings;
}
