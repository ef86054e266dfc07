use super::clock::{Clock, SystemClock};
use super::sequencer::{Counter, Sequencer};
use crate::error::{Invalid, KeyError};
use crate::fork::Guard;
use crate::layout::Int64Layout;
use crate::random::{Random, SystemRandom};

/// A generator of 64-bit ids in an [`Int64Layout`], without a coordinator. Each id is greater than all
/// earlier ids of the generator in any thread.
///
/// Each running process needs its own node number. The counter starts in each second at a random place in the
/// lower half of its range. So a process that is restarted within a second, or a forked child with its
/// parent's number, repeats an id only if two random starts are no further apart than the ids of that second.
/// Ids run at most one second ahead of the clock. If the clock is set back further, `generate` fails until
/// the clock catches up.
#[derive(Debug)]
pub struct Int64Generator<C = SystemClock, R = SystemRandom> {
    layout: Int64Layout,
    node: u32,
    sequencer: Sequencer,
    guard: Guard,
    clock: C,
    random: R,
}

const AHEAD_SECONDS: u64 = 1;

impl Int64Generator {
    /// Creates a generator for a node that reads the system's clock.
    ///
    /// # Errors
    /// [`Invalid`] if the layout has no room for the node.
    pub fn new(layout: Int64Layout, node: u32) -> Result<Self, Invalid> {
        Self::with(layout, node, SystemClock, SystemRandom)
    }
}

impl<C, R> Int64Generator<C, R> {
    /// Creates a generator with the caller's clock and randomness.
    ///
    /// # Errors
    /// [`Invalid`] if the layout has no room for the node.
    pub fn with(layout: Int64Layout, node: u32, clock: C, random: R) -> Result<Self, Invalid> {
        if !layout.has_node(node) {
            return Err(Invalid::setting("the node number must fit the layout's node bits"));
        }
        Ok(Self { layout, node, sequencer: Sequencer::new(), guard: Guard::new(), clock, random })
    }
}

impl<C: Clock, R: Random> Int64Generator<C, R> {
    /// Generates an id. It is positive and below 2^60.
    ///
    /// # Errors
    /// [`KeyError::Exhausted`] if all ids of this second and the next are used, or if the clock was set back
    /// by more.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn generate(&self) -> Result<i64, KeyError> {
        let bits = self.layout.counter_bits();
        let counter = Counter { bits, start: self.random.next_u64() >> (u64::BITS - bits + 1) };
        if self.guard.detected_fork() {
            self.sequencer.skip_to_next(counter);
        }
        let claim = || {
            let seconds = Int64Layout::SECONDS.at(self.clock.since_1970());
            self.sequencer.claim(seconds, counter, 1, AHEAD_SECONDS)
        };
        let exhausted = || KeyError::Exhausted { kind: "64-bit id" };
        // The thread may have slept between reading the clock and the claim.
        let head = claim().or_else(claim).ok_or_else(exhausted)?;
        let counter = head & ((1 << bits) - 1);
        self.layout.assemble(head >> bits, self.node, counter).map_err(|_| exhausted())
    }
}
