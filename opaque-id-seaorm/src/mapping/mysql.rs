//! Statements of calls bypass SeaORM: see the sqlx adapter's `mysql.rs`. In a transaction
//! SeaORM's own way is the only one, and it prepares them.

use opaque_id_sql::answer_of_rows;
use opaque_id_sql::dialect::{Dialect, Failure};
use opaque_id_sql::statement::{Answer, Statement};
use sea_orm::DbErr;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::mysql::MySqlDatabaseError;
use sea_orm::sqlx::pool::PoolConnection;
use sea_orm::sqlx::{Executor, MySql, Row};

use crate::compat::mapping::{query_error, raw_sql};

/// The number is more precise than the SQLSTATE, except for a trigger's own number.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    let is_raised = error.code().is_some_and(|state| state.starts_with("45"));
    let number = if is_raised { 1644 } else { error.number() };
    Some(Dialect::MySql.failure(&number.to_string()))
}

/// The connection of a dropped call does not return to the pool, because it may be out of step with the
/// server.
pub(crate) async fn run(
    connection: &mut PoolConnection<MySql>,
    statement: &Statement,
) -> Result<Answer, DbErr> {
    let text = statement.inlined();
    let query = raw_sql(&text);
    if statement.columns.is_empty() {
        let result = connection.execute(query).await.map_err(query_error)?;
        return Ok(Answer::Changed {
            rows: result.rows_affected(),
            insert_id: Some(result.last_insert_id()),
        });
    }
    let rows = connection.fetch_all(query).await.map_err(query_error)?;
    answer_of_rows!(statement, rows, try_get).map_err(query_error)
}
