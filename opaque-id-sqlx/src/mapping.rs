use std::pin::Pin;

use opaque_id_core::__private::{Answer, Locked, Statement, Step, Steps};
use opaque_id_core::{Dialect, uuid_map};
use sqlx::error::DatabaseError;
use sqlx::{Acquire, Connection, Database};

use crate::MappingError;

uuid_map! {
    /// The mapping table of a resource, which leads from UUIDs outside to integers inside.
    ///
    /// Its calls take what sqlx acquires a connection from: a pool, a connection or a transaction. In a
    /// transaction of the caller's they are part of it, and rolled back with it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_sqlx::{Dialect, External, OpaqueId, UuidMap};
    /// use sqlx::SqlitePool;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// sqlx::raw_sql(sqlx::AssertSqlSafe(map.create_sql(Dialect::Sqlite))).execute(&pool).await?; // a migration
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&pool, theirs).await?;
    /// assert_eq!(map.find(&pool, theirs).await?, Some(id));
    /// assert_eq!(map.external_of(&pool, id).await?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&pool).await?;
    /// assert!(map.forget(&pool, ours).await?);
    /// assert_eq!(map.external_of(&pool, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct UuidMap;
    on: ['c, A: Acquire<'c, Database: MapDatabase> + Send] A, run: run, error: MappingError,
    async: [async] [.await]
}

/// A database that mapping tables are kept in: the features `postgres`, `mysql` and `sqlite` bring one
/// each. Sealed.
pub trait MapDatabase: Database + Run {}

/// The sealed half of [`MapDatabase`].
pub trait Run: Database {
    const DIALECT: Dialect;

    fn run(
        connection: &mut Self::Connection,
        statement: &Statement,
    ) -> impl Future<Output = sqlx::Result<Answer>> + Send;

    /// The code that [`Dialect::is_conflict`] knows.
    fn code(error: &dyn DatabaseError) -> Option<String> {
        Some(error.code()?.into_owned())
    }

    /// What MySQL calls so.
    fn last_insert_id(_: &Self::QueryResult) -> Option<u64> {
        None
    }
}

/// Boxed, so that callers' futures are `Send` for every lifetime: what a connection is acquired from does
/// not show in it.
pub(crate) fn run<'r, 'c: 'r, A: Acquire<'c, Database: MapDatabase> + Send + 'r>(
    on: A,
    work: &'r mut impl Steps,
) -> Pin<Box<dyn Future<Output = Result<(), MappingError>> + Send + 'r>> {
    Box::pin(async move {
        if work.is_done() {
            return Ok(());
        }
        let mut connection = on.acquire().await?;
        run_on::<A::Database>(&mut connection, work).await
    })
}

async fn run_on<DB: MapDatabase>(
    connection: &mut DB::Connection,
    work: &mut impl Steps,
) -> Result<(), MappingError> {
    work.begun(connection.is_in_transaction());
    while let Some(step) = work.step(DB::DIALECT) {
        let answer = answer::<DB>(connection, &step).await;
        work.take(DB::DIALECT, answer, is_conflict::<DB>)?;
    }
    Ok(())
}

async fn answer<DB: MapDatabase>(
    connection: &mut DB::Connection,
    step: &Step,
) -> Result<Answer, MappingError> {
    match step {
        Step::One(statement) => Ok(DB::run(connection, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked::<DB>(connection, step).await,
        Step::Locked(step) => {
            if step.is_set_before() {
                DB::run(connection, &step.set_isolation).await?;
            }
            let mut transaction = connection.begin().await?;
            if !step.is_set_before() {
                DB::run(&mut transaction, &step.set_isolation).await?;
            }
            let answer = locked::<DB>(&mut transaction, step).await?;
            transaction.commit().await?;
            Ok(answer)
        }
    }
}

async fn locked<DB: MapDatabase>(
    connection: &mut DB::Connection,
    step: &Locked,
) -> Result<Answer, MappingError> {
    let lock = DB::run(connection, &step.lock).await?;
    Ok(DB::run(connection, step.under(&lock)?).await?)
}

fn is_conflict<DB: MapDatabase>(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(DB::code);
    code.is_some_and(|code| DB::DIALECT.is_conflict(&code))
}

/// Implements [`MapDatabase`], with more if there is more to say.
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
macro_rules! map_database {
    ($database:ty, $dialect:ident $(, $more:item)*) => {
        impl $crate::mapping::MapDatabase for $database {}

        impl $crate::mapping::Run for $database {
            const DIALECT: ::opaque_id_core::Dialect = ::opaque_id_core::Dialect::$dialect;

            async fn run(
                connection: &mut <Self as ::sqlx::Database>::Connection,
                statement: &::opaque_id_core::__private::Statement,
            ) -> ::sqlx::Result<::opaque_id_core::__private::Answer> {
                use ::opaque_id_core::__private::{Answer, Value};

                // A table's name is an identifier; the values are bound.
                let sql = ::sqlx::AssertSqlSafe(&*statement.sql);
                let mut query = ::sqlx::query::<Self>(sql);
                for value in &statement.values {
                    query = match value {
                        Value::Text(text) => query.bind(text),
                        Value::Bytes(bytes) => query.bind(bytes),
                    };
                }
                if !statement.returns_rows {
                    let result = query.execute(connection).await?;
                    return Ok(Answer::Changed {
                        rows: result.rows_affected(),
                        insert_id: Self::last_insert_id(&result),
                    });
                }
                let rows = query.fetch_all(connection).await?;
                let rows = rows.iter().map(|row| {
                    use ::sqlx::Row;
                    Ok((row.try_get(0)?, row.try_get(1)?))
                });
                Ok(Answer::Rows(rows.collect::<::sqlx::Result<_>>()?))
            }

            $($more)*
        }
    };
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
pub(crate) use map_database;
