use super::clock::{Clock, SystemClock};
use super::constructors;
use super::sequencer::{Counter, OnOverflow, Sequencer, Start, Step, Tails};
use crate::key::Ticks;
use crate::layout::Uuid6;
use crate::random::{Random, SystemRandom};

/// A generator of [`Uuid6`]s. Each key is greater than all earlier keys of the generator in any thread.
///
/// Clock sequence and node are random in each key (RFC 9562, section 5.6), except for the bit that marks the
/// node as not a MAC address (section 6.10). In a burst, keys run at most 10 ms ahead of the clock and then
/// their random bits grow, as with [`Uuid7Generator`](super::Uuid7Generator).
#[derive(Debug)]
pub struct Uuid6Generator<C = SystemClock, R = SystemRandom> {
    sequencer: Sequencer,
    clock: C,
    random: R,
}

const AHEAD: u64 = 100_000;

const TAILS: Tails =
    Tails { bits: 61, start: Start::LowerHalf, step: Step::Random, overflow: OnOverflow::NextHead };

/// No network card's own address sets this bit.
const MULTICAST_BIT: u32 = 40;

constructors!(Uuid6Generator);

impl<C: Clock, R: Random> Uuid6Generator<C, R> {
    /// Generates a key.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn generate(&self) -> Uuid6 {
        let time = Ticks::GREGORIAN.at(self.clock.since_1970());
        let (time, tail) = match self.sequencer.claim(time, Counter::NONE, 1, AHEAD) {
            Some(time) => (time, self.random.next_u64() >> (u64::BITS - TAILS.bits)),
            None => {
                let (time, tail) = self
                    .sequencer
                    .in_line(time, TAILS, &self.random)
                    .expect("the next head is taken on overflow");
                (time, u64::try_from(tail).expect("61 bits"))
            }
        };
        // The tail goes around this bit, so that keys keep their order.
        let low = tail & ((1 << MULTICAST_BIT) - 1);
        let tail = tail >> MULTICAST_BIT << (MULTICAST_BIT + 1) | 1 << MULTICAST_BIT | low;
        let clock_sequence = u16::try_from(tail >> 48).expect("14 bits");
        Uuid6::from_parts(time, clock_sequence, tail)
    }
}
