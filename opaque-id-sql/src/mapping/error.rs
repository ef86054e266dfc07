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
    /// The mapping table lacks an index of [`create_sql`](crate::mapping::create_sql). An index must cover
    /// whole values and all rows. Unless it is over the hash, it must be unique, because otherwise one UUID
    /// could get two integers, or two UUIDs one integer. Its creation fails if that has already happened.
    #[error(
        "expected {} over {columns} of the table {table}, on whole values of all rows, found none: create it by the map's create_sql",
        if columns.starts_with("hash") { "an index" } else { "a unique index" }
    )]
    Index {
        /// The table.
        table: &'static str,
        /// The index's columns.
        columns: String,
    },
    /// On MySQL and MariaDB, the table `opaque_id_slots` lacks rows. Run the migration's last two statements.
    /// On a cluster, wait until they have reached this node.
    #[error(
        "the table opaque_id_slots lacks rows: run the last two statements of the map's migration"
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
    /// A row of a view has no external id in the table. Insert rows with integers of `issue` or
    /// `get_or_insert`, and let a foreign key refer to the mappings. If others may delete rows, read them in
    /// the REPEATABLE READ transaction of `view_all`. In a column of the rows, no UUID may be NULL.
    #[error(
        "a row has no external id in the table {table}: its mapping was deleted, or its integer is not from `issue` or `get_or_insert`"
    )]
    Unmapped {
        /// The table.
        table: &'static str,
    },
    /// The inserted mappings were missing on every attempt. Other transactions delete them, or a trigger or a
    /// row-level policy hides them.
    #[error(
        "the inserted mappings were missing on every attempt: others delete them, or a trigger or row-level policy hides them"
    )]
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
                MappingError::Unmapped { table } => Self::Unmapped { table },
                MappingError::Deleted => Self::Deleted,
            },
        }
    }
}
