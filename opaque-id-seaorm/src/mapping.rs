use opaque_id_core::__private::{Answer, Locked, Statement, Step, Steps, Value};
use opaque_id_core::{Dialect, uuid_map};
use sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, IsolationLevel,
    TransactionSession, TransactionTrait,
};

use crate::MappingError;

uuid_map! {
    /// The mapping table of a resource, which leads from UUIDs outside to integers inside.
    ///
    /// Its calls take a `DatabaseConnection` or a `DatabaseTransaction`. In a transaction of the caller's
    /// they are part of it, and rolled back with it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_seaorm::{External, OpaqueId, UuidMap, migration};
    /// use sea_orm::Database;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let db = Database::connect("sqlite::memory:").await?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// migration::create_map(&db, &map).await?; // in a migration: manager.get_connection()
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&db, theirs).await?;
    /// assert_eq!(map.find(&db, theirs).await?, Some(id));
    /// assert_eq!(map.external_of(&db, id).await?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&db).await?;
    /// assert!(map.forget(&db, ours).await?);
    /// assert_eq!(map.external_of(&db, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct UuidMap;
    on: [C: MapConnection] &C, run: run, error: MappingError,
    async: [async] [.await]
}

/// What a [`UuidMap`]'s calls take: a `DatabaseConnection` or a `DatabaseTransaction`.
pub trait MapConnection: ConnectionTrait + TransactionTrait {
    /// Whether it is a transaction: what is read in it may be rolled back.
    const IN_TRANSACTION: bool;
}

impl MapConnection for DatabaseConnection {
    const IN_TRANSACTION: bool = false;
}

impl MapConnection for DatabaseTransaction {
    const IN_TRANSACTION: bool = true;
}

/// The SQL of a backend.
pub(crate) fn dialect(backend: DbBackend) -> Result<Dialect, DbErr> {
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

pub(crate) async fn run<C: MapConnection>(
    on: &C,
    work: &mut impl Steps,
) -> Result<(), MappingError> {
    let dialect = dialect(on.get_database_backend())?;
    work.begun(C::IN_TRANSACTION);
    while let Some(step) = work.step(dialect) {
        let answer = answer(on, &step).await;
        work.take(dialect, answer, |error| is_conflict(dialect, error))?;
    }
    Ok(())
}

async fn answer<C: MapConnection>(on: &C, step: &Step) -> Result<Answer, MappingError> {
    match step {
        Step::One(statement) => Ok(run_one(on, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked(on, step).await,
        Step::Locked(step) => {
            let isolation = Some(IsolationLevel::ReadCommitted);
            let transaction = on.begin_with_config(isolation, None).await?;
            let answer = locked(&transaction, step).await?;
            transaction.commit().await?;
            Ok(answer)
        }
    }
}

async fn locked<C: ConnectionTrait>(on: &C, step: &Locked) -> Result<Answer, MappingError> {
    let lock = run_one(on, &step.lock).await?;
    Ok(run_one(on, step.under(&lock)?).await?)
}

async fn run_one<C: ConnectionTrait>(on: &C, statement: &Statement) -> Result<Answer, DbErr> {
    let values = statement.values.iter().map(|value| match value {
        Value::Text(text) => sea_orm::Value::from(text.clone()),
        Value::Bytes(bytes) => sea_orm::Value::from(bytes.clone()),
    });
    let query =
        sea_orm::Statement::from_sql_and_values(on.get_database_backend(), &statement.sql, values);
    if !statement.returns_rows {
        let result = on.execute_raw(query).await?;
        return Ok(Answer::Changed {
            rows: result.rows_affected(),
            // On others it panics.
            insert_id: (on.get_database_backend() == DbBackend::MySql)
                .then(|| result.last_insert_id()),
        });
    }
    let rows = on.query_all_raw(query).await?;
    let rows = rows
        .iter()
        .map(|row| Ok((row.try_get_by(0)?, row.try_get_by(1)?)));
    Ok(Answer::Rows(rows.collect::<Result<_, DbErr>>()?))
}

/// Whether it is another transaction's fault.
fn is_conflict(dialect: Dialect, error: &DbErr) -> bool {
    code(dialect, error).is_some_and(|code| dialect.is_conflict(&code))
}

/// The code that [`Dialect::is_conflict`] knows.
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

/// Without a driver there are no errors of one.
#[cfg(not(any(feature = "postgres", feature = "mysql", feature = "sqlite")))]
fn code(_: Dialect, _: &DbErr) -> Option<String> {
    None
}
