//! How diesel-async runs the statements of a map or a sequence.

use std::mem;
use std::pin::Pin;

use diesel::QueryResult;
use diesel::connection::TransactionManagerStatus;
use diesel::result::Error;
use diesel_async::{AsyncConnection, TransactionManager};
use futures_timer::Delay;
use opaque_id_sql::call::{Call, Driver, RunError, Step};
use opaque_id_sql::dialect::{Dialect, Failure, Retry};
use opaque_id_sql::statement::{Answer, Statement};

use crate::run::{Run as _, SupportedBackend, UnknownFailure, failure_of_code, kind_of_failure};

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
    L: Call,
{
    Box::pin(async move {
        if call.is_done() {
            return Ok(());
        }
        let is_in_transaction = is_in_transaction(connection)?;
        let mut driver = Driver::new(call, C::Backend::DIALECT, is_in_transaction);
        while let Some(step) = driver.next_step() {
            match step {
                Step::Wait(duration) => Delay::new(duration).await,
                Step::Run(statement) => {
                    let answer = run_one(connection, &statement).await;
                    let failure = match &answer {
                        Ok(_) => Failure::Other,
                        Err(error) => failure(connection, error).await,
                    };
                    let answered = driver.answer(answer, |_| failure);
                    if answered.is_err()
                        && let Some(statement) = driver.after_failure()
                    {
                        let _ = run_one(connection, &statement).await;
                    }
                    answered?;
                }
            }
        }
        Ok(())
    })
}

pub(crate) fn is_in_transaction<C: AsyncConnection>(connection: &mut C) -> QueryResult<bool> {
    let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
    Ok(transaction.transaction_depth()?.is_some())
}

/// Runs a statement. If the future is dropped, the connection is broken as far as pools are concerned, unless its driver
/// recovers it: MySQL's may have read half of the answer.
async fn run_one<C: AsyncConnection<Backend: AsyncSupportedBackend>>(
    connection: &mut C,
    statement: &Statement,
) -> QueryResult<Answer> {
    if C::Backend::DIALECT != Dialect::MySql {
        return <C::Backend as AsyncRun>::run(connection, statement).await;
    }
    let status = C::TransactionManager::transaction_manager_status_mut(connection);
    let status = mem::replace(status, TransactionManagerStatus::InError);
    let answer = <C::Backend as AsyncRun>::run(connection, statement).await;
    *C::TransactionManager::transaction_manager_status_mut(connection) = status;
    answer
}

/// Returns how to retry a transaction of yours that failed with this error, or `None` if a retry would fail again: see
/// [`retry`](crate::retry).
pub async fn retry_async<C: AsyncConnection<Backend: AsyncSupportedBackend>>(
    connection: &mut C,
    error: &Error,
) -> Option<Retry> {
    failure(connection, error).await.retry()
}

async fn failure<C: AsyncConnection<Backend: AsyncSupportedBackend>>(
    connection: &mut C,
    error: &Error,
) -> Failure {
    match kind_of_failure::<C::Backend>(error) {
        UnknownFailure::Known(failure) => failure,
        UnknownFailure::Ask(question) => {
            let code = match run_one(connection, &question.get).await {
                Ok(_) => run_one(connection, &question.read).await,
                error => error,
            };
            let _ = run_one(connection, &question.clear).await;
            failure_of_code::<C::Backend>(code)
        }
    }
}
