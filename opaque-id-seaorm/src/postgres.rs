//! Columns of `uuid`, `bigint` and `integer`.

use sea_orm::ColIdx;
use sea_orm::sqlx::postgres::PgRow;
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &PgRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_postgres_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}
