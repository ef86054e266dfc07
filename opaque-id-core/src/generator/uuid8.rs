use uuid::Uuid;

use super::clock::{Clock, SystemClock};
use super::sequencer::{OnOverflow, Sequencer, Start, Step, Tails};
use crate::error::KeyError;
use crate::layout::Uuid8Layout;
use crate::random::{Random, SystemRandom};

/// A generator of UUIDv8s in a [`Uuid8Layout`]. Each key is greater than all earlier keys of the generator in
/// any thread.
///
/// The clock sequence counts the keys of one timestamp from zero (the draft's section 4.5.2). If the clock is
/// set back, keys keep the last timestamp. If the sequence is exhausted, `generate` fails until the clock
/// advances.
#[derive(Debug)]
pub struct Uuid8Generator<C = SystemClock, R = SystemRandom> {
    layout: Uuid8Layout,
    sequencer: Sequencer,
    clock: C,
    random: R,
}

impl Uuid8Generator {
    /// Creates a generator that reads the system's clock.
    #[must_use]
    pub const fn new(layout: Uuid8Layout) -> Self {
        Self::with(layout, SystemClock, SystemRandom)
    }
}

impl<C, R> Uuid8Generator<C, R> {
    /// Creates a generator with the caller's clock and randomness.
    #[must_use]
    pub const fn with(layout: Uuid8Layout, clock: C, random: R) -> Self {
        Self { layout, sequencer: Sequencer::new(), clock, random }
    }
}

impl<C: Clock, R: Random> Uuid8Generator<C, R> {
    /// Generates a key.
    ///
    /// # Errors
    /// [`KeyError::Exhausted`] if the timestamp already has 4,096 keys (in layouts of 32 and 48 bits) or 256
    /// keys (60 and 64 bits), and the clock has not passed it.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn generate(&self) -> Result<Uuid, KeyError> {
        let tails = Tails {
            bits: self.layout.sequence_bits(),
            start: Start::Zero,
            step: Step::One,
            overflow: OnOverflow::Refuse,
        };
        let time = self.layout.ticks.at(self.clock.since_1970());
        let (time, sequence) = self
            .sequencer
            .in_line(time, tails, &self.random)
            .map_err(|_| KeyError::Exhausted { kind: "UUIDv8" })?;
        let sequence = u64::try_from(sequence).expect("12 bits");
        Ok(self.layout.assemble(time, sequence, self.random.next_u64()))
    }
}
