//! How SeaORM runs the statements of a map or a sequence.

use opaque_id_sql::Dialect;
use opaque_id_sql::call::{Call, Driver, Locked, RunError, Step};
use opaque_id_sql::statement::{Answer, Cell, Column, Statement, Value};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, IsolationLevel,
    QueryResult, TransactionSession, TransactionTrait,
};

/// A connection that the calls of a [`UuidMap`](crate::UuidMap) accept: a `DatabaseConnection` or a
/// `DatabaseTransaction`.
pub trait SupportedConnection: ConnectionTrait + TransactionTrait {
    /// Whether it is a transaction: rows that are read in it may be rolled back.
    const IN_TRANSACTION: bool;
}

impl SupportedConnection for DatabaseConnection {
    const IN_TRANSACTION: bool = false;
}

impl SupportedConnection for DatabaseTransaction {
    const IN_TRANSACTION: bool = true;
}

/// Returns the SQL dialect of a backend.
pub(crate) fn dialect(backend: DbBackend) -> std::result::Result<Dialect, DbErr> {
    match backend {
        DbBackend::Postgres => Ok(Dialect::Postgres),
        DbBackend::MySql => Ok(Dialect::MySql),
        DbBackend::Sqlite => Ok(Dialect::Sqlite),
        _ => Err(DbErr::BackendNotSupported {
            db: backend.as_str(),
            ctx: "opaque-id's mapping table",
        }),
    }
}

type Result<T, C> = std::result::Result<T, RunError<DbErr, <C as Call>::Refusal>>;

pub(crate) async fn run<O: SupportedConnection, C: Call<Refusal: Clone + Sync>>(
    on: &O,
    call: &mut C,
) -> Result<(), C> {
    let dialect = dialect(on.get_database_backend())?;
    let mut driver = Driver::new(call, dialect, O::IN_TRANSACTION);
    while let Some(step) = driver.next() {
        let answer = answer::<O, C>(on, &step).await;
        driver.answer(answer, |error| is_conflict(dialect, error))?;
    }
    Ok(())
}

async fn answer<O: SupportedConnection, C: Call<Refusal: Clone + Sync>>(
    on: &O,
    step: &Step<C::Refusal>,
) -> Result<Answer, C> {
    match step {
        Step::One(statement) => Ok(run_one(on, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked::<O, C>(on, step).await,
        Step::Locked(step) => {
            let isolation = Some(IsolationLevel::ReadCommitted);
            let transaction = on.begin_with_config(isolation, None).await?;
            let answer = locked::<_, C>(&transaction, step).await?;
            transaction.commit().await?;
            Ok(answer)
        }
    }
}

async fn locked<O: ConnectionTrait, C: Call<Refusal: Clone + Sync>>(
    on: &O,
    step: &Locked<C::Refusal>,
) -> Result<Answer, C> {
    let lock = run_one(on, &step.lock).await?;
    let statement = step.under(&lock).map_err(RunError::Refused)?;
    Ok(run_one(on, statement).await?)
}

async fn run_one<O: ConnectionTrait>(
    on: &O,
    statement: &Statement,
) -> std::result::Result<Answer, DbErr> {
    let values = statement.values.iter().map(|value| match value {
        Value::Integer(number) => sea_orm::Value::from(*number),
        Value::Text(text) => sea_orm::Value::from(text.clone()),
        Value::Bytes(bytes) => sea_orm::Value::from(bytes.clone()),
    });
    let query =
        sea_orm::Statement::from_sql_and_values(on.get_database_backend(), &*statement.sql, values);
    if statement.columns.is_empty() {
        let result = on.execute_raw(query).await?;
        return Ok(Answer::Changed {
            rows: result.rows_affected(),
            // On others it panics.
            insert_id: (on.get_database_backend() == DbBackend::MySql)
                .then(|| result.last_insert_id()),
        });
    }
    let rows = on.query_all_raw(query).await?;
    let cell = |row: &QueryResult, (i, column): (usize, &Column)| {
        Ok(match column {
            Column::Integer => Cell::Integer(row.try_get_by(i)?),
            Column::Uuid => Cell::Uuid(row.try_get_by(i)?),
            Column::Bytes => Cell::Bytes(row.try_get_by(i)?),
        })
    };
    let rows = rows.iter().map(|row| {
        let columns = statement.columns.iter().enumerate();
        columns.map(|column| cell(row, column)).collect()
    });
    Ok(Answer::Rows(
        rows.collect::<std::result::Result<_, DbErr>>()?,
    ))
}

/// Returns whether the error reports a conflict with another transaction.
fn is_conflict(dialect: Dialect, error: &DbErr) -> bool {
    code(dialect, error).is_some_and(|code| dialect.is_conflict(&code))
}

/// Returns the error's code for [`Dialect::is_conflict`].
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn code(dialect: Dialect, error: &DbErr) -> Option<String> {
    use sea_orm::RuntimeErr;

    let (DbErr::Exec(RuntimeErr::SqlxError(error)) | DbErr::Query(RuntimeErr::SqlxError(error))) =
        error
    else {
        return None;
    };
    let error = error.as_database_error()?;
    match dialect {
        #[cfg(feature = "mysql")]
        Dialect::MySql => crate::mysql::code(error),
        _ => Some(error.code()?.into_owned()),
    }
}

/// Without a driver there are no driver errors.
#[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
fn code(_: Dialect, _: &DbErr) -> Option<String> {
    None
}
