//! Generators: keys made in the application, each kind from its specification.
//!
//! [`Generate`] is all that most need: `Internal::<User>::generate()`. What lies behind it, and the kinds
//! that need a setting, are here. Each generator can be a `static`, is shared by threads, and takes a
//! [`Clock`] and a [`Random`] of the caller's for tests and simulations.
//!
//! | generator | keys | order in a process | at most ahead of the clock |
//! |---|---|---|---|
//! | [`Uuid7Generator`] | UUIDv7 | strict | 10 ms |
//! | [`Uuid6Generator`] | UUIDv6 | strict | 10 ms |
//! | [`Uuid8Generator`] | UUIDv8 of an early draft | strict | not at all |
//! | [`UlidGenerator`] | ULID | strict | not at all |
//! | [`Int64Generator`] | 64-bit ids | strict | 1 s |
//! | [`PseudoOrderedGenerator`] | UUIDv4-shaped, in windows | none | – |
//! | [`StructuredKeyGenerator`] | structured keys | strict, by sequence | 4 ns a key, while the clock stands still |
//!
//! "Ahead" is measured from the latest time that the clock has shown: when it is set back, keys go on from
//! there, and order is kept.
//!
//! After a fork, parent and child make different keys: the randomness of each thread is seeded anew in the
//! child, and what a generator had counted is not continued there.

mod clock;
mod int64;
mod pseudo_ordered;
mod sequencer;
mod structured;
mod ulid;
mod uuid6;
mod uuid7;
mod uuid8;

pub use self::clock::{Clock, SystemClock};
pub use self::int64::Int64Generator;
pub use self::pseudo_ordered::PseudoOrderedGenerator;
pub use self::structured::StructuredKeyGenerator;
pub use self::ulid::UlidGenerator;
pub use self::uuid6::Uuid6Generator;
pub use self::uuid7::{Uuid7Generator, Uuid7Method};
pub use self::uuid8::Uuid8Generator;
pub use crate::error::GenerateError;
use crate::key::{Key, StructuredKey, Ulid, Uuid7};
pub use crate::random::{Random, SystemRandom};

/// Keys that need no setting to be made: [`Uuid7`], [`Ulid`] and [`StructuredKey`].
///
/// ```
/// use opaque_id_core::generator::Generate;
/// use opaque_id_core::key::Uuid7;
///
/// let (first, second) = (Uuid7::generate(), Uuid7::generate());
/// assert!(first < second);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default generator",
    label = "the application or the database generates such keys",
    note = "use `from_key` with a key of your own or of a generator (`Int64Generator`, `PseudoOrderedGenerator`, …), or `key = Uuid7`"
)]
pub trait Generate: Key {
    /// A fresh key, greater than every earlier one of its kind in this process.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    fn generate() -> Self;
}

/// As [`Uuid7Generator`] makes them by default: 48-bit milliseconds, a 12-bit fraction of the millisecond
/// (RFC 9562, section 6.2, method 3) and 62 random bits.
impl Generate for Uuid7 {
    fn generate() -> Self {
        static GENERATOR: Uuid7Generator = Uuid7Generator::new();
        GENERATOR.generate()
    }
}

/// As [`UlidGenerator`] makes them; should the random component overflow, of the next millisecond.
impl Generate for Ulid {
    fn generate() -> Self {
        static GENERATOR: UlidGenerator = UlidGenerator::new();
        GENERATOR.generate_or_next_milli()
    }
}

/// As [`StructuredKeyGenerator`] makes them. Where a database sequence is at hand, use
/// [`StructuredKey::with_sequence`] or an adapter's `Sequence`.
impl Generate for StructuredKey {
    fn generate() -> Self {
        static GENERATOR: StructuredKeyGenerator = StructuredKeyGenerator::new();
        GENERATOR.generate()
    }
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
            all.sort();
            assert!(all.is_sorted_by(|a, b| a < b));
            all
        }
        assert_eq!(keys::<Uuid7>().len(), 4_000);
        assert_eq!(keys::<Ulid>().len(), 4_000);
        assert!(keys::<StructuredKey>().is_sorted_by(|a, b| a.sequence() < b.sequence()));
    }
}
