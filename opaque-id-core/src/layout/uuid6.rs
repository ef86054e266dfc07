use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use uuid::Uuid;

use crate::error::Invalid;
use crate::key::{Ticks, TimeKey, key_of_uuid};
use crate::rfc9562::{V1, V6};

/// A UUIDv6 (RFC 9562, section 5.6): a UUIDv1 with the bits of its time in order. 60 bits count steps of 100
/// ns since 1582-10-15; 62 bits are clock sequence and node.
///
/// Derive a resource with such keys with `key = Uuid`. This is a raw key: it reveals when its row was
/// created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid6(Uuid);

key_of_uuid!(Uuid6, checked, shown, parsed);

const NODE: u128 = 0xffff_ffff_ffff_ffff;

impl Uuid6 {
    const KIND: &str = "UUIDv6";

    fn check(uuid: Uuid) -> Result<(), Invalid> {
        Invalid::check_version(uuid, V6, Self::KIND)
    }

    /// Creates a key from the time (60 bits), in steps of 100 ns since 1582-10-15, the clock sequence (14
    /// bits) and the node (48 bits). Higher bits are ignored.
    #[must_use]
    pub const fn from_parts(time: u64, clock_sequence: u16, node: u64) -> Self {
        let time = time as u128;
        let clock_sequence = (clock_sequence & 0x3fff) as u128;
        let node = (node & 0xffff_ffff_ffff) as u128;
        let high = (time >> 12 & 0xffff_ffff_ffff) << 80 | (time & 0xfff) << 64;
        Self(Uuid::from_u128(high | clock_sequence << 48 | node | V6))
    }

    /// Converts a UUIDv1 into the UUIDv6 with the same time, clock sequence and node. The node may be the MAC
    /// address of the machine that generated the UUIDv1.
    ///
    /// # Errors
    /// [`Invalid`] unless it is a UUIDv1.
    pub fn from_v1(uuid: Uuid) -> Result<Self, Invalid> {
        Invalid::check_version(uuid, V1, "UUIDv1")?;
        let v1 = uuid.as_u128();
        let (low, middle, high) = (v1 >> 96, v1 >> 80 & 0xffff, v1 >> 64 & 0xfff);
        let time = high << 48 | middle << 32 | low;
        let v6 = time >> 12 << 80 | (time & 0xfff) << 64 | v1 & NODE;
        Ok(Self(Uuid::from_u128(v6 | V6)))
    }

    /// Converts the key into the UUIDv1 with the same time, clock sequence and node.
    #[must_use]
    pub const fn to_v1(self) -> Uuid {
        let time = self.timestamp() as u128;
        let (low, middle, high) = (time & 0xffff_ffff, time >> 32 & 0xffff, time >> 48);
        let v1 = low << 96 | middle << 80 | high << 64 | self.0.as_u128() & NODE;
        Uuid::from_u128(v1 | V1)
    }

    /// Returns the time in steps of 100 ns since 1582-10-15 (60 bits).
    #[must_use]
    pub const fn timestamp(self) -> u64 {
        let (high, _) = self.0.as_u64_pair();
        high >> 16 << 12 | high & 0xfff
    }
}

impl TimeKey for Uuid6 {
    fn time(self) -> SystemTime {
        Ticks::GREGORIAN.time(self.timestamp())
    }

    fn bounds(range: impl RangeBounds<SystemTime>) -> RangeInclusive<Self> {
        Ticks::GREGORIAN.bounds(
            range,
            |time| Self::from_parts(time, 0, 0),
            |time| Self::from_parts(time, u16::MAX, u64::MAX),
        )
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest1::prelude::*;

    use super::*;

    #[test]
    fn the_vectors_of_the_rfc() {
        let v1 = uuid::uuid!("C232AB00-9414-11EC-B3C8-9F6BDECED846");
        let v6 = uuid::uuid!("1EC9414C-232A-6B00-B3C8-9F6BDECED846");
        let key = Uuid6::try_from(v6).expect("version 6");
        assert_eq!(key, Uuid6::from_v1(v1).expect("version 1"));
        assert_eq!(key.to_v1(), v1);
        assert_eq!(key.timestamp(), 0x01ec_9414_c232_ab00);
        assert_eq!(key, Uuid6::from_parts(0x01ec_9414_c232_ab00, 0x33c8, 0x9f6b_dece_d846));
        assert_eq!(key.time(), UNIX_EPOCH + Duration::from_secs(1_645_557_742));
    }

    #[test]
    fn other_versions_are_refused() {
        let v1 = uuid::uuid!("c232ab00-9414-11ec-b3c8-9f6bdeced846");
        let v6 = Uuid6::from_v1(v1).expect("version 1");
        let message = |result: Result<Uuid6, Invalid>| result.expect_err("a version").to_string();
        assert_eq!(message(Uuid6::try_from(v1)), "expected a UUIDv6, found version 1");
        assert_eq!(message(Uuid6::from_v1(v6.into())), "expected a UUIDv1, found version 6");
        assert!("1ec9414c".parse::<Uuid6>().is_err());
    }

    proptest! {
        #[test]
        fn v1_and_back(time in 0..1_u64 << 60, clock_sequence: u16, node: u64) {
            let key = Uuid6::from_parts(time, clock_sequence, node);
            prop_assert_eq!(key.timestamp(), time);
            prop_assert_eq!(Uuid6::from_v1(key.to_v1()), Ok(key));
            prop_assert_eq!(key.to_string().parse(), Ok(key));
        }

        #[test]
        fn keys_are_ordered_by_time(a in 0..1_u64 << 60, b in 0..1_u64 << 60, x: u64, y: u64) {
            let (first, second) = (Uuid6::from_parts(a, 0, x), Uuid6::from_parts(b, 0, y));
            if a != b {
                prop_assert_eq!(first < second, a < b);
            }
            prop_assert!(Uuid6::bounds(first.time()..=first.time()).contains(&first));
        }
    }
}
