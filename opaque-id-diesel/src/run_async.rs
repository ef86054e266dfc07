//! How diesel-async runs the statements of a map or a sequence.

use std::pin::Pin;

use diesel::QueryResult;
use diesel::result::Error;
use diesel_async::{AsyncConnection, TransactionManager};
use opaque_id_sql::call::{Call, Driver, Locked, RunError, Step};
use opaque_id_sql::statement::{Answer, Statement};

use crate::run::{Run as _, SupportedBackend, is_conflict};

/// A [`SupportedBackend`] for diesel-async.
///
/// Only this crate implements it.
pub trait AsyncSupportedBackend: SupportedBackend + AsyncRun {}

/// The private half of [`AsyncSupportedBackend`].
pub trait AsyncRun: SupportedBackend {
    fn run<C: AsyncConnection<Backend = Self>>(
        connection: &mut C,
        statement: &Statement,
    ) -> impl Future<Output = QueryResult<Answer>> + Send;
}

type Result<T, L> = std::result::Result<T, RunError<Error, <L as Call>::Refusal>>;

/// The future is boxed, so that callers' futures are `Send` for every lifetime.
pub(crate) fn run<'r, C, L>(
    connection: &'r mut C,
    call: &'r mut L,
) -> Pin<Box<dyn Future<Output = Result<(), L>> + Send + 'r>>
where
    C: AsyncConnection<Backend: AsyncSupportedBackend>,
    L: Call<Refusal: Clone + Sync>,
{
    Box::pin(async move {
        if call.is_done() {
            return Ok(());
        }
        let is_in_transaction = is_in_transaction(connection)?;
        let mut driver = Driver::new(call, C::Backend::DIALECT, is_in_transaction);
        while let Some(step) = driver.next() {
            let answer = answer::<C, L>(connection, &step).await;
            driver.answer(answer, is_conflict)?;
        }
        Ok(())
    })
}

pub(crate) fn is_in_transaction<C: AsyncConnection>(connection: &mut C) -> QueryResult<bool> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    Ok(transaction.transaction_depth()?.is_some())
}

async fn answer<C, L>(connection: &mut C, step: &Step<L::Refusal>) -> Result<Answer, L>
where
    C: AsyncConnection<Backend: AsyncSupportedBackend>,
    L: Call<Refusal: Clone + Sync>,
{
    match step {
        Step::One(statement) => Ok(<C::Backend as AsyncRun>::run(connection, statement).await?),
        Step::Locked(step) if step.is_in_transaction => locked::<C, L>(connection, step).await,
        Step::Locked(step) => {
            if step.is_set_before {
                <C::Backend as AsyncRun>::run(connection, &step.set_isolation).await?;
            }
            // A closure for `transaction` would have a future that is `Send` for one lifetime only.
            C::TransactionManager::begin_transaction(connection).await?;
            let answer = locked_alone::<C, L>(connection, step).await;
            match answer {
                Ok(_) => C::TransactionManager::commit_transaction(connection).await?,
                Err(_) => C::TransactionManager::rollback_transaction(connection).await?,
            }
            answer
        }
    }
}

async fn locked_alone<C, L>(connection: &mut C, step: &Locked<L::Refusal>) -> Result<Answer, L>
where
    C: AsyncConnection<Backend: AsyncSupportedBackend>,
    L: Call<Refusal: Clone + Sync>,
{
    if !step.is_set_before {
        <C::Backend as AsyncRun>::run(connection, &step.set_isolation).await?;
    }
    locked::<C, L>(connection, step).await
}

async fn locked<C, L>(connection: &mut C, step: &Locked<L::Refusal>) -> Result<Answer, L>
where
    C: AsyncConnection<Backend: AsyncSupportedBackend>,
    L: Call<Refusal: Clone + Sync>,
{
    let lock = <C::Backend as AsyncRun>::run(connection, &step.lock).await?;
    let statement = step.under(&lock).map_err(RunError::Refused)?;
    Ok(<C::Backend as AsyncRun>::run(connection, statement).await?)
}
