//! The differences between sqlx 0.8 and sqlx 0.9. All other files of this crate are the same as in opaque-id-sqlx.

use sqlx::Database;

/// The buffer of sqlx's `Encode`, the same name for all versions of sqlx.
pub type ArgumentBuffer<'q, DB> = <DB as Database>::ArgumentBuffer<'q>;

/// A table's name is an identifier, and values are bound or are literals of digits.
#[cfg(all(
    feature = "mapping",
    any(feature = "postgres", feature = "mysql", feature = "sqlite")
))]
pub(crate) fn sql(text: &std::sync::Arc<str>) -> &str {
    text
}
