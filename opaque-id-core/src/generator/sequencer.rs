//! The order of a generator's keys, without a lock in the common case.
//!
//! A generator that blocks until the clock advances would stop if the clock is set back. Without a limit, a
//! hot loop would run ever further ahead. So a key claims a clock tick by one atomic operation as long as the
//! tick is at most 10 ms ahead. Beyond that, keys share one more tick and increase in the bits that are
//! otherwise random. Formats without such bits (the draft's UUIDv8, 64-bit ids) report that they are exhausted,
//! and so do ULIDs if these bits overflow.

use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::fork::Guard;
use crate::random::Random;

/// The order of a generator's keys. A *head* is the time and in some kinds a counter, and a *tail* the
/// further ordered bits.
///
/// While the clock keeps up, each key [claims](Self::claim) its own head and draws a random tail. Otherwise
/// keys [queue](Self::in_line) under one head with growing tails.
pub(super) struct Sequencer {
    head: AtomicU64,
    line: Mutex<Option<Line>>,
}

struct Line {
    head: u64,
    tail: u128,
    guard: Guard,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) bits: u32,
    pub(super) start: u64,
}

impl Counter {
    pub(super) const NONE: Self = Self { bits: 0, start: 0 };
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Tails {
    pub(super) bits: u32,
    pub(super) start: Start,
    pub(super) step: Step,
    pub(super) overflow: OnOverflow,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Start {
    Zero,
    Random,
    /// At least half of all tails remain after it.
    LowerHalf,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    One,
    /// A step of 1 to 2^32, so that a key does not reveal the next one.
    Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OnOverflow {
    Refuse,
    NextHead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overflow;

impl Sequencer {
    pub(super) const fn new() -> Self {
        Self { head: AtomicU64::new(0), line: Mutex::new(None) }
    }

    /// Claims `count` consecutive new heads and returns the first. Returns `None` if the last would be more
    /// than `ahead` steps of time ahead of the clock.
    #[inline]
    pub(super) fn claim(&self, time: u64, counter: Counter, count: u64, ahead: u64) -> Option<u64> {
        let Counter { bits, start } = counter;
        let limit = (time.saturating_add(ahead) << bits) + (1 << bits) - 1;
        let mut last = self.head.load(Ordering::Relaxed);
        loop {
            let first = if time > last >> bits { time << bits | start } else { last + 1 };
            let end = first.saturating_add(count - 1);
            if end > limit {
                return None;
            }
            let claimed =
                self.head.compare_exchange_weak(last, end, Ordering::Relaxed, Ordering::Relaxed);
            match claimed {
                Ok(_) => return Some(first),
                Err(newer) => last = newer,
            }
        }
    }

    /// Returns one more tail under the line's head if no later head exists and the clock has not passed it,
    /// and otherwise a new head.
    pub(super) fn in_line(
        &self,
        time: u64,
        tails: Tails,
        random: &impl Random,
    ) -> Result<(u64, u128), Overflow> {
        let mut key = Err(Overflow);
        self.all_in_line(time, tails, 1, random, |head, tail| key = Ok((head, tail)))?;
        key
    }

    /// Takes one lock for many keys.
    pub(super) fn all_in_line(
        &self,
        now: u64,
        tails: Tails,
        count: usize,
        random: &impl Random,
        mut each: impl FnMut(u64, u128),
    ) -> Result<(), Overflow> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        let line = line.get_or_insert_with(|| Line { head: 0, tail: 0, guard: Guard::new() });
        if line.guard.detected_fork() {
            // The parent continues this line.
            line.head = 0;
        }
        for _ in 0..count {
            let last = self.head.load(Ordering::Relaxed);
            let is_in_line = line.head == last && last != 0 && now <= last;
            let next = is_in_line.then(|| tails.next(line.tail, random)).flatten();
            match next {
                Some(tail) => line.tail = tail,
                None if is_in_line && tails.overflow == OnOverflow::Refuse => {
                    return Err(Overflow);
                }
                None => {
                    line.head = self.claim_next(now);
                    line.tail = tails.first(random);
                }
            }
            each(line.head, line.tail);
        }
        Ok(())
    }

    /// Skips the rest of the last head's time, because other processes may use it.
    pub(super) fn skip_to_next(&self, counter: Counter) {
        self.update(|last| ((last >> counter.bits) + 1) << counter.bits | counter.start);
    }

    fn claim_next(&self, now: u64) -> u64 {
        let next = |last: u64| now.max(last + 1);
        next(self.update(next))
    }

    fn update(&self, next: impl Fn(u64) -> u64) -> u64 {
        let update = |last| Some(next(last));
        self.head
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, update)
            .expect("there is always a next one")
    }
}

impl fmt::Debug for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sequencer(..)")
    }
}

impl Tails {
    fn first(self, random: &impl Random) -> u128 {
        let any = || u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        match self.start {
            Start::Zero => 0,
            Start::Random => any() >> (u128::BITS - self.bits),
            Start::LowerHalf => any() >> (u128::BITS - self.bits + 1),
        }
    }

    fn next(self, tail: u128, random: &impl Random) -> Option<u128> {
        let step = match self.step {
            Step::One => 1,
            Step::Random => u128::from(random.next_u64() >> 32) + 1,
        };
        let next = tail + step;
        (next >> self.bits == 0).then_some(next)
    }
}
