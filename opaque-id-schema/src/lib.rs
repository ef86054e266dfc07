#![doc = include_str!("../README.md")]

mod columns;
mod maps;
mod mysql;
mod names;
mod postgres;
mod report;
mod row;
mod sqlite;
mod tokens;

#[doc(hidden)]
pub use postgres::{secure as secure_postgres, uuid_columns};
pub use report::{Finding, Report};

use thiserror::Error;

/// Connects to a database and checks its key columns. It changes nothing.
///
/// The URL starts with `postgres:`, `postgresql:`, `mysql:`, `mariadb:` or `sqlite:`. On PostgreSQL, `check`
/// reads the connection's current schema, and on MySQL and MariaDB the database in the URL.
///
/// The key columns are the primary keys and the foreign keys of one column. A column of text or bytes is an
/// id by its name, its declared length and its values together. The report also lists columns that it cannot
/// judge: keys of other types, and columns with the name or the values of an id that are not such keys. It
/// omits the tables (`countries`) and columns (`orders.stripe_id`) in `exclude`. The check reads whole
/// tables.
///
/// On PostgreSQL, `check` runs no code of other roles. So it reads only tables that belong to its own role
/// or, if it is a superuser, to any superuser, and only in a schema that it trusts. It knows the types of the
/// other tables.
///
/// # Errors
/// [`CheckError::UnknownDatabase`] if the URL starts with another scheme, [`CheckError::NoSchema`] if the
/// connection has no schema, [`CheckError::Database`] if the database cannot be reached or read.
///
/// # Panics
/// On PostgreSQL, MySQL and MariaDB, if it runs outside a Tokio runtime with I/O enabled.
pub async fn check(database_url: &str, exclude: &[String]) -> Result<Report, CheckError> {
    match database(database_url)? {
        Database::Postgres => postgres::check(database_url, exclude).await,
        Database::MySql => mysql::check(database_url, exclude).await,
        Database::Sqlite => sqlite::check(database_url, exclude).await,
    }
}

/// Reads the key columns that [`check`] checks, with the tables that they identify rows of, in the order of
/// the tables and columns.
///
/// # Errors
/// The same as [`check`].
///
/// # Panics
/// The same as [`check`].
pub async fn key_columns(database_url: &str) -> Result<Vec<KeyColumn>, CheckError> {
    read_keys(database_url, false).await
}

/// Reads the key columns for `opaque-id init`, and if `samples`, the 500 first and last keys of each table with UUIDs.
///
/// # Errors
/// The same as [`check`].
#[doc(hidden)]
pub async fn read_keys(url: &str, samples: bool) -> Result<Vec<KeyColumn>, CheckError> {
    match database(url)? {
        Database::Postgres => postgres::key_columns(url, samples).await,
        Database::MySql => mysql::key_columns(url, samples).await,
        Database::Sqlite => sqlite::key_columns(url, samples).await,
    }
}

/// Returns the start of a note about the schemas of a PostgreSQL database that the other functions do not
/// read.
///
/// # Errors
/// The same as [`check`].
#[doc(hidden)]
pub async fn unread_schemas(url: &str) -> Result<Option<String>, CheckError> {
    match database(url)? {
        Database::Postgres => postgres::unread_schemas(url).await,
        Database::MySql | Database::Sqlite => Ok(None),
    }
}

/// A key column of a live schema, and the table that its keys identify.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyColumn {
    /// The column's table in sqlx's macros: on PostgreSQL in quotes if SQL needs them, on MySQL and MariaDB
    /// with its database.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// The table with the rows that the keys identify: the one that the column references in the end, or its
    /// own.
    pub identifies: String,
    /// The column's type as the database spells it.
    #[doc(hidden)]
    pub found: String,
    /// The kinds of key that a primary key may store, by their names in the derive. They are empty if the
    /// type is not supported, and `None` for any other column and for tables of maps and packs.
    #[doc(hidden)]
    pub kinds: Option<&'static [&'static str]>,
}

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

enum Database {
    Postgres,
    MySql,
    Sqlite,
}

fn database(url: &str) -> Result<Database, CheckError> {
    let (scheme, _) = url.split_once(':').unwrap_or_default();
    match scheme {
        "postgres" | "postgresql" => Ok(Database::Postgres),
        "mysql" | "mariadb" => Ok(Database::MySql),
        "sqlite" => Ok(Database::Sqlite),
        _ => Err(CheckError::UnknownDatabase),
    }
}
