use opaque_id_sql::answer_of_rows;
use opaque_id_sql::call::{AsyncRunner, Call, ConnectionState, RunError, RunResult, drive_async};
use opaque_id_sql::dialect::{Dialect, Failure, Retry};
use opaque_id_sql::statement::{Answer, Statement, Value};
#[cfg(feature = "postgres")]
use sea_orm::sqlx::postgres::PgDatabaseError;
#[cfg(feature = "sqlite")]
use sea_orm::sqlx::{error::DatabaseError, sqlite::SqliteError};
#[cfg(any(feature = "postgres", feature = "mysql"))]
use sea_orm::{ConnAcquireErr, sqlx::pool::PoolConnection};
use sea_orm::{ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::{RuntimeErr, SqlxError};

use crate::compat::mapping as compat;

/// A connection for the calls of a [`UuidMap`](crate::UuidMap): a `DatabaseConnection` or a
/// `DatabaseTransaction`.
pub trait SupportedConnection: ConnectionTrait {
    /// The flag of a transaction.
    const IN_TRANSACTION: bool;

    /// Returns the pool, unless it is a transaction.
    #[doc(hidden)]
    fn pool(&self) -> Option<&DatabaseConnection> {
        None
    }
}

impl SupportedConnection for DatabaseConnection {
    const IN_TRANSACTION: bool = false;

    fn pool(&self) -> Option<&DatabaseConnection> {
        Some(self)
    }
}

impl SupportedConnection for DatabaseTransaction {
    const IN_TRANSACTION: bool = true;
}

pub(crate) fn dialect(backend: DbBackend) -> Result<Dialect, DbErr> {
    match backend {
        DbBackend::Postgres => Ok(Dialect::Postgres),
        DbBackend::MySql => Ok(Dialect::MySql),
        DbBackend::Sqlite => Ok(Dialect::Sqlite),
        #[allow(unreachable_patterns, reason = "SeaORM 1.1 has no others")]
        _ => Err(DbErr::Custom("expected PostgreSQL, MySQL or SQLite".to_owned())),
    }
}

/// Runs a call.
///
/// # Errors
/// [`RunError`].
pub async fn run<O: SupportedConnection, T, E: Send>(
    on: &O,
    mut call: Call<'_, T, E>,
) -> RunResult<T, DbErr, E> {
    if let Some(done) = call.start(None) {
        return done.map_err(RunError::Call);
    }
    let dialect = dialect(on.get_database_backend())?;
    let state = ConnectionState { dialect, is_in_transaction: O::IN_TRANSACTION };
    drive_async(&mut Connection::acquire(on).await?, state, call).await
}

/// All statements of a call run on this connection. SQLite has no server that a failover could replace.
enum Connection<'o, O> {
    Direct(&'o O),
    #[cfg(feature = "postgres")]
    Postgres(PoolConnection<sea_orm::sqlx::Postgres>),
    #[cfg(feature = "mysql")]
    MySql(PoolConnection<sea_orm::sqlx::MySql>),
}

impl<'o, O: SupportedConnection> Connection<'o, O> {
    async fn acquire(on: &'o O) -> Result<Self, DbErr> {
        Ok(match on.pool() {
            #[cfg(feature = "postgres")]
            Some(pool) if compat::is_postgres(pool) => {
                let pool = pool.get_postgres_connection_pool();
                Self::Postgres(pool.acquire().await.map_err(acquire_error)?)
            }
            #[cfg(feature = "mysql")]
            Some(pool) if compat::is_mysql(pool) => {
                let pool = pool.get_mysql_connection_pool();
                Self::MySql(pool.acquire().await.map_err(acquire_error)?)
            }
            _ => Self::Direct(on),
        })
    }
}

/// SeaORM's own calls return the same errors.
#[cfg(any(feature = "postgres", feature = "mysql"))]
fn acquire_error(error: SqlxError) -> DbErr {
    match error {
        SqlxError::PoolTimedOut => DbErr::ConnectionAcquire(ConnAcquireErr::Timeout),
        SqlxError::PoolClosed => DbErr::ConnectionAcquire(ConnAcquireErr::ConnectionClosed),
        error => compat::query_error(error),
    }
}

impl<O: SupportedConnection> AsyncRunner for Connection<'_, O> {
    type Error = DbErr;

    async fn run(&mut self, statement: &Statement) -> Result<Answer, (DbErr, Failure)> {
        let answer = match self {
            Self::Direct(on) => run_one(*on, statement).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(connection) => super::postgres::run(connection, statement).await,
            #[cfg(feature = "mysql")]
            Self::MySql(connection) => super::mysql::run(connection, statement).await,
        };
        answer.map_err(|error| {
            let failure = failure(&error);
            (error, failure)
        })
    }

    fn discard(&mut self) {
        #[cfg(feature = "mysql")]
        if let Self::MySql(connection) = self {
            connection.close_on_drop();
        }
    }
}

async fn run_one<O: SupportedConnection>(on: &O, statement: &Statement) -> Result<Answer, DbErr> {
    let is_mysql = on.get_database_backend() == DbBackend::MySql;
    // On MySQL a statement is not prepared if SeaORM allows it. `mysql::run` gives the reason.
    if statement.is_batch || (is_mysql && statement.columns.is_empty()) {
        let result = on.execute_unprepared(&statement.inlined()).await?;
        return Ok(Answer::Changed {
            rows: result.rows_affected(),
            // On other databases it panics.
            insert_id: is_mysql.then(|| result.last_insert_id()),
        });
    }
    let statement = &*statement.prepared();
    let values = statement.values.iter().map(|value| match value {
        Value::Integer(number) => sea_orm::Value::from(*number),
        Value::Text(text) => sea_orm::Value::from(text.clone()),
        Value::Bytes(bytes) => sea_orm::Value::from(bytes.clone()),
        Value::List(_) | Value::Literals(_) => unreachable!("a prepared statement has no lists"),
    });
    let query =
        sea_orm::Statement::from_sql_and_values(on.get_database_backend(), &*statement.sql, values);
    if statement.columns.is_empty() {
        let result = compat::execute(on, query).await?;
        return Ok(Answer::Changed { rows: result.rows_affected(), insert_id: None });
    }
    let rows = compat::query_all(on, query).await?;
    answer_of_rows!(statement, rows, try_get_by)
}

/// Returns how to retry a transaction of yours that failed with this error, if a retry can succeed.
///
/// Databases report some conflicts only at COMMIT, and most of them on clusters.
#[must_use]
pub fn retry(error: &DbErr) -> Option<Retry> {
    failure(error).retry()
}

fn failure(error: &DbErr) -> Failure {
    match error {
        #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
        DbErr::Exec(RuntimeErr::SqlxError(error))
        | DbErr::Query(RuntimeErr::SqlxError(error))
        | DbErr::Conn(RuntimeErr::SqlxError(error)) => driver_failure(error),
        DbErr::ConnectionAcquire(_) => Failure::Unavailable,
        _ => Failure::Other,
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn driver_failure(error: &SqlxError) -> Failure {
    match error {
        SqlxError::Database(error) => {
            let failures = [
                #[cfg(feature = "postgres")]
                error
                    .try_downcast_ref::<PgDatabaseError>()
                    .map(|error| Dialect::Postgres.failure(error.code())),
                #[cfg(feature = "mysql")]
                super::mysql::failure(&**error),
                #[cfg(feature = "sqlite")]
                error
                    .try_downcast_ref::<SqliteError>()
                    .and_then(DatabaseError::code)
                    .map(|code| Dialect::Sqlite.failure(&code)),
            ];
            failures.into_iter().flatten().next().unwrap_or(Failure::Other)
        }
        SqlxError::PoolTimedOut => Failure::Unavailable,
        SqlxError::Io(_) | SqlxError::Protocol(_) | SqlxError::WorkerCrashed => {
            Failure::Disconnected
        }
        _ => Failure::Other,
    }
}
