//! `BINARY(16)` and `BIGINT`, on MySQL and MariaDB.

use sqlx::MySql;
use sqlx::error::DatabaseError;
use sqlx::mysql::{MySqlDatabaseError, MySqlQueryResult};

use crate::run::supported_database;

// 6 mapping

supported_database!(
    MySql,
    MySql,
    /// Returns the number, as the SQLSTATE is less precise.
    fn code(error: &dyn DatabaseError) -> Option<String> {
        let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
        Some(error.number().to_string())
    },
    fn last_insert_id(result: &MySqlQueryResult) -> Option<u64> {
        Some(result.last_insert_id())
    }
);
