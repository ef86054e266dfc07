//! Mapping tables: UUIDs outside, integers inside.
//!
//! [The guide](guide) is for users. All adapters share the other items.

mod cache;
mod call;
mod ddl;
mod error;
mod table;
#[doc(hidden)]
mod uuid_map;
mod uuid_set;

use sha2::{Digest, Sha256};
use uuid::Uuid;

#[doc(hidden)]
pub use self::ddl::check_name;
#[doc(hidden)]
pub use self::ddl::{Index, InvalidTableName, create_sql};
pub use self::error::MappingError;
#[doc(hidden)]
pub use self::uuid_map::Mapping;

#[doc = include_str!("guide.md")]
pub mod guide {}

/// Returns the hash in the hashed index: the first four bytes of the UUID's SHA-256 (FIPS 180-4) as a
/// big-endian, signed integer.
///
/// Use it for rows that another program writes. On MySQL and MariaDB its SQL is `CONV(LEFT(SHA2(uuid, 256),
/// 8), 16, 10) - 4294967296 * (LEFT(SHA2(uuid, 256), 1) >= '8')`, and on PostgreSQL `('x' ||
/// left(encode(sha256(uuid_send(uuid)), 'hex'), 8))::bit(32)::int4`.
///
/// ```
/// use opaque_id_sql::mapping::uuid_hash;
/// use uuid::Uuid;
///
/// assert_eq!(uuid_hash(Uuid::nil()), 0x374708ff);
/// ```
#[must_use]
pub fn uuid_hash(uuid: Uuid) -> i32 {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(uuid.as_bytes()));
    i32::from_be_bytes([a, b, c, d])
}
