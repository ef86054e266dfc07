//! The calls of a map: which statements they run, and what the answers mean. Nothing here runs a statement.
//!
//! # The order of statements
//!
//! - `find`, `to_external`: one search.
//! - `issue`: an insert of UUIDs that no other client has. MySQL returns no rows, so a search for the first and the last one follows:
//!   a list of `VALUES` gets consecutive integers, so these two imply the others.
//! - `get_or_insert`: a search, an insert of the missing UUIDs, a search for the ones that others inserted meanwhile; again, for at most
//!   `ROUNDS` rounds without progress, because others may delete in between. PostgreSQL's insert finds rows too, so a unique index needs
//!   no search before it. On the others a search comes first. An insert of known UUIDs would wait for SQLite's write lock. On MySQL it
//!   would use integers, and `INSERT … SELECT … WHERE NOT EXISTS` locks gaps: of eight clients with ascending UUIDs, most inserts end in
//!   a deadlock.
//! - `delete`: with a cache, first a search for the UUIDs that have a mapping, because only these are quarantined; then the deletion.
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
//! | PostgreSQL, hashed | `lock_and_insert_missing` | `lock`, insert |
//! | MySQL, unique | none: a lost race fails with a duplicate key, and the call searches again | `lock`, insert |
//! | MySQL, hashed | `lock_and_insert_missing` | `lock`, insert |
//! | SQLite | none: there is one writer | none |
//!
//! InnoDB finds a deadlock as soon as two transactions wait in the index for a UUID that is then rolled back, and ends a whole
//! transaction for it. Outside of the caller's transactions the driver retries. In a transaction it cannot, so there `lock` queues
//! them, and at most one waits in the index.
//!
//! A call has no transaction of its own. `begin` of sqlx 0.9 is not cancel-safe: dropped before BEGIN's answer, it leaves the pool a
//! connection in a transaction, and later acknowledged writes are rolled back. So `lock_and_insert_missing` is one request: PostgreSQL
//! makes a request of several statements one transaction, and on MySQL the insert itself takes the locks. If that insert fails before
//! its transaction began, its isolation level is left for the next transaction: a harmless search then uses it up.
//!
//! A duplicate key on MySQL does not say reliably which index had it. A UUID that is not found after all rounds means that
//! the integers are used up, and the call returns an error that says so. `ON DUPLICATE KEY UPDATE` would accept another UUID's row.

use core::convert::Infallible;
use std::collections::HashSet;
use std::time::Instant;

use uuid::Uuid;

use super::asked::Asked;
use super::cache::Cache;
use super::error::MappingError;
use super::table::{EMPTY, FOUND, Table, longest_list};
use crate::call::Session;
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::statement::{Answer, Cell, Statement};

/// The number of times in a row that a call inserts ids and then finds none of them.
const ROUNDS: u32 = 10;

/// The error of a call. The ORM's errors are not among them, because a call runs no statement itself.
pub(super) type Refusal = MappingError<Infallible>;

/// An integer and its UUID.
pub(super) type Mapped = (i64, Uuid);

/// The mappings that a call has found.
pub(super) struct Found {
    pub(super) mappings: Vec<Mapped>,
    /// When the call began; its reads began no earlier.
    pub(super) began: Instant,
    /// Whether the last insert has inserted all ids that were missing, so that its commit has made what was read before it durable.
    pub(super) is_inserted: bool,
    /// Whether the mappings may be rolled back.
    pub(super) is_in_transaction: bool,
}

/// Which UUIDs a call inserts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inserts {
    /// UUIDs that other clients may be inserting too.
    Missing,
    /// New UUIDs. No other client has them.
    New,
}

/// A call of a map that has a connection.
pub(super) struct Connected<'t> {
    session: Session,
    table: &'t Table,
    dialect: Dialect,
    is_in_transaction: bool,
    began: Instant,
}

impl<'t> Connected<'t> {
    /// Connects, and checks the columns and the index of the table before the first statement of a process.
    ///
    /// # Errors
    /// [`MappingError::Column`] and [`MappingError::Index`].
    pub(super) async fn begin(session: Session, table: &'t Table) -> Result<Self, Refusal> {
        let began = Instant::now();
        let connection = session.connect().await;
        let (dialect, is_in_transaction) = (connection.dialect, connection.is_in_transaction);
        if table.is_column_to_check(dialect) {
            match session.run(table.check_column(dialect)).await {
                Answer::Rows(rows) if !rows.is_empty() => {
                    if let [Cell::Text(column), Cell::Text(found)] = &rows[0][..]
                        && found != EMPTY
                    {
                        return Err(table.wrong_column(column, found.clone()));
                    }
                }
                _ => table.column_is_checked(),
            }
        }
        Ok(Self { session, table, dialect, is_in_transaction, began })
    }

    /// Returns the integers of the UUIDs that have one.
    pub(super) async fn find(self, uuids: Vec<Uuid>) -> Found {
        let mappings = self.search(&mut Asked::new(uuids)).await;
        self.found(mappings, false)
    }

    /// Returns the UUIDs of the integers that have one.
    pub(super) async fn find_uuids(self, ids: &[i64]) -> Found {
        let mut mappings = Vec::new();
        for part in ids.chunks(longest_list(self.dialect)) {
            let rows = self.rows(self.table.to_external(self.dialect, part)).await;
            mappings.extend(mapped(&rows));
        }
        self.found(mappings, false)
    }

    /// Returns the integers of UUIDs, and inserts the missing UUIDs.
    ///
    /// # Errors
    /// The reason why an insert is refused.
    pub(super) async fn get_or_insert(self, uuids: Vec<Uuid>) -> Result<Found, Refusal> {
        let mut missing = Asked::new(uuids);
        // PostgreSQL's insert finds the others. A hashed index locks the UUIDs before it, so those that have a mapping are left out.
        let mappings = match self.dialect {
            Dialect::Postgres if !self.table.is_hashed() => Vec::new(),
            _ => self.search(&mut missing).await,
        };
        self.insert_until_found(Inserts::Missing, missing, mappings).await
    }

    /// Inserts UUIDs that no other client has, and returns their integers.
    ///
    /// # Errors
    /// The reason why an insert is refused.
    pub(super) async fn issue(self, uuids: Vec<Uuid>) -> Result<Found, Refusal> {
        self.insert_until_found(Inserts::New, Asked::new(uuids), Vec::new()).await
    }

    /// Deletes the mappings of UUIDs, and returns how many there were. The UUIDs that have a mapping are kept out of the cache from before
    /// they are deleted.
    pub(super) async fn delete(self, uuids: Vec<Uuid>, cache: Option<&Cache>) -> u64 {
        let mut uuids = Asked::new(uuids);
        if cache.is_some() {
            // The rows that a deletion sees, not the rows of a transaction's snapshot.
            let there = match self.dialect {
                Dialect::MySql => self.search_latest(&mut uuids.clone()).await,
                Dialect::Postgres | Dialect::Sqlite => self.search(&mut uuids.clone()).await,
            };
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
            // Once more, because the deletion may have waited.
            quarantine();
        }
        deleted
    }

    async fn insert_until_found(
        self,
        inserts: Inserts,
        mut missing: Asked,
        mut mappings: Vec<Mapped>,
    ) -> Result<Found, Refusal> {
        let mut is_inserted = false;
        // The number of inserts since the last one after which an id was found.
        let mut rounds = 0;
        while !missing.is_empty() && rounds < ROUNDS {
            if rounds > 0 {
                self.session.back_off(rounds).await;
            }
            let missing_before = missing.len();
            is_inserted = self.insert(inserts, rounds, &mut missing, &mut mappings).await?;
            if !missing.is_empty() {
                mappings.extend(self.search(&mut missing).await);
            }
            if !missing.is_empty() && self.is_in_transaction && self.dialect == Dialect::MySql {
                // The snapshot of the transaction may be older than the row that kept its insert out.
                mappings.extend(self.search_latest(&mut missing).await);
            }
            // Others may insert the ids of a list one by one, each of which ends an insert on MySQL.
            rounds = if missing.len() < missing_before { 0 } else { rounds + 1 };
        }
        Ok(self.found(mappings, is_inserted))
    }

    /// Inserts the missing UUIDs, and takes over those whose integers the answer implies. Returns whether it has inserted all of them, so
    /// that the commit has made durable what was read before.
    async fn insert(
        &self,
        inserts: Inserts,
        round: u32,
        missing: &mut Asked,
        mappings: &mut Vec<Mapped>,
    ) -> Result<bool, Refusal> {
        let (table, dialect) = (self.table, self.dialect);
        let is_hashed = inserts == Inserts::Missing && table.is_hashed();
        if is_hashed && table.is_server_to_check(dialect) {
            if let Some(engine) = Engine::of(&self.rows(Engine::ask(dialect)).await) {
                return Err(MappingError::Cluster { engine });
            }
            table.server_is_checked();
        }
        // In a transaction also for a unique index: as soon as an uncommitted UUID is rolled back, InnoDB finds the transactions
        // deadlocked that have waited for it in the index, if they are more than one.
        let locks = match dialect {
            Dialect::MySql => inserts == Inserts::Missing && (self.is_in_transaction || is_hashed),
            Dialect::Postgres => is_hashed,
            // An insert holds the one write lock that there is.
            Dialect::Sqlite => false,
        };
        // On MySQL, a lock that finds no row explains why the first insert has inserted nothing.
        if locks && (self.is_in_transaction || (round > 0 && dialect == Dialect::MySql)) {
            self.lock(missing).await?;
        }
        if locks && !self.is_in_transaction {
            let insert = table.lock_and_insert_missing(dialect, missing);
            let inserted = match dialect {
                // If the insert fails before its transaction began, its isolation level is still to come for the next one.
                Dialect::MySql => {
                    let search = table.find(dialect, missing);
                    self.session.try_run_or_undo(insert, search).await
                }
                _ => self.session.try_run(insert).await,
            };
            return inserted.map(|_| false).ok_or_else(|| table.counter());
        }
        let insert = match (inserts, dialect) {
            // A unique index there fails for a UUID that it has.
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
            // Another client was faster. On the other databases an insert passes over what is there.
            None if dialect == Dialect::MySql && round + 1 < ROUNDS => Ok(false),
            None => Err(table.counter()),
        }
    }

    /// Locks the hashes of UUIDs, until the end of the caller's transaction.
    async fn lock(&self, uuids: &Asked) -> Result<(), Refusal> {
        let (wanted, refusal) = match self.dialect {
            Dialect::MySql => (uuids.slots().len(), MappingError::Slots),
            Dialect::Postgres | Dialect::Sqlite => (1, MappingError::Isolation),
        };
        let rows = self.rows(self.table.lock(self.dialect, uuids)).await;
        if rows.len() < wanted { Err(refusal) } else { Ok(()) }
    }

    /// Returns the mappings of a list that was inserted if the integers of its first and its last row leave room for no
    /// others: the integers of a statement ascend. Unless no other client has the ids, the first must still have the integer that it was
    /// inserted with, because others may have deleted and inserted both meanwhile.
    async fn find_between_ends(
        &self,
        inserted_first: Option<i64>,
        missing: &mut Asked,
    ) -> Vec<Mapped> {
        let inserted: Vec<Uuid> = self.table.insertion_order(missing).collect();
        let ends = [inserted.first(), inserted.last()].map(|uuid| uuid.copied());
        let ends_asked = Asked::new(ends.into_iter().flatten().collect());
        let rows = self.rows(self.table.find(self.dialect, &ends_asked)).await;
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

    /// Returns the mappings of the missing UUIDs that have one. The others stay missing.
    async fn search(&self, missing: &mut Asked) -> Vec<Mapped> {
        let mut found = Vec::new();
        for part in missing.parts(longest_list(self.dialect)) {
            found.extend(mapped(&self.rows(self.table.find(self.dialect, &part)).await));
        }
        take(missing, found)
    }

    /// Searches like [`search`](Self::search) on MySQL, also for rows that are newer than the transaction's snapshot.
    async fn search_latest(&self, missing: &mut Asked) -> Vec<Mapped> {
        let mut found = Vec::new();
        for part in missing.parts(longest_list(self.dialect)) {
            found.extend(mapped(&self.rows(self.table.find_latest(&part)).await));
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

    fn found(&self, mappings: Vec<Mapped>, is_inserted: bool) -> Found {
        let (began, is_in_transaction) = (self.began, self.is_in_transaction);
        Found { mappings, began, is_inserted, is_in_transaction }
    }
}

/// Removes the UUIDs of mappings from the missing ones, and returns the mappings.
fn take(missing: &mut Asked, mut found: Vec<Mapped>) -> Vec<Mapped> {
    found.sort_unstable_by_key(|(_, uuid)| *uuid);
    missing.retain(|uuid| found.binary_search_by_key(uuid, |(_, found)| *found).is_err());
    found
}

/// Reads the rows of a mapping table.
fn mapped(rows: &[Vec<Cell>]) -> impl Iterator<Item = Mapped> {
    rows.iter().map(|row| match **row {
        [Cell::Integer(id), Cell::Uuid(uuid), ..] => (id, uuid),
        _ => unreachable!("an adapter reads the statement's columns"),
    })
}

#[cfg(test)]
mod tests;
