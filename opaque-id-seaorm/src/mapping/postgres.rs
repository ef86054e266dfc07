//! SeaORM would run each statement of a call on any connection of its pool. After a failover, the pool
//! replaces its connections, and the rest of a call would run on a server without its first half.

use opaque_id_sql::answer_of_rows;
use opaque_id_sql::statement::{Answer, Statement, Value};
use sea_orm::DbErr;
use sea_orm::sqlx::pool::PoolConnection;
use sea_orm::sqlx::{self, Executor, Postgres, Row};

use crate::compat::mapping::{query_error, raw_sql, sql};

pub(crate) async fn run(
    connection: &mut PoolConnection<Postgres>,
    statement: &Statement,
) -> Result<Answer, DbErr> {
    if statement.is_batch {
        let text = statement.inlined();
        let result = connection.execute(raw_sql(&text)).await.map_err(query_error)?;
        return Ok(Answer::Changed { rows: result.rows_affected(), insert_id: None });
    }
    let mut query = sqlx::query(sql(&statement.sql));
    for value in &statement.values {
        query = match value {
            Value::Integer(number) => query.bind(number),
            Value::Text(text) => query.bind(text),
            Value::Bytes(bytes) => query.bind(bytes),
            Value::List(_) | Value::Literals(_) => {
                unreachable!("only MySQL's statements have lists")
            }
        };
    }
    if statement.columns.is_empty() {
        let result = connection.execute(query).await.map_err(query_error)?;
        return Ok(Answer::Changed { rows: result.rows_affected(), insert_id: None });
    }
    let rows = connection.fetch_all(query).await.map_err(query_error)?;
    answer_of_rows!(statement, rows, try_get).map_err(query_error)
}
