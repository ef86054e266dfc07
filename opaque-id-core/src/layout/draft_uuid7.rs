//! "UUIDv7s" of a draft of 2021.

use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use uuid::Uuid;

use crate::error::Invalid;
use crate::key::{Ticks, key_of_uuid};
use crate::rfc9562::{V7, VERSION_AND_VARIANT, gather};

/// A "UUIDv7" of draft-peabody-dispatch-new-uuid-format-01 (section 4.4): 36 bits of Unix seconds, then a
/// binary fraction of the second of any length around version and variant. It is for stored data of early
/// adopters. For new keys use [`Uuid7`](crate::key::Uuid7).
///
/// Only the time distinguishes such a UUID from an RFC 9562 UUIDv7: read as one, a draft's key of today has a
/// time around the year 2200.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DraftUuid7(Uuid);

/// More bits would not change the nanoseconds.
const MAX_FRACTION_BITS: u32 = 38;

const SECONDS_BITS: u32 = 36;

key_of_uuid!(DraftUuid7, checked);

impl DraftUuid7 {
    fn check(uuid: Uuid) -> Result<(), Invalid> {
        Invalid::check_version(uuid, V7, "UUIDv7")
    }

    /// Returns the seconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn unix_seconds(self) -> u64 {
        self.0.as_u64_pair().0 >> (u64::BITS - SECONDS_BITS)
    }

    /// Returns the time from the seconds and `fraction_bits` bits of the fraction. Bits beyond 38 are
    /// ignored.
    ///
    /// The draft's examples use 12 bits for milliseconds, 24 for microseconds and 38 for nanoseconds. The
    /// other bits are sequence and randomness. Reading them as well changes the time by less than one step.
    #[must_use]
    pub fn time(self, fraction_bits: u32) -> SystemTime {
        let fraction_bits = fraction_bits.min(MAX_FRACTION_BITS);
        let count = gather(self.0.as_u128()) >> (122 - SECONDS_BITS - fraction_bits);
        let fraction = u64::try_from(count & ((1 << fraction_bits) - 1)).unwrap_or(0);
        let ticks = Ticks::unix(u64::BITS, 1 << fraction_bits);
        Ticks::unix(SECONDS_BITS, 1).time(self.unix_seconds())
            + ticks.time(fraction).duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// Returns the smallest and the largest key with whole seconds in the range, as
    /// [`TimeKey::bounds`](crate::key::TimeKey::bounds) does. It ignores the fraction.
    #[must_use]
    pub fn bounds(range: impl RangeBounds<SystemTime>) -> RangeInclusive<Self> {
        let key = |seconds: u64, rest: u128| {
            let uuid = u128::from(seconds) << (u128::BITS - SECONDS_BITS) | rest;
            Self(Uuid::from_u128(uuid & !VERSION_AND_VARIANT | V7))
        };
        let rest = u128::MAX >> SECONDS_BITS;
        let first = |seconds| key(seconds, 0);
        Ticks::unix(SECONDS_BITS, 1).bounds(range, first, |seconds| key(seconds, rest))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest1::prelude::*;

    use super::*;

    fn encode(since_1970: Duration, fraction_bits: u32, rest: u128) -> DraftUuid7 {
        let fraction = (u128::from(since_1970.subsec_nanos()) << fraction_bits) / 1_000_000_000;
        let free = 86 - fraction_bits;
        let payload =
            u128::from(since_1970.as_secs()) << 86 | fraction << free | rest & ((1 << free) - 1);
        let uuid = payload >> 74 << 80
            | (payload >> 62 & 0xfff) << 64
            | payload & 0x3fff_ffff_ffff_ffff
            | V7;
        DraftUuid7::try_from(Uuid::from_u128(uuid)).expect("version 7")
    }

    /// The draft's figures: unixts in bits 0–35, subsec_a in 36–47, subsec_b in 52–63, the rest in 66–127.
    #[test]
    fn the_layout_of_the_draft_bit_by_bit() {
        let at = |bit: u32| gather(1 << (127 - bit));
        let order = (0..48).chain(52..64).chain(66..128);
        for (i, bit) in order.enumerate() {
            assert_eq!(at(bit), 1 << (121 - i), "bit {bit}");
        }
        // "0101 0101 0101 0101 … divided by 65536 gives 0.3333282"
        let payload = 0x5555_u128 << (86 - 16);
        let uuid = payload >> 74 << 80 | (payload >> 62 & 0xfff) << 64 | V7;
        let key = DraftUuid7::try_from(Uuid::from_u128(uuid)).expect("version 7");
        assert_eq!(key.time(16), UNIX_EPOCH + Duration::from_nanos(333_328_248));
        assert!(DraftUuid7::try_from(Uuid::nil()).is_err());
    }

    proptest! {
        #[test]
        fn a_time_has_the_precision_that_it_was_written_with(
            seconds in 0..1_u64 << 36, nanos in 0..1_000_000_000_u32, rest: u128,
        ) {
            let time = Duration::new(seconds, nanos);
            let read = |key: DraftUuid7, bits| {
                let time = key.time(bits).duration_since(UNIX_EPOCH);
                time.expect("after 1970").as_nanos()
            };
            prop_assert_eq!(read(encode(time, 38, rest), 38), time.as_nanos());
            prop_assert_eq!(read(encode(time, 38, rest), 86), time.as_nanos());
            for bits in 0..=38 {
                let error = time.as_nanos().abs_diff(read(encode(time, bits, rest), bits));
                prop_assert!(error <= 1_000_000_000 >> bits);
            }
            let key = encode(time, 24, rest);
            let instant = UNIX_EPOCH + Duration::from_secs(seconds);
            prop_assert!(DraftUuid7::bounds(instant..=instant).contains(&key));
            prop_assert!(!DraftUuid7::bounds(..instant).contains(&key));
        }
    }
}
