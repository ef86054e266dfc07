//! How sqlx runs the statements of a map or a sequence.

use std::pin::Pin;

use opaque_id_sql::Dialect;
use opaque_id_sql::call::{Call, Driver, Locked, RunError, Step};
use opaque_id_sql::statement::{Answer, Statement};
use sqlx::error::DatabaseError;
use sqlx::{Acquire, Connection, Database};

/// A database that maps and sequences support: each of the features `postgres`, `mysql` and `sqlite` enables one.
///
/// Only this crate implements it.
pub trait SupportedDatabase: Database + Run {}

/// The private half of [`SupportedDatabase`].
pub trait Run: Database {
    const DIALECT: Dialect;

    fn run(
        connection: &mut Self::Connection,
        statement: &Statement,
    ) -> impl Future<Output = sqlx::Result<Answer>> + Send;

    /// Returns the error's code for [`Dialect::is_conflict`].
    fn code(error: &dyn DatabaseError) -> Option<String> {
        Some(error.code()?.into_owned())
    }

    /// Returns MySQL's last insert id.
    fn last_insert_id(_: &Self::QueryResult) -> Option<u64> {
        None
    }
}

type Result<T, C> = std::result::Result<T, RunError<sqlx::Error, <C as Call>::Refusal>>;

/// The future is boxed, so that callers' futures are `Send` for every lifetime: its type does not contain the source
/// of the connection.
pub(crate) fn run<'r, 'c: 'r, A, C>(
    on: A,
    call: &'r mut C,
) -> Pin<Box<dyn Future<Output = Result<(), C>> + Send + 'r>>
where
    A: Acquire<'c, Database: SupportedDatabase> + Send + 'r,
    C: Call<Refusal: Clone + Sync>,
{
    Box::pin(async move {
        if call.is_done() {
            return Ok(());
        }
        let mut connection = on.acquire().await?;
        run_on::<A::Database, C>(&mut connection, call).await
    })
}

async fn run_on<DB: SupportedDatabase, C: Call<Refusal: Clone + Sync>>(
    connection: &mut DB::Connection,
    call: &mut C,
) -> Result<(), C> {
    let mut driver = Driver::new(call, DB::DIALECT, connection.is_in_transaction());
    while let Some(step) = driver.next() {
        let answer = answer::<DB, C>(connection, &step).await;
        driver.answer(answer, is_conflict::<DB>)?;
    }
    Ok(())
}

async fn answer<DB: SupportedDatabase, C: Call<Refusal: Clone + Sync>>(
    connection: &mut DB::Connection,
    step: &Step<C::Refusal>,
) -> Result<Answer, C> {
    match step {
        Step::One(statement) => Ok(DB::run(connection, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked::<DB, C>(connection, step).await,
        Step::Locked(step) => {
            if step.is_set_before {
                DB::run(connection, &step.set_isolation).await?;
            }
            let mut transaction = connection.begin().await?;
            if !step.is_set_before {
                DB::run(&mut transaction, &step.set_isolation).await?;
            }
            let answer = locked::<DB, C>(&mut transaction, step).await?;
            transaction.commit().await?;
            Ok(answer)
        }
    }
}

async fn locked<DB: SupportedDatabase, C: Call<Refusal: Clone + Sync>>(
    connection: &mut DB::Connection,
    step: &Locked<C::Refusal>,
) -> Result<Answer, C> {
    let lock = DB::run(connection, &step.lock).await?;
    let statement = step.under(&lock).map_err(RunError::Refused)?;
    Ok(DB::run(connection, statement).await?)
}

fn is_conflict<DB: SupportedDatabase>(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DB::code);
    code.is_some_and(|code| DB::DIALECT.is_conflict(&code))
}

/// Implements [`SupportedDatabase`]; further methods are optional.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! supported_database {
    ($database:ty, $dialect:ident $(, $more:item)*) => {
        impl $crate::run::SupportedDatabase for $database {}

        impl $crate::run::Run for $database {
            const DIALECT: ::opaque_id_sql::Dialect = ::opaque_id_sql::Dialect::$dialect;

            async fn run(
                connection: &mut <Self as ::sqlx::Database>::Connection,
                statement: &::opaque_id_sql::statement::Statement,
            ) -> ::sqlx::Result<::opaque_id_sql::statement::Answer> {
                use ::opaque_id_sql::statement::{Answer, Cell, Column, Value};
                use ::sqlx::Row;

                // A table's name is an identifier; the values are bound.
                let sql = ::sqlx::AssertSqlSafe(::std::sync::Arc::clone(&statement.sql));
                let mut query = ::sqlx::query::<Self>(sql);
                for value in &statement.values {
                    query = match value {
                        Value::Integer(number) => query.bind(number),
                        Value::Text(text) => query.bind(text),
                        Value::Bytes(bytes) => query.bind(bytes),
                    };
                }
                if statement.columns.is_empty() {
                    let result = query.execute(connection).await?;
                    return Ok(Answer::Changed {
                        rows: result.rows_affected(),
                        insert_id: Self::last_insert_id(&result),
                    });
                }
                let cell = |row: &<Self as ::sqlx::Database>::Row, (i, column): (usize, &Column)| {
                    Ok(match column {
                        Column::Integer => Cell::Integer(row.try_get(i)?),
                        Column::Uuid => Cell::Uuid(row.try_get(i)?),
                        Column::Bytes => Cell::Bytes(row.try_get(i)?),
                    })
                };
                let rows = query.fetch_all(connection).await?;
                let rows = rows.iter().map(|row| {
                    let columns = statement.columns.iter().enumerate();
                    columns.map(|column| cell(row, column)).collect()
                });
                Ok(Answer::Rows(rows.collect::<::sqlx::Result<_>>()?))
            }

            $($more)*
        }
    };
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use supported_database;
