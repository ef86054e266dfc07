//! Counts of opened ids. An atomic addition to a shared counter would cost half as much as opening an id.

use std::sync::atomic::{AtomicU64, Ordering};

use thread_local::ThreadLocal;

use super::KeyId;

/// Each thread has its own cell, so counting needs neither a lock nor a locked instruction.
#[derive(Default)]
pub(super) struct Opened(ThreadLocal<Cell>);

/// A pair of cache lines, so that threads do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Cell([[AtomicU64; 4]; 3]);

#[derive(Clone, Copy)]
pub(super) enum Count {
    Authenticated,
    Unauthenticated,
    /// An id without a tag and with a row.
    Confirmed,
}

impl Opened {
    #[inline]
    pub(super) fn count(&self, what: Count, key_id: KeyId) {
        let cell = self.0.get().unwrap_or_else(|| self.first());
        let counter = &cell.0[what as usize][key_id.index()];
        // Only this thread writes to its cell.
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Is out of line because the cell's alignment would cost each caller its own frame.
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
