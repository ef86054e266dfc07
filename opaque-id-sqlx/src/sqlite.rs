//! `BLOB` of 16 bytes and `INTEGER`.

use sqlx::Sqlite;

use crate::run::supported_database;

// 6 mapping

supported_database!(Sqlite, Sqlite);
