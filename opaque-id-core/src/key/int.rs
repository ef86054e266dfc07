use subtle::ConstantTimeEq;

use super::{FixedBits, Key, Repr};
use crate::error::InvalidKey;
use crate::private::Private;

impl Private for i64 {}

impl Repr for i64 {
    const COLUMN: &'static str = "a signed 64-bit integer (`BIGINT`; on SQLite `INTEGER`)";

    fn is_column_type(name: &str) -> bool {
        matches!(name, "INT8" | "BIGINT" | "INTEGER")
    }

    const HAS_TAG: bool = true;

    #[inline]
    fn to_plaintext(self, tag: u64) -> u128 {
        u128::from(self.cast_unsigned()) << 64 | u128::from(tag)
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the block is taken apart")]
    fn from_plaintext(block: u128, tag: u64) -> Option<Self> {
        bool::from((block as u64).ct_eq(&tag)).then_some(((block >> 64) as u64).cast_signed())
    }

    fn range(fixed: FixedBits<Self>) -> (Self, Self) {
        let FixedBits { mask, value } = fixed;
        (Self::MIN & !mask | value, Self::MAX & !mask | value)
    }

    // Only top bits are ever fixed, and a range ends where they would change.
    fn after(self, _: FixedBits<Self>) -> Option<Self> {
        self.checked_add(1)
    }

    fn before(self, _: FixedBits<Self>) -> Option<Self> {
        self.checked_sub(1)
    }
}

/// A `BIGINT`: an auto-incremented integer, or 64 bits of time, node and counter.
impl Key for i64 {
    type Repr = Self;

    const KIND: &'static str = "integer";

    fn into_repr(self) -> Self {
        self
    }

    #[inline]
    fn check(_repr: Self) -> Result<(), InvalidKey> {
        Ok(())
    }

    #[inline]
    fn from_checked(repr: Self) -> Self {
        repr
    }

    const FIXED: FixedBits<Self> = FixedBits { mask: 0, value: 0 };
}
