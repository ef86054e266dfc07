//! A client's memory.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as QuickCache;
use quick_cache::{DefaultHashBuilder, Lifecycle, Weighter};

use crate::format::{Kind, Pack};

const SEEN: usize = 1 << 16;

const ROW: usize = size_of::<(u128, Vec<u8>)>() + 16;

/// After this time, an older state of the server is accepted.
const PATIENCE: Duration = Duration::from_secs(60);

/// The latest states that a client has seen: the number of replacements of each pack and of the settings.
pub(crate) struct SeenVersions {
    states: Mutex<States>,
    patience: Duration,
}

struct States {
    latest: quick_cache::unsync::Cache<(Kind, u128), State>,
    doubted: Option<Instant>,
}

#[derive(Clone, Copy)]
struct State {
    count: i64,
    at: Instant,
    older: Option<(i64, Instant)>,
}

impl SeenVersions {
    pub(crate) fn new() -> Self {
        let latest = quick_cache::unsync::Cache::new(SEEN);
        Self { states: Mutex::new(States { latest, doubted: None }), patience: PATIENCE }
    }

    /// Records a state. Returns a later one if this process had seen it before the call began.
    ///
    /// Answers may overtake one another, so states that were seen after the call began do not count. A server
    /// that shows an older state was restored, has failed over or has crashed. If it shows nothing later for
    /// a minute, the older state becomes the latest. From then on the older states of other places are
    /// accepted too, each after one refusal.
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

/// The merges of this process determine the age.
#[derive(Clone, Copy)]
pub(crate) struct PackBacklog {
    pub(crate) since: Instant,
    /// The last merge that looked for a deletion among the rows, or the first one that left rows.
    pub(crate) deletions_checked: Instant,
    pub(crate) stuck: Option<Instant>,
}

/// The hits and misses of a table's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// The reads of a pack that was cached in the server's version.
    pub hits: u64,
    /// The other reads of packs by `get` and `get_all`.
    pub misses: u64,
    /// The bytes of packs that the server did not send.
    pub bytes_saved: u64,
}

#[cfg(feature = "metrics")]
pub(crate) fn record(table: &str, read: CacheStats) {
    use metrics::counter;

    let table = table.to_owned();
    counter!("opaque_id_packs_cache_hits_total", "table" => table.clone()).increment(read.hits);
    counter!("opaque_id_packs_cache_misses_total", "table" => table.clone()).increment(read.misses);
    counter!("opaque_id_packs_cache_saved_bytes_total", "table" => table)
        .increment(read.bytes_saved);
}

/// Decoded packs, up to a number of bytes.
pub(crate) struct Cache {
    stats: Mutex<CacheStats>,
    packs: QuickCache<u128, Cached, Bytes, DefaultHashBuilder, Forget>,
    ids: Arc<Ids>,
}

#[derive(Clone)]
pub(crate) struct Cached {
    pub(crate) version: i64,
    pub(crate) pack: Arc<Pack>,
    pub(crate) len: usize,
}

/// The pack of a key has the greatest id that is not above the key.
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
        // Decoded packs have 4 kB or more.
        let expected = usize::try_from(bytes / 4_096).unwrap_or(usize::MAX);
        let forget = Forget(Arc::clone(&ids));
        Self {
            stats: Mutex::default(),
            packs: QuickCache::with(expected, bytes, Bytes, DefaultHashBuilder::default(), forget),
            ids,
        }
    }

    pub(crate) fn pack_of(&self, key: u128) -> Option<Cached> {
        let id = *self.ids.lock().range(..=key).next_back()?;
        let cached = self.packs.get(&id)?;
        let has_key = cached.pack.end.is_none_or(|end| key < end);
        has_key.then_some(cached)
    }

    pub(crate) fn clear(&self) {
        self.packs.clear();
        self.ids.lock().clear();
    }

    pub(crate) fn insert(&self, cached: Cached) {
        let id = cached.pack.id;
        if self.packs.peek(&id).is_none_or(|known| known.version != cached.version) {
            // This comes last, because replacing a pack evicts the old one and its id.
            self.packs.insert(id, cached);
            self.ids.lock().insert(id);
        }
    }

    pub(crate) fn count(&self, read: CacheStats) {
        let mut stats = self.stats.lock().unwrap_or_else(PoisonError::into_inner);
        stats.hits += read.hits;
        stats.misses += read.misses;
        stats.bytes_saved += read.bytes_saved;
    }

    pub(crate) fn stats(&self) -> CacheStats {
        *self.stats.lock().unwrap_or_else(PoisonError::into_inner)
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
        assert_eq!(seen.later(place, 5, before), None);
        assert_eq!((later(&seen, 5), later(&seen, 4)), (Some(6), Some(6)));
        assert_eq!((seen.later((Kind::Settings, 7), 1, before), later(&seen, 6)), (None, None));
        seen.patience = Duration::ZERO;
        assert_eq!((later(&seen, 5), later(&seen, 5)), (Some(6), None));
        seen.patience = PATIENCE;
        assert_eq!((later(&seen, 4), later(&seen, 6)), (Some(5), None));
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
