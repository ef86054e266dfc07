use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use uuid::Uuid;

use crate::error::Invalid;
use crate::key::Ticks;
use crate::rfc9562::V8;

/// A layout of the UUIDv8 of draft-peabody-dispatch-new-uuid-format-01 (section 4.5): a timestamp of 32, 48,
/// 60 or 64 bits, a clock sequence, and random bits. It is for stored data of early adopters.
///
/// | layout | timestamp | bits of the UUID | clock sequence | random |
/// |---|---|---|---|---|
/// | [`SECONDS_32`](Self::SECONDS_32) | Unix seconds, until 2106 | 0–31; 32–47 are zero | 12: 52–63 | 62 |
/// | [`MILLIS_48`](Self::MILLIS_48) | Unix milliseconds | 0–47 | 12: 52–63 | 62 |
/// | [`GREGORIAN_60`](Self::GREGORIAN_60) | 100 ns since 1582-10-15 | 0–47, 52–63 | 8: 66–73 | 54 |
/// | [`NANOS_64`](Self::NANOS_64) | Unix nanoseconds, the upper 60 of 64 bits | 0–47, 52–63 | 8: 66–73 | 54 |
/// | [`TEN_NANOS_60`](Self::TEN_NANOS_60) | Unix time in 10 ns (RFC 9562, appendix B.1) | 0–47, 52–63 | 8: 66–73 | 54 |
///
/// The other bits are the version (48–51) and the variant (64–65). Derive a resource with such keys with `key
/// = Uuid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Uuid8Layout {
    pub(crate) ticks: Ticks,
}

impl Uuid8Layout {
    /// 32 bits: seconds since 1970.
    pub const SECONDS_32: Self = Self { ticks: Ticks::unix(32, 1) };
    /// 48 bits: milliseconds since 1970.
    pub const MILLIS_48: Self = Self { ticks: Ticks::MILLIS };
    /// 60 bits: steps of 100 ns since 1582-10-15, as in UUIDv1 and UUIDv6.
    pub const GREGORIAN_60: Self = Self { ticks: Ticks::GREGORIAN };
    /// 64 bits, nanoseconds since 1970, cut to the upper 60: steps of 16 ns.
    pub const NANOS_64: Self = Self { ticks: Ticks::unix(60, 62_500_000) };
    /// 60 bits: steps of 10 ns since 1970, as in RFC 9562's example.
    pub const TEN_NANOS_60: Self = Self { ticks: Ticks::unix(60, 100_000_000) };

    /// Returns when the key was generated, with the timestamp's precision. A UUID does not show whether it
    /// has this layout.
    ///
    /// # Errors
    /// [`Invalid`] unless it is a UUIDv8.
    pub fn time(self, uuid: Uuid) -> Result<SystemTime, Invalid> {
        let uuid = Self::check(uuid)?;
        let timestamp = match self.ticks.bits {
            60 => uuid >> 80 << 12 | uuid >> 64 & 0xfff,
            bits => uuid >> (128 - bits),
        };
        let timestamp = u64::try_from(timestamp).unwrap_or(u64::MAX);
        Ok(self.ticks.time(timestamp))
    }

    /// Returns the clock sequence: the number of earlier keys with the same timestamp.
    ///
    /// # Errors
    /// [`Invalid`] unless it is a UUIDv8.
    pub fn sequence(self, uuid: Uuid) -> Result<u16, Invalid> {
        let sequence = Self::check(uuid)? >> self.sequence_shift();
        let mask = u16::MAX >> (u16::BITS - self.sequence_bits());
        Ok(u16::try_from(sequence & u128::from(mask)).unwrap_or(mask))
    }

    /// Returns the smallest and the largest key with a time in the range, as
    /// [`TimeKey::bounds`](crate::key::TimeKey::bounds) does.
    #[must_use]
    pub fn bounds(self, range: impl RangeBounds<SystemTime>) -> RangeInclusive<Uuid> {
        self.ticks.bounds(
            range,
            |timestamp| self.assemble(timestamp, 0, 0),
            |timestamp| self.assemble(timestamp, u64::MAX, u64::MAX),
        )
    }

    pub(crate) fn assemble(self, timestamp: u64, sequence: u64, random: u64) -> Uuid {
        let low = |value: u64, bits: u32| u128::from(value & (u64::MAX >> (u64::BITS - bits)));
        let timestamp = low(timestamp, self.ticks.bits);
        let timestamp = match self.ticks.bits {
            60 => timestamp >> 12 << 80 | (timestamp & 0xfff) << 64,
            bits => timestamp << (128 - bits),
        };
        let random = low(random, self.sequence_shift().min(62));
        let sequence = low(sequence, self.sequence_bits()) << self.sequence_shift();
        Uuid::from_u128(timestamp | sequence | random | V8)
    }

    pub(crate) const fn sequence_bits(self) -> u32 {
        if self.ticks.bits == 60 { 8 } else { 12 }
    }

    const fn sequence_shift(self) -> u32 {
        if self.ticks.bits == 60 { 54 } else { 64 }
    }

    fn check(uuid: Uuid) -> Result<u128, Invalid> {
        Invalid::check_version(uuid, V8, "UUIDv8").map(|()| uuid.as_u128())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest1::prelude::*;

    use super::*;

    const ALL: [Uuid8Layout; 5] = [
        Uuid8Layout::SECONDS_32,
        Uuid8Layout::MILLIS_48,
        Uuid8Layout::GREGORIAN_60,
        Uuid8Layout::NANOS_64,
        Uuid8Layout::TEN_NANOS_60,
    ];

    #[test]
    fn the_layouts_of_the_draft_bit_by_bit() {
        let bits = |from: u32, to: u32| (from..=to).map(|bit| 1_u128 << (127 - bit)).sum::<u128>();
        for (layout, timestamp, sequence, random) in [
            (Uuid8Layout::SECONDS_32, bits(0, 31), bits(52, 63), bits(66, 127)),
            (Uuid8Layout::MILLIS_48, bits(0, 47), bits(52, 63), bits(66, 127)),
            (Uuid8Layout::GREGORIAN_60, bits(0, 47) | bits(52, 63), bits(66, 73), bits(74, 127)),
            (Uuid8Layout::NANOS_64, bits(0, 47) | bits(52, 63), bits(66, 73), bits(74, 127)),
        ] {
            let fixed = layout.assemble(0, 0, 0).as_u128();
            assert_eq!(fixed, bits(48, 48) | bits(64, 64), "{layout:?}");
            let field = |t, s, r| layout.assemble(t, s, r).as_u128() ^ fixed;
            let fields: [(u128, &dyn Fn(u64) -> u128); 3] = [
                (timestamp, &|value| field(value, 0, 0)),
                (sequence, &|value| field(0, value, 0)),
                (random, &|value| field(0, 0, value)),
            ];
            for (mask, field) in fields {
                assert_eq!(field(u64::MAX), mask, "{layout:?}");
                let bits = (0..128).map(|i| 1 << i).filter(|bit| mask & bit != 0);
                for (i, bit) in bits.enumerate() {
                    assert_eq!(field(1 << i), bit, "{layout:?}");
                }
            }
        }
    }

    /// The time was converted in Python: 2021-04-26 00:00:00.123456789 UTC, 1619395200 s.
    #[test]
    fn one_time_in_all_layouts() {
        let now = Duration::new(1_619_395_200, 123_456_789);
        for (layout, text) in [
            (Uuid8Layout::SECONDS_32, "60860280-0000-8005-8000-000000000000"),
            (Uuid8Layout::MILLIS_48, "01790b79-c47b-8005-8000-000000000000"),
            (Uuid8Layout::GREGORIAN_60, "1eba6225-80c5-8687-8140-000000000000"),
            (Uuid8Layout::NANOS_64, "16793f5a-c654-8cd1-8140-000000000000"),
        ] {
            let uuid = layout.assemble(layout.ticks.at(now), 5, 0);
            assert_eq!(layout.sequence(uuid), Ok(5));
            assert_eq!(uuid.to_string(), text, "{layout:?}");
        }
    }

    #[test]
    fn the_vector_of_the_rfc() {
        let uuid = uuid::uuid!("2489E9AD-2EE2-8E00-8EC9-32D5F69181C0");
        let time = Uuid8Layout::TEN_NANOS_60.time(uuid).expect("version 8");
        assert_eq!(time, UNIX_EPOCH + Duration::from_secs(1_645_557_742));
        let other = uuid::uuid!("017F22E2-79B0-7CC3-98C4-DC0C0C07398F");
        assert!(Uuid8Layout::TEN_NANOS_60.time(other).is_err());
        assert!(Uuid8Layout::TEN_NANOS_60.sequence(other).is_err());
    }

    proptest! {
        #[test]
        fn fields_round_trip(timestamp: u64, sequence: u8, random: u64) {
            for layout in ALL {
                let timestamp = timestamp & layout.ticks.max();
                let uuid = layout.assemble(timestamp, sequence.into(), random);
                prop_assert_eq!(layout.time(uuid), Ok(layout.ticks.time(timestamp)));
                prop_assert_eq!(layout.sequence(uuid), Ok(sequence.into()));
                let time = layout.ticks.time(timestamp);
                prop_assert!(layout.bounds(time..=time).contains(&uuid));
                prop_assert!(!layout.bounds(..time).contains(&uuid));
            }
        }
    }
}
