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
//! - Before the first statement of a process: a check of the columns' types and of the index, where they can be others. A search in a
//!   column of text finds nothing, which must not lead to an insert, and not hide rows, and without a unique index nothing keeps a UUID
//!   from a second integer. Before the first `get_or_insert` into a hashed index: a
//!   check of the server's engine.
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
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::asked::Asked;
use super::cache::Cache;
use super::error::MappingError;
use super::table::{EMPTY, Table, longest_list};
use crate::call::Call;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::statement::{Answer, Cell, Statement};

/// The number of times in a row that a call inserts ids and then finds none of them.
const ROUNDS: u32 = 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Find,
    /// On MySQL, what a transaction's snapshot does not show.
    FindLatest,
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
    /// Whether the call checks the type of the table's column first, which its first statement decides.
    checks_column: OnceLock<bool>,
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
    /// How many of them this search or deletion is through with: it has a statement for each part of a long list.
    passed: usize,
    ids: Vec<i64>,
    found: Vec<(i64, Uuid)>,
    count: u64,
    began: Instant,
    /// How many of those found came from a cache.
    known: usize,
    /// Whether the last insert has inserted all ids that were missing, so that its commit has made what was read before it durable.
    is_inserted: bool,
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
            checks_column: OnceLock::new(),
            next: match missing.is_empty() {
                true => Next::Nothing,
                false => next,
            },
            inserts: Inserts::Nothing,
            rounds: 0,
            missing_before: 0,
            is_in_transaction: false,
            missing,
            passed: 0,
            ids: Vec::new(),
            found: Vec::new(),
            count: 0,
            began: Instant::now(),
            known: 0,
            is_inserted: false,
            evicts: None,
        }
    }

    pub(super) fn find(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Find, uuids)
    }

    pub(super) fn get_or_insert(table: Table, uuids: Vec<Uuid>) -> Self {
        Self { inserts: Inserts::Missing, ..Self::new(table, Next::Find, uuids) }
    }

    pub(super) fn issue(table: Table, uuids: Vec<Uuid>) -> Self {
        Self { inserts: Inserts::New, rounds: 1, ..Self::new(table, Next::Insert, uuids) }
    }

    pub(super) fn delete(table: Table, uuids: Vec<Uuid>) -> Self {
        Self::new(table, Next::Delete, uuids)
    }

    pub(super) fn to_external(table: Table, ids: Vec<i64>) -> Self {
        let next = match ids.is_empty() {
            true => Next::Nothing,
            false => Next::ToExternal,
        };
        Self { next, ids, ..Self::new(table, Next::Nothing, Vec::new()) }
    }

    /// Adds the mappings that a cache has.
    pub(super) fn with_cached(self, found: Vec<(i64, Uuid)>) -> Self {
        Self { known: found.len(), found, ..self }
    }

    /// Returns what follows a search that has not found all ids.
    fn after_find(&mut self, dialect: Dialect, is_in_transaction: bool) -> Next {
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

    fn checks_column(&self, dialect: Dialect) -> bool {
        *self.checks_column.get_or_init(|| self.table.is_column_to_check(dialect))
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
        let id =
            |uuid: Option<Uuid>| mappings(ends).find(|row| Some(row.1) == uuid).map(|row| row.0);
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
        if self.is_in_transaction { &[] } else { &self.found[self.known..] }
    }

    pub(super) fn is_inserted(&self) -> bool {
        self.is_inserted
    }

    pub(super) fn into_found(self) -> Vec<(i64, Uuid)> {
        self.found
    }

    /// Passes a part of the list, and returns whether it was the last one.
    fn is_through(&mut self, dialect: Dialect) -> bool {
        let passed = self.passed.saturating_add(longest_list(dialect));
        let is_through = passed >= self.missing.len();
        self.passed = if is_through { 0 } else { passed };
        is_through
    }

    /// Returns how many mappings the call has deleted.
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
        let part = || missing.part(self.passed, longest_list(dialect));
        if !self.is_done() && self.checks_column(dialect) {
            return Some(table.check_column(dialect));
        }
        // Every state but the last one has a statement, whatever other calls of the map have done meanwhile.
        Some(match self.next {
            Next::Nothing => return None,
            Next::Find => table.find(dialect, &part()),
            Next::FindLatest => table.find_latest(&part()),
            Next::CheckServer => Engine::ask(dialect),
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
            Next::ToExternal => {
                let len = self.ids.len().min(longest_list(dialect));
                table.to_external(dialect, &self.ids[..len])
            }
            // The rows that a deletion sees, not those of a transaction's snapshot.
            Next::FindToDelete => match dialect {
                Dialect::MySql => table.find_latest(&part()),
                Dialect::Postgres | Dialect::Sqlite => table.find(dialect, &part()),
            },
            Next::Delete => table.delete(dialect, &part()),
        })
    }

    fn answer(
        &mut self,
        dialect: Dialect,
        is_in_transaction: bool,
        answer: Answer,
    ) -> Result<(), MappingError<Infallible>> {
        self.is_in_transaction = is_in_transaction;
        if self.checks_column(dialect) {
            if let Answer::Rows(rows) = answer
                && let Some([Cell::Text(column), Cell::Text(found)]) =
                    rows.first().map(Vec::as_slice)
            {
                if found != EMPTY {
                    return Err(self.table.wrong_column(column, found.clone()));
                }
            } else {
                self.table.column_is_checked();
            }
            self.checks_column = OnceLock::from(false);
            return Ok(());
        }
        // Of a batch the drivers report other statements' rows, too, or none.
        if self.next == Next::Insert {
            let inserted = match &answer {
                Answer::Rows(rows) => rows.len() as u64,
                Answer::Changed { rows, .. } => *rows,
            };
            self.is_inserted = inserted == self.missing.len() as u64;
        }
        self.next = match (self.next, answer) {
            (Next::CheckServer, Answer::Rows(rows)) => {
                if let Some(engine) = Engine::of(&rows) {
                    return Err(MappingError::Cluster { engine });
                }
                self.table.server_is_checked();
                self.insert(dialect, is_in_transaction)
            }
            (Next::Lock, Answer::Rows(rows)) => {
                let (wanted, refusal) = match dialect {
                    Dialect::MySql => (self.missing.slots().len(), MappingError::Slots),
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
                self.found.extend(mappings(&rows));
                if !self.is_through(dialect) {
                    return Ok(());
                }
                let there: HashSet<Uuid> = self.found.drain(..).map(|(_, uuid)| uuid).collect();
                self.missing.retain(|uuid| there.contains(uuid));
                self.quarantine();
                match self.missing.is_empty() {
                    true => Next::Nothing,
                    false => Next::Delete,
                }
            }
            (Next::ToExternal, Answer::Rows(rows)) => {
                self.found.extend(mappings(&rows));
                self.ids.drain(..self.ids.len().min(longest_list(dialect)));
                match self.ids.is_empty() {
                    true => Next::Nothing,
                    false => Next::ToExternal,
                }
            }
            (next, Answer::Rows(rows)) => {
                let (is_through, asked) = (self.is_through(dialect), self.missing.len());
                let found: HashSet<Uuid> = mappings(&rows).map(|(_, uuid)| uuid).collect();
                self.missing.retain(|uuid| !found.contains(uuid));
                self.found.extend(mappings(&rows));
                if !is_through {
                    self.passed = self.passed.saturating_sub(asked - self.missing.len());
                    return Ok(());
                }
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
                self.count += rows;
                match self.is_through(dialect) {
                    true => Next::Nothing,
                    false => Next::Delete,
                }
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

    fn duplicate(&self) -> Option<Self::Error> {
        Some(self.table.counter())
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
mod tests;
