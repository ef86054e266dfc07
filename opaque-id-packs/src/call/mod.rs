//! Calls on a table of packs, as statements without I/O.
//!
//! MiniCrypt had one conditional update of one row to build on, and a split of two steps whose half every reader must understand. SQL
//! has one statement, on every database, that replaces a pack and inserts its right parts if the pack has the version that was read. So
//! calls need no transaction of their own, adapters run them as they run all others, and a client may die anywhere.

mod change;
mod delete;
mod erase;
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
pub use self::erase::Erase;
pub use self::get::Get;
pub use self::merge::Merge;
pub use self::merge::Merged;
pub use self::open::Open;
pub use self::put::Put;
pub use self::range::{Page, Rest};
pub use self::rekey::Rekey;
pub use self::rekey::Rekeyed;
pub use self::restore::Restore;
pub use self::train::{Configure, Train};
pub use self::values::{RekeyValues, ValueKeys, VerifyValues};
pub use self::verify::{Damage, Verified, Verify};
use crate::error::{Location, Problem};
use crate::format::{GroupKeys, PackCipher};
use crate::statement::Stored;
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

    /// Returns the groups of the rows that the work writes next. Groups without a key get one.
    fn groups(&self) -> Vec<u128> {
        Vec::new()
    }

    /// Returns the groups whose keys the work needs besides those of rows that it reads.
    fn groups_to_read(&self, _table: &Table) -> Vec<u128> {
        Vec::new()
    }

    /// Encrypts what the work writes next, with the keys of its [`groups`](Self::groups).
    ///
    /// # Errors
    /// The reason why the call cannot go on.
    fn encrypt(&mut self, _table: &Table, _groups: &GroupKeys) -> Result<(), Problem> {
        Ok(())
    }

    /// Processes that the statement failed because there is such a row. Returns whether the call can go on.
    fn lost_race(&mut self) -> bool {
        false
    }

    /// Returns whether the last statement had no effect, because another client was faster.
    fn is_outrun(&self) -> bool {
        false
    }

    /// Returns whether the work goes on after the settings and the dictionaries were read again.
    fn doubts_settings(&self) -> bool {
        false
    }
}

/// The context in which an answer is processed.
pub struct On<'t> {
    pub(crate) table: &'t Table,
    pub(crate) context: Context,
    pub(crate) dialect: Dialect,
    /// The keys of the groups that have rows in the answer.
    pub(crate) groups: &'t GroupKeys,
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

/// A call on a table of packs. If a body was compressed with a dictionary that this client does not know yet, or its rows are of
/// groups whose keys it does not know, the call reads these first. Once a minute, a call reads the settings and the dictionaries after a
/// statement. It does not read them first, because SQLite lets a transaction fail that begins with a read and then has to wait.
pub struct PackCall<W> {
    table: Arc<Table>,
    work: W,
    /// No later than the statement whose answer comes next, or the one whose answer waits.
    began: Instant,
    lacking: Lacking,
    /// How often it has inserted keys that the server does not show.
    insertions: u32,
    /// An answer that waits for what is lacking.
    waiting: Option<Answer>,
    /// Whether the statement runs again, as its answer had rows of a group that is erased.
    is_repeated: bool,
    groups: GroupKeys,
}

/// What a call must read before it goes on.
enum Lacking {
    Nothing,
    Dictionary,
    /// What others have made of the settings and the dictionaries.
    State,
    /// A dictionary that was lost is inserted.
    Lost(Stored),
    /// The keys of groups that have rows in an answer.
    Keys(Vec<u128>),
    /// The keys of groups that the work writes rows of.
    KeysToWrite(Vec<u128>),
    /// Keys that are inserted.
    NewKeys(Vec<Stored>),
}

impl<W: Work> PackCall<W> {
    pub(crate) fn new(table: &Arc<Table>, work: W) -> Self {
        Self {
            table: Arc::clone(table),
            work,
            began: Instant::now(),
            lacking: Lacking::Nothing,
            insertions: 0,
            waiting: None,
            is_repeated: false,
            groups: GroupKeys::default(),
        }
    }

    /// Reads a dictionary first, and then the keys that the work needs.
    pub(crate) fn with_dictionary(self) -> Self {
        Self { lacking: Lacking::Dictionary, ..self }
    }

    /// Reads or makes the key of a group first, also if it is known: another client may have erased it, or a failover.
    pub(crate) fn with_key(self, group: u128) -> Self {
        Self { lacking: Lacking::KeysToWrite(vec![group]), ..self }
    }

    /// Reads the keys that the work needs first.
    pub(crate) fn with_keys(mut self) -> Self {
        self.read_keys();
        self
    }

    fn read_keys(&mut self) {
        let lacking = self.unknown(self.work.groups_to_read(&self.table));
        if !lacking.is_empty() {
            self.lacking = Lacking::Keys(lacking);
        }
    }

    /// Returns the keys of groups that the call has read last.
    pub(crate) fn groups(&self) -> &GroupKeys {
        &self.groups
    }

    /// Encrypts what the work writes first.
    pub(crate) fn ready(mut self) -> Result<Self, Problem> {
        self.prepare()?;
        Ok(self)
    }

    /// Returns the groups whose keys are not known, and takes over those that are.
    fn unknown(&mut self, mut groups: Vec<u128>) -> Vec<u128> {
        groups.retain(|id| !self.groups.contains(*id));
        groups.retain(|id| match self.table.known_key(*id) {
            Some(key) => {
                self.groups.insert(*id, key);
                false
            }
            None => true,
        });
        groups
    }

    /// Reads the keys of the groups that have rows in an answer, and then processes it.
    fn process(&mut self, on: (Dialect, Context), answer: Answer) -> Result<(), Problem> {
        let mut groups = self.work.groups();
        groups.extend(self.work.groups_to_read(&self.table));
        if let Answer::Rows(rows) = &answer {
            groups.extend(self.table.groups_in(rows));
        }
        let lacking = self.unknown(groups);
        if lacking.is_empty() {
            return self.finish(on, answer);
        }
        self.lacking = Lacking::Keys(lacking);
        self.waiting = Some(answer);
        Ok(())
    }

    fn finish(
        &mut self,
        (dialect, context): (Dialect, Context),
        answer: Answer,
    ) -> Result<(), Problem> {
        let on = On { table: &self.table, context, dialect, groups: &self.groups };
        self.work.answer(&on, answer)?;
        // Another client may have erased a group.
        if self.work.is_outrun() {
            self.groups.clear();
        }
        // A long call must not go on with a dictionary that others have replaced.
        let may_check = self.work.is_done() || !context.is_in_transaction;
        if may_check && self.table.is_unchecked() || self.work.doubts_settings() {
            self.lacking = Lacking::State;
            return Ok(());
        }
        self.prepare()
    }

    /// Reads or makes the keys of the groups that the work writes rows of, and then encrypts these.
    fn prepare(&mut self) -> Result<(), Problem> {
        let lacking = self.unknown(self.work.groups());
        if lacking.is_empty() {
            return self.work.encrypt(&self.table, &self.groups);
        }
        self.lacking = Lacking::KeysToWrite(lacking);
        Ok(())
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
        matches!(self.lacking, Lacking::Nothing) && self.work.is_done()
    }

    fn retry_for(&self) -> Duration {
        RETRY_FOR
    }

    fn next(&self, dialect: Dialect) -> Option<Statement> {
        let statements = &self.table.statements;
        Some(match &self.lacking {
            Lacking::Nothing => return self.work.next(&self.table, dialect),
            Lacking::Dictionary | Lacking::State => statements.read_meta(dialect),
            Lacking::Lost(dictionary) => statements.insert_meta(dialect, dictionary),
            Lacking::Keys(ids) => statements.read_keys(dialect, ids, false),
            Lacking::KeysToWrite(ids) => statements.read_keys(dialect, ids, true),
            Lacking::NewKeys(new) => statements.make_keys(dialect, new),
        })
    }

    fn answer(
        &mut self,
        dialect: Dialect,
        is_in_transaction: bool,
        answer: Answer,
    ) -> Result<(), Problem> {
        let context = Context { began: self.began, is_in_transaction };
        let on = (dialect, context);
        let now = Instant::now();
        let answered = match (std::mem::replace(&mut self.lacking, Lacking::Nothing), answer) {
            (Lacking::Nothing, answer) if self.lacks_dictionary(&answer) => {
                self.lacking = Lacking::Dictionary;
                self.waiting = Some(answer);
                Ok(())
            }
            (Lacking::Nothing, answer) => {
                // After a write, the work may go on with bodies that it has read before.
                let is_repeated = std::mem::take(&mut self.is_repeated);
                if let (Answer::Rows(_), false) = (&answer, is_repeated) {
                    self.groups.clear();
                }
                self.process(on, answer)
            }
            (Lacking::Dictionary, Answer::Rows(meta)) => {
                self.table.learn(context, meta)?;
                self.groups.clear();
                match self.waiting.take() {
                    Some(answer) => self.process(on, answer),
                    None => {
                        self.read_keys();
                        Ok(())
                    }
                }
            }
            (Lacking::State, Answer::Rows(meta)) => match self.table.check_state(context, meta)? {
                Some(lost) => {
                    self.lacking = Lacking::Lost(lost);
                    Ok(())
                }
                None => self.prepare(),
            },
            (Lacking::Lost(_), Answer::Changed { .. }) => self.prepare(),
            (Lacking::Keys(ids), Answer::Rows(keys)) => {
                self.table.learn_keys(context, keys, false, &mut self.groups)?;
                // Rows of a group that was erased meanwhile may have been replaced before: the same statement shows by what.
                let is_erased =
                    |id: &u128| self.groups.contains(*id) && self.groups.of(*id).is_none();
                match self.waiting.take() {
                    Some(answer) if !ids.iter().any(is_erased) => self.finish(on, answer),
                    waiting => {
                        self.is_repeated = waiting.is_some();
                        Ok(())
                    }
                }
            }
            (Lacking::KeysToWrite(mut ids), Answer::Rows(keys)) => {
                self.table.learn_keys(context, keys, true, &mut self.groups)?;
                ids.retain(|id| !self.groups.contains(*id));
                match ids.is_empty() {
                    true => {
                        self.insertions = 0;
                        self.prepare()
                    }
                    // The server says that it has inserted them, and does not show them.
                    false if self.insertions == ROUNDS => Err(Problem::Outrun),
                    false => {
                        self.insertions += 1;
                        self.lacking = Lacking::NewKeys(self.table.new_keys(&ids)?);
                        Ok(())
                    }
                }
            }
            // Another client may have inserted others.
            (Lacking::NewKeys(_), Answer::Changed { .. }) => self.prepare(),
            _ => Err(self.table.columns()),
        };
        if self.waiting.is_none() {
            self.began = now;
        }
        answered
    }

    fn lost_race(&mut self, _: Dialect) -> bool {
        match self.lacking {
            Lacking::Nothing => self.work.lost_race(),
            // Another client has inserted it.
            Lacking::Lost(_) => {
                self.lacking = Lacking::Nothing;
                self.prepare().is_ok()
            }
            _ => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Pack, Row, Value};
    use crate::settings::Settings;
    use crate::split::tests::{open, value};

    #[test]
    fn keys_that_a_server_does_not_show_are_not_inserted_for_ever() {
        let table = Arc::new(open(Settings::inline()));
        let work = ValueKeys::to_encrypt(Some(7));
        let mut call = PackCall::new(&table, work).with_key(7);
        let mut insertions = 0;
        let ended = loop {
            let statement = call.next(Dialect::Sqlite).expect("not done");
            let answer = match statement.columns.is_empty() {
                true => Answer::Changed { rows: 1, insert_id: None },
                false => Answer::Rows(Vec::new()),
            };
            insertions += u32::from(statement.columns.is_empty());
            if let Err(problem) = call.answer(Dialect::Sqlite, false, answer) {
                break problem;
            }
        };
        assert_eq!((ended, insertions), (Problem::Outrun, ROUNDS));
    }

    /// A sweep may have deleted the dictionary while the process was idle.
    #[test]
    fn a_process_that_was_idle_writes_without_a_dictionary() {
        let table = Arc::new(open(Settings::inline()));
        let samples: Vec<_> = (0..2_000).map(|i| Value::from(value(i))).collect();
        let dictionary = crate::dictionary::trained("events", &samples, 1_024).expect("trained");
        let mut contents = table.opened().expect("open").contents.clone();
        contents.dictionary = 1;
        let stored = [
            table.encrypt_settings(2, &contents).expect("settings"),
            table.encrypt_meta(1, 7, &dictionary).expect("a dictionary"),
            // zstd refuses a dictionary that ends after its magic number. The table can be opened without it.
            table.encrypt_meta(2, 7, &dictionary[..12]).expect("a dictionary"),
        ];
        let meta = (0..).zip(stored).map(|(id, stored)| {
            vec![Cell::Integer(id), Cell::Integer(stored.version), Cell::Bytes(stored.body)]
        });
        let context = Context { began: Instant::now(), is_in_transaction: false };
        assert_eq!(table.learn(context, meta.collect()), Ok(true));
        assert!(!table.opened().expect("open").has_dictionary(2));
        let written_with = || {
            let state = table.opened().expect("open");
            let groups = GroupKeys::default();
            let row = table.encrypt_row(&state, 7, &Row::Value(value(7).into()), &groups);
            let pack = Pack { id: 0, end: None, rows: vec![(7, value(7).into())] };
            let pack = crate::split::encrypt(&table, &state, 1, pack, &groups).expect("a pack");
            [&row.expect("a row"), &pack[0]].map(|it| PackCipher::dictionary_id(&it.body))
        };
        assert_eq!(written_with(), [Ok(1), Ok(1)]);
        table.forget_check(Duration::from_secs(601));
        assert_eq!(written_with(), [Ok(0), Ok(0)]);
    }

    /// So that changed settings and a dictionary that was lost are noticed by a process that merges nothing.
    #[test]
    fn a_call_reads_the_settings_at_its_end_once_a_minute() {
        let table = Arc::new(open(Settings::inline()));
        let mut contents = table.opened().expect("open").contents.clone();
        contents.settings = Settings::large();
        let stored = table.encrypt_settings(2, &contents).expect("settings");
        let meta = vec![vec![Cell::Integer(0), Cell::Integer(2), Cell::Bytes(stored.body)]];
        let put = || {
            let row = (7, Row::Value(Value::from(value(7))));
            let work = Put::new(&table, [row]).expect("a row");
            let mut call = PackCall::new(&table, work).ready().expect("a row");
            let mut statements = Vec::new();
            while let Some(statement) = call.next(Dialect::Sqlite) {
                let answer = match statement.columns.is_empty() {
                    true => Answer::Changed { rows: 1, insert_id: None },
                    false => Answer::Rows(meta.clone()),
                };
                call.answer(Dialect::Sqlite, false, answer).expect("an answer");
                statements.push(statement.sql.split(' ').next().expect("a word").to_owned());
            }
            assert!(call.is_done());
            statements
        };
        let pack_bytes = || table.opened().expect("open").contents.settings.pack_bytes;
        assert_eq!((put(), pack_bytes()), (vec!["INSERT".to_owned()], 1_900));
        table.forget_check(Duration::from_secs(60));
        assert_eq!((put(), pack_bytes()), (vec!["INSERT".to_owned(), "SELECT".to_owned()], 15_960));
        assert_eq!(put(), ["INSERT"]);
    }
}
