//! `BLOB` of 16 bytes and `INTEGER`.

use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::ColIdx;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::sqlite::{SqliteError, SqliteRow};
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &SqliteRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_sqlite_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}

// 6 mapping

/// Returns what an error of this database says of a retry.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    Some(Dialect::Sqlite.failure(&DatabaseError::code(error)?))
}
