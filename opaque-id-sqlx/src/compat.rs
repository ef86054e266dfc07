//! The differences between sqlx 0.9 and sqlx 0.8. opaque-id-sqlx08 has its own file of this name, and shares
//! the others.

use sqlx::Database;

/// The buffer of sqlx's `Encode`, the same name for all versions of sqlx.
pub type ArgumentBuffer<'q, DB> = <DB as Database>::ArgumentBuffer;

/// A table's name is an identifier, and values are bound or are literals of digits.
#[cfg(all(feature = "mapping", any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
pub(crate) fn sql(text: &std::sync::Arc<str>) -> sqlx::AssertSqlSafe<std::sync::Arc<str>> {
    sqlx::AssertSqlSafe(text.clone())
}
