use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use uuid::Uuid;

use super::{FixedBits, Key, Ticks, TimeKey, key_of_uuid, stored_as_uuid};
use crate::error::Invalid;
use crate::private::Private;
use crate::rfc9562::{V7, VERSION_AND_VARIANT};

/// A UUIDv7 (RFC 9562, section 5.7): a 48-bit Unix time in milliseconds, then 74 bits for order and
/// randomness, in 16 big-endian bytes.
///
/// It may come from any generator, such as PostgreSQL 18's `uuidv7()`. This is a raw key: it reveals when its
/// row was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid7(Uuid);

impl Uuid7 {
    /// Creates a key from milliseconds since 1970 (48 bits), `rand_a` (12 bits) and `rand_b` (62 bits).
    /// Higher bits are ignored.
    #[must_use]
    pub const fn from_parts(unix_millis: u64, rand_a: u16, rand_b: u64) -> Self {
        let millis = (unix_millis & 0xffff_ffff_ffff) as u128;
        let a = (rand_a & 0xfff) as u128;
        let b = (rand_b & 0x3fff_ffff_ffff_ffff) as u128;
        Self(Uuid::from_u128(millis << 80 | a << 64 | b | V7))
    }

    /// Returns the milliseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn unix_millis(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }

    /// Returns the time with a fraction of the millisecond from the next `bits` bits (RFC 9562, section 6.2,
    /// method 3), at most 20. By default, this crate's keys and PostgreSQL's have a fraction of 12 bits.
    /// Other keys have random bits there.
    #[must_use]
    pub fn time_with_fraction(self, bits: u32) -> SystemTime {
        let bits = bits.min(20);
        let (high, low) = self.0.as_u64_pair();
        let fraction = (high & 0xfff) << 8 | low >> 54 & 0xff;
        let fraction = fraction >> (20 - bits);
        Ticks::unix(u64::BITS, 1_000 << bits).time(self.unix_millis() << bits | fraction)
    }
}

impl TimeKey for Uuid7 {
    fn time(self) -> SystemTime {
        Ticks::MILLIS.time(self.unix_millis())
    }

    fn bounds(range: impl RangeBounds<SystemTime>) -> RangeInclusive<Self> {
        Ticks::MILLIS.bounds(
            range,
            |millis| Self::from_parts(millis, 0, 0),
            |millis| Self::from_parts(millis, u16::MAX, u64::MAX),
        )
    }
}

impl Private for Uuid7 {}
key_of_uuid!(Uuid7, checked, shown, parsed);

impl Key for Uuid7 {
    stored_as_uuid!();

    const KIND: &'static str = "UUIDv7";
    const KIND_NUMBER: usize = 0;

    #[inline]
    fn check(repr: Uuid) -> Result<(), Invalid> {
        Invalid::check_version(repr, V7, Self::KIND)
    }

    const FIXED: FixedBits<Uuid> = FixedBits::new(VERSION_AND_VARIANT, V7);
    /// The UUIDv7 of RFC 9562, appendix A.6.
    const EXAMPLE: Uuid = Uuid::from_u128(0x017f22e2_79b0_7cc3_98c4_dc0c0c07398f);
}
