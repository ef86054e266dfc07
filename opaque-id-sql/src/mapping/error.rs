use core::convert::Infallible;

use thiserror::Error;

use crate::call::RunError;
use crate::engine::Engine;

/// The error of an adapter's `UuidMap`; `E` is the ORM's own error.
///
/// `source()` returns the ORM's error, for the log. The message never repeats it because it may contain the
/// row's values.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MappingError<E> {
    /// The database or the ORM failed.
    #[error("a statement on the mapping table failed")]
    Database(#[source] E),
    /// The database aborted this transaction in favor of another one, or its wait for a lock timed out.
    /// Outside of a transaction the call was retried for `retry_for`, but not after a timeout. To avoid
    /// conflicts, map all ids of a transaction in one call.
    #[error("conflict with another transaction: roll back and retry the whole transaction")]
    Conflict(#[source] E),
    /// The map has a hashed index, and the transaction does not see rows that were committed since it began.
    /// Begin it as READ COMMITTED, map before it begins, or use the unique index.
    #[error(
        "a map with a hashed index cannot be written in a transaction above READ COMMITTED: lower its isolation, or use the unique index"
    )]
    Isolation,
    /// The map has a hashed index, and a lock on one of the engine's servers does not stop inserts on the
    /// others.
    #[error(
        "a map with a hashed index cannot be written on {engine} because it writes on several servers: use the unique index"
    )]
    Cluster {
        /// The server's engine.
        engine: Engine,
    },
    /// On MySQL, MariaDB and SQLite, the column of the UUIDs does not contain 16 bytes, so a search would
    /// never find a row. On MySQL and MariaDB, the column of the integers may also have another type. Convert
    /// the column, or create a mapping table by `create_sql`.
    #[error(
        "expected UUIDs of 16 bytes and integers, found {found} in the column {column} of the table {table}: convert it to the type in create_sql"
    )]
    Column {
        /// The table.
        table: &'static str,
        /// The column.
        column: &'static str,
        /// The column's type.
        found: String,
    },
    /// The mapping table lacks the index of [`create_sql`](crate::mapping::create_sql). It must cover whole
    /// values and all rows. Unless it is over the hash, it must be unique, because one UUID could get two
    /// integers otherwise. Its creation fails if a UUID already has two integers.
    #[error(
        "expected an index over {columns} of the table {table}, on whole values of all rows, found none: create it with the map's create_sql"
    )]
    Index {
        /// The table.
        table: &'static str,
        /// The index's columns.
        columns: String,
    },
    /// On MySQL and MariaDB, the table `opaque_id_slots` lacks rows. Run the complete migration, including
    /// its INSERT. On a cluster, wait until it has reached this node.
    #[error(
        "the table opaque_id_slots lacks rows: run the map's complete migration, including its INSERT"
    )]
    Slots,
    /// The next integer belongs to another row, or PostgreSQL has no integer left. A counter is behind after
    /// an import, and on a replica if rows were copied without it, as PostgreSQL's logical replication does.
    #[error(
        "the counter of the table {table} is behind its greatest integer, or used up: set it past the greatest one"
    )]
    Counter {
        /// The table.
        table: &'static str,
    },
    /// A row of a view has no mapping. Insert the row with the integer that `issue` or `get_or_insert`
    /// returned, and delete the mapping after the row. In a column of the row's own table, the UUID must not
    /// be NULL.
    #[error(
        "a row has no external id: insert it with an integer from `issue` or `get_or_insert`, or set its own UUID"
    )]
    Unmapped,
    /// Other transactions deleted the inserted mappings on every attempt.
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
