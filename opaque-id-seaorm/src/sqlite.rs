//! Columns of `BLOB` with 16 bytes and `INTEGER`.

use sea_orm::ColIdx;
use sea_orm::sqlx::sqlite::SqliteRow;
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &SqliteRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_sqlite_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}
