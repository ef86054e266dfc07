use uuid::Uuid;

use super::{Key, Repr};
use crate::__private::Sealed;
use crate::error::KeyFault;

impl Sealed for Uuid {}

impl Repr for Uuid {
    const COLUMN: &'static str =
        "16 bytes (`uuid` on PostgreSQL, `BINARY(16)` on MySQL and MariaDB, `BLOB` on SQLite)";

    fn is_column_type(name: &str) -> bool {
        name == "UUID" || name.ends_with("BINARY") || name.ends_with("BLOB")
    }

    #[inline]
    fn to_plaintext(self, _tag: u64) -> u128 {
        self.as_u128()
    }

    #[inline]
    fn from_plaintext(block: u128, _tag: u64) -> Option<Self> {
        Some(Self::from_u128(block))
    }
}

/// Any UUID: v4s of an existing schema, or 16 bytes of any other make.
impl Key for Uuid {
    type Repr = Self;

    const KIND: &'static str = "UUID";

    fn into_repr(self) -> Self {
        self
    }

    #[inline]
    fn check(_repr: Self) -> Result<(), KeyFault> {
        Ok(())
    }

    #[inline]
    fn from_checked(repr: Self) -> Self {
        repr
    }
}
