use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::connection::{LoadConnection, TransactionManager};
use diesel::deserialize;
use diesel::result::{DatabaseErrorInformation, DatabaseErrorKind, Error};
use opaque_id_sql::call::{Call, ConnectionState, RunError, RunResult, Runner, drive};
use opaque_id_sql::dialect::{CONSTRAINT, Dialect, Failure, Retry};
use opaque_id_sql::statement::{Answer, Cell, Statement};

/// A backend for maps and sequences. The features `postgres`, `mysql` and `sqlite` enable one each.
///
/// Only this crate implements it.
pub trait SupportedBackend: Backend + Run {}

/// The private half of [`SupportedBackend`].
pub trait Run: Backend {
    const DIALECT: Dialect;

    fn run<C: LoadConnection<Backend = Self>>(
        connection: &mut C,
        statement: &Statement,
    ) -> QueryResult<Answer>;

    /// Reads a value by its type. Sixteen bytes may be a UUID or not.
    fn cell(value: Self::RawValue<'_>) -> deserialize::Result<Cell>;

    /// Classifies an error for a retry if its kind does not.
    fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure;
}

/// The meaning of an error of unknown kind for a retry.
#[derive(Debug)]
pub enum UnknownFailure {
    Known(Failure),
    /// The server returns the error's code if asked before the next statement.
    Ask(Question),
}

/// The statements that ask for an error's code.
#[derive(Debug)]
pub struct Question {
    /// The last one reads it.
    pub ask: Vec<Statement>,
    pub clear: Statement,
}

/// Runs a call.
///
/// # Errors
/// [`RunError`].
pub fn run<C: LoadConnection<Backend: SupportedBackend>, T, E>(
    connection: &mut C,
    mut call: Call<'_, T, E>,
) -> RunResult<T, Error, E> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    let transaction = transaction.transaction_depth().map(|depth| depth.is_some());
    let state = state::<C::Backend>(&transaction);
    if let Some(done) = call.start(Some(state)) {
        return done.map_err(RunError::Call);
    }
    transaction?;
    drive(&mut On(connection), state, call)
}

/// A broken transaction counts as one.
pub(crate) fn state<DB: SupportedBackend>(
    is_in_transaction: &QueryResult<bool>,
) -> ConnectionState {
    let is_in_transaction = *is_in_transaction.as_ref().unwrap_or(&true);
    ConnectionState { dialect: DB::DIALECT, is_in_transaction }
}

struct On<'c, C>(&'c mut C);

impl<C: LoadConnection<Backend: SupportedBackend>> Runner for On<'_, C> {
    type Error = Error;

    fn run(&mut self, statement: &Statement) -> Result<Answer, (Error, Failure)> {
        C::Backend::run(self.0, statement).map_err(|error| {
            let failure = failure(self.0, &error);
            (error, failure)
        })
    }
}

/// Returns how to retry a transaction of yours that failed with this error, if a retry can succeed.
///
/// Databases report some conflicts only at COMMIT, and most of them on clusters. diesel does not keep an
/// error's code: on MySQL and MariaDB this function asks the server for it, so call it before the next
/// statement. After a failed COMMIT, and after `connection.transaction(…)` has returned an error, diesel has
/// already rolled back. Then the error is recognized only if the server's messages are in English. On
/// PostgreSQL this holds for every lock timeout.
pub fn retry<C: LoadConnection<Backend: SupportedBackend>>(
    connection: &mut C,
    error: &Error,
) -> Option<Retry> {
    failure(connection, error).retry()
}

fn failure<C: LoadConnection<Backend: SupportedBackend>>(
    connection: &mut C,
    error: &Error,
) -> Failure {
    match kind_of_failure::<C::Backend>(error) {
        UnknownFailure::Known(failure) => failure,
        UnknownFailure::Ask(question) => {
            let mut run = |statement: &Statement| C::Backend::run(connection, statement);
            let none = Answer::Rows(Vec::new());
            let code = question.ask.iter().try_fold(none, |_, statement| run(statement));
            let cleared = run(&question.clear);
            failure_of_code::<C::Backend>(code, &cleared)
        }
    }
}

pub(crate) fn kind_of_failure<DB: SupportedBackend>(error: &Error) -> UnknownFailure {
    let (kind, information) = match error {
        Error::DatabaseError(kind, information) => (kind, information),
        Error::RollbackErrorOnCommit { commit_error, .. } => {
            return kind_of_failure::<DB>(commit_error);
        }
        Error::BrokenTransactionManager => {
            return UnknownFailure::Known(Failure::Disconnected);
        }
        _ => return UnknownFailure::Known(Failure::Other),
    };
    UnknownFailure::Known(match kind {
        DatabaseErrorKind::SerializationFailure => Failure::Conflict,
        DatabaseErrorKind::UniqueViolation => Failure::Duplicate,
        DatabaseErrorKind::ReadOnlyTransaction => Failure::Unavailable,
        DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
            Failure::Disconnected
        }
        DatabaseErrorKind::NotNullViolation
        | DatabaseErrorKind::ForeignKeyViolation
        | DatabaseErrorKind::CheckViolation
        | DatabaseErrorKind::RestrictViolation
        | DatabaseErrorKind::ExclusionViolation => Failure::Refused(CONSTRAINT),
        DatabaseErrorKind::Unknown => return DB::failure(&**information),
        _ => Failure::Other,
    })
}

/// There is no code if the server has forgotten it, for instance after a rollback. Any server accepts the
/// last part of the question, so a server that does not answer it is gone.
pub(crate) fn failure_of_code<DB: SupportedBackend>(
    answer: QueryResult<Answer>,
    cleared: &QueryResult<Answer>,
) -> Failure {
    match answer {
        _ if cleared.is_err() => Failure::Disconnected,
        Ok(Answer::Rows(rows)) => match rows.first().map(Vec::as_slice) {
            Some([Cell::Integer(code)]) => DB::DIALECT.failure(&code.to_string()),
            _ => Failure::Other,
        },
        _ => Failure::Other,
    }
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! supported_backend {
    ($backend:ty, $dialect:ident, $cell:path, $failure:path) => {
        impl $crate::mapping::run::SupportedBackend for $backend {}

        impl $crate::mapping::run::Run for $backend {
            const DIALECT: ::opaque_id_sql::Dialect = ::opaque_id_sql::Dialect::$dialect;

            fn run<C: ::diesel::connection::LoadConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_sql::statement::Answer> {
                use ::diesel::RunQueryDsl;

                if statement.is_batch {
                    connection.batch_execute(&statement.sql)?;
                    return Ok($crate::mapping::run::EXECUTED);
                }
                let statement = &*statement.prepared();
                let query = $crate::mapping::run::query!($backend, statement);
                $crate::mapping::run::run_query!(statement, query, connection)
            }

            fn cell(
                value: <Self as ::diesel::backend::Backend>::RawValue<'_>,
            ) -> ::diesel::deserialize::Result<::opaque_id_sql::statement::Cell> {
                $cell(value)
            }

            fn failure(
                error: &(dyn ::diesel::result::DatabaseErrorInformation + Send + Sync),
            ) -> $crate::mapping::run::UnknownFailure {
                $failure(error)
            }
        }

        #[cfg(feature = "async")]
        impl $crate::mapping::run_async::AsyncSupportedBackend for $backend {}

        #[cfg(feature = "async")]
        impl $crate::mapping::run_async::AsyncRun for $backend {
            async fn run<C: ::diesel_async::AsyncConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_sql::statement::Answer> {
                use ::diesel_async::RunQueryDsl;

                if statement.is_batch {
                    connection.batch_execute(&statement.sql).await?;
                    return Ok($crate::mapping::run::EXECUTED);
                }
                let statement = &*statement.prepared();
                let query = $crate::mapping::run::query!($backend, statement);
                $crate::mapping::run::run_query!(statement, query, connection, .await)
            }
        }
    };
}

/// diesel returns nothing for a batch.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) const EXECUTED: Answer = Answer::Changed { rows: 0, insert_id: None };

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! query {
    ($backend:ty, $statement:ident) => {{
        use ::opaque_id_sql::statement::Value;

        let mut query = ::diesel::sql_query(&*$statement.sql).into_boxed::<$backend>();
        for value in &$statement.values {
            query = match value {
                Value::Integer(number) => query.bind::<::diesel::sql_types::BigInt, _>(*number),
                Value::Text(text) => query.bind::<::diesel::sql_types::Text, _>(text.as_str()),
                Value::Bytes(bytes) => {
                    query.bind::<::diesel::sql_types::Binary, _>(bytes.as_slice())
                }
                Value::List(_) | Value::Literals(_) => {
                    unreachable!("a prepared statement has no lists")
                }
            };
        }
        query
    }};
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! run_query {
    ($statement:ident, $query:ident, $connection:ident $(, $($await:tt)*)?) => {{
        if $statement.columns.is_empty() {
            let count = $query.execute($connection)$($($await)*)??;
            Ok(::opaque_id_sql::statement::Answer::Changed {
                rows: count as u64,
                // diesel does not return it.
                insert_id: None,
            })
        } else {
            let rows: Vec<$crate::mapping::cells::Cells> = $query.load($connection)$($($await)*)??;
            $crate::mapping::cells::answer($statement.columns, rows)
        }
    }};
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use {query, run_query, supported_backend};
