use thiserror::Error;

use crate::call::RunError;

/// Why a call of an adapter's `UuidMap` failed; `E` is the ORM's own error.
///
/// The message never repeats the ORM's, which may contain the row's values: `source()` returns it, for the log.
///
/// ```
/// use opaque_id_sql::MappingError;
///
/// fn can_be_retried<E>(error: &MappingError<E>) -> bool {
///     matches!(error, MappingError::Conflict(_))
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MappingError<E> {
    /// The database failed, or the ORM.
    #[error("a statement on the mapping table failed")]
    Database(#[source] E),
    /// The database made this transaction give way to another one, or did not let it wait any longer.
    /// Outside of a transaction the call has been retried, in vain.
    #[error(
        "conflict with another transaction: roll back and retry the whole transaction; to avoid it, map all ids of a transaction in one call"
    )]
    Conflict(#[source] E),
    /// The hashed index, in a transaction that does not see what others have committed since it began.
    #[error(
        "a map with a hashed index cannot be written in a transaction above READ COMMITTED: begin it as READ COMMITTED, map before it begins, or use the unique index"
    )]
    Isolation,
    /// On MySQL and MariaDB, the rows that inserts lock are missing.
    #[error(
        "the table opaque_id_slots lacks rows: run the whole of the map's migration, including its INSERT"
    )]
    Slots,
    /// Others have deleted the mappings each time that they were inserted.
    #[error("the mappings were deleted concurrently on every attempt; try again later")]
    Deleted,
}

/// Why a lock cannot be used.
#[derive(Clone, Copy, Debug)]
pub enum LockRefusal {
    /// [`MappingError::Isolation`].
    Isolation,
    /// [`MappingError::Slots`].
    Slots,
}

#[doc(hidden)]
impl<E> From<RunError<E, LockRefusal>> for MappingError<E> {
    fn from(error: RunError<E, LockRefusal>) -> Self {
        match error {
            RunError::Database(error) => Self::Database(error),
            RunError::Conflict(error) => Self::Conflict(error),
            RunError::Refused(LockRefusal::Isolation) => Self::Isolation,
            RunError::Refused(LockRefusal::Slots) => Self::Slots,
        }
    }
}
