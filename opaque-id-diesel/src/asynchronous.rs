use std::pin::Pin;

use diesel::QueryResult;
use diesel_async::{AsyncConnection, TransactionManager};
use opaque_id_core::__private::{Answer, Locked, Statement, Step, Steps};
use opaque_id_core::{sequence, uuid_map};

use crate::mapping::{MapBackend, Run as _, is_conflict};
use crate::sequence::refuse_transaction;
use crate::{MappingError, SequenceError};

uuid_map! {
    /// [`UuidMap`](crate::UuidMap) for connections of diesel-async.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use diesel::SqliteConnection;
    /// use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// use diesel_async::{AsyncConnection, SimpleAsyncConnection};
    /// use opaque_id_diesel::{AsyncUuidMap, Dialect, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let mut connection = SyncConnectionWrapper::<SqliteConnection>::establish(":memory:").await?;
    /// let map = AsyncUuidMap::<Order>::unique("order_ids");
    /// connection.batch_execute(&map.create_sql(Dialect::Sqlite)).await?; // a migration
    ///
    /// let (external, id) = map.issue(&mut connection).await?;
    /// assert_eq!(map.find(&mut connection, external).await?, Some(id));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct AsyncUuidMap;
    on: [C: AsyncConnection<Backend: AsyncMapBackend>] &mut C, run: run, error: MappingError,
    async: [async] [.await]
}

sequence! {
    /// [`Sequence`](crate::Sequence) for connections of diesel-async.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use diesel::SqliteConnection;
    /// use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// use diesel_async::{AsyncConnection, SimpleAsyncConnection};
    /// use opaque_id_diesel::{AsyncSequence, Dialect, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    /// # use opaque_id_diesel::StructuredKey;
    ///
    /// let mut connection = SyncConnectionWrapper::<SqliteConnection>::establish(":memory:").await?;
    /// connection.batch_execute(&AsyncSequence::<Order>::create_sql(Dialect::Sqlite)).await?; // a migration
    ///
    /// let id = AsyncSequence::<Order>::new().next(&mut connection).await?;
    /// assert_eq!(id.expose_key().sequence(), 1);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct AsyncSequence;
    on: [C: AsyncConnection<Backend: AsyncMapBackend>] [&mut *] &mut C, check: check [&mut *], run: run,
    error: SequenceError,
    async: [async] [.await]
}

/// A [`MapBackend`] for diesel-async. Sealed.
pub trait AsyncMapBackend: MapBackend + AsyncRun {}

/// The sealed half of [`AsyncMapBackend`].
pub trait AsyncRun: MapBackend {
    fn run<C: AsyncConnection<Backend = Self>>(
        connection: &mut C,
        statement: &Statement,
    ) -> impl Future<Output = QueryResult<Answer>> + Send;
}

/// Boxed, so that callers' futures are `Send` for every lifetime.
fn run<'r, C: AsyncConnection<Backend: AsyncMapBackend>>(
    connection: &'r mut C,
    work: &'r mut impl Steps,
) -> Pin<Box<dyn Future<Output = Result<(), MappingError>> + Send + 'r>> {
    Box::pin(async move {
        if work.is_done() {
            return Ok(());
        }
        work.begun(is_in_transaction(connection)?);
        while let Some(step) = work.step(C::Backend::DIALECT) {
            let answer = answer(connection, &step).await;
            work.take(C::Backend::DIALECT, answer, is_conflict)?;
        }
        Ok(())
    })
}

fn is_in_transaction<C: AsyncConnection>(connection: &mut C) -> QueryResult<bool> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    Ok(transaction.transaction_depth()?.is_some())
}

/// As [`Sequence`](crate::Sequence) checks.
fn check<C: AsyncConnection>(connection: &mut C) -> Result<(), SequenceError> {
    refuse_transaction(is_in_transaction(connection))
}

async fn answer<C: AsyncConnection<Backend: AsyncMapBackend>>(
    connection: &mut C,
    step: &Step,
) -> Result<Answer, MappingError> {
    match step {
        Step::One(statement) => Ok(<C::Backend as AsyncRun>::run(connection, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked(connection, step).await,
        Step::Locked(step) => {
            if step.is_set_before() {
                <C::Backend as AsyncRun>::run(connection, &step.set_isolation).await?;
            }
            // A closure for `transaction` would have a future that is `Send` for one lifetime only.
            C::TransactionManager::begin_transaction(connection).await?;
            let answer = locked_alone(connection, step).await;
            match answer {
                Ok(_) => C::TransactionManager::commit_transaction(connection).await?,
                Err(_) => C::TransactionManager::rollback_transaction(connection).await?,
            }
            answer
        }
    }
}

async fn locked_alone<C: AsyncConnection<Backend: AsyncMapBackend>>(
    connection: &mut C,
    step: &Locked,
) -> Result<Answer, MappingError> {
    if !step.is_set_before() {
        <C::Backend as AsyncRun>::run(connection, &step.set_isolation).await?;
    }
    locked(connection, step).await
}

async fn locked<C: AsyncConnection<Backend: AsyncMapBackend>>(
    connection: &mut C,
    step: &Locked,
) -> Result<Answer, MappingError> {
    let lock = <C::Backend as AsyncRun>::run(connection, &step.lock).await?;
    Ok(<C::Backend as AsyncRun>::run(connection, step.under(&lock)?).await?)
}
