//! Counts of opened ids. An atomic addition to a shared counter would cost half as much as opening an id, and make threads wait for
//! each other.

use std::sync::atomic::{AtomicU64, Ordering};

use thread_local::ThreadLocal;

use super::KeyId;

/// Counts of opened ids, by key id.
///
/// Each thread has its own cell, so that counting needs neither a lock nor a locked instruction. A reader adds up
/// the cells.
#[derive(Default)]
pub(super) struct Opened(ThreadLocal<Cell>);

/// Aligned to a pair of cache lines, so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Cell([[AtomicU64; 4]; 3]);

/// The events that are counted.
#[derive(Clone, Copy)]
pub(super) enum Count {
    /// Ids with a tag that was right.
    Authenticated,
    /// Ids without a tag, which may be made up.
    Unauthenticated,
    /// Those of them whose row the application has found.
    Confirmed,
}

impl Opened {
    #[inline]
    pub(super) fn count(&self, what: Count, key_id: KeyId) {
        let cell = self.0.get().unwrap_or_else(|| self.first());
        let counter = &cell.0[what as usize][key_id.index()];
        // Only this thread writes here.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Creates the thread's cell: out of line, as its alignment would cost each caller a frame of its own.
    #[cold]
    #[inline(never)]
    fn first(&self) -> &Cell {
        self.0.get_or_default()
    }

    pub(super) fn get(&self, what: Count, key_id: KeyId) -> u64 {
        let cells = self.0.iter();
        let counters = cells.map(|cell| &cell.0[what as usize][key_id.index()]);
        counters.map(|counter| counter.load(Ordering::Relaxed)).sum()
    }
}
