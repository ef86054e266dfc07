use opaque_id_sql::dialect::{Dialect, Failure};
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::sqlite::SqliteError;

pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<SqliteError>()?;
    Some(Dialect::Sqlite.failure(&DatabaseError::code(error)?))
}
