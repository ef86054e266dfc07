//! The mapping table, as far as the adapters share it: its statements, the steps of each call, the
//! cache. An adapter's `UuidMap` runs the steps in its ORM's way.

#[cfg(feature = "cache")]
mod cache;
mod error;
mod table;
mod uuid_map;
mod work;

use sha2::{Digest, Sha256};
use uuid::Uuid;

pub use self::error::MappingError;
pub use self::table::{Dialect, Plan};
pub use self::uuid_map::Mapping;
pub(crate) use self::work::ATTEMPTS;
pub use self::work::{Answer, Locked, Statement, Step, Steps, Value, Work};

/// What the hashed plan's index holds of a UUID: the first four bytes of its SHA-256 (FIPS 180-4), as a
/// big-endian, signed integer.
///
/// For rows that another program writes; in SQL it is, on MySQL and MariaDB,
/// `CONV(LEFT(SHA2(uuid, 256), 8), 16, 10) - 4294967296 * (LEFT(SHA2(uuid, 256), 1) >= '8')`, and on
/// PostgreSQL `('x' || left(encode(sha256(uuid_send(uuid)), 'hex'), 8))::bit(32)::int4`.
///
/// ```
/// use opaque_id_core::{Uuid, uuid_hash};
///
/// assert_eq!(uuid_hash(Uuid::nil()), 0x374708ff);
/// ```
#[must_use]
pub fn uuid_hash(uuid: Uuid) -> i32 {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(uuid.as_bytes()));
    i32::from_be_bytes([a, b, c, d])
}
