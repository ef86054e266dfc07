//! `BINARY(16)` and `BIGINT`, on MySQL and MariaDB.

use sea_orm::ColIdx;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::mysql::{MySqlDatabaseError, MySqlRow};
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &MySqlRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_mysql_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}

// 6 mapping

/// Returns the number of an error, as its SQLSTATE is less precise.
pub(crate) fn code(error: &dyn DatabaseError) -> Option<String> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(error.number().to_string())
}
