//! The error of a map's calls, and the reasons for which a call is refused although no statement failed.

use core::convert::Infallible;

use thiserror::Error;

use crate::call::RunError;
use crate::engine::Engine;

/// The error of an adapter's `UuidMap`; `E` is the ORM's own error.
///
/// The message never repeats the ORM's message, which may contain the row's values: `source()` returns the ORM's
/// error, for the log.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MappingError<E> {
    /// The database or the ORM failed.
    #[error("a statement on the mapping table failed")]
    Database(#[source] E),
    /// The database aborted this transaction in favor of another one, or its wait for a lock timed out. Outside
    /// of a transaction, the call was retried until its time was up (`retry_for`), or was not after a timeout.
    #[error(
        "conflict with another transaction: roll back and retry the whole transaction; to avoid it, map all ids of a transaction in one call"
    )]
    Conflict(#[source] E),
    /// The map has a hashed index, and the transaction does not see rows that were committed since it began.
    #[error(
        "a map with a hashed index cannot be written in a transaction above READ COMMITTED: begin it as READ COMMITTED, map before it begins, or use the unique index"
    )]
    Isolation,
    /// The map has a hashed index, and the server belongs to an engine that writes on several servers: a lock on one of them does not
    /// keep the others from inserting.
    #[error(
        "a map with a hashed index cannot be written on {engine}, which writes on several servers: use the unique index"
    )]
    Cluster {
        /// The server's engine.
        engine: Engine,
    },
    /// On MySQL, MariaDB and SQLite, the column of the UUIDs does not contain 16 bytes, and nothing would ever be found in it; or, on
    /// MySQL and MariaDB, that of the integers contains something else.
    #[error(
        "expected UUIDs to be BINARY(16), on SQLite blobs of 16 bytes, and integers to be integers, found {found} in the column {column} of the table {table}: convert it, or create a mapping table with the map's create_sql"
    )]
    Column {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The column's type.
        found: String,
    },
    /// The mapping table has not the index of [`create_sql`](crate::mapping::create_sql): without a unique one, one UUID could get two
    /// integers.
    #[error(
        "expected an index over {columns} of the table {table}, on whole values and all rows, and unique unless it is over the hash, found none: create it as the map's create_sql does; that fails if a UUID already has two integers"
    )]
    Index {
        /// The table.
        table: &'static str,
        /// The index's columns.
        columns: String,
    },
    /// On MySQL and MariaDB, the table `opaque_id_slots` lacks rows that inserts lock.
    #[error(
        "the table opaque_id_slots lacks rows: run the map's complete migration, including its INSERT; on a cluster, wait until it has reached this node"
    )]
    Slots,
    /// The next integer is another row's, or on PostgreSQL no integer is left. A counter is behind after an import, and on a replica to which rows were
    /// copied without it, such as by PostgreSQL's logical replication.
    #[error(
        "the counter of the table {table} is behind its greatest integer, or used up: set it past the greatest one"
    )]
    Counter {
        /// The table.
        table: &'static str,
    },
    /// A row that should be shown has no mapping.
    #[error(
        "a row has no external id: insert it with the integer that the map's `issue` or `get_or_insert` has returned, and delete the mapping after the row; with a column of its own, its UUID must not be NULL"
    )]
    Unmapped,
    /// Other transactions deleted the mappings each time that they were inserted.
    #[error("the mappings were deleted concurrently on every attempt; try again later")]
    Deleted,
}

#[doc(hidden)]
impl<E> From<RunError<E, MappingError<Infallible>>> for MappingError<E> {
    fn from(error: RunError<E, MappingError<Infallible>>) -> Self {
        match error {
            RunError::Database(error) => Self::Database(error),
            RunError::Conflict(error) => Self::Conflict(error),
            RunError::Call(error) => match error {
                MappingError::Database(never) | MappingError::Conflict(never) => match never {},
                MappingError::Isolation => Self::Isolation,
                MappingError::Cluster { engine } => Self::Cluster { engine },
                MappingError::Column { table, column, found } => {
                    Self::Column { table, column, found }
                }
                MappingError::Index { table, columns } => Self::Index { table, columns },
                MappingError::Slots => Self::Slots,
                MappingError::Counter { table } => Self::Counter { table },
                MappingError::Unmapped => Self::Unmapped,
                MappingError::Deleted => Self::Deleted,
            },
        }
    }
}
