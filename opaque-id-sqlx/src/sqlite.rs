//! `BLOB` of 16 bytes and `INTEGER`.

use sqlx::Sqlite;

use crate::mapping::map_database;

// 6 mapping

map_database!(Sqlite, Sqlite);
