#![doc = include_str!("../README.md")]

mod columns;
mod error;
mod mysql;
mod names;
mod postgres;
mod report;
mod sqlite;
mod tokens;

pub use error::CheckError;
pub use report::{Finding, Report};

/// Reads the schema of a database and checks its key columns: those of primary keys of one column, and of
/// foreign keys of one column. The values of columns that are wrong are read as well.
///
/// A column of text or bytes counts only if its name ends with `id` or its length is that of a UUID's or
/// ULID's text, as there are good keys of text that are no ids.
///
/// # Errors
/// If the URL is of no database that opaque-id knows, or the database can't be read.
pub async fn check(database_url: &str) -> Result<Report, CheckError> {
    let (scheme, _) = database_url.split_once(':').unwrap_or_default();
    match scheme {
        "postgres" | "postgresql" => postgres::check(database_url).await,
        "mysql" | "mariadb" => mysql::check(database_url).await,
        "sqlite" => sqlite::check(database_url).await,
        _ => Err(CheckError::UnknownDatabase),
    }
}
