use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use super::{Key, StructuredKey, Uuid7};

/// Keys that this library makes by itself: [`Uuid7`] and [`StructuredKey`].
///
/// ```
/// use opaque_id_core::{Generate, Uuid7};
///
/// let (first, second) = (Uuid7::generate(), Uuid7::generate());
/// assert!(first < second);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key that this library makes",
    label = "made by the application or the database",
    note = "use `from_key` with a key of your own, or `key = Uuid7`"
)]
pub trait Generate: Key {
    /// A fresh key, greater than every earlier one of its kind in this process.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    fn generate() -> Self;
}

/// 48-bit milliseconds, a 12-bit fraction of the millisecond (RFC 9562, section 6.2, method 3) and 62
/// random bits.
impl Generate for Uuid7 {
    fn generate() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let since_epoch = since_epoch();
        let millis = u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX >> 16);
        // 0..1_000_000 ns in 4096 steps.
        let fraction = u64::from(since_epoch.subsec_nanos() % 1_000_000) * 4096 / 1_000_000;
        let tick = increasing(&LAST, millis << 12 | fraction);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the low 12 bits are what is wanted"
        )]
        let fraction = tick as u16;
        Self::from_parts(tick >> 12, fraction, random_u64())
    }
}

/// The microseconds since 1970 as the sequence, and a random nonce. Where a database sequence is at
/// hand, use [`StructuredKey::with_sequence`].
impl Generate for StructuredKey {
    fn generate() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let micros = u64::try_from(since_epoch().as_micros()).unwrap_or(u64::MAX);
        Self::with_sequence(increasing(&LAST, micros))
            .expect("microseconds since 1970 stay below 2^60 for 36,000 years")
    }
}

fn since_epoch() -> std::time::Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
}

/// `now`, or one more than the last result if the clock has not moved past it.
fn increasing(last: &AtomicU64, now: u64) -> u64 {
    let next = |last: u64| now.max(last + 1);
    next(last.update(Ordering::Relaxed, Ordering::Relaxed, next))
}

pub(super) fn random_u64() -> u64 {
    getrandom::u64().expect("the operating system has no randomness to give")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_increase_across_threads() {
        fn keys<K: Generate>() -> Vec<K> {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    std::thread::spawn(|| (0..1_000).map(|_| K::generate()).collect::<Vec<_>>())
                })
                .collect();
            let mut all = Vec::new();
            for thread in threads {
                let keys = thread.join().expect("no panic");
                assert!(keys.is_sorted_by(|a, b| a < b));
                all.extend(keys);
            }
            all
        }
        let mut sevens = keys::<Uuid7>();
        sevens.sort();
        sevens.dedup_by_key(|key| key.into_repr().as_u128() >> 64);
        assert_eq!(sevens.len(), 4_000);
        let mut sequences = keys::<StructuredKey>();
        sequences.sort();
        sequences.dedup_by_key(|key| key.sequence());
        assert_eq!(sequences.len(), 4_000);
    }

    #[test]
    fn uuid7_has_version_variant_and_now() {
        let key = Uuid7::generate();
        assert!(Uuid7::check(key.into_repr()).is_ok());
        let now = u64::try_from(since_epoch().as_millis()).expect("fits");
        assert!(now.abs_diff(key.unix_millis()) < 60_000);
    }

    #[test]
    fn a_clock_that_steps_back_does_not_repeat() {
        let last = AtomicU64::new(0);
        assert_eq!(increasing(&last, 100), 100);
        assert_eq!(increasing(&last, 90), 101);
        assert_eq!(increasing(&last, 200), 200);
    }
}
