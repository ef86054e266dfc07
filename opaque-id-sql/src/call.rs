//! Calls as sequences of statements, without I/O.

use crate::dialect::Dialect;
use crate::statement::{Answer, Statement};

/// The number of times that a statement is retried after a conflict with another transaction.
const ATTEMPTS: u32 = 20;

/// The next thing to run.
#[derive(Clone, Debug)]
pub enum Step<R> {
    /// A single statement.
    One(Statement),
    /// A lock and a statement under it, in one transaction: the caller's, or a separate one. The answer to the step is
    /// that of the second statement.
    Locked(Box<Locked<R>>),
}

/// See [`Step::Locked`].
#[derive(Clone, Debug)]
pub struct Locked<R> {
    /// Whether the transaction is the caller's, and has begun.
    pub is_in_transaction: bool,
    /// Sets a separate transaction to READ COMMITTED, whatever the database's default is.
    pub set_isolation: Statement,
    /// Whether the isolation is set before the transaction begins, as on MySQL, or by its first statement.
    pub is_set_before: bool,
    /// The lock.
    pub lock: Statement,
    /// The least number of rows that the lock must return.
    pub(crate) rows: usize,
    /// The error if the lock returns fewer rows.
    pub(crate) refusal: R,
    pub(crate) statement: Statement,
}

impl<R: Clone> Locked<R> {
    /// Returns the statement to run after the lock's answer.
    ///
    /// # Errors
    /// The refusal, if the lock returned too few rows.
    pub fn under(&self, lock: &Answer) -> Result<&Statement, R> {
        match lock {
            Answer::Rows(rows) if rows.len() < self.rows => Err(self.refusal.clone()),
            _ => Ok(&self.statement),
        }
    }
}

/// One call of a map or a sequence. It determines its statements but does not run them.
pub trait Call: Send {
    /// The reason why a call fails although no statement failed.
    type Refusal: Send;

    /// Returns whether there is nothing more to run. A call is done at once if the cache has all mappings.
    #[must_use]
    fn is_done(&self) -> bool;

    /// Returns the next step, or `None` if the call is done.
    #[must_use]
    fn next(&self, dialect: Dialect, is_in_transaction: bool) -> Option<Step<Self::Refusal>>;

    /// Processes the answer to the step.
    fn answer(&mut self, dialect: Dialect, is_in_transaction: bool, answer: Answer);
}

/// The reason why a call failed; `E` is the ORM's error, `R` the call's refusal.
#[derive(Debug)]
pub enum RunError<E, R> {
    /// The database or the ORM failed.
    Database(E),
    /// A conflict with another transaction, which cannot be retried here.
    Conflict(E),
    /// The call cannot be served.
    Refused(R),
}

impl<E, R> From<E> for RunError<E, R> {
    fn from(error: E) -> Self {
        Self::Database(error)
    }
}

/// Drives a call through its statements: an adapter runs each [`next`](Self::next) step and passes back the
/// [`answer`](Self::answer), until no step is left.
///
/// The driver decides about retries for all calls and adapters: outside of the caller's transactions, a step that
/// conflicts with another transaction is run again, at most 20 times.
#[derive(Debug)]
pub struct Driver<'c, C> {
    call: &'c mut C,
    dialect: Dialect,
    is_in_transaction: bool,
    attempts: u32,
}

impl<'c, C: Call> Driver<'c, C> {
    /// Creates a driver. `is_in_transaction` says whether the connection is in the caller's transaction: a conflict
    /// ends the transaction, and the rows that it reads may be rolled back.
    pub fn new(call: &'c mut C, dialect: Dialect, is_in_transaction: bool) -> Self {
        Self {
            call,
            dialect,
            is_in_transaction,
            attempts: 0,
        }
    }

    /// Returns the next step, or `None` if the call is done.
    #[must_use]
    pub fn next(&self) -> Option<Step<C::Refusal>> {
        self.call.next(self.dialect, self.is_in_transaction)
    }

    /// Processes the answer to the step. After a conflict, the same step is the next one again, unless the transaction
    /// is the caller's: only the caller can retry it.
    ///
    /// # Errors
    /// [`RunError`]: the error that was passed in, or a [`Conflict`](RunError::Conflict).
    pub fn answer<E>(
        &mut self,
        answer: Result<Answer, RunError<E, C::Refusal>>,
        is_conflict: impl FnOnce(&E) -> bool,
    ) -> Result<(), RunError<E, C::Refusal>> {
        match answer {
            Ok(answer) => {
                self.call
                    .answer(self.dialect, self.is_in_transaction, answer);
                Ok(())
            }
            Err(RunError::Database(error)) if is_conflict(&error) => {
                self.attempts += 1;
                match self.is_in_transaction || self.attempts > ATTEMPTS {
                    true => Err(RunError::Conflict(error)),
                    false => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::statement::Column;

    /// A call of one statement.
    struct Question(bool);

    impl Call for Question {
        type Refusal = ();

        fn is_done(&self) -> bool {
            self.0
        }

        fn next(&self, _: Dialect, _: bool) -> Option<Step<()>> {
            let statement = Statement {
                sql: Arc::from("SELECT 1"),
                values: Vec::new(),
                columns: &[Column::Integer],
            };
            (!self.0).then_some(Step::One(statement))
        }

        fn answer(&mut self, _: Dialect, _: bool, _: Answer) {
            self.0 = true;
        }
    }

    fn conflict(driver: &mut Driver<'_, Question>) -> Result<(), RunError<&'static str, ()>> {
        driver.answer(Err(RunError::Database("40001")), |_| true)
    }

    #[test]
    fn a_conflict_is_retried_outside_of_the_callers_transaction() {
        let mut call = Question(false);
        let mut driver = Driver::new(&mut call, Dialect::Postgres, false);
        assert!((0..ATTEMPTS).all(|_| conflict(&mut driver).is_ok()));
        assert!(driver.next().is_some());
        assert!(matches!(
            conflict(&mut driver),
            Err(RunError::Conflict("40001"))
        ));

        let mut driver = Driver::new(&mut call, Dialect::Postgres, true);
        assert!(matches!(
            conflict(&mut driver),
            Err(RunError::Conflict("40001"))
        ));
    }

    #[test]
    fn other_errors_end_the_call_and_answers_continue_it() {
        let mut call = Question(false);
        let mut driver = Driver::new(&mut call, Dialect::Sqlite, false);
        let failed = driver.answer(Err(RunError::Database("disk full")), |_| false);
        assert!(matches!(failed, Err(RunError::Database("disk full"))));
        let answer = Ok::<_, RunError<&str, ()>>(Answer::Rows(Vec::new()));
        assert!(driver.answer(answer, |_| false).is_ok());
        assert!(driver.next().is_none());
    }
}
