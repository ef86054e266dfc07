use thiserror::Error;

/// A schema that could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A URL of another database.
    #[error(
        "the database's URL starts with none of postgres:, postgresql:, mysql:, mariadb:, sqlite:"
    )]
    UnknownDatabase,
    /// The database could not be reached or read.
    #[error("the schema can't be read: {0}")]
    Database(#[from] sqlx::Error),
}
