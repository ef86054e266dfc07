//! `BLOB` of 16 bytes and `INTEGER`.

use sqlx::Sqlite;
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;

use crate::run::supported_database;

// 6 mapping

supported_database!(Sqlite, Sqlite, SqliteError, |error| {
    let code = DatabaseError::code(error)?;
    Some(code.into_owned())
});
