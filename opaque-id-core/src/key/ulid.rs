//! ULIDs, their text, and their prefixes for object stores.

use core::fmt;
use core::ops::{RangeBounds, RangeInclusive};
use core::str::FromStr;
use std::time::SystemTime;

use uuid::Uuid;

use super::{FixedBits, Key, Ticks, TimeKey, key_of_uuid, stored_as_uuid};
use crate::base32;
use crate::error::{Invalid, KeyProblem};
use crate::private::Private;

/// A [ULID](https://github.com/ulid/spec): a 48-bit Unix time in milliseconds and 80 random bits, in 16
/// big-endian bytes.
///
/// Its text is 26 characters of Crockford's base32. It prints upper case, as in the spec, and parses either
/// case. This is a raw key: it reveals when its row was created.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ulid(Uuid);

const TIME_CHARS: u32 = 10;

impl Ulid {
    /// Creates a key from milliseconds since 1970 (48 bits) and the random component (80 bits). Higher bits
    /// are ignored.
    #[must_use]
    pub const fn from_parts(unix_millis: u64, random: u128) -> Self {
        let millis = (unix_millis & 0xffff_ffff_ffff) as u128;
        Self(Uuid::from_u128(millis << 80 | random & ((1 << 80) - 1)))
    }

    /// Returns the milliseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn unix_millis(self) -> u64 {
        (self.0.as_u128() >> 80) as u64
    }

    /// Returns the shortest list of text prefixes that match exactly the ULIDs of a range of times. It is for
    /// stores that list by prefix, such as S3's `ListObjectsV2`, with one request per prefix (Brown,
    /// *Leveraging ULIDs to create order in unordered datastores*, 2020).
    ///
    /// The prefixes are in order, and none is a prefix of another. Each end of the range needs at most 31
    /// prefixes of each length: one or two hundred for bounds in any millisecond, and fewer if the bounds are
    /// multiples of the longer spans below. For all of time the list contains only the empty prefix.
    ///
    /// | characters | span |
    /// |---|---|
    /// | 1 | 407,226 days |
    /// | 2 | 12,725 days |
    /// | 3 | 397 days |
    /// | 4 | 12 days 10 hours |
    /// | 5 | 9 hours 19 minutes |
    /// | 6 | 17 minutes 28 seconds |
    /// | 7 | 32 seconds |
    /// | 8 | 1 second (1,024 ms) |
    /// | 9 | 32 milliseconds |
    /// | 10 | 1 millisecond |
    #[must_use]
    pub fn prefixes(range: impl RangeBounds<SystemTime>) -> Vec<String> {
        let (first, last) = Ticks::MILLIS.bounds(range, |t| t, |t| t).into_inner();
        let mut prefixes = Vec::new();
        if (first, last) == (0, Ticks::MILLIS.max()) {
            prefixes.push(String::new());
            return prefixes;
        }
        let mut next = first;
        while next <= last {
            let chars = (1..TIME_CHARS).find(|chars| {
                let span = span(*chars);
                next.is_multiple_of(span) && last - next >= span - 1
            });
            let chars = chars.unwrap_or(TIME_CHARS);
            let text = Self::from_parts(next, 0).to_string();
            prefixes.push(text[..chars as usize].to_owned());
            next += span(chars);
        }
        prefixes
    }
}

const fn span(chars: u32) -> u64 {
    1 << (5 * (TIME_CHARS - chars))
}

impl TimeKey for Ulid {
    fn time(self) -> SystemTime {
        Ticks::MILLIS.time(self.unix_millis())
    }

    fn bounds(range: impl RangeBounds<SystemTime>) -> RangeInclusive<Self> {
        Ticks::MILLIS.bounds(
            range,
            |millis| Self::from_parts(millis, 0),
            |millis| Self::from_parts(millis, u128::MAX),
        )
    }
}

impl Private for Ulid {}
key_of_uuid!(Ulid);

impl Key for Ulid {
    stored_as_uuid!();

    const KIND: &'static str = "ULID";
    const KIND_NUMBER: usize = 1;

    const FIXED: FixedBits<Uuid> = FixedBits::NONE;
    /// The specification's example, 01ARZ3NDEKTSV4RRFFQ69G5FAV.
    const EXAMPLE: Uuid = Uuid::from_u128(0x01563e3a_b5d3_d676_4c61_efb99302bd5b);
}

impl From<Uuid> for Ulid {
    fn from(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl FromStr for Ulid {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let problem = Invalid::from(KeyProblem::Text { expected: Self::KIND });
        let mut lower: [u8; 26] = text.as_bytes().try_into().map_err(|_| problem)?;
        lower.make_ascii_lowercase();
        match base32::decode_130(&lower) {
            Ok((0, block)) => Ok(Self(Uuid::from_u128(block))),
            _ => Err(problem),
        }
    }
}

impl fmt::Display for Ulid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 26];
        base32::encode_130(0, self.0.as_u128(), &mut text);
        text.make_ascii_uppercase();
        f.pad(str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest1::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_spec() {
        let key: Ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().expect("a ULID");
        assert_eq!(&key.to_string()[..10], "01ARZ3NDEK");
        assert_eq!(key.unix_millis(), 1_469_922_850_259);
        let largest: Ulid = "7ZZZZZZZZZZZZZZZZZZZZZZZZZ".parse().expect("a ULID");
        assert_eq!(largest.unix_millis(), (1 << 48) - 1);
        assert_eq!(largest, Ulid::from_parts(u64::MAX, u128::MAX));
        assert!("80000000000000000000000000".parse::<Ulid>().is_err());
        // The time is `seedTime` 1469918176385 of the JavaScript implementation that the spec links to.
        let seeded = Ulid::from_parts(1_469_918_176_385, 0);
        assert_eq!(&seeded.to_string()[..10], "01ARYZ6S41");
    }

    /// The article rounds its ninth span ("30 ms").
    #[test]
    fn spans_match_the_article() {
        let (second, minute, hour, day) = (1_000, 60_000, 3_600_000, 86_400_000);
        for (chars, span_ms, unit) in [
            (1, 407_226 * day, day),
            (2, 12_725 * day, day),
            (3, 397 * day, day),
            (4, 12 * day + 10 * hour, hour),
            (5, 9 * hour + 19 * minute, minute),
            (6, 17 * minute + 28 * second, second),
            (7, 32 * second, second),
            (8, second, second),
            (9, 30, 10),
            (10, 1, 1),
        ] {
            assert_eq!(span(chars) / unit * unit, span_ms, "{chars}");
        }
        for object in [
            "01E5V475QFRCEHXKJAS3BRS6BV",
            "01E5V4KXFTP52C9M5DVPQ2XR8T",
            "01E5V5Z9J0GX72VFSENBCKMHF0",
        ] {
            let key: Ulid = object.parse().expect("a ULID");
            let start = key.unix_millis() / span(6) * span(6);
            let prefixes = Ulid::prefixes(instant(start)..instant(start + span(6)));
            assert_eq!(prefixes, [&object[..6]]);
        }
    }

    fn instant(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    #[test]
    fn prefixes_of_all_and_of_nothing() {
        let all = UNIX_EPOCH..;
        assert_eq!(Ulid::prefixes(all), [""]);
        let largest = Ulid::from_parts(u64::MAX, 0).time();
        assert_eq!(Ulid::prefixes(..largest).len(), 7 + 9 * 31);
        assert_eq!(Ulid::prefixes(largest..), ["7ZZZZZZZZZ"]);
        assert_eq!(Ulid::prefixes(UNIX_EPOCH..UNIX_EPOCH), [""; 0]);
    }

    #[test]
    fn prefixes_of_an_hour() {
        let october = 1_790_812_800_000; // 2026-10-01
        let start = instant(october + 10 * 86_400_000 + 12_345);
        let mut prefixes = Ulid::prefixes(start..start + Duration::from_secs(3_600));
        assert_eq!(prefixes.len(), 187);
        for prefix in &mut prefixes {
            prefix.truncate(6);
        }
        prefixes.dedup();
        assert_eq!(prefixes.len(), 4);
    }

    proptest! {
        /// Brute force: every millisecond near the range, and the shortest list by dynamic programming.
        #[test]
        #[cfg_attr(miri, ignore = "up to 5,000 texts, each compared with all prefixes")]
        fn prefixes_cover_exactly_the_range(start in 0..1_u64 << 48, length in 0..5_000_u64) {
            let end = (start + length).min(Ticks::MILLIS.max());
            let prefixes = Ulid::prefixes(instant(start)..=instant(end));
            prop_assert!(prefixes.is_sorted());
            for millis in start.saturating_sub(100)..=(end + 100).min(Ticks::MILLIS.max()) {
                for random in [0, u128::MAX] {
                    let text = Ulid::from_parts(millis, random).to_string();
                    let count = prefixes.iter().filter(|prefix| text.starts_with(*prefix)).count();
                    prop_assert_eq!(count, usize::from((start..=end).contains(&millis)));
                }
            }
            let mut shortest = vec![0; usize::try_from(end - start).expect("small") + 2];
            for i in 1..shortest.len() {
                let stop = start + i as u64;
                shortest[i] = (1..=TIME_CHARS)
                    .map(span)
                    .filter(|span| stop.is_multiple_of(*span) && stop - start >= *span)
                    .map(|span| 1 + shortest[i - usize::try_from(span).expect("small")])
                    .min()
                    .expect("a millisecond");
            }
            prop_assert_eq!(prefixes.len(), *shortest.last().expect("not empty"));
        }
    }
}
