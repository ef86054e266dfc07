//! The stored value of a column.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "seaorm")]
mod seaorm;
#[cfg(feature = "sqlx")]
mod sqlx;
mod value;

pub use self::value::{Encrypted, EncryptedOf, MayLeave};
