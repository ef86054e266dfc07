//! A connection to a database of any kind by sqlx, and the calls on its packs.

use opaque_id_packs::__private::PackCall;
use opaque_id_packs::ColumnName;
use opaque_id_schema::secure_postgres;
use opaque_id_sql::Dialect;
use opaque_id_sqlx::run;
use sqlx::mysql::{MySql, MySqlPool};
use sqlx::pool::PoolOptions;
use sqlx::postgres::{PgPool, Postgres};
use sqlx::sqlite::{Sqlite, SqlitePool};
use sqlx::{
    AssertSqlSafe, ColumnIndex, Connection, Decode, Executor, Row, Type, query, query_scalar,
    raw_sql,
};

use super::Result;

pub(super) type PackError = opaque_id_packs::PackError<sqlx::Error>;

pub(super) enum Database {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// A transaction in a database of any kind. Dropping it rolls it back.
pub(super) enum Transaction {
    Postgres(sqlx::Transaction<'static, Postgres>),
    MySql(sqlx::Transaction<'static, MySql>),
    Sqlite(sqlx::Transaction<'static, Sqlite>),
}

/// A row of a table that is not one of packs.
pub(super) struct SourceRow {
    pub(super) key: String,
    /// The key as a literal of SQL.
    pub(super) literal: String,
    pub(super) value: Option<Vec<u8>>,
}

macro_rules! on {
    ($on:expr, |$of_kind:ident| $run:expr) => {
        match $on {
            Self::Postgres($of_kind) => $run,
            Self::MySql($of_kind) => $run,
            Self::Sqlite($of_kind) => $run,
        }
    };
}

impl Database {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let (scheme, _) = url.split_once(':').unwrap_or_default();
        Ok(match scheme {
            "postgres" | "postgresql" => {
                let options = PoolOptions::<Postgres>::new().after_connect(|connection, _| {
                    Box::pin(async move {
                        secure_postgres(connection, true).await?;
                        // A policy that hides rows is an error, because no command may say that nothing is left.
                        // The others are the formats of values in JSON.
                        let settings = "SET row_security = off; SET bytea_output = hex; SET IntervalStyle = postgres; SET quote_all_identifiers = off";
                        connection.execute(settings).await.map(drop)
                    })
                });
                Self::Postgres(connected(url, options).await?)
            }
            "mysql" | "mariadb" => {
                // A server's `autocommit = 0` or a chained transaction would roll back everything at the end. A
                // limit would omit rows, and safe updates refuse a page of a small table.
                let options = PoolOptions::<MySql>::new().after_connect(|connection, _| {
                    let settings = "SET autocommit = 1, completion_type = 0, sql_select_limit = 18446744073709551615, sql_safe_updates = 0";
                    Box::pin(async move { connection.execute(settings).await.map(drop) })
                });
                Self::MySql(connected(url, options).await?)
            }
            "sqlite" => Self::Sqlite(connected(url, PoolOptions::new()).await?),
            _ => {
                return Err(
                    "unknown database: expected a URL that starts with postgres:, postgresql:, mysql:, mariadb: or sqlite:"
                        .into(),
                );
            }
        })
    }

    pub(super) fn dialect(&self) -> Dialect {
        match self {
            Self::Postgres(_) => Dialect::Postgres,
            Self::MySql(_) => Dialect::MySql,
            Self::Sqlite(_) => Dialect::Sqlite,
        }
    }

    pub(super) async fn run<R>(&self, call: PackCall<'_, R>) -> std::result::Result<R, PackError> {
        Ok(on!(self, |pool| run(pool, call).await)?)
    }

    pub(super) async fn execute(&self, sql: String) -> sqlx::Result<()> {
        let sql = raw_sql(AssertSqlSafe(sql));
        on!(self, |pool| sql.execute(pool).await.map(drop))
    }

    /// Returns rows like [`Transaction::rows`], in a transaction of their own.
    pub(super) async fn rows(&self, sql: String) -> sqlx::Result<Vec<SourceRow>> {
        self.begin().await?.rows(sql).await
    }

    /// Returns the rights of MySQL's or MariaDB's user and of its active roles, as the server prints them.
    pub(super) async fn grants(&self) -> sqlx::Result<Vec<String>> {
        let Self::MySql(pool) = self else { return Ok(Vec::new()) };
        let grants = raw_sql("SHOW GRANTS").fetch_all(pool).await?;
        grants.iter().map(|grant| grant.try_get(0)).collect()
    }

    pub(super) async fn integer(&self, sql: String) -> Result<u64> {
        let sql = AssertSqlSafe(sql);
        let integer: i64 = on!(self, |pool| query_scalar(sql).fetch_one(pool).await)?;
        Ok(integer.try_into()?)
    }

    pub(super) async fn count(&self, table: &str) -> Result<u64> {
        self.integer(format!(
            "SELECT (SELECT count(*) FROM {table}_packs) + (SELECT count(*) FROM {table}_recent)"
        ))
        .await
    }

    pub(super) async fn count_values(&self, column: &ColumnName) -> Result<u64> {
        self.integer(column.count_sql(self.dialect())).await
    }

    /// Begins a transaction that writes. Each statement sees the commits of others, because mergers go on.
    pub(super) async fn begin(&self) -> sqlx::Result<Transaction> {
        Ok(match self {
            Self::Postgres(pool) => {
                let begin = pool.begin_with("BEGIN ISOLATION LEVEL READ COMMITTED");
                Transaction::Postgres(begin.await?)
            }
            Self::MySql(pool) => {
                // It applies to the next transaction on the pool's only connection.
                let isolation = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
                raw_sql(isolation).execute(pool).await?;
                Transaction::MySql(pool.begin().await?)
            }
            // A transaction that reads first cannot write later if another one has written meanwhile.
            Self::Sqlite(pool) => Transaction::Sqlite(pool.begin_with("BEGIN IMMEDIATE").await?),
        })
    }
}

impl Transaction {
    pub(super) async fn run<R>(
        &mut self,
        call: PackCall<'_, R>,
    ) -> std::result::Result<R, PackError> {
        Ok(on!(self, |transaction| run(&mut **transaction, call).await)?)
    }

    pub(super) async fn rows(&mut self, sql: String) -> sqlx::Result<Vec<SourceRow>> {
        let sql = AssertSqlSafe(sql);
        on!(self, |transaction| {
            let rows = query(sql).persistent(false).fetch_all(&mut **transaction).await?;
            rows.iter().map(found).collect()
        })
    }

    pub(super) async fn commit(self) -> sqlx::Result<()> {
        on!(self, |transaction| transaction.commit().await)
    }
}

fn found<'r, R: Row>(row: &'r R) -> sqlx::Result<SourceRow>
where
    usize: ColumnIndex<R>,
    String: Decode<'r, R::Database> + Type<R::Database>,
    Vec<u8>: Decode<'r, R::Database> + Type<R::Database>,
{
    let value = row.try_get(2).or_else(|_| {
        let text: Option<String> = row.try_get(2)?;
        Ok::<_, sqlx::Error>(text.map(String::into_bytes))
    });
    Ok(SourceRow { key: row.try_get(0)?, literal: row.try_get(1)?, value: value? })
}

/// Connects to a database. The first connection is not the pool's own, because a refused pool waits for half
/// a minute and then does not report the reason.
async fn connected<DB: sqlx::Database>(
    url: &str,
    options: PoolOptions<DB>,
) -> sqlx::Result<sqlx::Pool<DB>> {
    DB::Connection::connect(url).await?.close().await?;
    // Statements run one after the other.
    options.max_connections(1).connect(url).await
}
