//! The differences between sqlx 0.9 and sqlx 0.8. The crate opaque-id-sqlx08 has a file of this name, and
//! shares all other files with this crate.

use sqlx::Database;

/// The buffer of sqlx's `Encode`. The adapters for all versions of sqlx export it, so code with it compiles
/// with each of them.
pub type ArgumentBuffer<'q, DB> = <DB as Database>::ArgumentBuffer;

/// Returns a statement of this crate. A table's name is an identifier, and values are bound or are literals
/// of digits.
#[cfg(all(feature = "mapping", any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
pub(crate) fn sql(text: &std::sync::Arc<str>) -> sqlx::AssertSqlSafe<std::sync::Arc<str>> {
    sqlx::AssertSqlSafe(text.clone())
}
