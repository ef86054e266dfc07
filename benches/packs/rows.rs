//! The databases' statements on rows that are not in packs.

use opaque_id_sqlx::{Dialect, Internal, OpaqueId, SupportedDatabase};
use opaque_id_tests::Result;
use sqlx::{AssertSqlSafe, MySql, Pool, Postgres, QueryBuilder, Sqlite};

#[derive(OpaqueId)]
#[opaque_id(prefix = "row")]
pub(crate) struct Record;

pub(crate) type Id = Internal<Record>;
pub(crate) type Body = Vec<u8>;

pub(crate) trait Rows: SupportedDatabase {
    const SQL: Dialect;

    async fn execute(pool: &Pool<Self>, sql: &str) -> Result;
    async fn row(pool: &Pool<Self>, select: &str, id: Id) -> Result<Body>;
    async fn rows(pool: &Pool<Self>, select: &str, ends: [Id; 2]) -> Result<Vec<(Id, Body)>>;
    async fn insert(pool: &Pool<Self>, table: &str, rows: Vec<(Id, Body)>) -> Result;
    async fn update(pool: &Pool<Self>, update: &str, body: Body, id: Id) -> Result<u64>;
}

pub(crate) fn create_sql(dialect: Dialect, table: &str) -> String {
    let (id, body) = match dialect {
        Dialect::Postgres => ("UUID", "BYTEA"),
        Dialect::MySql => ("BINARY(16)", "LONGBLOB"),
        _ => ("BLOB", "BLOB"),
    };
    format!("CREATE TABLE {table} (id {id} NOT NULL PRIMARY KEY, body {body} NOT NULL);")
}

macro_rules! rows {
    ($database:ty, $dialect:expr) => {
        impl Rows for $database {
            const SQL: Dialect = $dialect;

            async fn execute(pool: &Pool<Self>, sql: &str) -> Result {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(pool).await?;
                Ok(())
            }

            async fn row(pool: &Pool<Self>, select: &str, id: Id) -> Result<Body> {
                Ok(sqlx::query_scalar(AssertSqlSafe(select)).bind(id).fetch_one(pool).await?)
            }

            async fn rows(
                pool: &Pool<Self>,
                select: &str,
                [first, last]: [Id; 2],
            ) -> Result<Vec<(Id, Body)>> {
                let select = sqlx::query_as(AssertSqlSafe(select)).bind(first).bind(last);
                Ok(select.fetch_all(pool).await?)
            }

            async fn insert(pool: &Pool<Self>, table: &str, rows: Vec<(Id, Body)>) -> Result {
                let insert = format!("INSERT INTO {table} (id, body) ");
                let mut insert = QueryBuilder::<Self>::new(insert);
                insert.push_values(rows, |mut row, (id, body)| {
                    row.push_bind(id).push_bind(body);
                });
                insert.build().execute(pool).await?;
                Ok(())
            }

            async fn update(pool: &Pool<Self>, update: &str, body: Body, id: Id) -> Result<u64> {
                let update = sqlx::query(AssertSqlSafe(update)).bind(body).bind(id);
                Ok(update.execute(pool).await?.rows_affected())
            }
        }
    };
}

rows!(Postgres, Dialect::Postgres);
rows!(MySql, Dialect::MySql);
rows!(Sqlite, Dialect::Sqlite);
