use super::clock::{Clock, SystemClock};
use super::constructors;
use super::sequencer::{OnOverflow, Overflow, Sequencer, Start, Step, Tails};
use crate::error::KeyError;
use crate::key::{Ticks, Ulid};
use crate::random::{Random, SystemRandom};

/// A generator of [`Ulid`]s. A monotonic key is greater than all earlier monotonic keys of the generator in
/// any thread.
///
/// Monotonic keys follow [the spec](https://github.com/ulid/spec#monotonicity): within a millisecond, and
/// while the clock is behind, the random component grows by one. If it overflows, `generate` fails until the
/// clock advances. So a key reveals the next key of its millisecond. If you show raw keys, use
/// [`generate_random`](Self::generate_random).
#[derive(Debug)]
pub struct UlidGenerator<C = SystemClock, R = SystemRandom> {
    sequencer: Sequencer,
    clock: C,
    random: R,
}

const TAILS: Tails =
    Tails { bits: 80, start: Start::Random, step: Step::One, overflow: OnOverflow::Refuse };

constructors!(UlidGenerator);

impl<C: Clock, R: Random> UlidGenerator<C, R> {
    /// Generates a key that is greater than the last one.
    ///
    /// # Errors
    /// [`KeyError::Exhausted`] if the random component has overflowed within its millisecond. With `n` keys
    /// per millisecond, this happens once in 2^80 / `n` milliseconds.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn generate(&self) -> Result<Ulid, KeyError> {
        self.next(TAILS).map_err(|_| KeyError::Exhausted { kind: "ULID" })
    }

    /// Generates a key with 80 random bits and without an order within its millisecond.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn generate_random(&self) -> Ulid {
        let random = || u128::from(self.random.next_u64());
        Ulid::from_parts(self.millis(), random() << 64 | random())
    }

    pub(super) fn generate_or_next_milli(&self) -> Ulid {
        self.next(Tails { overflow: OnOverflow::NextHead, ..TAILS })
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
