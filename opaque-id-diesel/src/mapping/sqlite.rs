use diesel::deserialize;
use diesel::result::DatabaseErrorInformation;
use diesel::sqlite::{Sqlite, SqliteType, SqliteValue};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::Cell;

use super::run::{UnknownFailure, supported_backend};

supported_backend!(Sqlite, Sqlite, cell, failure);

/// SQLite's messages are only in English.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    UnknownFailure::Known(match error.message() {
        "database is locked" | "database table is locked" => Failure::Conflict,
        _ => Failure::Other,
    })
}

fn cell(mut value: SqliteValue<'_, '_, '_>) -> deserialize::Result<Cell> {
    Ok(match value.value_type() {
        Some(SqliteType::Long) => Cell::Integer(value.read_long()),
        Some(SqliteType::Binary) => Cell::Bytes(value.read_blob().to_owned()),
        Some(SqliteType::Text) => Cell::Text(value.read_text().to_owned()),
        other => return Err(format!("expected an integer, a blob or text, found {other:?}").into()),
    })
}
