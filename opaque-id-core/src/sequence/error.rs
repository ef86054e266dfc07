use thiserror::Error;

use crate::mapping::MappingError;

/// What an adapter's `Sequence` can fail with; `E` is the ORM's own error, which `source()` has and the message
/// does not repeat.
///
/// ```
/// use opaque_id_core::SequenceError;
///
/// fn is_the_databases<E>(error: &SequenceError<E>) -> bool {
///     matches!(error, SequenceError::Database(_))
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SequenceError<E> {
    /// The database failed, or the ORM.
    #[error("a statement on the table of sequences failed")]
    Database(#[source] E),
    /// The connection is in a transaction. What it takes would be given to others as well if it is rolled
    /// back.
    #[error(
        "sequence numbers are not taken in a transaction, which may be rolled back: make the keys before it begins, or on another connection"
    )]
    InTransaction,
    /// All numbers are used up.
    #[error(
        "the sequence is used up: a structured key has room for 60 bits, less those of the shard"
    )]
    Exhausted,
}

/// What the steps fail with.
#[doc(hidden)]
impl<E> From<MappingError<E>> for SequenceError<E> {
    fn from(error: MappingError<E>) -> Self {
        match error {
            MappingError::Database(error) | MappingError::Conflict(error) => Self::Database(error),
            MappingError::Isolation | MappingError::Slots | MappingError::Forgotten => {
                unreachable!("only mapping tables fail so")
            }
        }
    }
}
