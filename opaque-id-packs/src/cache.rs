//! A client's memory: decoded packs, the versions that it has seen, and the age of unmerged rows.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::format::{Kind, Pack};

/// The number of states that a client remembers, to notice a server that shows an older one.
const SEEN: usize = 1 << 16;

/// The memory of a row besides its value.
const ROW: usize = size_of::<(u128, Vec<u8>)>() + 16;

/// The time after which an older state of the server is accepted.
const PATIENCE: Duration = Duration::from_secs(60);

/// The latest states that a client has seen, as the number of replacements of each pack and of the settings.
pub(crate) struct SeenVersions {
    states: Mutex<States>,
    patience: Duration,
}

struct States {
    latest: quick_cache::unsync::Cache<(Kind, u128), State>,
    /// The time of the first older state that no earlier doubt explains.
    doubted: Option<Instant>,
}

#[derive(Clone, Copy)]
struct State {
    count: i64,
    at: Instant,
    /// An older state, and the time since the server has shown none older.
    older: Option<(i64, Instant)>,
}

impl SeenVersions {
    pub(crate) fn new() -> Self {
        let latest = quick_cache::unsync::Cache::new(SEEN);
        Self { states: Mutex::new(States { latest, doubted: None }), patience: PATIENCE }
    }

    /// Records a state. Returns a later state if this process had seen that one before the call began.
    ///
    /// Answers may overtake one another, so states that were seen after the call began do not count. A server that shows an older state was
    /// restored, has failed over or has crashed. If it shows nothing later for a minute, the older state becomes the latest. From then on
    /// the older states of other places are accepted too, each after one refusal.
    pub(crate) fn later(&self, place: (Kind, u128), count: i64, began: Instant) -> Option<i64> {
        let now = Instant::now();
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = State { count, at: now, older: None };
        let mut later = None;
        if let Some(seen) = states.latest.get(&place).copied()
            && count <= seen.count
        {
            let older = seen.older.filter(|(older, _)| *older <= count);
            let is_believed =
                older.is_some_and(|(_, since)| now.duration_since(since) >= self.patience);
            if count == seen.count {
                state = State { older: None, ..seen };
            } else if seen.at > began {
                state = seen;
            } else if !is_believed {
                let doubted = states.doubted.filter(|at| seen.older.is_none() && seen.at < *at);
                let older = older.unwrap_or((count, doubted.unwrap_or(now)));
                if older == (count, now) {
                    states.doubted = Some(now);
                }
                state = State { older: Some(older), ..seen };
                later = Some(seen.count);
            }
        }
        states.latest.insert(place, state);
        later
    }
}

/// The age of a pack's recent rows, from the merges of this process.
#[derive(Clone, Copy)]
pub(crate) struct PackBacklog {
    pub(crate) since: Instant,
    /// The time of the last merge that looked for a deletion among the rows.
    pub(crate) unread: Instant,
    /// The time since the pack or its rows have been locked or unreadable.
    pub(crate) stuck: Option<Instant>,
}

/// The hits and misses of a table's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The number of reads of a pack that was cached in the server's version.
    pub hits: u64,
    /// The number of other reads.
    pub misses: u64,
    /// The bytes of packs that the server did not send because the cache had them.
    pub bytes_saved: u64,
}

/// Counts packs that were read, for the crate `metrics`.
#[cfg(feature = "metrics")]
pub(crate) fn record(table: &str, read: CacheStats) {
    use metrics::counter;

    let table = table.to_owned();
    counter!("opaque_id_packs_cache_hits_total", "table" => table.clone()).increment(read.hits);
    counter!("opaque_id_packs_cache_misses_total", "table" => table.clone()).increment(read.misses);
    counter!("opaque_id_packs_cache_saved_bytes_total", "table" => table)
        .increment(read.bytes_saved);
}

/// The counters that clones of a table share.
#[derive(Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    bytes_saved: AtomicU64,
}

/// Decoded packs, up to a number of bytes.
pub(crate) struct Cache {
    counters: Counters,
    packs: QuickCache<u128, Cached, Bytes, DefaultHashBuilder, Forget>,
    ids: Arc<Ids>,
}

/// A pack.
#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) version: i64,
    pub(crate) pack: Arc<Pack>,
    /// The length of its body.
    pub(crate) len: usize,
}

/// The ids of the packs in the cache, in order. The pack of a key has the greatest id that is not above the key.
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
    fn weight(&self, _: &u128, cached: &Cached) -> u64 {
        let rows = cached.pack.rows.iter().map(|(_, value)| value.len() + ROW);
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
        // Packs have about 4 kB.
        let expected = usize::try_from(bytes / 4_096).unwrap_or(usize::MAX);
        let forget = Forget(Arc::clone(&ids));
        Self {
            counters: Counters::default(),
            packs: QuickCache::with(expected, bytes, Bytes, DefaultHashBuilder::default(), forget),
            ids,
        }
    }

    /// Returns the cached pack of a key, unless it has changed.
    pub(crate) fn pack_of(&self, key: u128) -> Option<Cached> {
        let id = *self.ids.lock().range(..=key).next_back()?;
        let cached = self.packs.get(&id)?;
        let has_key = cached.pack.end.is_none_or(|end| key < end);
        has_key.then_some(cached)
    }

    /// Forgets all packs.
    pub(crate) fn clear(&self) {
        self.packs.clear();
        self.ids.lock().clear();
    }

    /// Keeps a pack.
    pub(crate) fn insert(&self, cached: Cached) {
        let id = cached.pack.id;
        if self.packs.peek(&id).is_none_or(|known| known.version != cached.version) {
            // This comes last, because replacing a pack evicts the old one and its id.
            self.packs.insert(id, cached);
            self.ids.lock().insert(id);
        }
    }

    /// Counts packs that were read.
    pub(crate) fn count(&self, read: CacheStats) {
        let add = |counter: &AtomicU64, number| counter.fetch_add(number, Ordering::Relaxed);
        add(&self.counters.hits, read.hits);
        add(&self.counters.misses, read.misses);
        add(&self.counters.bytes_saved, read.bytes_saved);
    }

    pub(crate) fn stats(&self) -> CacheStats {
        let Counters { hits, misses, bytes_saved } = &self.counters;
        let [hits, misses, bytes_saved] =
            [hits, misses, bytes_saved].map(|counter| counter.load(Ordering::Relaxed));
        CacheStats { hits, misses, bytes_saved }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_state_is_refused_until_it_lasts() {
        let place = (Kind::Pack, 7);
        let mut seen = SeenVersions::new();
        let later = |seen: &SeenVersions, count| seen.later(place, count, Instant::now());
        let before = Instant::now();
        assert_eq!((later(&seen, 5), later(&seen, 6), later(&seen, 6)), (None, None, None));
        // An older answer arrives late.
        assert_eq!(seen.later(place, 5, before), None);
        assert_eq!((later(&seen, 5), later(&seen, 4)), (Some(6), Some(6)));
        // Another place and an unchanged state are accepted.
        assert_eq!((seen.later((Kind::Settings, 7), 1, before), later(&seen, 6)), (None, None));
        seen.patience = Duration::ZERO;
        assert_eq!((later(&seen, 5), later(&seen, 5)), (Some(6), None));
        seen.patience = PATIENCE;
        assert_eq!((later(&seen, 4), later(&seen, 6)), (Some(5), None));
        // Each older state has a minute of its own.
        let older = |seen: &SeenVersions| {
            let states = seen.states.lock().expect("no panic");
            states.latest.get(&place).map(|it| it.older)
        };
        let mut since = Vec::new();
        for count in [4, 5, 3, 4] {
            assert_eq!(later(&seen, count), Some(6));
            since.push(older(&seen).flatten().expect("an older one"));
        }
        assert_eq!((since[0], since[2]), (since[1], since[3]));
        assert!(since[0].1 < since[2].1);
    }

    /// A range over many packs does not take a minute for each of them.
    #[test]
    fn a_minute_is_enough_for_all_that_was_seen_before() {
        let mut seen = SeenVersions::new();
        let later =
            |seen: &SeenVersions, id, count| seen.later((Kind::Pack, id), count, Instant::now());
        let refused = |seen: &SeenVersions, id| later(seen, id, 4).is_some();
        for id in 0..3 {
            assert_eq!(later(&seen, id, 5), None);
        }
        assert!(refused(&seen, 0));
        let doubted = seen.states.lock().expect("no panic").doubted.expect("doubted");
        assert_eq!(later(&seen, 3, 5), None);
        while doubted.elapsed() < Duration::from_millis(5) {
            std::hint::spin_loop();
        }
        seen.patience = doubted.elapsed();
        assert_eq!([refused(&seen, 1), refused(&seen, 1)], [true, false]);
        // This state was seen after the doubt began, so it has a minute of its own.
        assert!(refused(&seen, 3));
        let states = seen.states.lock().expect("no panic");
        let older = states.latest.get(&(Kind::Pack, 3)).and_then(|state| state.older);
        assert!(older.is_some_and(|(_, since)| since > doubted));
    }

    #[test]
    fn a_pack_that_was_replaced_is_in_the_cache() {
        let cache = Cache::new(1 << 20);
        let pack = Arc::new(Pack { id: 7, end: None, rows: vec![(9, b"Ada".to_vec().into())] });
        for version in 1..4 {
            cache.insert(Cached { version, pack: Arc::clone(&pack), len: 99 });
            let cached = cache.pack_of(9).map(|cached| cached.version);
            assert_eq!(cached, Some(version));
        }
    }
}
