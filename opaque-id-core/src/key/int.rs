//! Integers as keys. All have 64 bits in the wire format, so a resource keeps its ids when its column becomes
//! wider.

use subtle::ConstantTimeEq;

use super::{AnyKey, FixedBits, Key, Repr, round_up};
use crate::private::Private;

macro_rules! integer {
    ($integer:ty, $column:literal, $(#[$doc:meta])*) => {
        impl Private for $integer {}

        impl Repr for $integer {
            const COLUMN: &'static str = $column;

            fn is_column_type(name: &str) -> bool {
                let name = name.strip_suffix(" UNSIGNED").unwrap_or(name);
                let mysql = ["TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT"];
                mysql.contains(&name) || matches!(name, "INT2" | "INT4" | "INT8" | "INTEGER")
            }

            fn from_integer(value: i64) -> Option<Self> {
                value.try_into().ok()
            }

            fn from_any(key: AnyKey) -> Option<Self> {
                match key {
                    AnyKey::Int(integer) => Self::from_integer(integer),
                    AnyKey::Bytes(_) => None,
                }
            }

            fn to_any(self) -> AnyKey {
                AnyKey::Int(self.into())
            }

            fn unwrapped(self, column_type: &str) -> Option<Self> {
                let bits = i64::from(self).cast_unsigned();
                let value = match column_type {
                    "TINYINT UNSIGNED" => bits & u64::from(u8::MAX),
                    "SMALLINT UNSIGNED" => bits & u64::from(u16::MAX),
                    "MEDIUMINT UNSIGNED" | "INT UNSIGNED" => bits & u64::from(u32::MAX),
                    "BIGINT UNSIGNED" => bits,
                    _ => return Some(self),
                };
                value.try_into().ok()
            }

            const TAG_BITS: u32 = 64;

            #[inline]
            fn to_plaintext(self, tag: u64) -> u128 {
                u128::from(i64::from(self).cast_unsigned()) << 64 | u128::from(tag)
            }

            #[inline]
            #[expect(clippy::cast_possible_truncation, reason = "the block is taken apart")]
            fn from_plaintext(block: u128, tag: u64) -> Option<Self> {
                bool::from((block as u64).ct_eq(&tag))
                    .then_some(((block >> 64) as u64).cast_signed())
                    .and_then(Self::from_integer)
            }

            #[inline]
            fn has(self, fixed: FixedBits<Self>) -> bool {
                self & fixed.mask == fixed.value
            }

            #[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the first bits are meant")]
            fn from_bits(bits: u128, fixed: FixedBits<Self>) -> Self {
                (bits >> (u128::BITS - Self::BITS)) as Self & !fixed.mask | fixed.value
            }

            fn range(fixed: FixedBits<Self>) -> (Self, Self) {
                let FixedBits { mask, value } = fixed;
                (Self::MIN & !mask | value, Self::MAX & !mask | value)
            }

            // Only top bits are ever fixed, and a range ends before they would change.
            fn after(self, _: FixedBits<Self>) -> Option<Self> {
                self.checked_add(1)
            }

            fn before(self, _: FixedBits<Self>) -> Option<Self> {
                self.checked_sub(1)
            }
        }

        $(#[$doc])*
        impl Key for $integer {
            type Repr = Self;

            const KIND: &'static str = "integer";
            const KIND_NUMBER: usize = 4;

            fn into_repr(self) -> Self {
                self
            }

            #[inline]
            fn from_checked(repr: Self) -> Self {
                repr
            }

            fn rounded_up(repr: Self) -> Self {
                let Ok(count) = u64::try_from(i64::from(repr)) else {
                    return repr;
                };
                Self::try_from(round_up(count)).unwrap_or(Self::MAX)
            }

            const FIXED: FixedBits<Self> = FixedBits { mask: 0, value: 0 };
            const EXAMPLE: Self = 1;
        }
    };
}

integer! {
    i64,
    "a 64-bit integer (`BIGINT`, on MySQL and MariaDB also `BIGINT UNSIGNED` below 2^63; on SQLite `INTEGER`)",
    /// The key of a `BIGINT` column: an auto-incremented integer, or 64 bits of time, node and counter. It
    /// also reads narrower columns.
}

integer! {
    i32,
    "a 32-bit integer (`integer` on PostgreSQL, `INT` on MySQL and MariaDB, there also `INT UNSIGNED` below 2^31; on SQLite `INTEGER`)",
    /// The key of an `integer` or `INT` column, common with `serial` and `AUTO_INCREMENT`. It also reads
    /// wider columns, and a value that does not fit is an error.
}

integer! {
    u32,
    "an unsigned 32-bit integer (`INT UNSIGNED` on MySQL and MariaDB; on SQLite `INTEGER`)",
    /// The key of an `INT UNSIGNED` column of MySQL and MariaDB.
}
