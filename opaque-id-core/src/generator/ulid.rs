use super::clock::{Clock, SystemClock};
use super::sequencer::{OnOverflow, Overflow, Sequencer, Start, Step, Tails};
use crate::error::GenerateError;
use crate::key::{Ticks, Ulid};
use crate::random::{Random, SystemRandom};

/// Makes [`Ulid`]s: monotonic ones, each greater than all that it has made before, in whichever thread, or
/// random ones.
///
/// Monotonic as [the spec](https://github.com/ulid/spec#monotonicity) says: within a millisecond, and while
/// a clock that was set back is behind the last key, the random component grows by one; when that overflows,
/// there is none to have until the clock has moved on. So the next key of a millisecond is known from the
/// last: where raw keys are shown, take random ones.
///
/// ```
/// use opaque_id_core::generator::UlidGenerator;
///
/// static KEYS: UlidGenerator = UlidGenerator::new();
///
/// let (first, second) = (KEYS.generate()?, KEYS.generate()?);
/// assert!(first < second);
/// assert_ne!(KEYS.generate_random(), KEYS.generate_random());
/// # Ok::<(), opaque_id_core::generator::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct UlidGenerator<C = SystemClock, R = SystemRandom> {
    sequencer: Sequencer,
    clock: C,
    random: R,
}

const TAILS: Tails = Tails {
    bits: 80,
    start: Start::Random,
    step: Step::One,
    overflow: OnOverflow::Refuse,
};

impl UlidGenerator {
    /// A generator by the system's clock.
    #[must_use]
    pub const fn new() -> Self {
        Self::with(SystemClock, SystemRandom)
    }
}

impl Default for UlidGenerator {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, R> UlidGenerator<C, R> {
    /// With a clock and randomness of the caller's.
    #[must_use]
    pub const fn with(clock: C, random: R) -> Self {
        Self {
            sequencer: Sequencer::new(),
            clock,
            random,
        }
    }
}

impl<C: Clock, R: Random> UlidGenerator<C, R> {
    /// A fresh key, greater than the last.
    ///
    /// # Errors
    /// [`GenerateError::Exhausted`] if the random component has overflowed within its millisecond, which
    /// happens once in 2^80 milliseconds, divided by the number of keys in each.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn generate(&self) -> Result<Ulid, GenerateError> {
        self.next(TAILS)
            .map_err(|_| GenerateError::Exhausted { kind: "ULID" })
    }

    /// A fresh key, with 80 random bits, in no order within its millisecond. In a range of times these and
    /// the monotonic ones are found alike.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate_random(&self) -> Ulid {
        let random = || u128::from(self.random.next_u64());
        Ulid::from_parts(self.millis(), random() << 64 | random())
    }

    /// For [`Generate`](super::Generate), which does not fail.
    pub(super) fn generate_or_next_milli(&self) -> Ulid {
        self.next(Tails {
            overflow: OnOverflow::NextHead,
            ..TAILS
        })
        .expect("the next head is taken on overflow")
    }

    fn next(&self, tails: Tails) -> Result<Ulid, Overflow> {
        let (millis, random) = self.sequencer.in_line(self.millis(), tails, &self.random)?;
        Ok(Ulid::from_parts(millis, random))
    }

    fn millis(&self) -> u64 {
        Ticks::MILLIS.at(self.clock.since_1970())
    }
}
