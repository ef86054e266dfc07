//! How diesel runs the statements of a map or a sequence.

use diesel::QueryResult;
use diesel::backend::Backend;
use diesel::connection::{LoadConnection, TransactionManager};
use diesel::deserialize;
use diesel::result::{DatabaseErrorKind, Error};
use opaque_id_sql::Dialect;
use opaque_id_sql::call::{Call, Driver, Locked, RunError, Step};
use opaque_id_sql::statement::{Answer, Cell, Statement};

/// A backend that maps and sequences support: each of the features `postgres`, `mysql` and `sqlite` enables one.
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

    /// Reads a value by its type; 16 bytes may or may not be a UUID.
    fn cell(value: Self::RawValue<'_>) -> deserialize::Result<Cell>;
}

type Result<T, L> = std::result::Result<T, RunError<Error, <L as Call>::Refusal>>;

pub(crate) fn run<C: LoadConnection<Backend: SupportedBackend>, L: Call<Refusal: Clone>>(
    connection: &mut C,
    call: &mut L,
) -> Result<(), L> {
    if call.is_done() {
        return Ok(());
    }
    let is_in_transaction = is_in_transaction(connection)?;
    let mut driver = Driver::new(call, C::Backend::DIALECT, is_in_transaction);
    while let Some(step) = driver.next() {
        let answer = answer::<C, L>(connection, &step);
        driver.answer(answer, is_conflict)?;
    }
    Ok(())
}

pub(crate) fn is_in_transaction<C: LoadConnection>(connection: &mut C) -> QueryResult<bool> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    Ok(transaction.transaction_depth()?.is_some())
}

fn answer<C: LoadConnection<Backend: SupportedBackend>, L: Call<Refusal: Clone>>(
    connection: &mut C,
    step: &Step<L::Refusal>,
) -> Result<Answer, L> {
    match step {
        Step::One(statement) => Ok(C::Backend::run(connection, statement)?),
        Step::Locked(step) if step.is_in_transaction => locked::<C, L>(connection, step),
        Step::Locked(step) => {
            if step.is_set_before {
                C::Backend::run(connection, &step.set_isolation)?;
            }
            connection.transaction(|connection| {
                if !step.is_set_before {
                    C::Backend::run(connection, &step.set_isolation)?;
                }
                locked::<C, L>(connection, step)
            })
        }
    }
}

fn locked<C: LoadConnection<Backend: SupportedBackend>, L: Call<Refusal: Clone>>(
    connection: &mut C,
    step: &Locked<L::Refusal>,
) -> Result<Answer, L> {
    let lock = C::Backend::run(connection, &step.lock)?;
    let statement = step.under(&lock).map_err(RunError::Refused)?;
    Ok(C::Backend::run(connection, statement)?)
}

/// Returns whether the error reports a conflict with another transaction. diesel keeps the code of only one kind.
pub(crate) fn is_conflict(error: &Error) -> bool {
    let Error::DatabaseError(kind, information) = error else {
        return false;
    };
    matches!(kind, DatabaseErrorKind::SerializationFailure)
        || [
            "deadlock detected",
            "canceling statement due to lock timeout",
            "Deadlock found when trying to get lock",
            "Lock wait timeout exceeded",
            "Record has changed since last read",
            "Failed to read auto-increment value from storage engine",
            "database is locked",
            "database table is locked",
        ]
        .iter()
        .any(|message| information.message().contains(message))
}

/// Implements [`SupportedBackend`]; how a value is read is the backend's own.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! supported_backend {
    ($backend:ty, $dialect:ident, $cell:path) => {
        impl $crate::run::SupportedBackend for $backend {}

        impl $crate::run::Run for $backend {
            const DIALECT: ::opaque_id_sql::Dialect = ::opaque_id_sql::Dialect::$dialect;

            fn run<C: ::diesel::connection::LoadConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_sql::statement::Answer> {
                use ::diesel::RunQueryDsl;

                let query = $crate::run::query!($backend, statement);
                $crate::run::run_query!(statement, query, connection)
            }

            fn cell(
                value: <Self as ::diesel::backend::Backend>::RawValue<'_>,
            ) -> ::diesel::deserialize::Result<::opaque_id_sql::statement::Cell> {
                $cell(value)
            }
        }

        #[cfg(feature = "async")]
        impl $crate::run_async::AsyncSupportedBackend for $backend {}

        #[cfg(feature = "async")]
        impl $crate::run_async::AsyncRun for $backend {
            async fn run<C: ::diesel_async::AsyncConnection<Backend = Self>>(
                connection: &mut C,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::diesel::QueryResult<::opaque_id_sql::statement::Answer> {
                use ::diesel_async::RunQueryDsl;

                let query = $crate::run::query!($backend, statement);
                $crate::run::run_query!(statement, query, connection, .await)
            }
        }
    };
}

/// The query of a statement, with its values bound.
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
            };
        }
        query
    }};
}

/// Runs a query, with or without `.await`.
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
            let rows: Vec<$crate::cells::Cells> = $query.load($connection)$($($await)*)??;
            $crate::cells::answer($statement.columns, rows)
        }
    }};
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use {query, run_query, supported_backend};
