use uuid::Uuid;

use super::clock::{Clock, SystemClock};
use super::sequencer::{OnOverflow, Sequencer, Start, Step, Tails};
use crate::error::GenerateError;
use crate::layout::Uuid8Layout;
use crate::random::{Random, SystemRandom};

/// Makes UUIDv8s of a [`Uuid8Layout`], each greater than all that it has made before, in whichever thread.
///
/// As the draft has it (section 4.5.2), the clock sequence counts the keys of one timestamp from zero. When
/// the clock is set back, keys keep the last timestamp; when the sequence is used up, there is none to
/// have until the clock has moved on.
///
/// ```
/// use opaque_id_core::layout::Uuid8Layout;
/// use opaque_id_core::generator::Uuid8Generator;
///
/// let layout = Uuid8Layout::MILLIS_48;
/// let keys = Uuid8Generator::new(layout);
/// let (first, second) = (keys.generate()?, keys.generate()?);
/// assert!(first < second);
/// assert_eq!(layout.sequence(first), Ok(0));
/// # Ok::<(), opaque_id_core::generator::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct Uuid8Generator<C = SystemClock, R = SystemRandom> {
    layout: Uuid8Layout,
    sequencer: Sequencer,
    clock: C,
    random: R,
}

impl Uuid8Generator {
    /// A generator by the system's clock.
    #[must_use]
    pub const fn new(layout: Uuid8Layout) -> Self {
        Self::with(layout, SystemClock, SystemRandom)
    }
}

impl<C, R> Uuid8Generator<C, R> {
    /// With a clock and randomness of the caller's.
    #[must_use]
    pub const fn with(layout: Uuid8Layout, clock: C, random: R) -> Self {
        Self {
            layout,
            sequencer: Sequencer::new(),
            clock,
            random,
        }
    }
}

impl<C: Clock, R: Random> Uuid8Generator<C, R> {
    /// A fresh key.
    ///
    /// # Errors
    /// [`GenerateError::Exhausted`] if 4,096 keys (for layouts of 32 and 48 bits) or 256 keys (60 and 64
    /// bits) have the last timestamp already, and the clock has not passed it.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn generate(&self) -> Result<Uuid, GenerateError> {
        let tails = Tails {
            bits: self.layout.sequence_bits(),
            start: Start::Zero,
            step: Step::One,
            overflow: OnOverflow::Refuse,
        };
        let time = self.layout.ticks().at(self.clock.since_1970());
        let (time, sequence) = self
            .sequencer
            .in_line(time, tails, &self.random)
            .map_err(|_| GenerateError::Exhausted { kind: "UUIDv8" })?;
        let sequence = u64::try_from(sequence).expect("12 bits");
        Ok(self.layout.assemble(time, sequence, self.random.next_u64()))
    }
}
