//! PostgreSQL returns an SQLSTATE.

use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::postgres::PgDatabaseError;

/// Returns what an error of this database says of a retry.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<PgDatabaseError>()?;
    Some(Dialect::Postgres.failure(error.code()))
}
