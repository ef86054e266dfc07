//! Calls as sequences of statements, without I/O, and the loop that runs them.
//!
//! A [`Call`] says which statement is next and receives the answer, so locks, their order and what a snapshot does not
//! show are written once for blocking and asynchronous code and for all ORMs. [`drive`] and [`drive_async`] are the loop
//! around it. They decide what to retry and when; an adapter's [`Session`] runs one statement, and says what its error
//! means.
//!
//! Outside of the caller's transactions each statement commits by itself and may run twice. So a call can be dropped between any two
//! statements, and a conflict is retried without asking: nothing that a call sends outlives it.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use futures_timer::Delay;

use crate::dialect::{Dialect, Failure};
use crate::statement::{Answer, Statement};

/// How long a call is retried by default.
pub(crate) const RETRY_FOR: Duration = Duration::from_secs(10);

/// The longest wait before the first retry, which doubles with each one, and the longest of all.
const FIRST_WAIT: Duration = Duration::from_millis(4);
const LONGEST_WAIT: Duration = Duration::from_millis(256);

/// One call of a map or a sequence. It determines its statements but does not run them.
///
/// Outside of the caller's transactions each statement commits by itself, and may be run twice: a call that is dropped
/// or interrupted between two statements leaves nothing behind that a retry would not find or repeat.
pub trait Call: Send {
    /// The reason why a call fails although no statement failed.
    type Error: Send;

    /// Checks whether the call can run on a connection in this state.
    ///
    /// # Errors
    /// The reason why it cannot.
    fn check(&self, _is_in_transaction: bool) -> Result<(), Self::Error> {
        Ok(())
    }

    /// Returns whether there is nothing more to run. A call is done at once if the cache has all mappings.
    #[must_use]
    fn is_done(&self) -> bool;

    /// Returns how long the call is retried after its first conflict, which may have taken long itself.
    #[must_use]
    fn retry_for(&self) -> Duration;

    /// Returns the next statement, or `None` if the call is done.
    #[must_use]
    fn next(&self, dialect: Dialect) -> Option<Statement>;

    /// Processes the answer to the statement.
    ///
    /// # Errors
    /// The reason why the call cannot continue.
    fn answer(
        &mut self,
        dialect: Dialect,
        is_in_transaction: bool,
        answer: Answer,
    ) -> Result<(), Self::Error>;

    /// Handles a violation of a unique index. Returns whether the call can continue.
    fn lost_race(&mut self, _: Dialect) -> bool {
        false
    }

    /// Returns the reason for a violation of a unique index that the call cannot handle, if it knows one.
    #[must_use]
    fn duplicate(&self) -> Option<Self::Error> {
        None
    }

    /// Returns whether the next statement had no effect before, so that it should not be run again at once.
    #[must_use]
    fn is_outrun(&self) -> bool {
        false
    }

    /// Returns a statement that undoes what the failed one may have left on the connection.
    #[must_use]
    fn after_failure(&self, _: Dialect) -> Option<Statement> {
        None
    }
}

/// The next thing to do.
#[derive(Clone, Debug)]
pub enum Step {
    /// Run a statement.
    Run(Statement),
    /// Wait, and then take the next step.
    Wait(Duration),
}

/// The reason why a call failed; `E` is the ORM's error, `C` the call's.
#[derive(Debug)]
pub enum RunError<E, C> {
    /// The database or the ORM failed.
    Database(E),
    /// A conflict with another transaction, which cannot be retried here.
    Conflict(E),
    /// The call cannot continue, although no statement failed.
    Call(C),
}

/// What running a call of type `C` returns; `E` is the ORM's error.
pub type RunResult<E, C> = Result<(), RunError<E, <C as Call>::Error>>;

impl<E, C> From<E> for RunError<E, C> {
    fn from(error: E) -> Self {
        Self::Database(error)
    }
}

/// Drives a call through its statements: [`drive`] does each [`next_step`](Self::next_step) and passes the
/// [`answer`](Self::answer) to a statement back, until no step is left.
///
/// The driver decides about retries for all calls and adapters: outside of the caller's transactions, a statement that
/// conflicts with another transaction is run again after a wait, until [`retry_for`](Call::retry_for) is over. The waits
/// are random, up to a limit that doubles with each retry. A lock timeout is the session's own limit: it is not retried.
#[derive(Debug)]
pub struct Driver<'c, C> {
    call: &'c mut C,
    dialect: Dialect,
    is_in_transaction: bool,
    first_conflict: Option<Instant>,
    retries: u32,
    wait: Option<Duration>,
}

impl<'c, C: Call> Driver<'c, C> {
    /// Creates a driver. `is_in_transaction` says whether the connection is in the caller's transaction: a conflict
    /// ends the transaction, and the rows that it reads may be rolled back.
    pub fn new(call: &'c mut C, dialect: Dialect, is_in_transaction: bool) -> Self {
        Self { call, dialect, is_in_transaction, first_conflict: None, retries: 0, wait: None }
    }

    /// Returns the next step, or `None` if the call is done.
    #[must_use]
    pub fn next_step(&mut self) -> Option<Step> {
        if let Some(wait) = self.wait.take() {
            return Some(Step::Wait(wait));
        }
        self.call.next(self.dialect).map(Step::Run)
    }

    /// Processes the answer to the statement. After a conflict, the same statement is the next one again, unless the
    /// transaction is the caller's: only the caller can retry it.
    ///
    /// # Errors
    /// [`RunError`]: the error that was passed in, or the call's.
    pub fn answer<E>(
        &mut self,
        answer: Result<Answer, (E, Failure)>,
    ) -> Result<(), RunError<E, C::Error>> {
        let (error, failure) = match answer {
            Ok(answer) => {
                let done = self.call.answer(self.dialect, self.is_in_transaction, answer);
                if self.call.is_outrun() && !self.is_in_transaction {
                    self.may_retry();
                }
                return done.map_err(RunError::Call);
            }
            Err(failed) => failed,
        };
        match failure {
            Failure::Conflict if !self.is_in_transaction && self.may_retry() => Ok(()),
            Failure::Conflict | Failure::LockTimeout => Err(RunError::Conflict(error)),
            Failure::Duplicate if self.call.lost_race(self.dialect) => Ok(()),
            Failure::Duplicate => {
                let reason = self.call.duplicate();
                Err(reason.map_or(RunError::Database(error), RunError::Call))
            }
            _ => Err(RunError::Database(error)),
        }
    }

    /// Returns the statement to run after an [`answer`](Self::answer) that was an error, whatever it returns itself: it
    /// undoes what the failed one may have left on the connection.
    #[must_use]
    pub fn after_failure(&self) -> Option<Statement> {
        self.call.after_failure(self.dialect)
    }

    fn may_retry(&mut self) -> bool {
        let first_conflict = self.first_conflict.get_or_insert_with(Instant::now);
        if first_conflict.elapsed() >= self.call.retry_for() {
            return false;
        }
        let limit = FIRST_WAIT.saturating_mul(1 << self.retries.min(16));
        self.wait = Some(random(limit.min(LONGEST_WAIT)));
        self.retries += 1;
        true
    }
}

/// A connection on which an adapter runs the statements of a call.
pub trait Session {
    /// The ORM's error.
    type Error;

    /// Runs one statement in the ORM's way.
    ///
    /// # Errors
    /// The ORM's error, and what it means.
    fn run(&mut self, statement: &Statement) -> Result<Answer, (Self::Error, Failure)>;
}

/// A [`Session`] of an asynchronous ORM.
pub trait AsyncSession: Send {
    /// The ORM's error.
    type Error: Send;

    /// Runs one statement in the ORM's way.
    ///
    /// # Errors
    /// The ORM's error, and what it means.
    fn run(
        &mut self,
        statement: &Statement,
    ) -> impl Future<Output = Result<Answer, (Self::Error, Failure)>> + Send;

    /// Gives the connection up, because the future of [`run`](Self::run) was dropped: the driver may have read half of an
    /// answer. The connection must not return to its pool unless its driver recovers it.
    fn discard(&mut self);
}

/// Runs a call until it is done.
///
/// # Errors
/// [`RunError`].
pub fn drive<S: Session, C: Call>(
    session: &mut S,
    dialect: Dialect,
    is_in_transaction: bool,
    call: &mut C,
) -> RunResult<S::Error, C> {
    let mut driver = Driver::new(call, dialect, is_in_transaction);
    while let Some(step) = driver.next_step() {
        match step {
            Step::Wait(duration) => std::thread::sleep(duration),
            Step::Run(statement) => {
                let answered = driver.answer(session.run(&statement));
                if answered.is_err()
                    && let Some(statement) = driver.after_failure()
                {
                    let _ = session.run(&statement);
                }
                answered?;
            }
        }
    }
    Ok(())
}

/// Runs a call until it is done, as [`drive`] does.
///
/// # Errors
/// [`RunError`].
pub async fn drive_async<S: AsyncSession, C: Call>(
    session: &mut S,
    dialect: Dialect,
    is_in_transaction: bool,
    call: &mut C,
) -> RunResult<S::Error, C> {
    let mut driver = Driver::new(call, dialect, is_in_transaction);
    while let Some(step) = driver.next_step() {
        match step {
            Step::Wait(duration) => Delay::new(duration).await,
            Step::Run(statement) => {
                let mut guard = DropGuard { session: &mut *session, is_done: false };
                let answered = driver.answer(guard.session.run(&statement).await);
                if answered.is_err()
                    && let Some(statement) = driver.after_failure()
                {
                    let _ = guard.session.run(&statement).await;
                }
                guard.is_done = true;
                answered?;
            }
        }
    }
    Ok(())
}

/// Discards the session of a statement whose future is dropped.
struct DropGuard<'s, S: AsyncSession> {
    session: &'s mut S,
    is_done: bool,
}

impl<S: AsyncSession> Drop for DropGuard<'_, S> {
    fn drop(&mut self) {
        if !self.is_done {
            self.session.discard();
        }
    }
}

/// Returns a random duration up to the limit, so that those who conflict do not meet again.
fn random(limit: Duration) -> Duration {
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(RandomState::new().hash_one(()) % limit.max(1))
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::statement::Column;

    /// A call of one statement.
    struct Question {
        is_done: bool,
        retry_for: Duration,
    }

    impl Call for Question {
        type Error = ();

        fn is_done(&self) -> bool {
            self.is_done
        }

        fn retry_for(&self) -> Duration {
            self.retry_for
        }

        fn next(&self, _: Dialect) -> Option<Statement> {
            let statement = Statement::new("SELECT 1", Vec::new(), &[Column::Integer]);
            (!self.is_done).then_some(statement)
        }

        fn answer(&mut self, _: Dialect, _: bool, _: Answer) -> Result<(), ()> {
            self.is_done = true;
            Ok(())
        }
    }

    fn question(retry_for: Duration) -> Question {
        Question { is_done: false, retry_for }
    }

    fn fail(
        driver: &mut Driver<'_, Question>,
        failure: Failure,
    ) -> Result<(), RunError<&'static str, ()>> {
        driver.answer(Err(("failed", failure)))
    }

    #[test]
    fn a_conflict_is_retried_outside_of_the_callers_transaction() {
        let mut call = question(Duration::MAX);
        let mut driver = Driver::new(&mut call, Dialect::Postgres, false);
        for _ in 0..100 {
            assert!(fail(&mut driver, Failure::Conflict).is_ok());
            let Some(Step::Wait(wait)) = driver.next_step() else {
                panic!("expected a wait before the retry");
            };
            assert!(wait <= LONGEST_WAIT);
            assert!(matches!(driver.next_step(), Some(Step::Run(_))));
        }

        let failed = fail(&mut driver, Failure::LockTimeout);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));

        let mut driver = Driver::new(&mut call, Dialect::Postgres, true);
        let failed = fail(&mut driver, Failure::Conflict);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));
    }

    #[test]
    fn a_conflict_after_the_deadline_is_not_retried() {
        let mut call = question(Duration::ZERO);
        let mut driver = Driver::new(&mut call, Dialect::MySql, false);
        let failed = fail(&mut driver, Failure::Conflict);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));
    }

    #[test]
    fn other_errors_end_the_call_and_answers_continue_it() {
        let mut call = question(Duration::MAX);
        let mut driver = Driver::new(&mut call, Dialect::Sqlite, false);
        for failure in [Failure::Other, Failure::Unavailable, Failure::Duplicate] {
            let failed = fail(&mut driver, failure);
            assert!(matches!(failed, Err(RunError::Database("failed"))));
        }
        let answer = Ok::<_, (&str, _)>(Answer::Rows(Vec::new()));
        assert!(driver.answer(answer).is_ok());
        assert!(driver.next_step().is_none());
    }

    /// A connection that answers the second time that it is polled, and notes whether it was discarded.
    struct Slow {
        answer: Result<(), Failure>,
        is_discarded: bool,
    }

    impl AsyncSession for Slow {
        type Error = &'static str;

        async fn run(&mut self, _: &Statement) -> Result<Answer, (&'static str, Failure)> {
            let mut is_second = false;
            poll_fn(|_| match std::mem::replace(&mut is_second, true) {
                true => Poll::Ready(()),
                false => Poll::Pending,
            })
            .await;
            let rows = Answer::Rows(Vec::new());
            self.answer.map(|()| rows).map_err(|failure| ("failed", failure))
        }

        fn discard(&mut self) {
            self.is_discarded = true;
        }
    }

    #[test]
    fn a_connection_is_discarded_if_the_future_of_a_statement_is_dropped() {
        for answer in [Ok(()), Err(Failure::Other)] {
            for polls in [0, 1, 2] {
                let (mut call, mut session) =
                    (question(Duration::MAX), Slow { answer, is_discarded: false });
                let mut driven =
                    Box::pin(drive_async(&mut session, Dialect::MySql, false, &mut call));
                let mut context = Context::from_waker(Waker::noop());
                for poll in 1..=polls {
                    let polled = driven.as_mut().poll(&mut context);
                    assert_eq!(polled.is_ready(), poll == 2);
                }
                drop(driven);
                assert_eq!(session.is_discarded, polls == 1, "{polls} {answer:?}");
            }
        }
    }
}
