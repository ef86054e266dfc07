use core::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::Cache as Entries;
use uuid::Uuid;

/// How many bits tell what was forgotten: 2 to this power.
const FORGOTTEN_BITS: u32 = 19;

/// The mappings that were used last, of those that are known to be committed.
///
/// What is forgotten is never served, however the forgetting and a reader's filling interleave, and
/// whenever the forgetting's transaction ends: it is marked in a Bloom filter of one bit an id, and what
/// is marked is neither kept nor served from then on. An unmarked id shares its bit with a forgotten one
/// once in 2^19; it is then looked up each time.
pub(super) struct Cache {
    ids: Entries<Uuid, i64>,
    uuids: Entries<i64, Uuid>,
    forgotten: Box<[AtomicU64]>,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            ids: Entries::new(capacity),
            uuids: Entries::new(capacity),
            forgotten: (0..1 << FORGOTTEN_BITS >> 6)
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    pub(super) fn insert(&self, id: i64, uuid: Uuid) {
        if !self.is_forgotten(uuid) {
            self.ids.insert(uuid, id);
            self.uuids.insert(id, uuid);
        }
    }

    pub(super) fn id(&self, uuid: Uuid) -> Option<i64> {
        let id = self.ids.get(&uuid)?;
        (!self.is_forgotten(uuid)).then_some(id)
    }

    pub(super) fn uuid(&self, id: i64) -> Option<Uuid> {
        let uuid = self.uuids.get(&id)?;
        (!self.is_forgotten(uuid)).then_some(uuid)
    }

    pub(super) fn forget(&self, uuid: Uuid) {
        let (word, bit) = place(uuid);
        self.forgotten[word].fetch_or(bit, Ordering::SeqCst);
    }

    fn is_forgotten(&self, uuid: Uuid) -> bool {
        let (word, bit) = place(uuid);
        self.forgotten[word].load(Ordering::SeqCst) & bit != 0
    }
}

fn place(uuid: Uuid) -> (usize, u64) {
    // Fibonacci hashing (Knuth, TAOCP 6.4): the top bits of a product with 2^64 over the golden ratio.
    let (high, low) = uuid.as_u64_pair();
    let mixed = (high ^ low).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bit = (mixed >> (u64::BITS - FORGOTTEN_BITS)) as usize;
    (bit / 64, 1 << (bit % 64))
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache")
            .field("len", &self.ids.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_is_not_served_even_if_a_late_reader_fills_it_in() {
        let cache = Cache::new(10);
        let uuid = Uuid::from_u128(1);
        cache.insert(7, uuid);
        assert_eq!((cache.id(uuid), cache.uuid(7)), (Some(7), Some(uuid)));
        cache.forget(uuid);
        assert_eq!((cache.id(uuid), cache.uuid(7)), (None, None));
        cache.insert(7, uuid);
        assert_eq!((cache.id(uuid), cache.uuid(7)), (None, None));
    }

    #[test]
    fn it_is_bounded() {
        let cache = Cache::new(100);
        for id in 0..10_000 {
            cache.insert(id, Uuid::from_u128(id.cast_unsigned().into()));
        }
        assert!(cache.ids.len() <= 100 && cache.uuids.len() <= 100);
    }
}
