//! What a client remembers: decoded packs, and the versions that it has seen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::format::Pack;

/// How many packs' versions a client remembers, to notice a server that shows an older one.
const SEEN: usize = 1 << 16;

/// What a row costs besides its value.
const ROW: usize = size_of::<(u128, Vec<u8>)>() + 16;

/// The versions that a client has seen.
pub(crate) struct Seen(Mutex<quick_cache::unsync::Cache<u128, (i64, Instant)>>);

impl Seen {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(quick_cache::unsync::Cache::new(SEEN)))
    }

    /// Remembers a version, and returns a later one that was seen before the call of this one began: answers may overtake one
    /// another.
    pub(crate) fn newer(&self, id: u128, version: i64, began: Instant) -> Option<i64> {
        let mut versions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match versions.get(&id).copied() {
            Some((seen, at)) if seen > version => (at <= began).then_some(seen),
            Some((seen, _)) if seen == version => None,
            _ => {
                versions.insert(id, (version, Instant::now()));
                None
            }
        }
    }
}

/// Decoded packs, up to a number of bytes.
pub(crate) struct Cache {
    packs: QuickCache<u128, Cached, Bytes, DefaultHashBuilder, Forget>,
    ids: Arc<Ids>,
}

/// A pack and its version.
pub(crate) type Cached = (i64, Arc<Pack>);

/// The ids of the packs in the cache, in order: the pack of a key is the one with the greatest id that is not above it.
#[derive(Default)]
struct Ids(Mutex<BTreeSet<u128>>);

impl Ids {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<u128>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone)]
struct Bytes;

impl Weighter<u128, Cached> for Bytes {
    fn weight(&self, _: &u128, (_, pack): &Cached) -> u64 {
        let rows = pack.rows.iter().map(|(_, value)| value.len() + ROW);
        (rows.sum::<usize>() + ROW) as u64
    }
}

/// Forgets the id of a pack that is evicted.
#[derive(Clone)]
struct Forget(Arc<Ids>);

impl Lifecycle<u128, Cached> for Forget {
    type RequestState = ();

    fn on_evict(&self, (): &mut (), id: u128, _: Cached) {
        self.0.lock().remove(&id);
    }
}

impl Cache {
    pub(crate) fn new(bytes: u64) -> Self {
        let ids = Arc::<Ids>::default();
        // Packs of some 4 kB.
        let expected = usize::try_from(bytes / 4_096).unwrap_or(usize::MAX);
        let forget = Forget(Arc::clone(&ids));
        Self {
            packs: QuickCache::with(expected, bytes, Bytes, DefaultHashBuilder::default(), forget),
            ids,
        }
    }

    /// Returns the pack that has a key, if it has not changed since.
    pub(crate) fn pack_of(&self, key: u128) -> Option<Cached> {
        let id = *self.ids.lock().range(..=key).next_back()?;
        let cached = self.packs.get(&id)?;
        let has_key = cached.1.end.is_none_or(|end| key < end);
        has_key.then_some(cached)
    }

    /// Keeps a pack, unless a later version is there.
    pub(crate) fn insert(&self, version: i64, pack: &Arc<Pack>) {
        if self.packs.peek(&pack.id).is_none_or(|(known, _)| known < version) {
            // Afterwards: a pack that is replaced is evicted, and its id with it.
            self.packs.insert(pack.id, (version, Arc::clone(pack)));
            self.ids.lock().insert(pack.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pack_that_was_replaced_is_in_the_cache() {
        let cache = Cache::new(1 << 20);
        let pack = Arc::new(Pack { id: 7, end: None, rows: vec![(9, b"Ada".to_vec())] });
        for version in 1..4 {
            cache.insert(version, &pack);
            let cached = cache.pack_of(9).map(|(version, _)| version);
            assert_eq!(cached, Some(version));
        }
    }
}
