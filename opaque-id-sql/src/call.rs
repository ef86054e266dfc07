//! Calls as futures without I/O, and the loop that runs their statements.
//!
//! A [`Call`] is a future that awaits only its [`Session`], and each await of [`Session::run`] is one
//! statement. So the statements of a call, their order and their locks are written once, for blocking and
//! asynchronous code and for all ORMs. [`drive`] and [`drive_async`] run the statements by an adapter's
//! [`Runner`] and decide about retries.
//!
//! Outside of the caller's transactions each statement commits by itself and may run twice. Therefore the
//! driver retries conflicts, and a call can be dropped between any two statements. A dropped call may leave
//! its last statement running.

use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_timer::Delay;

use crate::dialect::{Dialect, Failure};
use crate::statement::{Answer, Statement};

/// The default time for retries of a call.
pub const RETRY_FOR: Duration = Duration::from_secs(10);

/// The limit doubles with each retry, up to [`LONGEST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(4);
const LONGEST_WAIT: Duration = Duration::from_millis(256);

/// The connection that a call runs on.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionState {
    /// The database's dialect.
    pub dialect: Dialect,
    /// Whether the connection is in the caller's transaction. A conflict ends that transaction.
    pub is_in_transaction: bool,
}

/// A statement, and the handling of its failure.
#[derive(Debug)]
pub struct Request {
    /// The statement.
    pub statement: Statement,
    accepts: Accepts,
    /// Undoes changes to the connection if the first statement fails.
    after_failure: Option<Statement>,
}

/// The failures after which a call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepts {
    Nothing,
    Duplicate,
    /// A unique index has the key, or the server accepts no writes.
    NoInsert,
    /// One of the statement's rows may be refused, or locked.
    Rows,
}

/// The next need of a call.
#[derive(Debug)]
pub enum Need {
    /// The answer to a statement.
    Answer(Request),
    /// A wait before this attempt, because a statement had no effect.
    Wait(u32),
}

/// The reply to a [`Need`].
#[derive(Debug)]
pub enum Reply {
    /// The statement's answer.
    Answer(Answer),
    /// The statement failed in a way that the call accepts.
    Failed(Failure),
    /// The call has waited.
    Waited,
}

/// A call's access to its connection.
#[derive(Clone, Default)]
pub struct Session(Arc<Mutex<Slot>>);

#[derive(Default)]
struct Slot {
    connection: Option<ConnectionState>,
    need: Option<Need>,
    reply: Option<Reply>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("connection", &self.connection()).finish_non_exhaustive()
    }
}

impl Session {
    fn slot(&self) -> MutexGuard<'_, Slot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn need(&self, need: Need) -> Reply {
        self.slot().need = Some(need);
        poll_fn(|_| match self.slot().reply.take() {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
        .await
    }

    /// Returns the connection, if the call has one.
    #[must_use]
    pub fn connection(&self) -> Option<ConnectionState> {
        self.slot().connection
    }

    /// Waits until the call has a connection.
    pub async fn connect(&self) -> ConnectionState {
        poll_fn(|_| self.connection().map_or(Poll::Pending, Poll::Ready)).await
    }

    /// Runs a statement and returns its answer. If the statement fails, the call ends.
    ///
    /// # Panics
    /// If the driver replies without an answer.
    pub async fn run(&self, statement: Statement) -> Answer {
        let answer = self.send(statement, Accepts::Nothing, None);
        answer.await.expect("a call that ends has no reply")
    }

    /// Runs a statement and returns its answer, or `None` if it violates a unique index.
    pub async fn try_run(&self, statement: Statement) -> Option<Answer> {
        self.send(statement, Accepts::Duplicate, None).await.ok()
    }

    /// Runs a statement like [`try_run`](Self::try_run). It also returns `None` if the server accepts no writes.
    pub async fn try_insert(&self, statement: Statement) -> Option<Answer> {
        self.send(statement, Accepts::NoInsert, None).await.ok()
    }

    /// Runs a statement and returns its answer, or the failure if it is about one of its rows.
    ///
    /// # Errors
    /// The failure: a duplicate, a refusal, or a lock timeout outside of the caller's transactions.
    pub async fn try_rows(&self, statement: Statement) -> Result<Answer, Failure> {
        self.send(statement, Accepts::Rows, None).await
    }

    /// Runs a statement like [`try_run`](Self::try_run). If it fails, `undo` runs after it.
    pub async fn try_run_or_undo(&self, statement: Statement, undo: Statement) -> Option<Answer> {
        self.send(statement, Accepts::Duplicate, Some(undo)).await.ok()
    }

    async fn send(
        &self,
        statement: Statement,
        accepts: Accepts,
        after_failure: Option<Statement>,
    ) -> Result<Answer, Failure> {
        match self.need(Need::Answer(Request { statement, accepts, after_failure })).await {
            Reply::Answer(answer) => Ok(answer),
            Reply::Failed(failure) => Err(failure),
            _ => Err(Failure::Other),
        }
    }

    /// Waits for a random time before the given attempt, because a statement had no effect. The first retry
    /// is attempt 1. It does not wait in the caller's transaction.
    pub async fn back_off(&self, attempt: u32) {
        self.need(Need::Wait(attempt)).await;
    }
}

/// One call of a map, a sequence or a table of packs. It determines its statements but does not run them.
///
/// A call that is dropped or interrupted between two statements leaves only changes that a retry finds or
/// repeats.
#[must_use = "a call does nothing unless it is driven"]
pub struct Call<'c, T, E> {
    session: Session,
    retry_for: Duration,
    future: Pin<Box<dyn Future<Output = Result<T, E>> + Send + 'c>>,
}

impl<'c, T, E> Call<'c, T, E> {
    /// Creates a call from a function that may await only its session. Each conflicting statement is retried
    /// for `retry_for`.
    pub fn new<F>(retry_for: Duration, call: impl FnOnce(Session) -> F) -> Self
    where
        F: Future<Output = Result<T, E>> + Send + 'c,
    {
        let session = Session::default();
        Self { retry_for, future: Box::pin(call(session.clone())), session }
    }

    /// Converts the result of the call.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U + Send + 'c) -> Call<'c, U, E>
    where
        T: 'c,
        E: 'c,
    {
        let Self { session, retry_for, future } = self;
        Call { session, retry_for, future: Box::pin(async { future.await.map(convert) }) }
    }

    fn poll(&mut self) -> Poll<Result<T, E>> {
        self.future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Resumes the call and returns its next need, or its result. Reply to a need before the next step.
    ///
    /// # Panics
    /// If the call has ended, has no connection, or awaits anything but its session.
    pub fn step(&mut self) -> ControlFlow<Result<T, E>, Need> {
        if self.session.slot().need.is_none()
            && let Poll::Ready(done) = self.poll()
        {
            return ControlFlow::Break(done);
        }
        let need = self.session.slot().need.take();
        ControlFlow::Continue(need.expect("a call awaits only its session"))
    }

    /// Resumes the call. Returns its result if it needs at most the state of a connection.
    pub fn start(&mut self, connection: Option<ConnectionState>) -> Option<Result<T, E>> {
        self.session.slot().connection = connection;
        match self.poll() {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    /// Resumes the call until it needs a statement or ends, without waiting, for tests.
    pub fn next(&mut self, connection: ConnectionState) -> ControlFlow<Result<T, E>, Statement> {
        self.session.slot().connection = Some(connection);
        loop {
            match self.step()? {
                Need::Wait(_) => self.reply(Reply::Waited),
                Need::Answer(request) => return ControlFlow::Continue(request.statement),
            }
        }
    }

    /// Passes the reply to the last need.
    pub fn reply(&mut self, reply: Reply) {
        self.session.slot().reply = Some(reply);
    }
}

impl<T, E> std::fmt::Debug for Call<'_, T, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").finish_non_exhaustive()
    }
}

/// The reason why a call failed. `E` is the ORM's error, `C` the call's.
#[derive(Debug)]
pub enum RunError<E, C> {
    /// The database or the ORM failed.
    Database(E),
    /// The call conflicts with another transaction and cannot be retried here.
    Conflict(E),
    /// The call cannot continue, although no statement failed.
    Call(C),
}

/// The result of a call. `R` is the ORM's error, `E` the call's.
pub type RunResult<T, R, E> = Result<T, RunError<R, E>>;

impl<E, C> From<E> for RunError<E, C> {
    fn from(error: E) -> Self {
        Self::Database(error)
    }
}

/// Outside of the caller's transactions, the driver repeats a conflicting statement after a random wait,
/// until the statement's time is over. A long call may therefore have many conflicts. A lock timeout is not
/// retried, because it is the session's own limit.
#[derive(Debug)]
struct Driver<'c, T, E> {
    call: Call<'c, T, E>,
    connection: ConnectionState,
    request: Option<Request>,
    first_conflict: Option<Instant>,
    retries: u32,
    wait: Option<Duration>,
}

impl<'c, T, E> Driver<'c, T, E> {
    fn new(call: Call<'c, T, E>, connection: ConnectionState) -> Self {
        call.session.slot().connection = Some(connection);
        Self { call, connection, request: None, first_conflict: None, retries: 0, wait: None }
    }

    fn next(&mut self) -> ControlFlow<Result<T, E>, Duration> {
        while self.request.is_none() {
            match self.call.step()? {
                Need::Wait(attempt) => {
                    self.wait = (!self.connection.is_in_transaction).then(|| wait_before(attempt));
                    self.call.reply(Reply::Waited);
                }
                Need::Answer(request) => self.request = Some(request),
            }
        }
        ControlFlow::Continue(self.wait.take().unwrap_or_default())
    }

    fn statement(&self) -> &Statement {
        &self.request.as_ref().expect("the call is not done").statement
    }

    /// Only the caller can retry a conflict in its transaction.
    fn answer<R>(&mut self, answer: Result<Answer, (R, Failure)>) -> RunResult<(), R, E> {
        let is_in_transaction = self.connection.is_in_transaction;
        let reply = match answer {
            Ok(answer) => Reply::Answer(answer),
            Err((_, failure)) if self.accepts(failure) => Reply::Failed(failure),
            Err((_, Failure::Conflict)) if !is_in_transaction && self.may_retry() => return Ok(()),
            Err((error, Failure::Conflict | Failure::LockTimeout)) => {
                return Err(RunError::Conflict(error));
            }
            Err((error, _)) => return Err(RunError::Database(error)),
        };
        self.request = None;
        (self.first_conflict, self.retries) = (None, 0);
        self.call.reply(reply);
        Ok(())
    }

    fn accepts(&self, failure: Failure) -> bool {
        match (self.request.as_ref().map(|request| request.accepts), failure) {
            (Some(Accepts::Duplicate | Accepts::NoInsert), Failure::Duplicate)
            | (Some(Accepts::NoInsert), Failure::Unavailable) => true,
            // A failure may have ended the caller's transaction.
            (
                Some(Accepts::Rows),
                Failure::Duplicate | Failure::LockTimeout | Failure::Refused(_),
            ) => !self.connection.is_in_transaction,
            _ => false,
        }
    }

    fn after_failure(&self) -> Option<&Statement> {
        self.request.as_ref()?.after_failure.as_ref()
    }

    fn may_retry(&mut self) -> bool {
        let first_conflict = self.first_conflict.get_or_insert_with(Instant::now);
        if first_conflict.elapsed() >= self.call.retry_for {
            return false;
        }
        self.retries += 1;
        self.wait = Some(wait_before(self.retries));
        true
    }
}

/// An adapter's connection for the statements of a call.
pub trait Runner {
    /// The ORM's error.
    type Error;

    /// Runs one statement in the ORM's way.
    ///
    /// # Errors
    /// The ORM's error and its meaning.
    fn run(&mut self, statement: &Statement) -> Result<Answer, (Self::Error, Failure)>;
}

/// A [`Runner`] of an asynchronous ORM.
pub trait AsyncRunner: Send {
    /// The ORM's error.
    type Error: Send;

    /// Runs one statement in the ORM's way.
    ///
    /// # Errors
    /// The ORM's error and its meaning.
    fn run(
        &mut self,
        statement: &Statement,
    ) -> impl Future<Output = Result<Answer, (Self::Error, Failure)>> + Send;

    /// Gives the connection up, because the future of [`run`](Self::run) was dropped and half of an answer
    /// may be unread. The connection must not return to its pool unless its driver recovers it.
    fn discard(&mut self);
}

/// Runs a call to its end.
///
/// # Errors
/// [`RunError`] if the call fails.
pub fn drive<R: Runner, T, E>(
    runner: &mut R,
    connection: ConnectionState,
    call: Call<'_, T, E>,
) -> RunResult<T, R::Error, E> {
    let mut driver = Driver::new(call, connection);
    loop {
        match driver.next() {
            ControlFlow::Break(done) => return done.map_err(RunError::Call),
            ControlFlow::Continue(wait) => std::thread::sleep(wait),
        }
        let answered = driver.answer(runner.run(driver.statement()));
        if answered.is_err()
            && let Some(statement) = driver.after_failure()
        {
            let _ = runner.run(statement);
        }
        answered?;
    }
}

/// Runs a call to its end, like [`drive`].
///
/// # Errors
/// [`RunError`] if the call fails.
pub async fn drive_async<R: AsyncRunner, T, E: Send>(
    runner: &mut R,
    connection: ConnectionState,
    call: Call<'_, T, E>,
) -> RunResult<T, R::Error, E> {
    let mut driver = Driver::new(call, connection);
    loop {
        let wait = match driver.next() {
            ControlFlow::Break(done) => return done.map_err(RunError::Call),
            ControlFlow::Continue(wait) => wait,
        };
        if !wait.is_zero() {
            Delay::new(wait).await;
        }
        let mut guard = DropGuard { runner: &mut *runner, is_done: false };
        let answer = guard.runner.run(driver.statement()).await;
        let answered = driver.answer(answer);
        if answered.is_err()
            && let Some(statement) = driver.after_failure()
        {
            let _ = guard.runner.run(statement).await;
        }
        guard.is_done = true;
        answered?;
    }
}

struct DropGuard<'r, R: AsyncRunner> {
    runner: &'r mut R,
    is_done: bool,
}

impl<R: AsyncRunner> Drop for DropGuard<'_, R> {
    fn drop(&mut self) {
        if !self.is_done {
            self.runner.discard();
        }
    }
}

/// The wait is random, so that two conflicting clients do not meet again. The first retry has the number 1.
fn wait_before(retry: u32) -> Duration {
    let limit = FIRST_WAIT.saturating_mul(1 << retry.saturating_sub(1).min(16)).min(LONGEST_WAIT);
    let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(RandomState::new().hash_one(()) % limit.max(1))
}

/// Returns the result of a call for one id.
///
/// # Panics
/// If there is none.
#[must_use]
pub fn only<R>(mut results: Vec<R>) -> R {
    results.pop().expect("a result per id")
}

/// Writes methods. The body of each is a call, and the method runs it on its first argument `on`. A receiver
/// by value is in brackets, because a macro cannot tell `mut` from an argument.
#[doc(hidden)]
#[macro_export]
macro_rules! methods {
    (
        @ {[$($generics:tt)*] $on:ty, $run:path, $error:ty, [$($async:tt)*] [$($await:tt)*]}
        $(#[$attribute:meta])*
        $name:ident [$($lifetime:lifetime)?] (
            $(&$this:ident $(,)?)?
            $([mut $owner:ident],)?
            $($argument:ident: $type:ty),* $(,)?
        )
        $result:ty, [$($bound:tt)*] $call:expr
    ) => {
        $(#[$attribute])*
        pub $($async)* fn $name<$($lifetime,)? $($generics)*>(
            $(&$this,)?
            $(mut $owner,)?
            on: $on
            $(, $argument: $type)*
        ) -> ::core::result::Result<$result, $error>
        where
            $($bound)*
        {
            ::core::result::Result::Ok($run(on, $call)$($await)*?)
        }
    };
    (
        $adapter:tt
        $(
            $(#[$attribute:meta])*
            fn $name:ident $(<$lifetime:lifetime>)? ($($arguments:tt)*) -> $result:ty
            $(where $bounded:ident: $bound:tt)? {
                $call:expr
            }
        )*
    ) => {$(
        $crate::methods! {
            @ $adapter $(#[$attribute])* $name [$($lifetime)?] ($($arguments)*)
            $result, [$($bounded: $bound)?] $call
        }
    )*};
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::Column;

    const OUTSIDE: ConnectionState =
        ConnectionState { dialect: Dialect::Postgres, is_in_transaction: false };
    const INSIDE: ConnectionState = ConnectionState { is_in_transaction: true, ..OUTSIDE };

    fn question(retry_for: Duration) -> Call<'static, (), ()> {
        Call::new(retry_for, |session| async move {
            session.connect().await;
            session.run(Statement::new("SELECT 1", Vec::new(), &[Column::Integer])).await;
            Ok(())
        })
    }

    fn driver(retry_for: Duration, connection: ConnectionState) -> Driver<'static, (), ()> {
        let mut driver = Driver::new(question(retry_for), connection);
        assert!(driver.next().is_continue());
        driver
    }

    fn fail(
        driver: &mut Driver<'_, (), ()>,
        failure: Failure,
    ) -> Result<(), RunError<&'static str, ()>> {
        driver.answer(Err(("failed", failure)))
    }

    #[test]
    fn a_conflict_is_retried_outside_of_the_callers_transaction() {
        let mut outside = driver(Duration::MAX, OUTSIDE);
        for _ in 0..100 {
            assert!(fail(&mut outside, Failure::Conflict).is_ok());
            let ControlFlow::Continue(wait) = outside.next() else {
                panic!("expected the same statement again");
            };
            assert!(wait <= LONGEST_WAIT);
        }

        let failed = fail(&mut outside, Failure::LockTimeout);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));

        let failed = fail(&mut driver(Duration::MAX, INSIDE), Failure::Conflict);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));
    }

    /// A run of hours may have a conflict each minute.
    #[test]
    fn each_statement_has_its_own_time_for_retries() {
        let two = Call::new(Duration::MAX, |session| async move {
            for _ in 0..2 {
                session.run(Statement::new("SELECT 1", Vec::new(), &[Column::Integer])).await;
            }
            Ok(())
        });
        let mut driver: Driver<'_, (), ()> = Driver::new(two, OUTSIDE);
        for _ in 0..2 {
            assert!(driver.next().is_continue());
            assert!(driver.first_conflict.is_none() && driver.retries == 0);
            assert!(fail(&mut driver, Failure::Conflict).is_ok());
            assert!(driver.first_conflict.is_some() && driver.retries == 1);
            assert!(driver.answer(Ok::<_, (&str, _)>(Answer::Rows(Vec::new()))).is_ok());
        }
    }

    #[test]
    fn a_conflict_after_the_deadline_is_not_retried() {
        let failed = fail(&mut driver(Duration::ZERO, OUTSIDE), Failure::Conflict);
        assert!(matches!(failed, Err(RunError::Conflict("failed"))));
    }

    #[test]
    fn other_errors_end_the_call_and_answers_continue_it() {
        let mut driver = driver(Duration::MAX, OUTSIDE);
        let refused = Failure::Refused("");
        for failure in [Failure::Other, Failure::Unavailable, Failure::Duplicate, refused] {
            let failed = fail(&mut driver, failure);
            assert!(matches!(failed, Err(RunError::Database("failed"))));
        }
        let answer = Ok::<_, (&str, _)>(Answer::Rows(Vec::new()));
        assert!(driver.answer(answer).is_ok());
        assert!(driver.next().is_break());
    }

    /// A failure may have ended the caller's transaction.
    #[test]
    fn a_refused_or_locked_row_is_the_answer_outside_of_a_transaction() {
        for (connection, is_answer) in [(OUTSIDE, true), (INSIDE, false)] {
            for failure in [Failure::Refused(""), Failure::LockTimeout, Failure::Duplicate] {
                let call = Call::new(Duration::MAX, |session| async move {
                    let update = Statement::new("UPDATE a SET b = 1", Vec::new(), &[]);
                    Ok::<_, ()>(session.try_rows(update).await.err())
                });
                let mut driver = Driver::new(call, connection);
                assert!(driver.next().is_continue());
                assert_eq!(driver.answer(Err(("failed", failure))).is_ok(), is_answer);
                let done = is_answer.then(|| driver.next());
                assert!(done.is_none_or(|done| done == ControlFlow::Break(Ok(Some(failure)))));
            }
        }
    }

    #[test]
    fn an_insert_may_find_a_duplicate_or_a_server_without_writes() {
        for (failure, is_answer) in [
            (Failure::Duplicate, true),
            (Failure::Unavailable, true),
            (Failure::Disconnected, false),
            (Failure::Other, false),
        ] {
            let call = Call::new(Duration::MAX, |session| async move {
                let insert = Statement::new("INSERT INTO a VALUES (1)", Vec::new(), &[]);
                Ok::<_, ()>(session.try_insert(insert).await.is_some())
            });
            let mut driver = Driver::new(call, OUTSIDE);
            assert!(driver.next().is_continue());
            assert_eq!(driver.answer(Err(("failed", failure))).is_ok(), is_answer, "{failure:?}");
        }
    }

    struct Slow {
        answer: Result<(), Failure>,
        is_discarded: bool,
    }

    impl AsyncRunner for Slow {
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
                let mut runner = Slow { answer, is_discarded: false };
                let call = question(Duration::MAX);
                let mut driven = Box::pin(drive_async(&mut runner, OUTSIDE, call));
                let mut context = Context::from_waker(Waker::noop());
                for poll in 1..=polls {
                    let polled = driven.as_mut().poll(&mut context);
                    assert_eq!(polled.is_ready(), poll == 2);
                }
                drop(driven);
                assert_eq!(runner.is_discarded, polls == 1, "{polls} {answer:?}");
            }
        }
    }
}
