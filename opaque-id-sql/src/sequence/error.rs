use core::convert::Infallible;

use thiserror::Error;

use crate::call::RunError;

/// The error of an adapter's `Sequence`. `E` is the ORM's own error: `source()` returns it, and the message
/// does not repeat it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SequenceError<E> {
    /// The database or the ORM failed.
    #[error("a statement on the table of sequences failed")]
    Database(#[source] E),
    /// Other transactions conflicted with every retry of the call until its time was up (`retry_for`), or the
    /// wait for a lock timed out.
    #[error("other transactions hold the row of the sequence; try again later")]
    Conflict(#[source] E),
    /// The connection is in a transaction. If it is rolled back, its numbers are allocated again.
    #[error(
        "cannot allocate sequence numbers in a transaction (a rollback would hand them out twice): allocate them before it begins"
    )]
    InTransaction,
    /// On MySQL and MariaDB, the table `opaque_id_sequences` is not the one of `create_sql`, such as a copy by
    /// `CREATE TABLE … AS SELECT`. Numbers would be allocated twice.
    #[error(
        "the table opaque_id_sequences lost its primary key over name, or has another column: stop the application, keep the greatest used, and recreate the table"
    )]
    Key,
    /// All numbers are used up.
    #[error(
        "the sequence is exhausted: a structured key has room for 60 bits, including those of the shard"
    )]
    Exhausted,
}

/// A call runs no statement itself.
pub(super) type Refusal = SequenceError<Infallible>;

#[doc(hidden)]
impl<E> From<RunError<E, Refusal>> for SequenceError<E> {
    fn from(error: RunError<E, Refusal>) -> Self {
        match error {
            RunError::Database(error) => Self::Database(error),
            RunError::Conflict(error) => Self::Conflict(error),
            RunError::Call(error) => match error {
                SequenceError::Database(never) | SequenceError::Conflict(never) => match never {},
                SequenceError::InTransaction => Self::InTransaction,
                SequenceError::Key => Self::Key,
                SequenceError::Exhausted => Self::Exhausted,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use core::error::Error;

    use super::SequenceError;
    use crate::MappingError;

    #[derive(Debug, thiserror::Error)]
    #[error("Duplicate entry '123456' for key 'PRIMARY'")]
    struct DatabaseError;

    #[test]
    fn messages_do_not_repeat_the_databases() {
        let errors: [Box<dyn Error>; 4] = [
            Box::new(MappingError::Database(DatabaseError)),
            Box::new(MappingError::Conflict(DatabaseError)),
            Box::new(SequenceError::Database(DatabaseError)),
            Box::new(SequenceError::Conflict(DatabaseError)),
        ];
        for error in errors {
            assert!(!error.to_string().contains("123456"), "{error}");
            let source = error.source().expect("the database's error");
            assert!(source.to_string().contains("123456"));
        }
    }
}
