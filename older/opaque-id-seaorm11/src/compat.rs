//! The differences between SeaORM 1.1 and SeaORM 2. All other files of this crate are the same as in opaque-id-seaorm.

use std::error::Error;

#[cfg(feature = "postgres")]
pub use sea_orm::sea_query::value::with_array::NotU8;
use sea_orm::DbErr;

pub(crate) fn no_id(from: &'static str, error: impl Error + Send + Sync + 'static) -> DbErr {
    DbErr::TryIntoErr { from, into: "Internal", source: Box::new(error) }
}

#[cfg(feature = "mapping")]
pub(crate) mod mapping {
    use sea_orm::{ConnectionTrait, DbErr, ExecResult, QueryResult, Statement};
    #[cfg(any(feature = "postgres", feature = "mysql"))]
    use sea_orm::{DatabaseConnection, RuntimeErr, sqlx};

    pub(crate) async fn execute(
        on: &impl ConnectionTrait,
        statement: Statement,
    ) -> Result<ExecResult, DbErr> {
        on.execute(statement).await
    }

    pub(crate) async fn query_all(
        on: &impl ConnectionTrait,
        statement: Statement,
    ) -> Result<Vec<QueryResult>, DbErr> {
        on.query_all(statement).await
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn is_postgres(connection: &DatabaseConnection) -> bool {
        matches!(connection, DatabaseConnection::SqlxPostgresPoolConnection(_))
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn sql(text: &std::sync::Arc<str>) -> &str {
        text
    }

    #[cfg(feature = "mysql")]
    pub(crate) fn is_mysql(connection: &DatabaseConnection) -> bool {
        matches!(connection, DatabaseConnection::SqlxMySqlPoolConnection(_))
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn raw_sql(text: &str) -> sqlx::RawSql<'_> {
        sqlx::raw_sql(text)
    }

    #[cfg(any(feature = "postgres", feature = "mysql"))]
    pub(crate) fn query_error(error: sqlx::Error) -> DbErr {
        DbErr::Query(RuntimeErr::SqlxError(error))
    }
}
