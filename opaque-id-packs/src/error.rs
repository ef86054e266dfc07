use opaque_id_sql::call::RunError;
use thiserror::Error;

use crate::format::FormatError;

/// The error of an adapter's `PackTable`; `E` is the ORM's own error.
///
/// The message never repeats the ORM's message, which may contain the row's values: `source()` returns the ORM's error, for
/// the log. A message names a pack or a row by its internal id, so it is for the log as well, and not for clients.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PackError<E> {
    /// The database or the ORM failed.
    #[error("a statement on a table of packs failed")]
    Database(#[source] E),
    /// The database aborted this transaction in favour of another one, or its wait for a lock timed out. Outside of a
    /// transaction, the call was retried until its time was up, or was not after a timeout.
    #[error("conflict with another transaction: roll back and retry the whole transaction")]
    Conflict(#[source] E),
    /// What the table contains, or should contain, cannot be served.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// The reason why a call on a table of packs cannot be served, although no statement failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Refusal {
    /// A row, a pack, a dictionary or the settings cannot be read.
    #[error("{place} cannot be read")]
    #[non_exhaustive]
    Unreadable {
        /// What it is, its table and its id.
        place: String,
        /// The reason.
        source: FormatError,
    },
    /// The server has shown a version that is older than one that this client has seen before.
    #[error(
        "expected {place} at version {expected} or later, found version {found}: the server is a replica that lags, was restored from a backup, or lies"
    )]
    #[non_exhaustive]
    Older {
        /// What it is, its table and its id.
        place: String,
        /// The version that was seen.
        expected: i64,
        /// The version that was found.
        found: i64,
    },
    /// A pack ends before the next one begins, or there is none for a key.
    #[error(
        "expected {place} to continue up to the next pack, found a gap: a pack was deleted or is hidden, or the transaction reads uncommitted rows"
    )]
    #[non_exhaustive]
    Gap {
        /// The pack, or the tables if there is no pack at all.
        place: String,
    },
    /// The tables have no settings yet.
    #[error("the tables {table}_… have no settings: open them with the settings to begin with")]
    #[non_exhaustive]
    NotCreated {
        /// The name.
        table: String,
    },
    /// The table has other values, or keeps its rows in another order, than this type.
    #[error("expected {table} to contain {expected}, found {found}")]
    #[non_exhaustive]
    Mismatch {
        /// The name.
        table: String,
        /// What the type expects.
        expected: String,
        /// What the settings say.
        found: String,
    },
    /// The settings cannot be used.
    #[error("settings of {table}: {reason}")]
    #[non_exhaustive]
    Settings {
        /// The name.
        table: String,
        /// What was expected and found.
        reason: String,
    },
    /// A value cannot be encoded, or bytes in the table are not a value.
    #[error("{place}: {reason}")]
    #[non_exhaustive]
    Value {
        /// The row.
        place: String,
        /// What the encoding says, without the value.
        reason: String,
    },
    /// The database answered with other columns than those that were asked for.
    #[error("expected the columns of {table}_… as `create_sql` creates them, found others")]
    #[non_exhaustive]
    Columns {
        /// The name.
        table: String,
    },
    /// Others changed the same row or pack on every attempt.
    #[error("others changed the same row on every attempt: try again later, or merge less often")]
    Outrun,
    /// There are too few rows to train a dictionary.
    #[error("expected more rows to train a dictionary from, found {rows}: {reason}")]
    #[non_exhaustive]
    Training {
        /// The number of rows that were sampled.
        rows: usize,
        /// What zstd says.
        reason: String,
    },
}

#[doc(hidden)]
impl<E> From<RunError<E, Refusal>> for PackError<E> {
    fn from(error: RunError<E, Refusal>) -> Self {
        match error {
            RunError::Database(error) => Self::Database(error),
            RunError::Conflict(error) => Self::Conflict(error),
            RunError::Refused(refusal) => Self::Refused(refusal),
        }
    }
}
