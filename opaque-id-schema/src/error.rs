use thiserror::Error;

/// The reason why a schema could not be checked. No message repeats the message of its source.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The URL does not name a supported database.
    #[error(
        "unknown database: the URL must start with postgres:, postgresql:, mysql:, mariadb: or sqlite:"
    )]
    UnknownDatabase,
    /// The connection has no schema to check: on MySQL and MariaDB the URL names no database, or on
    /// PostgreSQL the `search_path` has no existing schema.
    #[error(
        "the connection has no schema: end the URL with a database's name (mysql://host/shop), or name an existing schema in PostgreSQL's search_path"
    )]
    NoSchema,
    /// The database could not be reached, or its schema could not be read.
    #[error("cannot read the schema")]
    Database(#[from] sqlx::Error),
}
