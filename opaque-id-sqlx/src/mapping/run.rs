use std::ops::DerefMut;
use std::pin::Pin;

use opaque_id_sql::call::{AsyncRunner, Call, ConnectionState, RunError, RunResult, drive_async};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use opaque_id_sql::dialect::Retry;
use opaque_id_sql::dialect::{Dialect, Failure};
use opaque_id_sql::statement::{Answer, Statement};
use sqlx::error::DatabaseError;
use sqlx::pool::PoolConnection;
use sqlx::{Acquire, Connection, Database};

/// A database for maps and sequences. The features `postgres`, `mysql` and `sqlite` enable one each.
///
/// Only this crate implements it.
pub trait SupportedDatabase: Database + Run {}

/// The private half of [`SupportedDatabase`].
pub trait Run: Database {
    const DIALECT: Dialect;

    const SENDS_TEXT: bool = false;

    /// Whether the driver recovers a connection after a dropped query with a partly read answer.
    const RECOVERS: bool = true;

    fn run(
        connection: &mut Self::Connection,
        statement: &Statement,
    ) -> impl Future<Output = sqlx::Result<Answer>> + Send;

    /// Returns the code of a database error for [`Dialect::failure`].
    fn code(error: &dyn DatabaseError) -> Option<String>;

    /// Returns MySQL's last insert id.
    fn last_insert_id(_: &Self::QueryResult) -> Option<u64> {
        None
    }
}

/// A connection for the calls of a [`UuidMap`](crate::UuidMap): a pool's or your own.
///
/// Only this crate implements it.
pub trait SupportedConnection {
    /// Prevents the return of the connection to its pool.
    fn discard(&mut self);
}

impl<DB: Database> SupportedConnection for PoolConnection<DB> {
    fn discard(&mut self) {
        self.close_on_drop();
    }
}

/// The owner decides about the connection.
impl<C: Connection> SupportedConnection for &mut C {
    fn discard(&mut self) {}
}

/// Runs a call. The future is boxed and its type does not contain the source of the connection, so callers'
/// futures are `Send` for every lifetime.
pub fn run<'r, 'c: 'r, A, DB, T, E>(
    on: A,
    mut call: Call<'r, T, E>,
) -> Pin<Box<dyn Future<Output = RunResult<T, sqlx::Error, E>> + Send + 'r>>
where
    A: Acquire<'c, Database = DB, Connection: SupportedConnection> + Send + 'r,
    DB: SupportedDatabase,
    T: 'r,
    E: Send + 'r,
{
    Box::pin(async move {
        if let Some(done) = call.start(None) {
            return done.map_err(RunError::Call);
        }
        let mut connection = on.acquire().await?;
        let is_in_transaction = connection.is_in_transaction();
        let state = ConnectionState { dialect: DB::DIALECT, is_in_transaction };
        drive_async(&mut On::<DB>(&mut connection), state, call).await
    })
}

struct On<'c, DB: Database>(&'c mut dyn Acquired<DB::Connection>);

trait Acquired<C>: Send {
    fn connection(&mut self) -> &mut C;

    fn discard(&mut self);
}

impl<C, A: DerefMut<Target = C> + SupportedConnection + Send> Acquired<C> for A {
    fn connection(&mut self) -> &mut C {
        self
    }

    fn discard(&mut self) {
        SupportedConnection::discard(self);
    }
}

impl<DB: SupportedDatabase> AsyncRunner for On<'_, DB> {
    type Error = sqlx::Error;

    async fn run(&mut self, statement: &Statement) -> Result<Answer, (sqlx::Error, Failure)> {
        let answer = DB::run(self.0.connection(), statement).await;
        answer.map_err(|error| {
            let failure = failure::<DB>(&error);
            (error, failure)
        })
    }

    fn discard(&mut self) {
        if !DB::RECOVERS {
            self.0.discard();
        }
    }
}

/// Returns how to retry a transaction of yours that failed with this error, if a retry can succeed.
///
/// Databases report some conflicts only at COMMIT, and most of them on clusters. A pool gives the next
/// attempt another connection.
///
/// ```
/// use std::time::Duration;
///
/// use opaque_id_sqlx::{MappingError, Retry, retry};
///
/// assert_eq!(retry(&sqlx::Error::PoolTimedOut), Some(Retry::Elsewhere));
/// assert_eq!(retry(&sqlx::Error::RowNotFound), None);
///
/// /// Runs a transaction, COMMIT included, until it succeeds, a retry would fail again, or five attempts have failed.
/// async fn retried<T>(
///     transaction: impl AsyncFn() -> Result<T, MappingError>,
/// ) -> Result<T, MappingError> {
///     for attempt in 1..5 {
///         match transaction().await {
///             Err(MappingError::Conflict(error) | MappingError::Database(error))
///                 if retry(&error).is_some() =>
///             {
///                 // Better a random time, so that two that conflict do not conflict again.
///                 tokio::time::sleep(Duration::from_millis(20) * attempt).await;
///             }
///             done => return done,
///         }
///     }
///     transaction().await
/// }
/// # let attempts_of = |error: fn() -> sqlx::Error| -> std::io::Result<u32> {
/// #     let attempts = std::cell::Cell::new(0);
/// #     let fail = async || {
/// #         attempts.set(attempts.get() + 1);
/// #         Err::<(), _>(MappingError::Database(error()))
/// #     };
/// #     let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// #     assert!(runtime.block_on(retried(fail)).is_err());
/// #     Ok(attempts.get())
/// # };
/// # assert_eq!(attempts_of(|| sqlx::Error::PoolTimedOut)?, 5);
/// # assert_eq!(attempts_of(|| sqlx::Error::RowNotFound)?, 1);
/// # Ok::<(), std::io::Error>(())
/// ```
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
#[must_use]
pub fn retry(error: &sqlx::Error) -> Option<Retry> {
    let failures = [
        #[cfg(feature = "postgres")]
        failure::<sqlx::Postgres>(error),
        #[cfg(feature = "mysql")]
        failure::<sqlx::MySql>(error),
        #[cfg(feature = "sqlite")]
        failure::<sqlx::Sqlite>(error),
    ];
    failures.into_iter().find_map(Failure::retry)
}

fn failure<DB: SupportedDatabase>(error: &sqlx::Error) -> Failure {
    match error {
        sqlx::Error::Database(error) => match DB::code(&**error) {
            Some(code) => DB::DIALECT.failure(&code),
            None => Failure::Other,
        },
        sqlx::Error::PoolTimedOut => Failure::Unavailable,
        sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed => {
            Failure::Disconnected
        }
        _ => Failure::Other,
    }
}

/// Further items are optional.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! supported_database {
    ($database:ty, $dialect:ident, $error:ty, $code:expr $(, $more:item)*) => {
        impl $crate::mapping::run::SupportedDatabase for $database {}

        impl $crate::mapping::run::Run for $database {
            const DIALECT: ::opaque_id_sql::Dialect = ::opaque_id_sql::Dialect::$dialect;

            async fn run(
                connection: &mut <Self as ::sqlx::Database>::Connection,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::sqlx::Result<::opaque_id_sql::statement::Answer> {
                use ::opaque_id_sql::statement::{Answer, Value};
                use ::sqlx::{Executor, Row};

                use $crate::compat::sql;

                macro_rules! answer {
                    ($query:expr) => {{
                        let query = $query;
                        if statement.columns.is_empty() {
                            let result = connection.execute(query).await?;
                            return Ok(Answer::Changed {
                                rows: result.rows_affected(),
                                insert_id: Self::last_insert_id(&result),
                            });
                        }
                        connection.fetch_all(query).await?
                    }};
                }
                let rows = if Self::SENDS_TEXT || statement.is_batch {
                    let text = statement.inlined().into();
                    answer!(::sqlx::raw_sql(sql(&text)))
                } else {
                    let mut query = ::sqlx::query::<Self>(sql(&statement.sql));
                    for value in &statement.values {
                        query = match value {
                            Value::Integer(number) => query.bind(number),
                            Value::Text(text) => query.bind(text),
                            Value::Bytes(bytes) => query.bind(bytes),
                            Value::List(_) | Value::Literals(_) => unreachable!("MySQL's statements are sent as text"),
                        };
                    }
                    answer!(query)
                };
                ::opaque_id_sql::answer_of_rows!(statement, rows, try_get)
            }

            fn code(error: &dyn ::sqlx::error::DatabaseError) -> Option<String> {
                error.try_downcast_ref::<$error>().and_then($code)
            }

            $($more)*
        }
    };
}

#[cfg(feature = "mysql")]
pub(crate) use supported_database;

#[cfg(feature = "postgres")]
supported_database!(sqlx::Postgres, Postgres, sqlx::postgres::PgDatabaseError, |error| {
    Some(error.code().to_owned())
});

#[cfg(feature = "sqlite")]
supported_database!(sqlx::Sqlite, Sqlite, sqlx::sqlite::SqliteError, |error| {
    DatabaseError::code(error).map(Into::into)
});
