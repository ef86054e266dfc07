use std::error::Error;
use std::fmt;
use std::mem::discriminant;

use opaque_id_sql::call::RunError;
use thiserror::Error;

use crate::format::FormatError;

/// The error of an adapter's `PackTable` or `EncryptedColumn`. `E` is the ORM's own error.
///
/// The message repeats neither an internal id nor the ORM's message, because that may contain the row's
/// values. For the log, `source()` returns the ORM's error, and [`location`](Self::location) identifies the
/// row or pack.
#[derive(Debug)]
#[non_exhaustive]
pub enum PackError<E> {
    /// The database or the ORM failed.
    Database(E),
    /// The database aborted this transaction in favor of another one, or its wait for a lock timed out.
    /// Outside of a transaction, the call was retried until its time was up, but not after a timeout.
    Conflict(E),
    /// The content of the table is wrong or missing.
    Table(TableError),
}

impl<E: fmt::Display> fmt::Display for PackError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(error) => {
                f.write_str("a statement on a table of packs or an encrypted column failed")?;
                let error = error.to_string();
                // A missing column is a column of a relation.
                let names_relation = error.contains("relation ") && !error.contains("column ");
                match names_relation && error.contains("does not exist")
                    || error.contains("doesn't exist")
                    || error.contains("no such table")
                {
                    true => f.write_str(
                        ": create the missing tables by `create_sql` or `opaque-id packs create` (for columns, `--column`)",
                    ),
                    false => Ok(()),
                }
            }
            Self::Conflict(_) => f.write_str(
                "conflict with another transaction: roll back and retry the whole transaction",
            ),
            Self::Table(problem) => problem.fmt(f),
        }
    }
}

impl<E: Error + 'static> Error for PackError<E> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database(error) | Self::Conflict(error) => Some(error),
            Self::Table(problem) => problem.source(),
        }
    }
}

impl<E> From<TableError> for PackError<E> {
    fn from(problem: TableError) -> Self {
        Self::Table(problem)
    }
}

impl<E> PackError<E> {
    /// Returns the location of the error, if it has one.
    #[must_use]
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::Table(problem) => problem.location(),
            Self::Database(_) | Self::Conflict(_) => None,
        }
    }
}

/// A row, a pack, a value of a column, a dictionary or the settings of a table. `Display` and `Debug` omit
/// the id.
#[derive(Clone, PartialEq, Eq)]
pub struct Location {
    pub(crate) name: String,
    pub(crate) id: Option<String>,
}

impl Location {
    /// Returns the id of a row, a pack or a value's row in the database's form. It is an internal key, or the
    /// first key of a pack. Write it only to the log of the database's operators.
    #[must_use]
    pub fn expose_id(&self) -> Option<&str> {
        self.id.as_deref()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Location").field(&self.name).finish()
    }
}

/// The reason why a call on a table of packs is refused although no statement failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TableError {
    /// A row, a pack, a value, a dictionary or the settings cannot be read.
    #[error("{location} cannot be read")]
    #[non_exhaustive]
    Unreadable {
        /// The location.
        location: Location,
        /// The reason.
        source: FormatError,
    },
    /// A row, a pack, a dictionary or the settings cannot be written.
    #[error("{location} cannot be written")]
    #[non_exhaustive]
    Unwritable {
        /// The location.
        location: Location,
        /// The reason.
        source: FormatError,
    },
    /// The server shows an older state than this client has seen. It lags, was restored from a backup, has
    /// failed over or crashed, or was tampered with. If it still shows this state after a minute, the client
    /// accepts it, without the missing writes.
    #[error(
        "expected {location} to have been replaced {expected} times or more, found {found}: the server shows an older state; retry after a minute"
    )]
    #[non_exhaustive]
    Older {
        /// The location.
        location: Location,
        /// The number of replacements that this client has seen.
        expected: i64,
        /// The number of replacements in the found state.
        found: i64,
    },
    /// A pack ends before the next one begins, or no pack contains a key. A pack was deleted or is hidden, or
    /// the transaction reads uncommitted rows.
    #[error(
        "expected {location} to continue up to the next pack, found a gap: restore the missing pack by `opaque-id packs restore`"
    )]
    #[non_exhaustive]
    Gap {
        /// The pack before the gap, or the table if there is none.
        location: Location,
    },
    /// A pack reaches into the next one: an old state of it, from before it was split, was put back.
    #[error(
        "expected {location} to end where the next pack begins, found that it reaches into it: repair it by `opaque-id packs restore`"
    )]
    #[non_exhaustive]
    Overlap {
        /// The old pack.
        location: Location,
    },
    /// The tables have no settings.
    #[error(
        "the tables {table}_… have no settings: restore {table}_meta from a backup, or begin by `open(…, settings)` or `opaque-id packs create`"
    )]
    #[non_exhaustive]
    NotCreated {
        /// The name.
        table: String,
    },
    /// The table has another type of values or order of rows.
    #[error("expected {table} to contain {expected}, found {found}")]
    #[non_exhaustive]
    Mismatch {
        /// The name.
        table: String,
        /// The Rust type's requirement.
        expected: String,
        /// The table's settings.
        found: String,
    },
    /// The settings cannot be used.
    #[error("settings of {table}: {reason}")]
    #[non_exhaustive]
    Settings {
        /// The name.
        table: String,
        /// The expected and the found settings.
        reason: String,
    },
    /// A value of a column was compressed with a dictionary that this process has not read. `refresh` and
    /// `decrypt_on` read it.
    #[error(
        "{location} was compressed with the unknown dictionary {dictionary}: read it by `refresh` or `decrypt_on`, or restore the dictionary from a backup"
    )]
    #[non_exhaustive]
    UnknownDictionary {
        /// The location.
        location: Location,
        /// The number of the dictionary.
        dictionary: u16,
    },
    /// The group of a column's value is erased.
    #[error("{location} cannot be read any more: its group is erased")]
    #[non_exhaustive]
    Erased {
        /// The location.
        location: Location,
    },
    /// A value cannot be encoded, or bytes in the table are not a value.
    #[error("{location}: {reason}")]
    #[non_exhaustive]
    Value {
        /// The row.
        location: Location,
        /// The encoding's message, without the value.
        reason: String,
    },
    /// A value is in plaintext, and the column accepts none.
    #[error(
        "{location} is in plaintext: expected it to be encrypted, by `convert` or `opaque-id packs convert`"
    )]
    #[non_exhaustive]
    Plaintext {
        /// The row.
        location: Location,
    },
    /// The fingerprint in a row's blind index is missing or differs from the value's.
    #[error(
        "{location} has another fingerprint: run `opaque-id packs convert --to index`, or set it to NULL if there is no value"
    )]
    #[non_exhaustive]
    Fingerprint {
        /// The row.
        location: Location,
    },
    /// A row was not converted because another row has its fingerprint and the index is unique.
    #[error(
        "{location} has the fingerprint of another row, and the blind index is unique: change or delete one of the rows"
    )]
    #[non_exhaustive]
    Duplicate {
        /// The row.
        location: Location,
    },
    /// The database did not take a row.
    #[error("{location} cannot be written: {reason}; change the table or the row, and try again")]
    #[non_exhaustive]
    Refused {
        /// The row.
        location: Location,
        /// The reason, without the value.
        reason: &'static str,
    },
    /// The database answered with other columns.
    #[error("expected the columns of {table}_… as `create_sql` creates them, found others")]
    #[non_exhaustive]
    Columns {
        /// The name.
        table: String,
    },
    /// A table has lost its primary key, so that it may have two rows of one id. `CREATE TABLE … AS SELECT` copies none.
    #[error(
        "expected a primary key over id of {table}, found none: stop the application and add it, or recreate the table as `create_sql` does"
    )]
    #[non_exhaustive]
    PrimaryKey {
        /// The table.
        table: String,
    },
    /// Other clients changed the same row or pack on every attempt. On MySQL the transaction may also have
    /// written through a pack that others had split since it began.
    #[error(
        "the row or pack was changed concurrently on every attempt, or since the transaction began; retry later, or merge less often"
    )]
    Outrun,
    /// A dictionary cannot be trained.
    #[error(
        "expected more samples for a dictionary, about a hundred times its size, found {rows}: {reason}"
    )]
    #[non_exhaustive]
    Training {
        /// The number of samples.
        rows: usize,
        /// The reason.
        reason: String,
    },
}

/// How many problems of each kind a result has.
const SHOWN: usize = 100;

/// Adds a problem, or only counts it if there are enough of its kind.
pub(crate) fn add(problems: &mut Vec<TableError>, more: &mut u64, problem: TableError) {
    let kind = discriminant(&problem);
    match problems.iter().filter(|other| discriminant(*other) == kind).nth(SHOWN - 1) {
        None => problems.push(problem),
        Some(_) => *more += 1,
    }
}

impl TableError {
    /// Returns the location of the problem, if it has one.
    #[must_use]
    pub fn location(&self) -> Option<&Location> {
        match self {
            Self::Unreadable { location, .. }
            | Self::Unwritable { location, .. }
            | Self::Older { location, .. }
            | Self::Gap { location }
            | Self::Overlap { location }
            | Self::Erased { location }
            | Self::UnknownDictionary { location, .. }
            | Self::Plaintext { location }
            | Self::Fingerprint { location }
            | Self::Duplicate { location }
            | Self::Refused { location, .. }
            | Self::Value { location, .. } => Some(location),
            _ => None,
        }
    }
}

#[doc(hidden)]
impl<E> From<RunError<E, TableError>> for PackError<E> {
    fn from(error: RunError<E, TableError>) -> Self {
        match error {
            RunError::Database(error) => Self::Database(error),
            RunError::Conflict(error) => Self::Conflict(error),
            RunError::Call(problem) => Self::Table(problem),
        }
    }
}
