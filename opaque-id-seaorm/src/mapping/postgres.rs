use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::postgres::PgDatabaseError;

pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<PgDatabaseError>()?;
    Some(Dialect::Postgres.failure(error.code()))
}
