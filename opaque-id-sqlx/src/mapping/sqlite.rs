use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use super::run::supported_database;

supported_database!(Sqlite, Sqlite, SqliteError, |error| {
    let code = DatabaseError::code(error)?;
    Some(code.into_owned())
});
