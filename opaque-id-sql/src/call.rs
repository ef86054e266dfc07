//! A call as a sequence of statements, without I/O.

use crate::dialect::Dialect;
use crate::statement::{Answer, Statement};

/// How often a statement that lost against another transaction is run again.
const ATTEMPTS: u32 = 20;

/// What to run next.
#[derive(Clone, Debug)]
pub enum Step<R> {
    /// A statement by itself.
    One(Statement),
    /// A lock and a statement under it, in one transaction: the caller's, or one of its own. The second statement's
    /// answer is the step's.
    Locked(Box<Locked<R>>),
}

/// See [`Step::Locked`].
#[derive(Clone, Debug)]
pub struct Locked<R> {
    /// Whether the transaction is the caller's, and has begun.
    pub is_in_transaction: bool,
    /// Makes a transaction that is not the caller's READ COMMITTED, whatever the database's default is.
    pub set_isolation: Statement,
    /// Whether the isolation is set before the transaction begins, as on MySQL, or as the first statement in it.
    pub is_set_before: bool,
    /// The lock.
    pub lock: Statement,
    /// How many rows the lock must return at least.
    pub(crate) rows: usize,
    /// What fewer rows mean.
    pub(crate) refusal: R,
    pub(crate) statement: Statement,
}

impl<R: Clone> Locked<R> {
    /// The statement to run after the lock's answer.
    ///
    /// # Errors
    /// The refusal, if the lock locked too little.
    pub fn under(&self, lock: &Answer) -> Result<&Statement, R> {
        match lock {
            Answer::Rows(rows) if rows.len() < self.rows => Err(self.refusal.clone()),
            _ => Ok(&self.statement),
        }
    }
}

/// One call of a map or a sequence, which knows its statements and runs none.
pub trait Call: Send {
    /// Why a call fails although no statement has.
    type Refusal: Send;

    /// Whether there is nothing to run, as when a cache knew everything.
    #[must_use]
    fn is_done(&self) -> bool;

    /// What to run next; `None` when all is done.
    #[must_use]
    fn next(&self, dialect: Dialect, is_in_transaction: bool) -> Option<Step<Self::Refusal>>;

    /// Takes the answer to the step.
    fn answer(&mut self, dialect: Dialect, is_in_transaction: bool, answer: Answer);
}

/// Why a call failed; `E` is the ORM's error, `R` the call's refusal.
#[derive(Debug)]
pub enum RunError<E, R> {
    /// The database failed, or the ORM.
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

/// Leads a call through its statements: an adapter runs each [`next`](Self::next) step and hands back the
/// [`answer`](Self::answer), until there is no step left.
///
/// Retries are decided here, for all calls and adapters: outside of the caller's transactions a step that conflicts
/// with another transaction is run again, 20 times at most.
#[derive(Debug)]
pub struct Driver<'c, C> {
    call: &'c mut C,
    dialect: Dialect,
    is_in_transaction: bool,
    attempts: u32,
}

impl<'c, C: Call> Driver<'c, C> {
    /// `is_in_transaction` says whether the connection is in a transaction of the caller's: a conflict ends it, and
    /// what it reads may be rolled back.
    pub fn new(call: &'c mut C, dialect: Dialect, is_in_transaction: bool) -> Self {
        Self {
            call,
            dialect,
            is_in_transaction,
            attempts: 0,
        }
    }

    /// What to run next; `None` when all is done.
    #[must_use]
    pub fn next(&self) -> Option<Step<C::Refusal>> {
        self.call.next(self.dialect, self.is_in_transaction)
    }

    /// Takes the answer to the step. After a conflict the same step stays the next one, unless the transaction is the
    /// caller's, who alone can retry it.
    ///
    /// # Errors
    /// [`RunError`], as passed in or as a [`Conflict`](RunError::Conflict).
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

    /// Asks once.
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
    fn other_errors_end_the_call_and_answers_lead_on() {
        let mut call = Question(false);
        let mut driver = Driver::new(&mut call, Dialect::Sqlite, false);
        let failed = driver.answer(Err(RunError::Database("disk full")), |_| false);
        assert!(matches!(failed, Err(RunError::Database("disk full"))));
        let answer = Ok::<_, RunError<&str, ()>>(Answer::Rows(Vec::new()));
        assert!(driver.answer(answer, |_| false).is_ok());
        assert!(driver.next().is_none());
    }
}
