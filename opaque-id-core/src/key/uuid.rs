//! UUIDs of any version as keys.

use uuid::Uuid;

use super::{AnyKey, FixedBits, Key, Repr};
use crate::private::Private;

impl Private for Uuid {}

impl Repr for Uuid {
    const COLUMN: &'static str =
        "16 bytes (`uuid` on PostgreSQL, `BINARY(16)` on MySQL and MariaDB, `BLOB` on SQLite)";

    fn is_column_type(name: &str) -> bool {
        name == "UUID" || name.ends_with("BINARY") || name.ends_with("BLOB")
    }

    fn from_any(key: AnyKey) -> Option<Self> {
        match key {
            AnyKey::Bytes(uuid) => Some(uuid),
            AnyKey::Int(_) => None,
        }
    }

    fn to_any(self) -> AnyKey {
        AnyKey::Bytes(self)
    }

    #[inline]
    fn to_plaintext(self, _tag: u64) -> u128 {
        self.as_u128()
    }

    #[inline]
    fn from_plaintext(block: u128, _tag: u64) -> Option<Self> {
        Some(Self::from_u128(block))
    }

    #[inline]
    fn has(self, fixed: FixedBits<Self>) -> bool {
        self.as_u128() & fixed.mask.as_u128() == fixed.value.as_u128()
    }

    fn from_bits(bits: u128, fixed: FixedBits<Self>) -> Self {
        Self::from_u128(bits & !fixed.mask.as_u128() | fixed.value.as_u128())
    }

    fn range(fixed: FixedBits<Self>) -> (Self, Self) {
        let (mask, value) = (fixed.mask.as_u128(), fixed.value.as_u128());
        (Self::from_u128(value), Self::from_u128(!mask | value))
    }

    // A carry passes through bits that are all ones, and a borrow through zeros.
    fn after(self, fixed: FixedBits<Self>) -> Option<Self> {
        let (mask, value) = (fixed.mask.as_u128(), fixed.value.as_u128());
        let next = (self.as_u128() | mask).checked_add(1)?;
        Some(Self::from_u128(next & !mask | value))
    }

    fn before(self, fixed: FixedBits<Self>) -> Option<Self> {
        let (mask, value) = (fixed.mask.as_u128(), fixed.value.as_u128());
        let previous = (self.as_u128() & !mask).checked_sub(1)?;
        Some(Self::from_u128(previous & !mask | value))
    }
}

impl FixedBits<Uuid> {
    pub(crate) const NONE: Self = Self::new(0, 0);

    pub(crate) const fn new(mask: u128, value: u128) -> Self {
        Self { mask: Uuid::from_u128(mask), value: Uuid::from_u128(value) }
    }
}

impl Key for Uuid {
    type Repr = Self;

    const KIND: &'static str = "UUID";
    const KIND_NUMBER: usize = 2;

    fn into_repr(self) -> Self {
        self
    }

    #[inline]
    fn from_checked(repr: Self) -> Self {
        repr
    }

    const FIXED: FixedBits<Self> = FixedBits::NONE;
    /// The UUIDv4 of RFC 9562, appendix A.3.
    const EXAMPLE: Self = Uuid::from_u128(0x919108f7_52d1_4320_9bac_f847db4148a8);
}
