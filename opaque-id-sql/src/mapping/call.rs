//! One call of a map: which statement is next, and what its answer means.
//!
//! `Next` is the state, `Call::next` returns the state's statement, and `Call::answer` chooses the next state. Nothing here runs a
//! statement, and a state has its statement again if the driver retries it.
//!
//! # The order of statements
//!
//! - `find`, `to_external`: one search.
//! - `issue`: an insert of UUIDs that nobody else has. MySQL returns no rows, so a search for the first and the last one follows
//!   (`FindEnds`): a list of `VALUES` gets consecutive integers, so these two imply the others.
//! - `get_or_insert`: a search, an insert of the missing UUIDs, a search for the ones that others inserted meanwhile; again, for at most
//!   `ROUNDS` rounds without progress, as others may delete in between.
//! - `delete`: with a cache, first a search for the UUIDs that have a mapping, as only these are quarantined; then the deletion.
//! - On MySQL, before the first insert of a process: a check of the column's type, and for a hashed index one of the server. A search in
//!   a column of text finds nothing, which must not lead to an insert.
//!
//! # Locks of `get_or_insert`
//!
//! | | outside of the caller's transactions | in one |
//! |---|---|---|
//! | PostgreSQL, unique | none: an insert waits in the index and then passes over the row | none |
//! | PostgreSQL, hashed | `LockAndInsert` | `Lock`, `Insert` |
//! | MySQL, unique | none: a lost race fails with a duplicate key (`lost_race`), and the call searches again | `Lock`, `Insert` |
//! | MySQL, hashed | `LockAndInsert` | `Lock`, `Insert` |
//! | SQLite | none: there is one writer | none |
//!
//! InnoDB finds a deadlock as soon as two transactions wait in the index for a UUID that is then rolled back, and ends a whole
//! transaction for it. Outside of the caller's transactions the driver retries. In a transaction it cannot, so there `Lock` queues
//! them, and at most one waits in the index.
//!
//! A call has no transaction of its own. `begin` of sqlx 0.9 is not cancel-safe: dropped before BEGIN's answer, it leaves the pool a
//! connection in a transaction, and later acknowledged writes are rolled back. So `LockAndInsert` is one request: PostgreSQL makes a
//! request of several statements one transaction, and on MySQL the insert itself takes the locks. If that insert fails before its
//! transaction began, its isolation level is left for the next transaction: `after_failure` returns a harmless search that uses it up.
//!
//! A duplicate key on MySQL does not say reliably which index had it. A UUID that is not found after all rounds means that
//! the integers are used up, and the call returns the database's own error. `ON DUPLICATE KEY UPDATE` would accept another UUID's row.

use core::convert::Infallible;
use core::fmt;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::cache::Cache;
use super::error::MappingError;
use super::table::{Asked, Table};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell, Statement};

/// The number of times in a row that a call inserts ids and then finds none of them.
const ROUNDS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Find,
    /// On MySQL, what a transaction's snapshot does not show.
    FindLatest,
    /// Checks the type of the column `uuid`, as nothing was found.
    CheckColumn,
    /// Whether a hashed index can be used on the server.
    CheckServer,
    /// Locks the hashes, until the end of the caller's transaction.
    Lock,
    Insert,
    /// As [`Insert`](Self::Insert), with locks that end with the statement.
    LockAndInsert,
    /// Of a list that was inserted, the first and the last: if no other number is between them, the integers of the
    /// rest are known. Unless nobody else has the ids, the first must still have the integer that it was inserted with:
    /// others may have deleted and inserted both meanwhile.
    FindEnds {
        first: Option<i64>,
    },
    ToExternal,
    /// Which ids have a mapping, before these leave a cache.
    FindToDelete,
    Delete,
    Nothing,
}

/// One call of a map.
#[derive(Clone)]
pub struct MappingCall {
    table: Table,
    next: Next,
    inserts: Inserts,
    /// The number of inserts, from the last one on after which an id was found.
    rounds: u32,
    /// The number of ids that were missing before the last insert.
    missing_before: usize,
    /// Whether what was read may be rolled back.
    is_in_transaction: bool,
    /// The UUIDs that are not found yet, each once, in order.
    missing: Asked,
    ids: Vec<i64>,
    found: Vec<(i64, Uuid)>,
    count: u64,
    began: Instant,
    /// How many of those found came from a cache.
    known: usize,
    /// The cache that ids leave.
    evicts: Option<Arc<Cache>>,
}

/// The UUIDs that a call inserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inserts {
    Nothing,
    /// Those that are missing; others may be inserting them too.
    Missing,
    /// New ones, which nobody else has.
    New,
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
            inserts: Inserts::Nothing,
            rounds: 0,
            missing_before: 0,
            is_in_transaction: false,
            missing,
            ids: Vec::new(),
            found: Vec::new(),
            count: 0,
            began: Instant::now(),
            known: 0,
            evicts: None,
        }
    }

    pub(super) fn find(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Find, uuids)
    }

    pub(super) fn get_or_insert(table: Table, uuids: Vec<Uuid>) -> Self {
        Self {
            inserts: Inserts::Missing,
            ..Self::new(table, Next::Find, uuids)
        }
    }

    pub(super) fn issue(table: Table, uuids: Vec<Uuid>) -> Self {
        Self {
            inserts: Inserts::New,
            rounds: 1,
            ..Self::new(table, Next::Insert, uuids)
        }
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
        Self {
            known: found.len(),
            found,
            ..self
        }
    }

    /// Returns what follows a search that has not found all ids.
    fn after_find(&mut self, dialect: Dialect, is_in_transaction: bool) -> Next {
        if self.table.is_column_to_check(dialect) {
            return Next::CheckColumn;
        }
        // Others may insert the ids of a list one by one, each of which ends an insert on MySQL.
        if self.missing.len() < self.missing_before {
            self.rounds = 0;
        }
        // More than once if others delete what was there.
        if self.inserts == Inserts::Nothing || self.rounds == ROUNDS {
            return Next::Nothing;
        }
        self.rounds += 1;
        self.missing_before = self.missing.len();
        if self.inserts_into_hashed() && self.table.is_server_to_check(dialect) {
            return Next::CheckServer;
        }
        self.insert(dialect, is_in_transaction)
    }

    fn insert(&self, dialect: Dialect, is_in_transaction: bool) -> Next {
        // In a transaction also for a unique index: as soon as an uncommitted UUID is rolled back, InnoDB finds those
        // deadlocked who have waited for it in the index, if they are more than one.
        let locks = match dialect {
            Dialect::MySql => {
                self.inserts == Inserts::Missing && (is_in_transaction || self.table.is_hashed())
            }
            Dialect::Postgres => self.inserts_into_hashed(),
            // An insert holds the one write lock that there is.
            Dialect::Sqlite => false,
        };
        match (locks, is_in_transaction) {
            (false, _) => Next::Insert,
            (true, true) => Next::Lock,
            // Why the first insert has inserted nothing: the lock shows whether there is a row to lock.
            (true, false) if self.rounds > 1 && dialect == Dialect::MySql => Next::Lock,
            (true, false) => Next::LockAndInsert,
        }
    }

    fn inserts_into_hashed(&self) -> bool {
        self.inserts == Inserts::Missing && self.table.is_hashed()
    }

    /// Returns what follows an insert that returns no rows, after `rows` were inserted.
    fn after_insert(&mut self, rows: u64, insert_id: Option<u64>) -> Next {
        let id = insert_id.and_then(|id| i64::try_from(id).ok());
        match (&*self.missing, id.filter(|id| *id > 0)) {
            (&[uuid], Some(id)) if rows == 1 => {
                self.found.push((id, uuid));
                Next::Nothing
            }
            (uuids, first)
                if uuids.len() > 2
                    && !self.inserts_into_hashed()
                    && (first.is_some() || self.inserts == Inserts::New) =>
            {
                Next::FindEnds { first }
            }
            _ => Next::Find,
        }
    }

    /// Adds the mappings of the list that was inserted if the integers of its first and its last row leave room for no
    /// others: those of a statement ascend.
    fn find_between(&mut self, inserted_first: Option<i64>, ends: &[Vec<Cell>]) -> Next {
        let inserted = || self.table.insertion_order(&self.missing);
        let id = |uuid: Option<Uuid>| {
            mappings(ends)
                .find(|row| Some(row.1) == uuid)
                .map(|row| row.0)
        };
        match (id(inserted().next()), id(inserted().last())) {
            (Some(first), Some(last))
                if first <= last
                    && last.abs_diff(first) == self.missing.len() as u64 - 1
                    && inserted_first.is_none_or(|inserted| inserted == first) =>
            {
                self.found.extend((first..=last).zip(inserted()));
                Next::Nothing
            }
            _ => Next::Find,
        }
    }

    /// Returns when the call began; its reads began no earlier.
    pub(super) fn began(&self) -> Instant {
        self.began
    }

    /// Evicts the ids from a cache as well, at once. Then the call finds out which of them exist: only those are kept
    /// out of the cache, from before they are deleted.
    pub(super) fn evicting(mut self, cache: Arc<Cache>) -> Self {
        if self.next == Next::Delete {
            self.next = Next::FindToDelete;
        }
        cache.remove(self.missing.iter().copied());
        self.evicts = Some(cache);
        self
    }

    fn quarantine(&self) {
        if let Some(cache) = &self.evicts {
            cache.delete(self.missing.iter().copied(), Instant::now());
        }
    }

    /// Returns the mappings that are known to be committed and are not from the cache.
    pub(super) fn committed(&self) -> &[(i64, Uuid)] {
        if self.is_in_transaction {
            &[]
        } else {
            &self.found[self.known..]
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
    type Error = MappingError<Infallible>;

    fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    fn retry_for(&self) -> Duration {
        self.table.retry_for()
    }

    fn next(&self, dialect: Dialect) -> Option<Statement> {
        let (table, missing) = (&self.table, &self.missing);
        // Every state but the last one has a statement, whatever other calls of the map have done meanwhile.
        Some(match self.next {
            Next::Nothing => return None,
            Next::Find => table.find(dialect, missing),
            Next::FindLatest => table.find_latest(missing),
            Next::CheckColumn => table.check_column(dialect),
            Next::CheckServer => table.check_server(dialect),
            Next::Lock => table.lock(dialect, missing),
            Next::Insert => match self.inserts {
                Inserts::Missing if table.is_hashed() => table.insert_missing(dialect, missing),
                Inserts::Missing => table.insert_unique(dialect, missing),
                Inserts::New | Inserts::Nothing => table.insert(dialect, missing),
            },
            Next::LockAndInsert => table.lock_and_insert_missing(dialect, missing),
            Next::FindEnds { .. } => {
                let mut inserted = table.insertion_order(missing);
                let ends = inserted.next().into_iter().chain(inserted.last());
                table.find(dialect, &Asked::new(ends.collect()))
            }
            Next::ToExternal => table.to_external(dialect, &self.ids),
            // The rows that a deletion sees, not those of a transaction's snapshot.
            Next::FindToDelete => match dialect {
                Dialect::MySql => table.find_latest(missing),
                Dialect::Postgres | Dialect::Sqlite => table.find(dialect, missing),
            },
            Next::Delete => table.delete(dialect, missing),
        })
    }

    fn answer(
        &mut self,
        dialect: Dialect,
        is_in_transaction: bool,
        answer: Answer,
    ) -> Result<(), MappingError<Infallible>> {
        self.is_in_transaction = is_in_transaction;
        self.next = match (self.next, answer) {
            (Next::CheckColumn, Answer::Rows(rows)) => {
                if let Some([Cell::Text(found)]) = rows.first().map(Vec::as_slice) {
                    return Err(MappingError::Column {
                        table: self.table.name(),
                        found: found.clone(),
                    });
                }
                self.table.column_is_checked();
                self.after_find(dialect, is_in_transaction)
            }
            (Next::CheckServer, Answer::Rows(rows)) => {
                if !rows.is_empty() {
                    return Err(MappingError::Cluster);
                }
                self.table.server_is_checked();
                self.insert(dialect, is_in_transaction)
            }
            (Next::Lock, Answer::Rows(rows)) => {
                let (wanted, refusal) = match dialect {
                    Dialect::MySql => (self.missing.len(), MappingError::Slots),
                    Dialect::Postgres | Dialect::Sqlite => (1, MappingError::Isolation),
                };
                if rows.len() < wanted {
                    return Err(refusal);
                }
                match is_in_transaction {
                    true => Next::Insert,
                    false => Next::LockAndInsert,
                }
            }
            (Next::FindEnds { first }, Answer::Rows(rows)) => self.find_between(first, &rows),
            (Next::FindToDelete, Answer::Rows(rows)) => {
                let there: HashSet<Uuid> = mappings(&rows).map(|(_, uuid)| uuid).collect();
                self.missing.retain(|uuid| there.contains(uuid));
                self.quarantine();
                match self.missing.is_empty() {
                    true => Next::Nothing,
                    false => Next::Delete,
                }
            }
            (next, Answer::Rows(rows)) => {
                let found: HashSet<Uuid> = mappings(&rows).map(|(_, uuid)| uuid).collect();
                self.missing.retain(|uuid| !found.contains(uuid));
                self.found.extend(mappings(&rows));
                match next {
                    _ if self.missing.is_empty() => Next::Nothing,
                    Next::Insert => Next::Find,
                    // The snapshot of the transaction may be older than the row that kept its insert out.
                    Next::Find
                        if self.rounds > 0 && is_in_transaction && dialect == Dialect::MySql =>
                    {
                        Next::FindLatest
                    }
                    Next::Find | Next::FindLatest => self.after_find(dialect, is_in_transaction),
                    _ => Next::Nothing,
                }
            }
            (Next::Delete, Answer::Changed { rows, .. }) => {
                // Once more, as the deletion may have waited.
                self.quarantine();
                self.count = rows;
                Next::Nothing
            }
            (Next::Insert, Answer::Changed { rows, insert_id }) => {
                self.after_insert(rows, insert_id)
            }
            _ => Next::Find,
        };
        Ok(())
    }

    fn lost_race(&mut self, dialect: Dialect) -> bool {
        // On the others an insert passes over what is there.
        let is_lost = self.next == Next::Insert && dialect == Dialect::MySql;
        if is_lost {
            self.next = Next::Find;
        }
        is_lost && self.rounds < ROUNDS
    }

    fn is_outrun(&self) -> bool {
        self.rounds > 1 && matches!(self.next, Next::Lock | Next::Insert | Next::LockAndInsert)
    }

    fn after_failure(&self, dialect: Dialect) -> Option<Statement> {
        // If the insert failed before its transaction began, its isolation level is still to come for the next one.
        let is_left = self.next == Next::LockAndInsert && dialect == Dialect::MySql;
        is_left.then(|| self.table.find(dialect, &self.missing))
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
    use crate::call::{Driver, RunError, Step};
    use crate::dialect::Failure;
    use crate::statement::Column;

    const DIALECTS: [Dialect; 3] = [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite];

    fn table(index: Index) -> Table {
        Table::new("order_ids", index)
    }

    fn uuids(count: u128) -> Vec<Uuid> {
        (0..count).map(Uuid::from_u128).collect()
    }

    /// Runs the call against a table with the rows `known`, until it is done, as an ORM that does not return the last
    /// insert id.
    fn run(call: &mut MappingCall, dialect: Dialect, known: &mut Vec<(i64, Uuid)>) -> usize {
        let mut steps = 0;
        while let Some(statement) = call.next(dialect) {
            steps += 1;
            if matches!(call.next, Next::CheckColumn | Next::CheckServer) {
                let answer = call.answer(dialect, false, Answer::Rows(Vec::new()));
                answer.expect("no refusal");
                continue;
            }
            if matches!(call.next, Next::Insert | Next::LockAndInsert) {
                for uuid in call.table.insertion_order(&call.missing) {
                    if known.iter().all(|row| row.1 != uuid) {
                        let id = known.iter().map(|row| row.0).max().unwrap_or(0) + 1;
                        known.push((id, uuid));
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
            call.answer(dialect, false, answer).expect("no refusal");
        }
        steps
    }

    #[test]
    fn known_ids_need_one_statement() {
        for dialect in DIALECTS {
            let mut known: Vec<_> = (1..).zip(uuids(10)).collect();
            let all = || table(Index::Unique);
            let asked = uuids(10);
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
                let table = table(index);
                let mut known = Vec::new();
                let mut first = MappingCall::get_or_insert(table.clone(), vec![Uuid::max()]);
                run(&mut first, dialect, &mut known);
                // Checks of the first call are done.
                let mut call = MappingCall::get_or_insert(table, uuids(5));
                let steps = run(&mut call, dialect, &mut known);
                let expected = match (dialect, index) {
                    (Dialect::MySql, _) | (Dialect::Postgres, Index::Hashed) => 3,
                    _ => 2,
                };
                assert_eq!(steps, expected, "{dialect:?} {index}");
                let mut found = call.into_found();
                found.sort_unstable();
                assert_eq!(found, known[1..]);
            }
        }
    }

    /// The integers between the first and the last of a list are not guessed if another insert may be there.
    #[test]
    fn a_list_with_a_gap_is_read() {
        let mut call = MappingCall::issue(table(Index::Unique), uuids(3));
        let mut rows: Vec<_> = [1, 2, 4].into_iter().zip(uuids(3)).collect();
        assert_eq!(run(&mut call, Dialect::MySql, &mut rows), 3);
        assert_eq!(call.into_found(), rows);
    }

    /// Others have deleted the first and the last, and inserted them again with another id between.
    #[test]
    fn a_list_whose_ends_are_inserted_again_is_read() {
        for insert_id in [Some(1), None] {
            let [a, b, c] = [0, 1, 2].map(Uuid::from_u128);
            let mut call = MappingCall::get_or_insert(table(Index::Unique), vec![a, b, c]);
            while call.next != Next::Insert {
                let nothing = call.answer(Dialect::MySql, false, Answer::Rows(Vec::new()));
                nothing.expect("no refusal");
            }
            let rows = 3;
            let inserted = call.answer(Dialect::MySql, false, Answer::Changed { rows, insert_id });
            inserted.expect("no refusal");
            let mut known = vec![(4, a), (2, b), (6, c)];
            run(&mut call, Dialect::MySql, &mut known);
            assert_eq!(call.into_found(), known);
        }
    }

    /// Whatever integers a server returns.
    #[test]
    fn a_list_at_the_ends_of_the_integers_is_read_or_known() {
        const MAX: i64 = i64::MAX;
        for (ids, steps) in [
            ([MAX - 2, MAX - 1, MAX], 2),
            ([i64::MIN, 0, MAX], 3),
            ([3, 2, 1], 3),
        ] {
            let mut call = MappingCall::issue(table(Index::Unique), uuids(3));
            let mut rows: Vec<_> = ids.into_iter().zip(uuids(3)).collect();
            assert_eq!(run(&mut call, Dialect::MySql, &mut rows), steps);
            assert_eq!(call.into_found(), rows);
        }
    }

    #[test]
    fn the_last_insert_id_is_the_integer_of_the_only_id() {
        let mut call = MappingCall::issue(table(Index::Unique), uuids(1));
        let inserted = Answer::Changed {
            rows: 1,
            insert_id: Some(7),
        };
        call.answer(Dialect::MySql, true, inserted)
            .expect("no refusal");
        assert!(call.is_done());
        assert_eq!(call.into_found(), [(7, Uuid::nil())]);
    }

    #[test]
    fn ids_that_others_always_delete_are_given_up() {
        let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
        let mut steps = 0;
        while call.next(Dialect::MySql).is_some() {
            steps += 1;
            let nothing = call.answer(Dialect::MySql, false, Answer::Rows(Vec::new()));
            nothing.expect("no refusal");
        }
        assert!(steps < 100 && call.into_found().is_empty());
    }

    /// As when the integers are used up: the row that is in the way is another's.
    #[test]
    fn a_key_that_is_never_found_is_an_error() {
        let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
        let mut driver = Driver::new(&mut call, Dialect::MySql, false);
        let nothing = || Ok::<_, &str>(Answer::Rows(Vec::new()));
        for _ in 0..100 {
            let statement = match driver.next_step() {
                Some(Step::Run(statement)) => statement,
                Some(Step::Wait(_)) => continue,
                None => panic!("expected another statement"),
            };
            let answer = match statement.columns {
                [] => Err("1062"),
                _ => nothing(),
            };
            match driver.answer(answer.map_err(|error| (error, Failure::Duplicate))) {
                Ok(()) => {}
                Err(error) => {
                    assert!(matches!(error, RunError::Database("1062")));
                    return;
                }
            }
        }
        panic!("expected an error");
    }

    /// Each of which is in the way of an insert.
    #[test]
    fn a_list_that_others_insert_one_by_one_is_found() {
        let uuids = uuids(30);
        let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids.clone());
        let mut driver = Driver::new(&mut call, Dialect::MySql, false);
        let mut known = Vec::new();
        while let Some(Step::Run(statement)) = driver.next_step() {
            let answer = match statement.columns {
                [] => {
                    known.push(uuids[known.len()]);
                    Err("1062")
                }
                [Column::Text] => Ok(Answer::Rows(Vec::new())),
                _ => {
                    let rows = (1..).zip(&known);
                    let row = |(id, uuid): (i64, &Uuid)| vec![Cell::Integer(id), Cell::Uuid(*uuid)];
                    Ok(Answer::Rows(rows.map(row).collect()))
                }
            };
            let answered = driver.answer(answer.map_err(|error| (error, Failure::Duplicate)));
            answered.expect("no error");
        }
        assert_eq!(known.len(), 30);
    }

    /// Others delete what was inserted, or it is not visible yet.
    #[test]
    fn an_insert_without_effect_is_not_run_again_at_once() {
        let mut call = MappingCall::get_or_insert(table(Index::Unique), uuids(1));
        let mut driver = Driver::new(&mut call, Dialect::Postgres, false);
        let (mut inserts, mut waits) = (0, 0);
        while let Some(step) = driver.next_step() {
            match step {
                Step::Wait(_) => waits += 1,
                Step::Run(statement) => {
                    inserts += u32::from(statement.sql.starts_with("INSERT"));
                    let answer = Ok::<_, &str>(Answer::Rows(Vec::new()));
                    let answered = driver.answer(answer.map_err(|error| (error, Failure::Other)));
                    answered.expect("no error");
                }
            }
        }
        assert_eq!((inserts, waits), (ROUNDS, ROUNDS - 1));
    }

    #[test]
    fn a_lock_that_locks_nothing_is_refused() {
        for (dialect, message) in [
            (Dialect::Postgres, "READ COMMITTED"),
            (Dialect::MySql, "opaque_id_slots"),
        ] {
            let mut call = MappingCall::get_or_insert(table(Index::Hashed), uuids(2));
            let nothing =
                |call: &mut MappingCall| call.answer(dialect, true, Answer::Rows(Vec::new()));
            while call.next != Next::Lock {
                nothing(&mut call).expect("no refusal");
            }
            let refusal = nothing(&mut call).expect_err("no rows");
            let error =
                super::super::MappingError::<std::fmt::Error>::from(RunError::Call(refusal));
            assert!(error.to_string().contains(message));
        }
    }

    #[test]
    fn a_hashed_index_is_refused_on_a_cluster() {
        for is_in_transaction in [false, true] {
            let mut call = MappingCall::get_or_insert(table(Index::Hashed), uuids(2));
            while call.next != Next::CheckServer {
                let nothing = Answer::Rows(Vec::new());
                let answer = call.answer(Dialect::MySql, is_in_transaction, nothing);
                answer.expect("no refusal");
            }
            let rows = vec![vec![
                Cell::Text("wsrep_on".to_owned()),
                Cell::Text("ON".to_owned()),
            ]];
            let refused = call.answer(Dialect::MySql, is_in_transaction, Answer::Rows(rows));
            assert!(matches!(refused, Err(MappingError::Cluster)));
        }
    }

    /// Two clones check the column and the server at the same time, and one of them is faster.
    #[test]
    fn what_another_call_has_checked_does_not_end_this_one() {
        for (index, check) in [
            (Index::Unique, Next::CheckColumn),
            (Index::Hashed, Next::CheckColumn),
            (Index::Hashed, Next::CheckServer),
        ] {
            let table = table(index);
            let mut slow = MappingCall::get_or_insert(table.clone(), uuids(1));
            let mut fast = MappingCall::get_or_insert(table, uuids(1));
            for call in [&mut slow, &mut fast] {
                while call.next != check {
                    let nothing = Answer::Rows(Vec::new());
                    let answer = call.answer(Dialect::MySql, false, nothing);
                    answer.expect("no refusal");
                }
            }
            let mut known = Vec::new();
            run(&mut fast, Dialect::MySql, &mut known);
            assert_eq!(fast.into_found(), known);
            run(&mut slow, Dialect::MySql, &mut known);
            assert_eq!(slow.into_found(), known, "{check:?} of {index}");
        }
    }

    /// Made-up ids, in a list with a real one, or in a call that is dropped: none of them is kept out.
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
