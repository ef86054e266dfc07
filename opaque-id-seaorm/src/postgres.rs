//! `uuid`, `bigint` and `integer`.

use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::ColIdx;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::postgres::{PgDatabaseError, PgRow};
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &PgRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_postgres_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}

// 6 mapping

/// Returns what an error of this database says of a retry.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<PgDatabaseError>()?;
    Some(Dialect::Postgres.failure(error.code()))
}
