use std::pin::Pin;

use diesel::QueryResult;
use diesel::connection::TransactionManagerStatus;
use diesel::result::Error;
use diesel_async::{AsyncConnection, TransactionManager};
use opaque_id_sql::call::{AsyncRunner, Call, RunError, RunResult, drive_async};
use opaque_id_sql::dialect::{Dialect, Failure, Retry};
use opaque_id_sql::statement::{Answer, Statement};

use super::run::{
    Run as _, SupportedBackend, UnknownFailure, failure_of_code, kind_of_failure, state,
};

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

/// Runs a call. The future is boxed, so callers' futures are `Send` for every lifetime.
pub fn run_async<'r, C, T, E>(
    connection: &'r mut C,
    mut call: Call<'r, T, E>,
) -> Pin<Box<dyn Future<Output = RunResult<T, Error, E>> + Send + 'r>>
where
    C: AsyncConnection<Backend: AsyncSupportedBackend>,
    T: 'r,
    E: Send + 'r,
{
    Box::pin(async move {
        let transaction = C::TransactionManager::transaction_manager_status_mut(connection);
        let transaction = transaction.transaction_depth().map(|depth| depth.is_some());
        let state = state::<C::Backend>(&transaction);
        if let Some(done) = call.start(Some(state)) {
            return done.map_err(RunError::Call);
        }
        transaction?;
        drive_async(&mut On(connection), state, call).await
    })
}

struct On<'c, C>(&'c mut C);

impl<C: AsyncConnection<Backend: AsyncSupportedBackend>> AsyncRunner for On<'_, C> {
    type Error = Error;

    async fn run(&mut self, statement: &Statement) -> Result<Answer, (Error, Failure)> {
        match <C::Backend as AsyncRun>::run(self.0, statement).await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                let failure = failure(self.0, &error).await;
                // A pool that tests no connections would lend it again and again.
                if failure == Failure::Disconnected {
                    self.set_broken();
                }
                Err((error, failure))
            }
        }
    }

    /// MySQL's driver may have read half of the answer.
    fn discard(&mut self) {
        if C::Backend::DIALECT == Dialect::MySql {
            self.set_broken();
        }
    }
}

impl<C: AsyncConnection> On<'_, C> {
    fn set_broken(&mut self) {
        *C::TransactionManager::transaction_manager_status_mut(self.0) =
            TransactionManagerStatus::InError;
    }
}

/// Returns how to retry a transaction of yours that failed with this error, like [`retry`](crate::retry).
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
            let mut code = Ok(Answer::Rows(Vec::new()));
            for statement in &question.ask {
                if code.is_ok() {
                    code = <C::Backend as AsyncRun>::run(connection, statement).await;
                }
            }
            let cleared = <C::Backend as AsyncRun>::run(connection, &question.clear).await;
            failure_of_code::<C::Backend>(code, &cleared)
        }
    }
}
