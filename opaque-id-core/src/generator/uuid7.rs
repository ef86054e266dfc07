use super::clock::{Clock, SystemClock};
use super::sequencer::{Counter, OnOverflow, Sequencer, Start, Step, Tails};
use crate::key::{Ticks, Uuid7};
use crate::random::{Random, SystemRandom};

/// The method of a [`Uuid7Generator`] for ordering the keys of one millisecond (RFC 9562, section 6.2). It
/// fills the 74 bits after the 48-bit time.
///
/// | method | RFC | `rand_a` (12 bits) | `rand_b` (62 bits) |
/// |---|---|---|---|
/// | [`Fraction`](Self::Fraction) | 3 | fraction, steps of 244 ns | random |
/// | [`Micros`](Self::Micros) | 3 | fraction of 10 bits, steps of 0.98 µs; 2 random | random |
/// | [`Nanos`](Self::Nanos) | 3 | fraction, | 8 more of its bits, steps of 0.95 ns (until the year 2248); 54 random |
/// | [`Counter`](Self::Counter) | 1 | counter from a random start below 2,048 | random |
/// | [`MonotonicRandom`](Self::MonotonicRandom) | 2 | 74 bits, random at first, | then growing by 1 to 2^32 |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Uuid7Method {
    /// The default. The clocks of different processes order their keys down to 244 ns.
    #[default]
    Fraction,
    /// Method 3 with 10 bits.
    Micros,
    /// Method 3 with 20 bits.
    Nanos,
    /// Method 1 with 12 bits.
    Counter,
    /// Method 2. Each key takes a lock.
    MonotonicRandom,
}

impl Uuid7Method {
    const fn fraction_bits(self) -> u32 {
        match self {
            Self::Fraction => 12,
            Self::Micros => 10,
            Self::Nanos => 20,
            Self::Counter | Self::MonotonicRandom => 0,
        }
    }

    const fn counter_bits(self) -> u32 {
        match self {
            Self::Counter => COUNTER_BITS,
            _ => 0,
        }
    }

    const fn tail_bits(self) -> u32 {
        PAYLOAD_BITS - self.fraction_bits() - self.counter_bits()
    }

    const fn ticks(self) -> Ticks {
        let bits = self.fraction_bits();
        let time_bits = 48 + bits;
        // A head has 64 bits, and one stays free to count on.
        let time_bits = if time_bits < 63 { time_bits } else { 63 };
        Ticks::unix(time_bits, 1_000 << bits)
    }

    const fn tails(self) -> Tails {
        Tails {
            bits: self.tail_bits(),
            start: Start::LowerHalf,
            step: Step::Random,
            overflow: OnOverflow::NextHead,
        }
    }

    /// Only tails in a line have more than 64 bits.
    #[inline(always)]
    fn tail(self, random: u64) -> u128 {
        u128::from(random >> u64::BITS.saturating_sub(self.tail_bits()))
    }

    #[inline(always)]
    fn assemble(self, head: u64, tail: u128) -> Uuid7 {
        let head_bits = PAYLOAD_BITS - self.tail_bits();
        let payload = u128::from(head & ((1 << head_bits) - 1)) << self.tail_bits() | tail;
        #[expect(clippy::cast_possible_truncation, reason = "higher bits are ignored")]
        Uuid7::from_parts(head >> head_bits, (payload >> RAND_B_BITS) as u16, payload as u64)
    }
}

const PAYLOAD_BITS: u32 = 74;
const RAND_B_BITS: u32 = 62;
const COUNTER_BITS: u32 = 12;

const PIECE: usize = 64;

const AHEAD_MILLIS: u64 = 10;

/// A generator of [`Uuid7`]s. Each key is greater than all earlier keys of the generator in any thread.
///
/// A key reads the clock once and claims the next step of the time with one atomic operation
/// (docs/PERFORMANCE.md, *Generators*). In a burst, times run ahead of the clock by at most 10 ms (41,000
/// keys, by default). Beyond that, and while the clock is behind the last key, keys share one step and grow
/// by a random 1 to 2^32 in the bits that are otherwise random (method 2). So no key is ever repeated or out
/// of order, and no call blocks. The times then run ahead by one step each time that sharing begins, and by
/// one step per billion keys that share a step (`Nanos`: 4 million).
///
/// ```
/// use opaque_id_core::generator::Uuid7Generator;
///
/// static KEYS: Uuid7Generator = Uuid7Generator::new();
///
/// let one = KEYS.generate();
/// let many = KEYS.generate_all(1_000); // one reading of the clock, one atomic operation
/// assert!(one < many[0] && many.is_sorted_by(|a, b| a < b));
/// ```
#[derive(Debug)]
pub struct Uuid7Generator<C = SystemClock, R = SystemRandom> {
    method: Uuid7Method,
    sequencer: Sequencer,
    clock: C,
    random: R,
}

impl Uuid7Generator {
    /// Creates a generator with the default method.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_method(Uuid7Method::Fraction)
    }

    /// Creates a generator with another method.
    #[must_use]
    pub const fn with_method(method: Uuid7Method) -> Self {
        Self::with(method, SystemClock, SystemRandom)
    }
}

impl Default for Uuid7Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl<C, R> Uuid7Generator<C, R> {
    /// Creates a generator with the caller's clock and randomness.
    #[must_use]
    pub const fn with(method: Uuid7Method, clock: C, random: R) -> Self {
        Self { method, sequencer: Sequencer::new(), clock, random }
    }
}

impl<C: Clock, R: Random> Uuid7Generator<C, R> {
    /// Generates a key.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    #[inline]
    pub fn generate(&self) -> Uuid7 {
        // A constant method lets the compiler know the default's layout.
        match self.method {
            Uuid7Method::Fraction => self.generate_by(Uuid7Method::Fraction),
            method => self.generate_by(method),
        }
    }

    /// Generates `count` keys in order. It reads the clock once, and takes a lock only if the next 10 ms have
    /// no room for all keys, or with `MonotonicRandom`.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn generate_all(&self, count: usize) -> Vec<Uuid7> {
        match self.method {
            Uuid7Method::Fraction => self.generate_all_by(Uuid7Method::Fraction, count),
            method => self.generate_all_by(method, count),
        }
    }

    #[inline(always)]
    fn generate_by(&self, method: Uuid7Method) -> Uuid7 {
        let time = method.ticks().at(self.clock.since_1970());
        match self.claim(method, time, 1) {
            Some(head) => method.assemble(head, method.tail(self.random.next_u64())),
            None => self.one_in_line(time),
        }
    }

    #[inline(always)]
    fn generate_all_by(&self, method: Uuid7Method, count: usize) -> Vec<Uuid7> {
        let mut keys = Vec::with_capacity(count);
        if count == 0 {
            return keys;
        }
        let time = method.ticks().at(self.clock.since_1970());
        let Some(first) = self.claim(method, time, count as u64) else {
            self.in_line(time, count, |key| keys.push(key));
            return keys;
        };
        // One request for many random numbers costs as much as one for one.
        let mut bytes = [0; 8 * PIECE];
        let mut heads = first..;
        while keys.len() < count {
            let bytes = &mut bytes[..8 * PIECE.min(count - keys.len())];
            self.random.fill(bytes);
            let random = bytes.as_chunks().0.iter().copied().map(u64::from_le_bytes);
            let fresh = random.zip(heads.by_ref());
            keys.extend(fresh.map(|(random, head)| method.assemble(head, method.tail(random))));
        }
        keys
    }

    #[inline(always)]
    fn claim(&self, method: Uuid7Method, time: u64, count: u64) -> Option<u64> {
        let (counter, ahead) = match method {
            Uuid7Method::MonotonicRandom => return None,
            Uuid7Method::Counter => (
                Counter {
                    bits: COUNTER_BITS,
                    // The top bit is clear so that the counter can grow.
                    start: self.random.next_u64() >> (u64::BITS - COUNTER_BITS + 1),
                },
                // The counter of one more millisecond is used as a whole.
                AHEAD_MILLIS - 1,
            ),
            _ => (Counter::NONE, AHEAD_MILLIS << method.fraction_bits()),
        };
        self.sequencer.claim(time, counter, count, ahead)
    }

    #[cold]
    fn one_in_line(&self, time: u64) -> Uuid7 {
        let method = self.method;
        let now = time << method.counter_bits();
        let (head, tail) = self
            .sequencer
            .in_line(now, method.tails(), &self.random)
            .expect("the next head is taken on overflow");
        method.assemble(head, tail)
    }

    #[cold]
    fn in_line(&self, time: u64, count: usize, mut each: impl FnMut(Uuid7)) {
        let method = self.method;
        let now = time << method.counter_bits();
        let each = |head, tail| each(method.assemble(head, tail));
        self.sequencer
            .all_in_line(now, method.tails(), count, &self.random, each)
            .expect("the next head is taken on overflow");
    }
}
