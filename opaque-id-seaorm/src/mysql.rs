//! Columns of `BINARY(16)`, `BIGINT` and `INT`, also unsigned, on MySQL and MariaDB.

use sea_orm::ColIdx;
use sea_orm::sqlx::mysql::MySqlRow;
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};

// 3 read

pub(crate) fn column_type<I: ColIdx>(row: &MySqlRow, index: I) -> Option<String> {
    let value = row.try_get_raw(index.as_sqlx_mysql_index()).ok()?;
    (!value.is_null()).then(|| value.type_info().name().to_owned())
}
