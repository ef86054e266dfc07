//! Calls on a table of packs, as statements without I/O.
//!
//! MiniCrypt had one conditional update of one row to build on, and a split of two steps whose half every reader must understand. SQL
//! has one statement, on every database, that replaces a pack and inserts its right parts if the pack has the version that was read. So
//! calls need no transaction of their own, adapters run them as they run all others, and a client may die anywhere.

mod change;
mod delete;
mod get;
mod merge;
mod open;
mod put;
mod range;
mod rekey;
mod restore;
mod train;
mod values;
mod verify;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opaque_id_sql::Dialect;
use opaque_id_sql::call::Call;
use opaque_id_sql::statement::{Answer, Cell, Statement};

pub use self::change::Change;
pub use self::delete::DeleteRange;
pub use self::get::Get;
pub use self::merge::Merge;
pub use self::merge::Merged;
pub use self::open::Open;
pub use self::put::Put;
pub use self::range::{Page, Rest};
pub use self::rekey::Rekey;
pub use self::rekey::Rekeyed;
pub use self::restore::Restore;
pub(crate) use self::train::trained;
pub use self::train::{Configure, Train};
pub use self::values::{RekeyValues, VerifyValues};
pub use self::verify::{Damage, Verified, Verify};
use crate::error::{Location, Problem};
use crate::format::PackCipher;
use crate::table::{Context, State, Table};

/// How long a call is retried.
const RETRY_FOR: Duration = Duration::from_secs(10);

/// How many attempts a call makes in the caller's transaction, where nothing waits between them.
const ROUNDS: u32 = 10;

/// The most bytes of bodies in one statement, unless a single one is longer: what a server must keep in memory for it.
const STATEMENT_BYTES: u32 = 256 << 10;

/// A call's statements, and what it makes of their answers.
pub trait Work: Send {
    /// Returns whether there is nothing more to do.
    fn is_done(&self) -> bool;

    /// Returns the next statement, or `None` if the call is done.
    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement>;

    /// Processes the answer.
    ///
    /// # Errors
    /// The reason why the call cannot go on.
    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem>;

    /// Processes that the statement failed because there is such a row. Returns whether the call can go on.
    fn lost_race(&mut self) -> bool {
        false
    }

    /// Returns whether the last statement had no effect, because another client was faster.
    fn is_outrun(&self) -> bool {
        false
    }
}

/// The context in which an answer is processed.
pub struct On<'t> {
    pub(crate) table: &'t Table,
    pub(crate) context: Context,
    pub(crate) dialect: Dialect,
}

impl On<'_> {
    pub(crate) fn state(&self) -> Result<Arc<State>, Problem> {
        self.table.opened()
    }

    /// Returns the problem of a pack that ends before a key. On MySQL it may be one that the transaction has written, after another
    /// client had split it: the new packs are not in the transaction's snapshot.
    fn gap(&self, location: Location) -> Problem {
        let is_written_through =
            self.state().is_ok_and(|state| state.contents.settings.write_through);
        let is_mysql = self.dialect == Dialect::MySql;
        match is_written_through && is_mysql && self.context.is_in_transaction {
            true => Problem::Outrun,
            false => Problem::Gap { location },
        }
    }
}

/// A call on a table of packs. If a body was compressed with a dictionary that this client does not know yet, the call reads
/// the table's dictionaries first.
pub struct PackCall<W> {
    table: Arc<Table>,
    work: W,
    /// No later than the statement whose answer comes next.
    began: Instant,
    /// An answer that waits for its dictionary.
    waiting: Option<Answer>,
}

impl<W: Work> PackCall<W> {
    pub(crate) fn new(table: &Arc<Table>, work: W) -> Self {
        Self { table: Arc::clone(table), work, began: Instant::now(), waiting: None }
    }

    pub(crate) fn into_work(self) -> W {
        self.work
    }

    /// Returns whether an answer has a body whose dictionary is not known.
    fn lacks_dictionary(&self, answer: &Answer) -> bool {
        let (Answer::Rows(rows), Some(state)) = (answer, self.table.state()) else {
            return false;
        };
        rows.iter().flatten().any(|cell| match cell {
            Cell::Bytes(body) => {
                PackCipher::dictionary_id(body).is_ok_and(|id| !state.has_dictionary(id))
            }
            _ => false,
        })
    }
}

impl<W: Work> Call for PackCall<W> {
    type Error = Problem;

    fn is_done(&self) -> bool {
        self.waiting.is_none() && self.work.is_done()
    }

    fn retry_for(&self) -> Duration {
        RETRY_FOR
    }

    fn next(&self, dialect: Dialect) -> Option<Statement> {
        match self.waiting {
            Some(_) => Some(self.table.statements.read_meta(dialect)),
            None => self.work.next(&self.table, dialect),
        }
    }

    fn answer(
        &mut self,
        dialect: Dialect,
        is_in_transaction: bool,
        answer: Answer,
    ) -> Result<(), Problem> {
        let on = On {
            table: &self.table,
            context: Context { began: self.began, is_in_transaction },
            dialect,
        };
        let answer = match (self.waiting.take(), answer) {
            (Some(waiting), Answer::Rows(meta)) => {
                self.table.learn(on.context, meta)?;
                waiting
            }
            (_, answer) if self.lacks_dictionary(&answer) => {
                self.waiting = Some(answer);
                return Ok(());
            }
            (_, answer) => answer,
        };
        let now = Instant::now();
        let answered = self.work.answer(&on, answer);
        self.began = now;
        answered
    }

    fn lost_race(&mut self, _: Dialect) -> bool {
        self.work.lost_race()
    }

    fn is_outrun(&self) -> bool {
        self.work.is_outrun()
    }
}

/// Without what it reads and writes.
impl<W> fmt::Debug for PackCall<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackCall").field("table", &self.table).finish_non_exhaustive()
    }
}

/// Returns how many rows a statement changed.
fn changed(on: &On<'_>, answer: &Answer) -> Result<u64, Problem> {
    match answer {
        Answer::Changed { rows, .. } => Ok(*rows),
        Answer::Rows(_) => Err(on.table.columns()),
    }
}

/// Returns the rows of an answer.
fn rows(on: &On<'_>, answer: Answer) -> Result<Vec<Vec<Cell>>, Problem> {
    match answer {
        Answer::Rows(rows) => Ok(rows),
        Answer::Changed { .. } => Err(on.table.columns()),
    }
}
