use core::fmt;
use std::collections::HashSet;
#[cfg(feature = "cache")]
use std::sync::Arc;
#[cfg(feature = "cache")]
use std::time::Instant;

use uuid::Uuid;

#[cfg(feature = "cache")]
use super::cache::Cache;
use super::error::LockRefusal;
use super::table::{Asked, Table};
use crate::call::{Call, Locked, Step};
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell};

/// The number of times that a call inserts ids that others keep deleting.
const ROUNDS: u32 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Find,
    /// On MySQL, what a transaction's snapshot does not show.
    FindLatest,
    Issue,
    Insert,
    ToExternal,
    /// Which ids have a mapping, before these leave a cache.
    #[cfg(feature = "cache")]
    FindToDelete,
    Delete,
    Nothing,
}

/// One call of a map.
#[derive(Clone)]
pub struct MappingCall {
    table: Table,
    next: Next,
    /// Whether missing mappings are inserted.
    inserts: bool,
    has_inserted: bool,
    rounds: u32,
    /// Whether what was read may be rolled back.
    #[cfg(feature = "cache")]
    is_in_transaction: bool,
    /// The UUIDs that are not found yet, each once, in order.
    missing: Asked,
    ids: Vec<i64>,
    found: Vec<(i64, Uuid)>,
    count: u64,
    #[cfg(feature = "cache")]
    cached: Cached,
}

/// The facts about a call that the cache needs.
#[cfg(feature = "cache")]
#[derive(Clone)]
struct Cached {
    began: Instant,
    /// How many of those found came from the cache.
    known: usize,
    /// The cache that ids leave.
    evicts: Option<Arc<Cache>>,
}

/// Counts ids and hides them.
impl fmt::Debug for MappingCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappingCall")
            .field("table", &self.table)
            .field("next", &self.next)
            .field("missing", &self.missing.len())
            .field("found", &self.found.len())
            .finish_non_exhaustive()
    }
}

impl MappingCall {
    fn new(table: Table, next: Next, missing: Vec<Uuid>) -> Self {
        let missing = Asked::new(missing);
        Self {
            table,
            next: match missing.is_empty() {
                true => Next::Nothing,
                false => next,
            },
            inserts: false,
            has_inserted: false,
            rounds: 0,
            #[cfg(feature = "cache")]
            is_in_transaction: false,
            missing,
            ids: Vec::new(),
            found: Vec::new(),
            count: 0,
            #[cfg(feature = "cache")]
            cached: Cached {
                began: Instant::now(),
                known: 0,
                evicts: None,
            },
        }
    }

    pub(super) fn find(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Find, uuids)
    }

    pub(super) fn get_or_insert(table: Table, uuids: Vec<Uuid>) -> Self {
        Self {
            inserts: true,
            ..Self::new(table, Next::Find, uuids)
        }
    }

    pub(super) fn issue(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Issue, uuids)
    }

    pub(super) fn delete(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Delete, uuids)
    }

    pub(super) fn to_external(table: Table, ids: Vec<i64>) -> Self {
        let next = match ids.is_empty() {
            true => Next::Nothing,
            false => Next::ToExternal,
        };
        Self {
            next,
            ids,
            ..Self::new(table, Next::Nothing, Vec::new())
        }
    }

    /// Adds the mappings that a cache has.
    pub(super) fn with_cached(self, found: Vec<(i64, Uuid)>) -> Self {
        #[cfg(feature = "cache")]
        let cached = Cached {
            known: found.len(),
            ..self.cached
        };
        Self {
            found,
            #[cfg(feature = "cache")]
            cached,
            ..self
        }
    }

    fn may_insert_again(&mut self) -> bool {
        self.rounds += 1;
        self.rounds <= ROUNDS
    }

    /// Returns when the call began; its reads began no earlier.
    #[cfg(feature = "cache")]
    pub(super) fn began(&self) -> Instant {
        self.cached.began
    }

    /// Evicts the ids from a cache as well, at once. Then the call finds out which of them exist: only those are kept
    /// out of the cache, from before they are deleted.
    #[cfg(feature = "cache")]
    pub(super) fn evicting(mut self, cache: Arc<Cache>) -> Self {
        if self.next == Next::Delete {
            self.next = Next::FindToDelete;
        }
        cache.remove(self.missing.iter().copied());
        self.cached.evicts = Some(cache);
        self
    }

    #[cfg(feature = "cache")]
    fn quarantine(&self) {
        if let Some(cache) = &self.cached.evicts {
            cache.delete(self.missing.iter().copied(), Instant::now());
        }
    }

    #[cfg(not(feature = "cache"))]
    fn quarantine(&self) {}

    /// Returns the mappings that are known to be committed and are not from the cache.
    #[cfg(feature = "cache")]
    pub(super) fn committed(&self) -> &[(i64, Uuid)] {
        if self.is_in_transaction {
            &[]
        } else {
            &self.found[self.cached.known..]
        }
    }

    pub(super) fn into_found(self) -> Vec<(i64, Uuid)> {
        self.found
    }

    /// Returns how many rows the last statement changed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl Call for MappingCall {
    type Refusal = LockRefusal;

    fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    fn next(&self, dialect: Dialect, is_in_transaction: bool) -> Option<Step<LockRefusal>> {
        let (table, missing) = (&self.table, &self.missing);
        Some(match self.next {
            Next::Nothing => return None,
            Next::Find => Step::One(table.find(dialect, missing)),
            Next::FindLatest => Step::One(table.find_latest(missing)),
            Next::Issue => Step::One(table.insert(dialect, missing)),
            Next::Insert => {
                let statement = table.insert_missing(dialect, missing, is_in_transaction);
                let Some(lock) = table.lock(dialect, missing) else {
                    return Some(Step::One(statement));
                };
                let (rows, refusal) = match dialect {
                    Dialect::MySql => (missing.len(), LockRefusal::Slots),
                    Dialect::Postgres | Dialect::Sqlite => (1, LockRefusal::Isolation),
                };
                Step::Locked(Box::new(Locked {
                    is_in_transaction,
                    set_isolation: table.set_isolation(dialect),
                    is_set_before: dialect == Dialect::MySql,
                    lock,
                    rows,
                    refusal,
                    statement,
                }))
            }
            Next::ToExternal => Step::One(table.to_external(dialect, &self.ids)),
            // What a deletion sees, not what a transaction's snapshot shows.
            #[cfg(feature = "cache")]
            Next::FindToDelete => Step::One(match dialect {
                Dialect::MySql => table.find_latest(missing),
                Dialect::Postgres | Dialect::Sqlite => table.find(dialect, missing),
            }),
            Next::Delete => Step::One(table.delete(dialect, missing)),
        })
    }

    fn answer(&mut self, dialect: Dialect, is_in_transaction: bool, answer: Answer) {
        #[cfg(feature = "cache")]
        {
            self.is_in_transaction = is_in_transaction;
        }
        #[cfg(not(feature = "cache"))]
        let _ = is_in_transaction;
        #[cfg(feature = "cache")]
        if let (Next::FindToDelete, Answer::Rows(rows)) = (self.next, &answer) {
            let there: HashSet<Uuid> = mappings(rows).map(|(_, uuid)| uuid).collect();
            self.missing.retain(|uuid| there.contains(uuid));
            self.quarantine();
            self.next = match self.missing.is_empty() {
                true => Next::Nothing,
                false => Next::Delete,
            };
            return;
        }
        if self.next == Next::Delete {
            // Once more, as the deletion may have waited.
            self.quarantine();
        }
        match answer {
            Answer::Rows(rows) => {
                let found: HashSet<Uuid> = mappings(&rows).map(|(_, uuid)| uuid).collect();
                self.missing.retain(|uuid| !found.contains(uuid));
                self.found.extend(mappings(&rows));
            }
            Answer::Changed { rows, .. } => self.count = rows,
        }
        self.next = match self.next {
            _ if self.missing.is_empty() => Next::Nothing,
            Next::Find if self.has_inserted && dialect == Dialect::MySql => Next::FindLatest,
            // More than once if others delete what was there.
            Next::Find | Next::FindLatest if self.inserts => match self.may_insert_again() {
                true => Next::Insert,
                false => Next::Nothing,
            },
            Next::Insert => {
                self.has_inserted = true;
                Next::Find
            }
            Next::Issue => Next::Find,
            _ => Next::Nothing,
        };
    }
}

/// Reads the rows of a mapping table.
fn mappings(rows: &[Vec<Cell>]) -> impl Iterator<Item = (i64, Uuid)> {
    rows.iter().map(|row| match **row {
        [Cell::Integer(id), Cell::Uuid(uuid)] => (id, uuid),
        _ => unreachable!("an adapter reads the statement's columns"),
    })
}

#[cfg(test)]
mod tests {
    use super::super::Index;
    use super::*;
    use crate::call::{Driver, RunError};

    const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

    fn table(index: Index) -> Table {
        Table::new("order_ids", index)
    }

    fn uuids(count: u128) -> Vec<Uuid> {
        (0..count).map(Uuid::from_u128).collect()
    }

    /// Runs the call against a table with the rows `known`, until it is done.
    fn run(call: &mut MappingCall, dialect: Dialect, known: &mut Vec<(i64, Uuid)>) -> usize {
        let mut steps = 0;
        while let Some(step) = call.next(dialect, false) {
            steps += 1;
            let (statement, inserts) = match step {
                Step::One(statement) => {
                    let inserts = statement.sql.starts_with("INSERT");
                    (statement, inserts)
                }
                Step::Locked(step) => (step.statement.clone(), true),
            };
            if inserts {
                for uuid in call.missing.iter() {
                    if known.iter().all(|row| row.1 != *uuid) {
                        let id = i64::try_from(known.len()).expect("a few") + 1;
                        known.push((id, *uuid));
                    }
                }
            }
            let rows = known.iter().filter(|row| call.missing.contains(&row.1));
            let rows = rows.map(|(id, uuid)| vec![Cell::Integer(*id), Cell::Uuid(*uuid)]);
            let answer = match statement.columns {
                [] => Answer::Changed {
                    rows: 1,
                    insert_id: None,
                },
                _ => Answer::Rows(rows.collect()),
            };
            call.answer(dialect, false, answer);
        }
        steps
    }

    #[test]
    fn known_ids_need_one_statement() {
        for dialect in DIALECTS {
            let mut known: Vec<_> = (1..).zip(uuids(10)).collect();
            let all = || table(Index::Unique);
            let mut asked = uuids(10);
            asked.extend(uuids(3));
            for mut call in [
                MappingCall::find(all(), asked.clone()),
                MappingCall::get_or_insert(all(), asked.clone()),
            ] {
                assert_eq!(run(&mut call, dialect, &mut known), 1);
                assert_eq!(call.into_found().len(), 10);
            }
            let mut nothing = MappingCall::find(all(), Vec::new());
            assert_eq!(run(&mut nothing, dialect, &mut known), 0);
        }
    }

    #[test]
    fn new_ids_are_inserted_once() {
        for index in [Index::Unique, Index::Hashed] {
            for dialect in DIALECTS {
                let mut known = Vec::new();
                let mut call = MappingCall::get_or_insert(table(index), uuids(5));
                let steps = run(&mut call, dialect, &mut known);
                assert_eq!(steps, if dialect == Dialect::MySql { 3 } else { 2 });
                assert_eq!((call.into_found(), known.len()), (known, 5));
            }
        }
    }

    #[test]
    fn ids_that_others_always_delete_are_given_up() {
        let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
        let mut steps = 0;
        while call.next(Dialect::MySql, false).is_some() {
            steps += 1;
            call.answer(Dialect::MySql, false, Answer::Rows(Vec::new()));
        }
        assert!(steps < 100 && call.into_found().is_empty());
    }

    #[test]
    fn a_lock_that_locks_nothing_is_refused() {
        for (dialect, message) in [
            (Dialect::Postgres, "READ COMMITTED"),
            (Dialect::MySql, "opaque_id_slots"),
        ] {
            let mut call = MappingCall::get_or_insert(table(Index::Hashed), uuids(2));
            let mut driver = Driver::new(&mut call, dialect, false);
            driver
                .answer::<()>(Ok(Answer::Rows(Vec::new())), |()| false)
                .expect("no error");
            let Some(Step::Locked(step)) = driver.next() else {
                panic!("the hashed index locks");
            };
            let refusal = step.under(&Answer::Rows(Vec::new())).expect_err("no rows");
            let error =
                super::super::MappingError::<std::fmt::Error>::from(RunError::Refused(refusal));
            assert!(error.to_string().contains(message));
        }
    }

    /// Made-up ids, in a list with a real one, or in a call that is dropped: none of them is kept out.
    #[cfg(feature = "cache")]
    #[test]
    fn only_ids_with_a_mapping_are_kept_out_of_a_cache() {
        let now = Instant::now();
        let cache = Arc::new(Cache::new(100));
        let delete =
            |uuids| MappingCall::delete(table(Index::Unique), uuids).evicting(Arc::clone(&cache));
        drop(delete(uuids(10)));

        let mut known = vec![(1, Uuid::from_u128(3))];
        cache.insert_all(&known, now, now);
        let mut call = delete(uuids(10));
        assert_eq!(run(&mut call, Dialect::Sqlite, &mut known), 2);
        let all: Vec<_> = (1..).zip(uuids(10)).collect();
        cache.insert_all(&all, now, now);
        let served = uuids(10)
            .into_iter()
            .filter(|uuid| cache.id(*uuid).is_some());
        assert_eq!(served.count(), 9);
        assert_eq!(cache.id(Uuid::from_u128(3)), None);
    }
}
