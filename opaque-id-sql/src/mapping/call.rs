//! The calls of a map.
//!
//! # The order of statements
//!
//! - `find`, `to_external`: one search.
//! - `issue`: an insert of UUIDs that no other client has. MySQL returns no rows, so a search for the first
//!   and the last UUID follows. A list of `VALUES` gets consecutive integers, so these two imply the others.
//! - `get_or_insert`: a search, an insert of the missing UUIDs, and a search for the UUIDs that others
//!   inserted meanwhile. Others may delete in between, so this repeats for at most `ROUNDS` rounds without
//!   progress. PostgreSQL's insert also finds rows, so a unique index needs no search before it. Elsewhere an
//!   insert of known UUIDs would wait for SQLite's write lock, and would use up integers on MySQL. `INSERT …
//!   SELECT … WHERE NOT EXISTS` locks gaps: most inserts of eight clients with ascending UUIDs end in a
//!   deadlock.
//! - `delete`: with a cache, a search for the UUIDs that have a mapping; then the deletion.
//! - Before the first statement of a process: a check of the columns and indexes. Before the first
//!   `get_or_insert` into a hashed index: a check of the server.
//!
//! # Locks of `get_or_insert`
//!
//! | | outside of the caller's transactions | in one |
//! |---|---|---|
//! | PostgreSQL, unique | none: an insert waits in the index and then passes over the row | none |
//! | PostgreSQL, hashed | `lock_and_insert_missing` | `lock`, insert |
//! | MySQL, unique | none: a lost race fails with a duplicate key, and the call searches again | `lock`, insert |
//! | MySQL, hashed | `lock_and_insert_missing` | `lock`, insert |
//! | SQLite | none: there is one writer | none |
//!
//! InnoDB reports a deadlock if two transactions wait in the index for a UUID that is then rolled back, and
//! it ends a whole transaction. In the caller's transaction the driver cannot retry, so `lock` queues the
//! transactions and at most one waits in the index.
//!
//! A call has no transaction of its own, because `begin` of sqlx 0.9 is not cancel-safe. If it is dropped
//! before BEGIN's answer, it leaves the pool a connection in a transaction, and later acknowledged writes are
//! rolled back. So `lock_and_insert_missing` is one request. PostgreSQL makes a request of several statements
//! one transaction, and on MySQL the insert itself takes the locks. If that insert fails before its
//! transaction began, its isolation level remains for the next transaction. A harmless search then uses it
//! up.
//!
//! MySQL's duplicate key error does not reliably name the index. If a UUID is not found after all rounds, the
//! integers are used up and the call returns that error. `ON DUPLICATE KEY UPDATE` would accept another
//! UUID's row.

use core::convert::Infallible;
use std::collections::HashSet;
use std::time::Instant;

use uuid::Uuid;

use super::cache::Cache;
use super::error::MappingError;
use super::table::{FOUND, Sees, Table, longest_list};
use super::uuid_set::UuidSet;
use crate::call::Session;
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell, Statement};

/// The consecutive rounds in which a call inserts ids and finds none of them.
const ROUNDS: u32 = 10;

/// A call runs no statement itself, so this contains no ORM's error.
pub(super) type Refusal = MappingError<Infallible>;

pub(super) type Mapped = (i64, Uuid);

pub(super) struct FoundMappings {
    pub(super) mappings: Vec<Mapped>,
    /// The reads began no earlier.
    pub(super) began: Instant,
    /// Whether the last insert inserted all missing ids. Its commit then also made the earlier reads durable.
    pub(super) is_inserted: bool,
    pub(super) is_in_transaction: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Inserts {
    /// UUIDs that other clients may be inserting too.
    Missing,
    /// No other client has these UUIDs.
    New,
}

pub(super) struct Connected<'t> {
    session: Session,
    table: &'t Table,
    dialect: Dialect,
    is_in_transaction: bool,
    began: Instant,
}

impl<'t> Connected<'t> {
    pub(super) async fn begin(session: Session, table: &'t Table) -> Result<Self, Refusal> {
        let began = Instant::now();
        let connection = session.connect().await;
        let (dialect, is_in_transaction) = (connection.dialect, connection.is_in_transaction);
        table.check(&session, dialect).await?;
        Ok(Self { session, table, dialect, is_in_transaction, began })
    }

    pub(super) async fn find(self, uuids: Vec<Uuid>) -> FoundMappings {
        let mappings = self.search(&mut UuidSet::new(uuids), Sees::Snapshot).await;
        self.found(mappings, false)
    }

    pub(super) async fn find_uuids(self, ids: &[i64]) -> FoundMappings {
        let mut mappings = Vec::new();
        for part in ids.chunks(longest_list(self.dialect)) {
            let rows = self.rows(self.table.to_external(self.dialect, part)).await;
            mappings.extend(mapped(&rows));
        }
        self.found(mappings, false)
    }

    pub(super) async fn get_or_insert(self, uuids: Vec<Uuid>) -> Result<FoundMappings, Refusal> {
        let mut missing = UuidSet::new(uuids);
        // A hashed index locks the UUIDs first, so UUIDs that have a mapping are left out.
        let mappings = match self.dialect {
            Dialect::Postgres if !self.table.is_hashed() => Vec::new(),
            _ => self.search(&mut missing, Sees::Snapshot).await,
        };
        self.insert_until_found(Inserts::Missing, missing, mappings).await
    }

    /// No other client has the UUIDs.
    pub(super) async fn issue(self, uuids: Vec<Uuid>) -> Result<FoundMappings, Refusal> {
        self.insert_until_found(Inserts::New, UuidSet::new(uuids), Vec::new()).await
    }

    /// The UUIDs that have a mapping are quarantined before the deletion.
    pub(super) async fn delete(self, uuids: Vec<Uuid>, cache: Option<&Cache>) -> u64 {
        let mut uuids = UuidSet::new(uuids);
        if cache.is_some() {
            // A deletion sees the latest rows, not the transaction's snapshot.
            let there = self.search(&mut uuids.clone(), Sees::Latest).await;
            let there: HashSet<Uuid> = there.into_iter().map(|(_, uuid)| uuid).collect();
            uuids.retain(|uuid| there.contains(uuid));
        }
        let quarantine = || {
            if let Some(cache) = cache {
                cache.delete(uuids.iter().copied(), Instant::now());
            }
        };
        quarantine();
        let mut deleted = 0;
        for part in uuids.parts(longest_list(self.dialect)) {
            deleted += self.changed(self.table.delete(self.dialect, &part)).await;
            // The deletion may have waited, so the quarantine begins again.
            quarantine();
        }
        deleted
    }

    async fn insert_until_found(
        self,
        inserts: Inserts,
        mut missing: UuidSet,
        mut mappings: Vec<Mapped>,
    ) -> Result<FoundMappings, Refusal> {
        let mut is_inserted = false;
        // Since the last progress.
        let mut rounds = 0;
        while !missing.is_empty() && rounds < ROUNDS {
            if rounds > 0 {
                self.session.back_off(rounds).await;
            }
            let missing_before = missing.len();
            is_inserted = self.insert(inserts, rounds, &mut missing, &mut mappings).await?;
            if !missing.is_empty() {
                mappings.extend(self.search(&mut missing, Sees::Snapshot).await);
            }
            if !missing.is_empty() && self.is_in_transaction && self.dialect == Dialect::MySql {
                // The transaction's snapshot may be older than the row that blocked its insert.
                mappings.extend(self.search(&mut missing, Sees::Latest).await);
            }
            // Others may insert the ids of a list one by one, and each of them ends an insert on MySQL.
            rounds = if missing.len() < missing_before { 0 } else { rounds + 1 };
        }
        Ok(self.found(mappings, is_inserted))
    }

    /// Takes the integers that the answer implies. Returns whether all UUIDs were inserted.
    async fn insert(
        &self,
        inserts: Inserts,
        round: u32,
        missing: &mut UuidSet,
        mappings: &mut Vec<Mapped>,
    ) -> Result<bool, Refusal> {
        let (table, dialect) = (self.table, self.dialect);
        let is_hashed = inserts == Inserts::Missing && table.is_hashed();
        if is_hashed {
            table.check_server(&self.session, dialect).await?;
        }
        // A transaction also locks for a unique index: when an uncommitted UUID is rolled back, InnoDB finds
        // a deadlock if several transactions have waited for it in the index.
        let locks = match dialect {
            Dialect::MySql => inserts == Inserts::Missing && (self.is_in_transaction || is_hashed),
            Dialect::Postgres => is_hashed,
            // An insert holds the only write lock.
            Dialect::Sqlite => false,
        };
        // On MySQL, a lock that finds no row explains why the first insert had no effect.
        if locks && (self.is_in_transaction || (round > 0 && dialect == Dialect::MySql)) {
            self.lock(missing).await?;
        }
        if locks && !self.is_in_transaction {
            let insert = table.lock_and_insert_missing(dialect, missing);
            let inserted = match dialect {
                // If the insert fails before its transaction began, its isolation level would apply to the next one.
                Dialect::MySql => {
                    let search = table.find(dialect, Sees::Snapshot, missing);
                    self.session.try_run_or_undo(insert, search).await
                }
                _ => self.session.try_run(insert).await,
            };
            return inserted.map(|_| false).ok_or_else(|| table.counter());
        }
        let insert = match (inserts, dialect) {
            (Inserts::Missing, Dialect::MySql) if !is_hashed => table.insert(dialect, missing),
            (Inserts::Missing, _) => table.insert_missing(dialect, missing),
            (Inserts::New, _) => table.insert(dialect, missing),
        };
        match self.session.try_run(insert).await {
            Some(Answer::Rows(rows)) => {
                mappings.extend(take(missing, mapped(&rows).collect()));
                let is_new = |row: &Vec<Cell>| row.get(2) != Some(&FOUND);
                Ok(missing.is_empty() && rows.iter().any(is_new))
            }
            Some(Answer::Changed { rows, insert_id }) => {
                let is_inserted = rows == missing.len() as u64;
                let id = insert_id.and_then(|id| i64::try_from(id).ok()).filter(|id| *id > 0);
                match (&**missing, id) {
                    (&[uuid], Some(id)) if rows == 1 => {
                        mappings.push((id, uuid));
                        missing.retain(|_| false);
                    }
                    (uuids, first)
                        if uuids.len() > 2
                            && !is_hashed
                            && (first.is_some() || inserts == Inserts::New) =>
                    {
                        mappings.extend(self.find_between_ends(first, missing).await);
                    }
                    _ => {}
                }
                Ok(is_inserted)
            }
            // Another client was faster. On the other databases an insert skips existing rows.
            None if dialect == Dialect::MySql && round + 1 < ROUNDS => Ok(false),
            None => Err(table.counter()),
        }
    }

    /// The lock lasts until the end of the caller's transaction.
    async fn lock(&self, uuids: &UuidSet) -> Result<(), Refusal> {
        let (wanted, refusal) = match self.dialect {
            Dialect::MySql => (uuids.slots().len(), MappingError::Slots),
            Dialect::Postgres | Dialect::Sqlite => (1, MappingError::Isolation),
        };
        let rows = self.rows(self.table.lock(self.dialect, uuids)).await;
        if rows.len() < wanted { Err(refusal) } else { Ok(()) }
    }

    /// Returns the mappings of an inserted list if the integers of its first and last row leave no room for
    /// other rows. If other clients may have the ids, the first row must still have its inserted integer,
    /// because they may have deleted and inserted both ends.
    async fn find_between_ends(
        &self,
        inserted_first: Option<i64>,
        missing: &mut UuidSet,
    ) -> Vec<Mapped> {
        let inserted: Vec<Uuid> = self.table.insertion_order(missing).collect();
        let ends = [inserted.first(), inserted.last()].map(|uuid| uuid.copied());
        let ends_asked = UuidSet::new(ends.into_iter().flatten().collect());
        let rows = self.rows(self.table.find(self.dialect, Sees::Snapshot, &ends_asked)).await;
        let id = |uuid| mapped(&rows).find(|row| Some(row.1) == uuid).map(|row| row.0);
        match ends.map(id) {
            [Some(first), Some(last)]
                if first <= last
                    && last.abs_diff(first) == inserted.len() as u64 - 1
                    && inserted_first.is_none_or(|inserted| inserted == first) =>
            {
                missing.retain(|_| false);
                (first..=last).zip(inserted).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Removes the found UUIDs from `missing`.
    async fn search(&self, missing: &mut UuidSet, sees: Sees) -> Vec<Mapped> {
        let mut found = Vec::new();
        for part in missing.parts(longest_list(self.dialect)) {
            found.extend(mapped(&self.rows(self.table.find(self.dialect, sees, &part)).await));
        }
        take(missing, found)
    }

    async fn rows(&self, statement: Statement) -> Vec<Vec<Cell>> {
        match self.session.run(statement).await {
            Answer::Rows(rows) => rows,
            Answer::Changed { .. } => Vec::new(),
        }
    }

    async fn changed(&self, statement: Statement) -> u64 {
        match self.session.run(statement).await {
            Answer::Rows(_) => 0,
            Answer::Changed { rows, .. } => rows,
        }
    }

    fn found(&self, mappings: Vec<Mapped>, is_inserted: bool) -> FoundMappings {
        let (began, is_in_transaction) = (self.began, self.is_in_transaction);
        FoundMappings { mappings, began, is_inserted, is_in_transaction }
    }
}

fn take(missing: &mut UuidSet, mut found: Vec<Mapped>) -> Vec<Mapped> {
    found.sort_unstable_by_key(|(_, uuid)| *uuid);
    missing.retain(|uuid| found.binary_search_by_key(uuid, |(_, found)| *found).is_err());
    found
}

fn mapped(rows: &[Vec<Cell>]) -> impl Iterator<Item = Mapped> {
    rows.iter().map(|row| match **row {
        [Cell::Integer(id), Cell::Uuid(uuid), ..] => (id, uuid),
        _ => unreachable!("an adapter reads the statement's columns"),
    })
}

#[cfg(test)]
mod tests;
