//! What an adapter promises, against a real database.
//!
//! So far opaque-id-sqlx on SQLite.

mod sqlx_sqlite;
