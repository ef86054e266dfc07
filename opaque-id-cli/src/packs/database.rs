//! One connection to a database of any kind, by sqlx, and the calls on its packs.

use opaque_id_packs::Problem;
use opaque_id_sql::call::Call;
use opaque_id_sqlx::run;
use sqlx::mysql::MySqlPool;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;
use sqlx::{AssertSqlSafe, query_scalar};

use super::Result;

/// The error of a call.
pub(super) type PackError = opaque_id_packs::PackError<sqlx::Error>;

/// A database of any kind.
pub(super) enum Database {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

impl Database {
    pub(super) async fn connect(url: &str) -> Result<Self> {
        let (scheme, _) = url.split_once(':').unwrap_or_default();
        Ok(match scheme {
            "postgres" | "postgresql" => Self::Postgres(one().connect(url).await?),
            "mysql" | "mariadb" => Self::MySql(one().connect(url).await?),
            "sqlite" => Self::Sqlite(one().connect(url).await?),
            _ => {
                return Err(
                    "unknown database: expected a URL that starts with postgres:, mysql:, mariadb: or sqlite:"
                        .into(),
                );
            }
        })
    }

    pub(super) async fn run(
        &self,
        call: &mut impl Call<Error = Problem>,
    ) -> std::result::Result<(), PackError> {
        Ok(match self {
            Self::Postgres(pool) => run(pool, call).await,
            Self::MySql(pool) => run(pool, call).await,
            Self::Sqlite(pool) => run(pool, call).await,
        }?)
    }

    /// Returns how many packs and recent rows a table has.
    pub(super) async fn count(&self, table: &str) -> Result<u64> {
        let sql = AssertSqlSafe(format!(
            "SELECT (SELECT count(*) FROM {table}_packs) + (SELECT count(*) FROM {table}_recent)"
        ));
        let count: i64 = match self {
            Self::Postgres(pool) => query_scalar(sql).fetch_one(pool).await?,
            Self::MySql(pool) => query_scalar(sql).fetch_one(pool).await?,
            Self::Sqlite(pool) => query_scalar(sql).fetch_one(pool).await?,
        };
        Ok(count.try_into()?)
    }
}

/// Statements run one after the other.
fn one<DB: sqlx::Database>() -> PoolOptions<DB> {
    PoolOptions::new().max_connections(1)
}
