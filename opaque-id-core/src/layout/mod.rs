//! Layouts: the fields inside keys that the wire format treats as 16 bytes or as an integer.
//!
//! A resource names one of the kinds in [`key`](crate::key). A layout describes a table's keys further.

mod draft_uuid7;
mod int64;
mod shards;
mod uuid6;
mod uuid8;

pub use self::draft_uuid7::DraftUuid7;
pub use self::int64::Int64Layout;
pub use self::shards::Shards;
pub use self::uuid6::Uuid6;
pub use self::uuid8::Uuid8Layout;
