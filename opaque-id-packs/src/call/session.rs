//! A call's access to its table.
//!
//! Once a minute, a call reads the settings and the dictionaries after a statement. A plain `put` must not
//! begin with a read, because SQLite cannot turn a read into a write while another client writes.

use std::sync::Arc;
use std::time::Instant;

use opaque_id_sql::Dialect;
use opaque_id_sql::call::{self, ConnectionState, RETRY_FOR};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{Answer, Cell, Statement};

use crate::error::{Location, TableError};
use crate::format::{GroupKeys, PackCipher};
use crate::statement::Builder;
use crate::stored::{StoredRow, Tier};
use crate::table::{Context, Meta, State, Table, View};

/// No attempt waits in the caller's transaction.
const ATTEMPTS_IN_TRANSACTION: u32 = 10;

/// The attempts to insert keys that the server does not show afterwards.
pub(super) const KEY_INSERTIONS: u32 = 10;

pub(crate) struct Disconnected {
    session: call::Session,
    pub(crate) table: Arc<Table>,
}

impl Disconnected {
    pub(crate) fn new(session: call::Session, table: Arc<Table>) -> Self {
        Self { session, table }
    }

    pub(crate) async fn connect(self) -> Session {
        let connection = self.session.connect().await;
        Session {
            session: self.session,
            table: self.table,
            connection,
            began: Instant::now(),
            groups: GroupKeys::default(),
            has_run: false,
        }
    }
}

pub(crate) struct Session {
    session: call::Session,
    pub(super) table: Arc<Table>,
    connection: ConnectionState,
    /// A time before the last read. The call compares the answer only with states that were seen before it.
    began: Instant,
    groups: GroupKeys,
    /// Statements about keys do not set this flag.
    has_run: bool,
}

impl Session {
    pub(super) fn dialect(&self) -> Dialect {
        self.connection.dialect
    }

    pub(super) fn is_in_transaction(&self) -> bool {
        self.connection.is_in_transaction
    }

    pub(super) fn sql(&self) -> Builder<'_> {
        self.table.statements.on(self.dialect())
    }

    pub(super) fn state(&self) -> Result<Arc<State>, TableError> {
        self.table.opened()
    }

    pub(crate) fn groups(&self) -> &GroupKeys {
        &self.groups
    }

    pub(super) fn context(&self) -> Context {
        Context { began: self.began, is_in_transaction: self.is_in_transaction() }
    }

    pub(super) fn view(&self) -> Result<View<'_>, TableError> {
        self.table.view(self.context(), &self.groups)
    }

    pub(super) fn opens_any(&self, values: &[StoredRow]) -> Result<bool, TableError> {
        let view = self.view()?;
        Ok(values.iter().any(|stored| {
            let opened = view.open_value(stored.id, &stored.body);
            matches!(opened, Ok(_) | Err(TableError::Erased { .. }))
        }))
    }

    /// On MySQL the transaction itself may have written the pack after another client had split it. Its
    /// snapshot does not show the new packs.
    pub(super) fn gap_problem(&self, location: Location) -> TableError {
        let is_written_through =
            self.state().is_ok_and(|state| state.contents.settings.write_through);
        let is_mysql = self.dialect() == Dialect::MySql;
        match is_written_through && is_mysql && self.is_in_transaction() {
            true => TableError::Outrun,
            false => TableError::Gap { location },
        }
    }

    /// Ends a call: reads the settings if a check is due, and returns the result. This also notices changed
    /// settings in a transaction, because a process may use only transactions.
    pub(crate) async fn end<T>(mut self, result: T) -> Result<T, TableError> {
        if self.has_run && self.table.is_check_due() {
            self.read_settings().await?;
        }
        Ok(result)
    }

    /// A long call must not go on with a dictionary that others have replaced, so it reads the settings once
    /// a minute. A new call must not write with settings that a transaction has read, because that
    /// transaction may have been rolled back.
    pub(super) async fn refresh_if_due(&mut self) -> Result<(), TableError> {
        let is_due = match self.has_run {
            true => !self.is_in_transaction() && self.table.is_check_due(),
            false => self.table.is_uncommitted(),
        };
        if is_due {
            self.read_settings().await?;
            self.has_run = true;
        }
        Ok(())
    }

    /// Inserts a lost dictionary again. A replica that lags behind may refuse it.
    pub(super) async fn read_settings(&mut self) -> Result<(), TableError> {
        let meta = self.read_meta().await?;
        if let Some(lost) = self.table.check_state(self.context(), meta)? {
            // Another client may have inserted it.
            self.session.try_insert(self.sql().insert_meta(&lost)).await;
        }
        Ok(())
    }

    pub(super) async fn check_primary_keys(&mut self, has_rows: bool) -> Result<(), TableError> {
        self.no_primary_keys(has_rows).await?.pop().map_or(Ok(()), Err)
    }

    /// Returns the tables that have lost their primary keys.
    pub(super) async fn no_primary_keys(
        &mut self,
        has_rows: bool,
    ) -> Result<Vec<TableError>, TableError> {
        let statement = self.sql().no_primary_keys(has_rows, self.table.is_grouped());
        let answer = self.session.run(statement).await;
        let problem = |cells: Vec<Cell>| match &cells[..] {
            [Cell::Text(table), _] => TableError::PrimaryKey { table: table.clone() },
            _ => self.table.wrong_columns(),
        };
        Ok(self.read_rows(answer)?.into_iter().map(problem).collect())
    }

    /// A replica that repeats a merger's statements would not skip rows that were locked on the primary, and
    /// would lose them.
    pub(super) async fn check_binlog(&mut self) -> Result<(), TableError> {
        let Some(statement) = self.sql().statement_binlog() else { return Ok(()) };
        let answer = self.session.run(statement).await;
        let problem = "expected `binlog_format` to be ROW or MIXED, found STATEMENT: replicas would lose rows";
        match self.read_rows(answer)?.is_empty() {
            true => Ok(()),
            false => Err(self.table.settings_problem(problem)),
        }
    }

    /// Returns the server's time in seconds since 1970, because the clocks of clients differ.
    pub(super) async fn unix_seconds(&mut self) -> Result<u64, TableError> {
        let answer = self.session.run(self.sql().unix_seconds()).await;
        match self.read_rows(answer)?.first().map(Vec::as_slice) {
            Some([Cell::Integer(seconds)]) => Ok(seconds.cast_unsigned()),
            _ => Err(self.table.wrong_columns()),
        }
    }

    pub(super) async fn read_meta(&mut self) -> Result<Meta, TableError> {
        self.read_meta_of(false).await
    }

    async fn read_meta_of(&mut self, latest: bool) -> Result<Meta, TableError> {
        self.began = Instant::now();
        let answer = self.session.run(self.sql().read_meta(latest)).await;
        self.table.decode_meta(self.read_rows(answer)?)
    }

    /// Returns whether there are settings.
    pub(crate) async fn learn(&mut self) -> Result<bool, TableError> {
        let meta = self.read_meta().await?;
        self.table.learn(self.context(), meta)
    }

    /// On MySQL, a locking read finds rows whose dictionaries and keys are newer than the transaction.
    fn may_see_older(&self) -> bool {
        self.dialect() == Dialect::MySql && self.is_in_transaction()
    }

    pub(crate) async fn learn_dictionary(
        &mut self,
        is_unknown: impl Fn(&State) -> bool,
    ) -> Result<(), TableError> {
        self.learn().await?;
        if self.may_see_older() && is_unknown(&*self.state()?) {
            let meta = self.read_meta_of(true).await?;
            self.table.learn(self.context(), meta)?;
        }
        Ok(())
    }

    /// Also reads the dictionaries and the keys of groups that the rows need.
    pub(super) async fn query(
        &mut self,
        mut statement: Statement,
    ) -> Result<Vec<Vec<Cell>>, TableError> {
        self.refresh_if_due().await?;
        self.groups.clear();
        loop {
            let again = self.table.is_grouped().then(|| statement.clone());
            let began = Instant::now();
            let answer = self.session.run(statement).await;
            self.has_run = true;
            let rows = self.read_rows(answer)?;
            self.began = began;
            if self.table.state().is_some_and(|state| lacks_dictionary(&state, &rows)) {
                self.learn_dictionary(|state| lacks_dictionary(state, &rows)).await?;
            }
            let is_erased = self.read_keys(self.table.groups_in(&rows)).await?;
            // The two reads before have set the times of their own statements.
            self.began = began;
            match again {
                // Another client may have replaced the rows before the group was erased.
                Some(again) if is_erased => statement = again,
                _ => return Ok(rows),
            }
        }
    }

    pub(super) async fn query_tiers(
        &mut self,
        statement: Statement,
    ) -> Result<Vec<(Tier, StoredRow)>, TableError> {
        let rows = self.query(statement).await?;
        self.table.read(rows)
    }

    /// Returns how many rows the statement has changed.
    pub(super) async fn write(&mut self, statement: Statement) -> Result<u64, TableError> {
        let answer = self.session.run(statement).await;
        self.read_changed(answer)
    }

    /// Returns 0 if the statement violates a unique index.
    pub(super) async fn write_unless_duplicate(
        &mut self,
        statement: Statement,
    ) -> Result<u64, TableError> {
        match self.session.try_run(statement).await {
            Some(answer) => self.read_changed(answer),
            None => Ok(0),
        }
    }

    /// Returns the failure if it is about one of the rows.
    pub(super) async fn try_rows(
        &mut self,
        statement: Statement,
    ) -> Result<Result<u64, Failure>, TableError> {
        match self.session.try_rows(statement).await {
            Ok(answer) => self.read_changed(answer).map(Ok),
            Err(failure) => Ok(Err(failure)),
        }
    }

    fn read_changed(&mut self, answer: Answer) -> Result<u64, TableError> {
        self.has_run = true;
        match answer {
            Answer::Changed { rows, .. } => Ok(rows),
            Answer::Rows(_) => Err(self.table.wrong_columns()),
        }
    }

    fn read_rows(&self, answer: Answer) -> Result<Vec<Vec<Cell>>, TableError> {
        match answer {
            Answer::Rows(rows) => Ok(rows),
            Answer::Changed { .. } => Err(self.table.wrong_columns()),
        }
    }

    /// Returns whether one of the groups is erased.
    pub(crate) async fn read_keys(&mut self, groups: Vec<u128>) -> Result<bool, TableError> {
        let unknown = self.take_known_keys(groups);
        if unknown.is_empty() {
            return Ok(false);
        }
        self.learn_keys(&unknown, false, false).await?;
        if self.may_see_older() && unknown.iter().any(|id| !self.groups.contains(*id)) {
            self.learn_keys(&unknown, true, false).await?;
        }
        Ok(unknown.iter().any(|id| self.groups.is_erased(*id)))
    }

    /// Reads the keys of groups that the call writes next, and inserts missing ones. With `rechecks_known`,
    /// it reads known keys again, because another client may have erased a group, or a failover may have lost
    /// a key.
    pub(crate) async fn ensure_keys(
        &mut self,
        mut groups: Vec<u128>,
        rechecks_known: bool,
    ) -> Result<(), TableError> {
        groups.sort_unstable();
        groups.dedup();
        let mut unknown = match rechecks_known {
            true => groups.clone(),
            false => self.take_known_keys(groups.clone()),
        };
        let mut insertions = 0;
        while !unknown.is_empty() {
            self.learn_keys(&unknown, true, true).await?;
            unknown.retain(|id| !self.groups.contains(*id));
            if unknown.is_empty() {
                break;
            }
            if insertions == KEY_INSERTIONS {
                // The server acknowledges the insertion and does not show the keys.
                return Err(TableError::Outrun);
            }
            insertions += 1;
            // Another client may insert other keys first.
            let new = self.table.new_keys(&unknown)?;
            self.session.run(self.sql().make_keys(&new)).await;
        }
        Ok(())
    }

    async fn learn_keys(
        &mut self,
        groups: &[u128],
        latest: bool,
        is_to_write: bool,
    ) -> Result<(), TableError> {
        self.began = Instant::now();
        let answer = self.session.run(self.sql().read_keys(groups, latest)).await;
        let rows = self.read_rows(answer)?;
        self.table.learn_keys(self.context(), rows, is_to_write, &mut self.groups)
    }

    fn take_known_keys(&mut self, mut groups: Vec<u128>) -> Vec<u128> {
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
}

fn lacks_dictionary(state: &State, rows: &[Vec<Cell>]) -> bool {
    rows.iter().flatten().any(|cell| match cell {
        Cell::Bytes(body) => {
            PackCipher::dictionary_id(body).is_ok_and(|id| !state.has_dictionary(id))
        }
        _ => false,
    })
}

#[derive(Default)]
pub(super) struct Attempts {
    lost: u32,
    first_lost: Option<Instant>,
}

impl Attempts {
    pub(super) async fn wait_after_loss(
        &mut self,
        session: &mut Session,
    ) -> Result<(), TableError> {
        let since = self.first_lost.get_or_insert_with(Instant::now).elapsed();
        self.lost += 1;
        match session.is_in_transaction() {
            true if self.lost > ATTEMPTS_IN_TRANSACTION => return Err(TableError::Outrun),
            false if since > RETRY_FOR => return Err(TableError::Outrun),
            _ => {}
        }
        // Another client may have erased a group.
        session.groups.clear();
        session.session.back_off(self.lost).await;
        Ok(())
    }
}
