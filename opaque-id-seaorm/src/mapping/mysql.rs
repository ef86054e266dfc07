//! MySQL and MariaDB.
//!
//! Statements of maps and sequences go past SeaORM to sqlx, as text, and the connection of a dropped call does not return to the
//! pool. The sqlx adapter's `mysql.rs` says why. In a transaction SeaORM's own way is the only one: it prepares them.

use opaque_id_sql::answer_of_rows;
use opaque_id_sql::dialect::{Dialect, Failure};
use opaque_id_sql::statement::{Answer, Statement};
use sea_orm::DbErr;
use sea_orm::sqlx::error::DatabaseError;
use sea_orm::sqlx::mysql::MySqlDatabaseError;
use sea_orm::sqlx::pool::PoolConnection;
use sea_orm::sqlx::{Executor, MySql, MySqlPool, Row};

use crate::compat::mapping::{query_error, raw_sql};

/// Returns what an error of this database says of a retry. Its SQLSTATE is less precise than its number.
pub(crate) fn failure(error: &dyn DatabaseError) -> Option<Failure> {
    let error = error.try_downcast_ref::<MySqlDatabaseError>()?;
    Some(Dialect::MySql.failure(&error.number().to_string()))
}

/// Takes a connection of the driver's own pool.
pub(crate) async fn acquire(pool: &MySqlPool) -> Result<PoolConnection<MySql>, DbErr> {
    pool.acquire().await.map_err(query_error)
}

/// Runs a statement as text. If a call is dropped while sqlx prepares a statement, or between the header of a packet
/// and its content, the connection is out of step with the server: it may wait forever, or take an answer for another
/// statement's. So the connection of a dropped call does not return to the pool.
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
