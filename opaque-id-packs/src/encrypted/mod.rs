//! `Encrypted<T, V>`: the stored value of a column. The traits of each ORM have their own file.

#[cfg(feature = "diesel")]
mod diesel;
#[cfg(feature = "seaorm")]
mod seaorm;
#[cfg(feature = "sqlx")]
mod sqlx;
mod value;

pub use self::value::{Encrypted, EncryptedOf, MayLeave};
