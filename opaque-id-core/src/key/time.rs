//! Keys that contain a time.

use core::ops::{Bound, RangeBounds, RangeInclusive};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A key that contains the time of its creation: [`Uuid7`](crate::key::Uuid7), [`Ulid`](crate::key::Ulid) and
/// [`Uuid6`](crate::layout::Uuid6).
///
/// ```
/// use opaque_id_core::key::{TimeKey, Uuid7};
/// use std::time::{Duration, UNIX_EPOCH};
///
/// let key: Uuid7 = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f".parse()?;
/// let noon = UNIX_EPOCH + Duration::from_millis(1_645_557_742_000);
/// assert_eq!(key.time(), noon);
///
/// let (low, high) = Uuid7::bounds(noon..noon + Duration::from_secs(1)).into_inner();
/// assert!(low <= key && key <= high); // WHERE id BETWEEN low AND high
/// # Ok::<(), opaque_id_core::error::Invalid>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a key of `{Self}` does not contain the time of its creation",
    label = "not `Uuid7`, `Ulid` or `Uuid6`",
    note = "if the keys have a layout with a time (`Int64Layout`, `Uuid8Layout`, `Uuid6`), use the layout: `layout.time(id.expose_key())`, `IdRange::all().within(layout.bounds(start..end))`"
)]
pub trait TimeKey: Copy + Ord {
    /// Returns when the key was generated, with the key's precision: milliseconds, or steps of 100 ns for a
    /// [`Uuid6`](crate::layout::Uuid6). The clock may have been wrong, and a key may run ahead of it (see
    /// [`generator`](crate::generator)).
    fn time(self) -> SystemTime;

    /// Returns the smallest and the largest key with a [`time`](Self::time) in the range, for `BETWEEN`.
    /// Adjacent ranges (`a..b`, `b..c`) have no key in common. Without a key in the range, the first is
    /// greater than the second, and `BETWEEN` finds nothing.
    #[must_use]
    fn bounds(range: impl RangeBounds<SystemTime>) -> RangeInclusive<Self>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticks {
    per_second: u64,
    pub(crate) bits: u32,
    seconds_before_1970: u64,
}

const NANOS: i128 = 1_000_000_000;

impl Ticks {
    pub(crate) const fn unix(bits: u32, per_second: u64) -> Self {
        Self { per_second, bits, seconds_before_1970: 0 }
    }

    pub(crate) const MILLIS: Self = Self::unix(48, 1_000);

    /// 60 bits of 100 ns since 1582-10-15 (RFC 9562, section 5.1).
    pub(crate) const GREGORIAN: Self =
        Self { per_second: 10_000_000, bits: 60, seconds_before_1970: 12_219_292_800 };

    pub(crate) const fn max(self) -> u64 {
        u64::MAX >> (u64::BITS - self.bits)
    }

    /// Returns the count at a time since 1970, at most the largest. Steps must be 2^-34 s or longer.
    #[inline]
    pub(crate) fn at(self, since_1970: Duration) -> u64 {
        let seconds = since_1970.as_secs().saturating_add(self.seconds_before_1970);
        let part = u64::from(since_1970.subsec_nanos()) * self.per_second / 1_000_000_000;
        let count = seconds.saturating_mul(self.per_second).saturating_add(part);
        count.min(self.max())
    }

    pub(crate) fn time(self, count: u64) -> SystemTime {
        let seconds = count / self.per_second;
        let part = u128::from(count % self.per_second) * NANOS.unsigned_abs();
        let nanos = u64::try_from(part.div_ceil(self.per_second.into())).unwrap_or(u64::MAX);
        let since_start = Duration::from_secs(seconds) + Duration::from_nanos(nanos);
        let before = Duration::from_secs(self.seconds_before_1970);
        match since_start.checked_sub(before) {
            Some(since_1970) => UNIX_EPOCH.checked_add(since_1970),
            None => UNIX_EPOCH.checked_sub(before - since_start),
        }
        // Windows has no time before 1601.
        .unwrap_or(UNIX_EPOCH)
    }

    pub(crate) fn bounds<K>(
        self,
        range: impl RangeBounds<SystemTime>,
        first: impl Fn(u64) -> K,
        last: impl Fn(u64) -> K,
    ) -> RangeInclusive<K> {
        let start = match range.start_bound() {
            Bound::Included(time) => self.first_since(self.nanos(*time)),
            Bound::Excluded(time) => self.first_since(self.nanos(*time) + 1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(time) => self.first_since(self.nanos(*time) + 1) - 1,
            Bound::Excluded(time) => self.first_since(self.nanos(*time)) - 1,
            Bound::Unbounded => i128::from(self.max()),
        };
        match (u64::try_from(start.max(0)), u64::try_from(end)) {
            (Ok(start), Ok(end)) if start <= end.min(self.max()) => {
                first(start)..=last(end.min(self.max()))
            }
            _ => last(self.max())..=first(0),
        }
    }

    fn first_since(self, nanos: i128) -> i128 {
        let end = (i128::from(self.max() / self.per_second) + 2) * NANOS;
        let before = (nanos.clamp(0, end) - 1) * i128::from(self.per_second);
        before.div_euclid(NANOS) + 1
    }

    fn nanos(self, time: SystemTime) -> i128 {
        let nanos = |duration: Duration| i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        let since_1970 = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => nanos(after),
            Err(before) => -nanos(before.duration()),
        };
        since_1970 + i128::from(self.seconds_before_1970) * NANOS
    }
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::*;

    const ALL: [Ticks; 6] = [
        Ticks::MILLIS,
        Ticks::GREGORIAN,
        Ticks::unix(32, 1),
        Ticks::unix(60, 62_500_000),
        Ticks::unix(60, 4_096_000),
        Ticks::unix(64, 1_000 << 20),
    ];

    fn instant(nanos: i64) -> SystemTime {
        let duration = Duration::from_nanos(nanos.unsigned_abs());
        match nanos {
            0.. => UNIX_EPOCH + duration,
            _ => UNIX_EPOCH - duration,
        }
    }

    proptest! {
        #[test]
        fn a_count_converts_to_a_time_and_back(nanos in 0..u64::MAX / 2) {
            for ticks in ALL {
                let count = ticks.at(Duration::from_nanos(nanos));
                let time = ticks.time(count).duration_since(UNIX_EPOCH).expect("after 1970");
                if ticks.per_second <= 1_000_000_000 {
                    prop_assert_eq!(ticks.at(time), count);
                } else {
                    prop_assert!(time.as_nanos().abs_diff(nanos.into()) <= 1);
                }
            }
        }

        #[test]
        fn bounds_match_the_times(
            start: i64, length in -2_000_000_000_i64..2_000_000_000, from in 0..3, to in 0..3,
        ) {
            let (start, end) = (instant(start), instant(start.saturating_add(length)));
            let bound = |kind, time| match kind {
                0 => Bound::Included(time),
                1 => Bound::Excluded(time),
                _ => Bound::Unbounded,
            };
            let range = (bound(from, start), bound(to, end));
            for ticks in ALL {
                let (first, last) = ticks.bounds(range, |t| t, |t| t).into_inner();
                let near = [first, last, 0, ticks.max()];
                let near = near.iter().flat_map(|t| [t.saturating_sub(1), *t, t.saturating_add(1)]);
                for tick in near.filter(|tick| *tick <= ticks.max()) {
                    prop_assert_eq!(
                        (first..=last).contains(&tick),
                        range.contains(&ticks.time(tick)),
                        "{:?} {}", ticks, tick
                    );
                }
            }
        }
    }

    #[test]
    fn times_outside_the_range_of_counts() {
        let ticks = Ticks::unix(32, 1);
        let after = UNIX_EPOCH + Duration::from_secs(1 << 40);
        for range in [UNIX_EPOCH..UNIX_EPOCH, after..after + Duration::from_secs(9)] {
            assert!(ticks.bounds(range, |t| t, |t| t).is_empty());
        }
        assert_eq!(ticks.bounds(..after, |t| t, |t| t), 0..=u64::from(u32::MAX));
        assert_eq!(ticks.at(Duration::MAX), ticks.max());
    }
}
