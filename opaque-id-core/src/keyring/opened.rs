use std::sync::atomic::{AtomicU64, Ordering};

use thread_local::ThreadLocal;

use super::KeyId;

/// How many ids were opened, by key id.
///
/// Each thread counts in a cell of its own, so that counting takes neither a lock nor a locked
/// instruction; a reader adds the cells up.
#[derive(Default)]
pub(super) struct Opened(ThreadLocal<Cell>);

/// A pair of cache lines to itself, lest threads slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Cell([AtomicU64; 4]);

impl Opened {
    #[inline]
    pub(super) fn count(&self, key_id: KeyId, ids: u64) {
        let counter = &self.0.get_or_default().0[key_id.index()];
        // Only this thread writes here.
        counter.store(counter.load(Ordering::Relaxed) + ids, Ordering::Relaxed);
    }

    pub(super) fn get(&self, key_id: KeyId) -> u64 {
        self.0
            .iter()
            .map(|cell| cell.0[key_id.index()].load(Ordering::Relaxed))
            .sum()
    }
}
