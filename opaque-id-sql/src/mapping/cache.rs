//! The cache of a map.
//!
//! A reader that saw a mapping before its deletion commits must not add it again. Nothing reports when the
//! last such reader has ended. Permanent marks would use up memory, and any client that may delete could add
//! them. So the cache quarantines an id that had a mapping for ten minutes.

use core::fmt;
use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quick_cache::sync::Cache as Entries;
use uuid::Uuid;

const QUARANTINE: Duration = Duration::from_secs(600);

/// The longest accepted read, and the longest time from a deletion to the end of its transaction.
const LIMIT: Duration = QUARANTINE.checked_div(2).expect("2 is not 0");

/// The age at which a mapping that calls have only read is accepted. InnoDB shows a commit before it is
/// durable, so a crash may undo it and give the integer to another UUID.
const SETTLED: Duration = Duration::from_secs(10);

/// Beyond it the cache accepts nothing for a while.
const MAX_DELETED: usize = 1 << 19;

/// A deleted id leaves the cache at once and is kept out for [`QUARANTINE`]. The result of a read that takes
/// longer than [`LIMIT`] is dropped. So a row that was deleted within [`LIMIT`] of the call is never added
/// afterwards.
///
/// A mapping that a call has only read is kept when it is read again after [`SETTLED`].
///
/// The deletion of an id without a mapping has no effect.
pub(super) struct Cache {
    ids: Entries<Uuid, i64>,
    /// An entry is valid only if `ids` agrees, so a deletion removes from one place.
    uuids: Entries<i64, Uuid>,
    /// The mappings that were read once, and the time.
    read: Entries<Uuid, (i64, Instant)>,
    /// The lock is not taken to look up.
    deleted: Mutex<Deleted>,
}

#[derive(Default)]
struct Deleted {
    since: HashMap<Uuid, Instant>,
    /// The order of the ends of quarantine. If an id occurs twice, the later entry counts.
    order: VecDeque<(Instant, Uuid)>,
    /// The last deletion of an id that found no room.
    overflowed: Option<Instant>,
    latest: Option<Instant>,
}

impl Cache {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            ids: Entries::new(capacity),
            uuids: Entries::new(capacity),
            read: Entries::new(capacity),
            deleted: Mutex::default(),
        }
    }

    /// The server has acknowledged inserted mappings.
    pub(super) fn insert_all(
        &self,
        mappings: &[(i64, Uuid)],
        is_inserted: bool,
        began: Instant,
        now: Instant,
    ) {
        if mappings.is_empty() {
            return;
        }
        let mut deleted = self.deleted(now);
        // This thread may have slept since it read the clock.
        let now = now.max(deleted.latest.unwrap_or(now));
        if now.saturating_duration_since(began) >= LIMIT || deleted.overflowed.is_some() {
            return;
        }
        for (id, uuid) in mappings {
            if !deleted.since.contains_key(uuid)
                && (is_inserted || self.is_settled(*uuid, *id, began, now))
            {
                self.ids.insert(*uuid, *id);
                self.uuids.insert(*id, *uuid);
            }
        }
        // No id is deleted between the check and the insertion.
        deleted.shrink();
    }

    fn is_settled(&self, uuid: Uuid, id: i64, began: Instant, now: Instant) -> bool {
        match self.read.get(&uuid).filter(|(read, _)| *read == id) {
            Some((_, since)) => began.saturating_duration_since(since) >= SETTLED,
            None => {
                self.read.insert(uuid, (id, now));
                false
            }
        }
    }

    pub(super) fn id(&self, uuid: Uuid) -> Option<i64> {
        self.ids.get(&uuid)
    }

    pub(super) fn uuid(&self, id: i64) -> Option<Uuid> {
        let uuid = self.uuids.get(&id)?;
        (self.id(uuid) == Some(id)).then_some(uuid)
    }

    pub(super) fn remove(&self, uuids: impl Iterator<Item = Uuid>) {
        for uuid in uuids {
            self.ids.remove(&uuid);
        }
    }

    /// A deletion calls this before its statement, and again after it because the statement may have waited.
    pub(super) fn delete(&self, uuids: impl Iterator<Item = Uuid>, now: Instant) {
        let mut deleted = self.deleted(now);
        for uuid in uuids {
            self.ids.remove(&uuid);
            deleted.add(uuid, now);
        }
    }

    fn deleted(&self, now: Instant) -> MutexGuard<'_, Deleted> {
        let mut deleted = self.deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.end(now);
        deleted.latest = deleted.latest.max(Some(now));
        deleted
    }
}

impl Deleted {
    fn add(&mut self, uuid: Uuid, now: Instant) {
        let since = self.since.get(&uuid).copied();
        if since.is_some_and(|since| since >= now) {
            return;
        }
        if since.is_none() && self.since.len() >= MAX_DELETED {
            self.overflowed = Some(now);
            return;
        }
        // Outdated entries are dropped when they are the majority.
        if self.order.len() > 2 * self.since.len() + 1_024 {
            let since = &self.since;
            self.order.retain(|(at, uuid)| since.get(uuid) == Some(at));
        }
        self.order.push_back((now, uuid));
        self.since.insert(uuid, now);
    }

    fn end(&mut self, now: Instant) {
        let is_over = |since: Instant| now.saturating_duration_since(since) >= QUARANTINE;
        while let Some(&(since, uuid)) = self.order.front().filter(|(since, _)| is_over(*since)) {
            self.order.pop_front();
            if self.since.get(&uuid) == Some(&since) {
                self.since.remove(&uuid);
            }
        }
        self.overflowed = self.overflowed.filter(|since| !is_over(*since));
    }

    /// This gives memory back after an attack.
    fn shrink(&mut self) {
        if self.since.is_empty() && self.since.capacity() > 1_024 {
            *self = Self { overflowed: self.overflowed, latest: self.latest, ..Self::default() };
        }
    }
}

impl fmt::Debug for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").field("len", &self.ids.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uuid(number: u64) -> Uuid {
        Uuid::from_u128(number.into())
    }

    fn delete(cache: &Cache, number: u64, now: Instant) {
        cache.delete([uuid(number)].into_iter(), now);
    }

    fn filled(now: Instant) -> Cache {
        let cache = Cache::new(4_000);
        let mappings: Vec<_> = (0..1_000_i64).map(|id| (id, uuid(id.cast_unsigned()))).collect();
        cache.insert_all(&mappings, true, now, now);
        assert_eq!(served(&cache), 1_000);
        cache
    }

    fn served(cache: &Cache) -> usize {
        (0..1_000_i64)
            .filter(|id| {
                let uuid = uuid(id.cast_unsigned());
                cache.id(uuid) == Some(*id) && cache.uuid(*id) == Some(uuid)
            })
            .count()
    }

    #[test]
    fn a_deleted_id_is_not_served_even_if_a_late_reader_adds_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let cache = filled(start);
        delete(&cache, 7, start);
        assert_eq!((cache.id(uuid(7)), cache.uuid(7)), (None, None));
        for (began, now) in [(0, 1), (0, 299), (299, 599)] {
            cache.insert_all(&[(7, uuid(7))], true, at(began), at(now));
            assert_eq!((cache.id(uuid(7)), cache.uuid(7)), (None, None));
        }
        cache.insert_all(&[(7, uuid(7))], true, at(299), at(601));
        assert_eq!((cache.id(uuid(7)), cache.uuid(7)), (None, None));
        cache.insert_all(&[(2_000, uuid(7))], true, at(601), at(602));
        assert_eq!(cache.id(uuid(7)), Some(2_000));
        assert_eq!((cache.uuid(2_000), cache.uuid(7)), (Some(uuid(7)), None));
        assert_eq!(served(&cache), 999);
    }

    #[test]
    fn an_id_that_is_deleted_many_times_takes_one_place() {
        let now = Instant::now();
        let cache = filled(now);
        cache.delete(std::iter::repeat_n(uuid(7), 300_000), now);
        for millis in 0..300_000 {
            delete(&cache, 7, now + Duration::from_millis(millis));
        }
        assert_eq!(served(&cache), 999);
        let deleted = cache.deleted(now);
        assert!(deleted.since.len() == 1 && deleted.order.len() < 2_000);
    }

    /// Another process may have deleted its row.
    #[test]
    fn a_removed_id_is_not_served() {
        let now = Instant::now();
        let cache = filled(now);
        cache.remove([uuid(7)].into_iter());
        assert_eq!((cache.id(uuid(7)), cache.uuid(7)), (None, None));
        cache.insert_all(&[(7, uuid(7))], true, now, now);
        assert_eq!(cache.uuid(7), Some(uuid(7)));
    }

    #[test]
    fn a_reader_that_slept_does_not_add_it_again() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let cache = filled(start);
        delete(&cache, 7, at(2));
        // Another thread ends the quarantine after this one has read the clock and while it waits for the lock.
        cache.insert_all(&[(3_000, uuid(3_000))], true, at(600_003), at(600_003));
        cache.insert_all(&[(7, uuid(7))], true, start, at(1));
        assert_eq!(cache.id(uuid(7)), None);
    }

    #[test]
    fn many_deletions_do_not_disable_it_for_ever() {
        let start = Instant::now();
        let cache = filled(start);
        for number in 1_000_000..1_600_000 {
            delete(&cache, number, start);
        }
        assert_eq!(served(&cache), 1_000);
        delete(&cache, 5, start);
        for id in [5_i64, 3_000] {
            cache.insert_all(&[(id, uuid(id.cast_unsigned()))], true, start, start);
            assert_eq!(cache.uuid(id), None);
        }
        let later = start + QUARANTINE;
        cache.insert_all(&[(3_000, uuid(3_000))], true, later, later);
        assert_eq!(cache.uuid(3_000), Some(uuid(3_000)));
        assert!(cache.deleted(later).since.capacity() < 2_000);
    }

    /// A crash may undo a visible commit and give its integer to another UUID.
    #[test]
    fn a_mapping_that_was_only_read_is_served_after_a_while() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let cache = Cache::new(100);
        for (began, now, served) in [(0, 1, None), (2, 3, None), (10, 12, None), (11, 11, Some(7))]
        {
            cache.insert_all(&[(7, uuid(7))], false, at(began), at(now));
            assert_eq!(cache.id(uuid(7)), served);
        }
        cache.remove([uuid(7)].into_iter());
        for (time, served) in [(12, None), (21, None), (22, Some(8))] {
            cache.insert_all(&[(8, uuid(7))], false, at(time), at(time));
            assert_eq!(cache.id(uuid(7)), served);
        }
    }

    #[test]
    fn it_is_bounded() {
        let now = Instant::now();
        let cache = Cache::new(100);
        for id in 0..10_000_i64 {
            cache.insert_all(&[(id, uuid(id.cast_unsigned()))], true, now, now);
        }
        assert!(cache.ids.len() <= 100 && cache.uuids.len() <= 100);
    }
}
