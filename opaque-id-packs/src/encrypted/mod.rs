//! `Encrypted<T, V>`: a value of a column, as the database has it. Each ORM's traits are in a file of their own.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "seaorm")]
mod seaorm;
#[cfg(feature = "sqlx")]
mod sqlx;
mod value;

pub use self::value::{Encrypted, EncryptedOf, MayLeave};
