use super::clock::{Clock, SystemClock};
use super::sequencer::{Counter, Sequencer};
use crate::error::GenerateError;
use crate::fork::Guard;
use crate::layout::Int64Layout;
use crate::random::{Random, SystemRandom};

/// Makes 64-bit ids without a coordinator, laid out as an [`Int64Layout`], each greater than all that it has
/// made before, in whichever thread.
///
/// That no id is made twice rests on each running process having a node number of its own: a machine's or
/// a worker's, from the deployment. The counter starts anew in each second, at random in the lower half of
/// its range, so that a process that is started again within a second, or a forked child that goes on with its
/// parent's number, makes an id twice only if two random starts lie within as many ids as were made in that
/// second. Ids run ahead of the clock by at most one second; when it is set back further, there are none to
/// have until it has caught up.
///
/// ```
/// use opaque_id_core::generator::Int64Generator;
/// use opaque_id_core::layout::Int64Layout;
/// use opaque_id_core::{Internal, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "event", key = i64)]
/// struct Event;
///
/// let ids = Int64Generator::new(Int64Layout::with_node_bits(10)?, 512)?;
/// let id = Internal::<Event>::from_key(ids.generate()?)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// A generator by the system's clock, with the number of its node.
    ///
    /// # Errors
    /// [`GenerateError::Setting`] if the layout's bits have no room for the number.
    pub fn new(layout: Int64Layout, node: u32) -> Result<Self, GenerateError> {
        Self::with(layout, node, SystemClock, SystemRandom)
    }
}

impl<C, R> Int64Generator<C, R> {
    /// With a clock and randomness of the caller's.
    ///
    /// # Errors
    /// [`GenerateError::Setting`] if the layout's bits have no room for the number.
    pub fn with(
        layout: Int64Layout,
        node: u32,
        clock: C,
        random: R,
    ) -> Result<Self, GenerateError> {
        if !layout.has_node(node) {
            return Err(GenerateError::Setting {
                rule: "the node number must fit the layout's node bits",
            });
        }
        Ok(Self {
            layout,
            node,
            sequencer: Sequencer::new(),
            guard: Guard::new(),
            clock,
            random,
        })
    }
}

impl<C: Clock, R: Random> Int64Generator<C, R> {
    /// A fresh id, positive and below 2^60.
    ///
    /// # Errors
    /// [`GenerateError::Exhausted`] if all ids of this second and the next are used up, or the clock was
    /// set back by more.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    pub fn generate(&self) -> Result<i64, GenerateError> {
        let bits = self.layout.counter_bits();
        let counter = Counter {
            bits,
            start: self.random.next_u64() >> (u64::BITS - bits + 1),
        };
        if self.guard.detected_fork() {
            self.sequencer.skip_to_next(counter);
        }
        let claim = || {
            let seconds = Int64Layout::ticks().at(self.clock.since_1970());
            self.sequencer.claim(seconds, counter, 1, AHEAD_SECONDS)
        };
        let exhausted = GenerateError::Exhausted { kind: "64-bit id" };
        // Again, as this thread may have slept between its reading of the clock and the claim.
        let head = claim().or_else(claim).ok_or(exhausted)?;
        let counter = head & ((1 << bits) - 1);
        self.layout
            .assemble(head >> bits, self.node, counter)
            .map_err(|_| exhausted)
    }
}
