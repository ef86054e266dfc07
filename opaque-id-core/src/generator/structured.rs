use super::clock::{Clock, SystemClock};
use super::constructors;
use super::sequencer::{Counter, Sequencer};
use crate::key::{StructuredKey, Ticks};
use crate::random::{Random, SystemRandom};

/// A generator of [`StructuredKey`]s from the clock. Each key has a greater sequence than all earlier keys of
/// the generator in any thread.
///
/// The sequence is the time in steps of 2^-28 seconds (3.7 ns) since 1970. Its 60 bits last until 2106. Each
/// nonce is random because the uuid form requires it. If the clock stops or was set back, each key runs one step
/// further ahead without a limit: a million keys take 3.7 ms. If you have a database sequence, use
/// [`StructuredKey::with_sequence`] or an adapter's `Sequence` instead.
#[derive(Debug)]
pub struct StructuredKeyGenerator<C = SystemClock, R = SystemRandom> {
    sequencer: Sequencer,
    clock: C,
    random: R,
}

constructors!(StructuredKeyGenerator);

impl<C: Clock, R: Random> StructuredKeyGenerator<C, R> {
    /// Generates a key.
    ///
    /// # Panics
    /// If the operating system's random number generator fails, and after the year 2106.
    #[must_use]
    pub fn generate(&self) -> StructuredKey {
        let time = Ticks::unix(60, 1 << 28).at(self.clock.since_1970());
        let sequence = self.sequencer.claim(time, Counter::NONE, 1, u64::MAX / 2);
        StructuredKey::from_parts(sequence.expect("no limit"), self.random.next_u64())
            .expect("the clock is not past the year 2106")
    }
}
