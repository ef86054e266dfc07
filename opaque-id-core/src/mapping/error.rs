use thiserror::Error;

/// What an adapter's `UuidMap` can fail with; `E` is the ORM's own error.
///
/// The message never repeats the ORM's, which may name the row's values: `source()` has it, for the log.
///
/// ```
/// use opaque_id_core::MappingError;
///
/// fn can_be_run_again<E>(error: &MappingError<E>) -> bool {
///     matches!(error, MappingError::Conflict(_))
/// }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MappingError<E> {
    /// The database failed, or the ORM.
    #[error("a statement on the mapping table failed")]
    Database(#[from] E),
    /// The database made this transaction give way to another one, or did not let it wait any longer.
    /// Outside of a transaction the call has been tried again, in vain.
    #[error(
        "another transaction holds what this one needs: roll this one back and run it again from its start; ids that one transaction needs together are best mapped in one call"
    )]
    Conflict(#[source] E),
    /// The hashed plan, in a transaction that does not see what others have committed since it began.
    #[error(
        "the hashed plan's table can't be written in a transaction above READ COMMITTED: begin it as READ COMMITTED, map before it begins, or use the unique plan"
    )]
    Isolation,
    /// On MySQL and MariaDB, the rows are missing that inserts lock.
    #[error(
        "the table opaque_id_slots lacks rows: run the whole of the map's migration, its INSERT as well"
    )]
    Slots,
    /// Others have forgotten the ids each time that they were inserted.
    #[error("others forgot the ids as soon as they were mapped: try again later")]
    Forgotten,
}

#[cfg(test)]
mod tests {
    use core::error::Error;

    use super::MappingError;
    use crate::{KeyError, SequenceError};

    #[derive(Debug, thiserror::Error)]
    #[error("Duplicate entry '123456' for key 'PRIMARY'")]
    struct OfDatabase;

    #[derive(crate::OpaqueId)]
    #[opaque_id(prefix = "user")]
    struct User;

    #[test]
    fn messages_do_not_repeat_the_databases() {
        let errors: [Box<dyn Error>; 4] = [
            Box::new(MappingError::Database(OfDatabase)),
            Box::new(MappingError::Conflict(OfDatabase)),
            Box::new(SequenceError::Database(OfDatabase)),
            Box::new(KeyError::unreadable::<User>(Box::new(OfDatabase))),
        ];
        for error in errors {
            assert!(!error.to_string().contains("123456"), "{error}");
            let source = error.source().expect("what the database said");
            assert!(source.to_string().contains("123456"));
        }
    }
}
