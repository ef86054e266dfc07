//! The differences between SeaORM 2 and SeaORM 1.1. opaque-id-seaorm11 has its own file of this name, and
//! shares the others.

use std::error::Error;
use std::sync::Arc;

use sea_orm::DbErr;
#[cfg(feature = "postgres")]
pub use sea_orm::sea_query::value::postgres_array::NotU8;

pub(crate) fn no_id(from: &'static str, error: impl Error + Send + Sync + 'static) -> DbErr {
    DbErr::TryIntoErr { from, into: "Internal", source: Arc::new(error) }
}

#[cfg(feature = "mapping")]
pub(crate) mod mapping {
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use std::sync::Arc;

    use sea_orm::{ConnectionTrait, DbErr, ExecResult, QueryResult, Statement};
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use sea_orm::{DatabaseConnection, DatabaseConnectionType, RuntimeErr, sqlx};

    pub(crate) async fn execute(
        on: &impl ConnectionTrait,
        statement: Statement,
    ) -> Result<ExecResult, DbErr> {
        on.execute_raw(statement).await
    }

    pub(crate) async fn query_all(
        on: &impl ConnectionTrait,
        statement: Statement,
    ) -> Result<Vec<QueryResult>, DbErr> {
        on.query_all_raw(statement).await
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn is_postgres(connection: &DatabaseConnection) -> bool {
        matches!(connection.inner, DatabaseConnectionType::SqlxPostgresPoolConnection(_))
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn sql(text: &Arc<str>) -> sqlx::AssertSqlSafe<Arc<str>> {
        sqlx::AssertSqlSafe(text.clone())
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn is_mysql(connection: &DatabaseConnection) -> bool {
        matches!(connection.inner, DatabaseConnectionType::SqlxMySqlPoolConnection(_))
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn raw_sql(text: &str) -> sqlx::RawSql {
        sqlx::raw_sql(sqlx::AssertSqlSafe(text))
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn query_error(error: sqlx::Error) -> DbErr {
        DbErr::Query(RuntimeErr::SqlxError(Arc::new(error)))
    }
}
