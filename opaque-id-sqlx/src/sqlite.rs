//! `BLOB` of 16 bytes and `INTEGER`.

use sqlx::Sqlite;
use sqlx::error::DatabaseError;

use crate::mapping::map_database;

// 6 mapping

map_database!(Sqlite, Sqlite, |error: &dyn DatabaseError| {
    Some(error.code()?.into_owned())
});
