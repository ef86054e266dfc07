//! Generators of keys in the application.
//!
//! Most applications need only [`Generate`]: `Internal::<User>::generate()`. This module also has generators
//! with settings. Each can be a `static` that threads share, and accepts the caller's [`Clock`] and
//! [`Random`].
//!
//! | generator | keys | order in a process | at most ahead of the clock |
//! |---|---|---|---|
//! | [`Uuid7Generator`] | UUIDv7 | strict | 10 ms |
//! | [`Uuid6Generator`] | UUIDv6 | strict | 10 ms |
//! | [`Uuid8Generator`] | UUIDv8 of an early draft | strict | not at all |
//! | [`UlidGenerator`] | ULID | strict | not at all |
//! | [`Int64Generator`] | 64-bit ids | strict | 1 s |
//! | [`PseudoOrderedGenerator`] | UUIDv4-shaped, in windows | none | – |
//! | [`StructuredKeyGenerator`] | structured keys | strict, by sequence | 4 ns per key, if the clock stops |
//!
//! "Ahead" counts from the latest time of the clock. If the clock is set back, keys continue from that time
//! and keep their order.
//!
//! After a fork, parent and child generate different keys.

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
use crate::key::{Key, StructuredKey, Ulid, Uuid7};
pub use crate::random::{Random, SystemRandom};

macro_rules! constructors {
    ($generator:ident) => {
        impl $generator {
            /// Creates a generator that reads the system's clock.
            #[must_use]
            pub const fn new() -> Self {
                Self::with(SystemClock, SystemRandom)
            }
        }

        impl Default for $generator {
            fn default() -> Self {
                Self::new()
            }
        }

        impl<C, R> $generator<C, R> {
            /// Creates a generator with the caller's clock and randomness.
            #[must_use]
            pub const fn with(clock: C, random: R) -> Self {
                Self { sequencer: Sequencer::new(), clock, random }
            }
        }
    };
}
use constructors;

/// A key with a default generator: [`Uuid7`], [`Ulid`] or [`StructuredKey`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no default generator",
    label = "the application or the database generates these keys",
    note = "use `from_key` with your own key or a generator's (`Int64Generator`, `PseudoOrderedGenerator`, …), or set `key = Uuid7`"
)]
pub trait Generate: Key {
    /// Generates a key that is greater than every earlier one of its kind in this process.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    fn generate() -> Self;
}

/// Generates keys with the default method of [`Uuid7Generator`].
impl Generate for Uuid7 {
    fn generate() -> Self {
        static GENERATOR: Uuid7Generator = Uuid7Generator::new();
        GENERATOR.generate()
    }
}

/// Generates keys with a [`UlidGenerator`]. If the random component overflows, it continues with the next
/// millisecond.
impl Generate for Ulid {
    fn generate() -> Self {
        static GENERATOR: UlidGenerator = UlidGenerator::new();
        GENERATOR.generate_or_next_milli()
    }
}

/// Generates keys with a [`StructuredKeyGenerator`]. A database sequence is better.
impl Generate for StructuredKey {
    fn generate() -> Self {
        static GENERATOR: StructuredKeyGenerator = StructuredKeyGenerator::new();
        GENERATOR.generate()
    }
}
