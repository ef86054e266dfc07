//! The differences between sqlx 0.8 and sqlx 0.9. All other files of this crate are those of opaque-id-sqlx.

use sqlx::Database;

/// The buffer to which an `Encode` of sqlx writes. The adapters for all versions of sqlx have it, so code with it suits them all.
pub type ArgumentBuffer<'q, DB> = <DB as Database>::ArgumentBuffer<'q>;

/// A statement of ours: a table's name is an identifier, and values are bound, or literals of digits.
#[cfg(all(
    feature = "mapping",
    any(feature = "postgres", feature = "mysql", feature = "sqlite")
))]
pub(crate) fn sql(text: &std::sync::Arc<str>) -> &str {
    text
}
