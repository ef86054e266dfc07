//! What a client remembers: decoded packs, and the versions that it has seen.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::format::{Kind, Pack};

/// How many states a client remembers, to notice a server that shows an older one.
const SEEN: usize = 1 << 16;

/// What a row costs besides its value.
const ROW: usize = size_of::<(u128, Vec<u8>)>() + 16;

/// For how long a server must show an older state until it is believed.
const PATIENCE: Duration = Duration::from_secs(60);

/// The latest states that a client has seen, as how often each pack and the settings had been replaced.
pub(crate) struct Seen {
    states: Mutex<quick_cache::unsync::Cache<(Kind, u128), State>>,
    patience: Duration,
}

#[derive(Clone, Copy)]
struct State {
    count: i64,
    at: Instant,
    /// An older one, and since when the server shows none that is older still.
    older: Option<(i64, Instant)>,
}

impl Seen {
    pub(crate) fn new() -> Self {
        Self { states: Mutex::new(quick_cache::unsync::Cache::new(SEEN)), patience: PATIENCE }
    }

    /// Remembers a state, and returns a later one that was seen before the call of this one began: answers may overtake one
    /// another. A server that has shown nothing later for a minute was restored, has failed over or crashed: then the state is the latest.
    pub(crate) fn later(&self, place: (Kind, u128), count: i64, began: Instant) -> Option<i64> {
        let now = Instant::now();
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State { count, at: now, older: None };
        let mut later = None;
        if let Some(seen) = states.get(&place).copied()
            && count <= seen.count
        {
            state = seen;
            if count == seen.count {
                state.older = None;
            } else if seen.at <= began {
                let older = seen.older.filter(|(older, _)| *older <= count);
                let (_, since) = *state.older.insert(older.unwrap_or((count, now)));
                match now.duration_since(since) < self.patience {
                    true => later = Some(seen.count),
                    false => state = State { count, at: now, older: None },
                }
            }
        }
        states.insert(place, state);
        later
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

    /// Forgets all packs.
    pub(crate) fn clear(&self) {
        self.packs.clear();
        self.ids.lock().clear();
    }

    /// Keeps a pack.
    pub(crate) fn insert(&self, version: i64, pack: &Arc<Pack>) {
        if self.packs.peek(&pack.id).is_none_or(|(known, _)| known != version) {
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
    fn an_older_state_is_refused_until_it_lasts() {
        let place = (Kind::Pack, 7);
        let mut seen = Seen::new();
        let later = |seen: &Seen, count| seen.later(place, count, Instant::now());
        let before = Instant::now();
        assert_eq!((later(&seen, 5), later(&seen, 6), later(&seen, 6)), (None, None, None));
        // An answer that was overtaken.
        assert_eq!(seen.later(place, 5, before), None);
        assert_eq!((later(&seen, 5), later(&seen, 4)), (Some(6), Some(6)));
        // Another place, and one that is as it was.
        assert_eq!((seen.later((Kind::Settings, 7), 1, before), later(&seen, 6)), (None, None));
        seen.patience = Duration::ZERO;
        assert_eq!((later(&seen, 5), later(&seen, 5)), (None, None));
        seen.patience = PATIENCE;
        assert_eq!((later(&seen, 4), later(&seen, 6)), (Some(5), None));
        // Each older one has a minute of its own.
        let older =
            |seen: &Seen| seen.states.lock().expect("no panic").get(&place).map(|it| it.older);
        let mut since = Vec::new();
        for count in [4, 5, 3, 4] {
            assert_eq!(later(&seen, count), Some(6));
            since.push(older(&seen).flatten().expect("an older one"));
        }
        assert_eq!((since[0], since[2]), (since[1], since[3]));
        assert!(since[0].1 < since[2].1);
    }

    #[test]
    fn a_pack_that_was_replaced_is_in_the_cache() {
        let cache = Cache::new(1 << 20);
        let pack = Arc::new(Pack { id: 7, end: None, rows: vec![(9, b"Ada".to_vec().into())] });
        for version in 1..4 {
            cache.insert(version, &pack);
            let cached = cache.pack_of(9).map(|(version, _)| version);
            assert_eq!(cached, Some(version));
        }
    }
}
