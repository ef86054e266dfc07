//! Changes one row: reads it from both tiers, computes its new value, and writes that if neither the recent row nor the pack has changed
//! since. Otherwise it reads again.

use std::sync::Arc;
use std::time::Instant;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::get::{Tiers, check_end, value_of};
use super::{On, RETRY_FOR, ROUNDS, Work, changed};
use crate::error::Problem;
use crate::format::{GroupKeys, Pack, Row};
use crate::split;
use crate::statement::{IfLocked, Stored};
use crate::table::Table;

/// Computes what becomes of a row from its value; `None` leaves it as it is.
type Compute = dyn FnMut(Option<&[u8]>) -> Result<Option<Row>, Problem> + Send;

/// Changes a row if nobody else has changed it since it was read: compare and set, over both tiers.
pub struct Change {
    key: u128,
    compute: Box<Compute>,
    next: Next,
    is_in_transaction: bool,
    is_outrun: bool,
    first_lost: Option<Instant>,
    rounds: u32,
}

enum Next {
    Read,
    /// In a transaction on MySQL, what its snapshot does not show.
    ReadLatest,
    /// The row is not encrypted.
    Encrypt(Row, Found),
    /// Writes the row, if the key of its group has this id and version.
    Write(Found, Stored, Option<(u128, i64)>),
    /// Replaces the pack of this version.
    WritePacks(i64, Vec<Stored>),
    Nothing,
}

/// What a recent row is written for.
#[derive(Clone, Copy)]
enum Found {
    /// A recent row of this version, which is replaced.
    Recent(i64),
    /// None, and a pack of this id and version.
    Pack(u128, i64),
}

impl Change {
    pub(crate) fn new(
        key: u128,
        compute: impl FnMut(Option<&[u8]>) -> Result<Option<Row>, Problem> + Send + 'static,
    ) -> Self {
        Self {
            key,
            compute: Box::new(compute),
            next: Next::Read,
            is_in_transaction: false,
            is_outrun: false,
            first_lost: None,
            rounds: 0,
        }
    }

    fn after_read(&mut self, on: &On<'_>, answer: Answer) -> Result<Next, Problem> {
        let state = on.state()?;
        let tiers = Tiers::read(on, answer)?;
        if let Some((version, row)) = tiers.recent.get(&self.key) {
            let value = match row {
                Row::Value(value) => Some(&**value),
                Row::Deleted => None,
            };
            return Ok(match (self.compute)(value)? {
                Some(row) => Next::Encrypt(row, Found::Recent(*version)),
                None => Next::Nothing,
            });
        }
        let stored = tiers.pack_of(on, self.key)?;
        // It was split while a locking read has waited for it, which then sees its new end, but not the pack of the key.
        if stored.next.is_some_and(|next| next <= self.key) {
            return self.again(on.dialect);
        }
        let (id, version) = (stored.id, stored.version);
        if !state.contents.settings.write_through {
            let (table, context) = (on.table, on.context);
            let (end, value) = table.find_in_pack(&state, context, stored, on.groups, self.key)?;
            check_end(on, id, end, self.key)?;
            return Ok(match (self.compute)(value.as_deref())? {
                Some(row) => Next::Encrypt(row, Found::Pack(id, version)),
                None => Next::Nothing,
            });
        }
        let pack = on.table.open_pack(&state, on.context, stored, on.groups)?;
        let value = match value_of(on, &pack, self.key) {
            Err(Problem::Outrun) if matches!(self.next, Next::Read) => return Ok(Next::ReadLatest),
            value => value?,
        };
        let Some(row) = (self.compute)(value.map(|value| &**value))? else {
            return Ok(Next::Nothing);
        };
        let mut pack = Arc::unwrap_or_clone(pack);
        apply(&mut pack, self.key, row);
        let packs = split::encrypt(on.table, &state, version, pack, on.groups)?;
        Ok(Next::WritePacks(version, packs))
    }

    /// Returns what follows if another client was faster.
    fn again(&mut self, dialect: Dialect) -> Result<Next, Problem> {
        let since = *self.first_lost.get_or_insert_with(Instant::now);
        self.rounds += 1;
        self.is_outrun = true;
        match self.is_in_transaction {
            true if self.rounds > ROUNDS => Err(Problem::Outrun),
            false if since.elapsed() > RETRY_FOR => Err(Problem::Outrun),
            true if dialect == Dialect::MySql => Ok(Next::ReadLatest),
            _ => Ok(Next::Read),
        }
    }
}

/// Applies a row to its pack.
pub(super) fn apply(pack: &mut Pack, key: u128, row: Row) {
    let place = pack.rows.binary_search_by_key(&key, |(key, _)| *key);
    match (place, row) {
        (Ok(place), Row::Value(value)) => pack.rows[place].1 = value,
        (Ok(place), Row::Deleted) => {
            pack.rows.remove(place);
        }
        (Err(place), Row::Value(value)) => pack.rows.insert(place, (key, value)),
        (Err(_), Row::Deleted) => {}
    }
}

impl Work for Change {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match &self.next {
            Next::Read => Some(statements.get(dialect, &[self.key], &[])),
            Next::ReadLatest => Some(statements.get_latest(self.key)),
            Next::Encrypt(..) => None,
            Next::Write(Found::Recent(version), row, key) => {
                Some(statements.replace(dialect, *version, row, *key))
            }
            Next::Write(Found::Pack(id, version), row, key) => {
                Some(statements.insert_if(dialect, (*id, *version), row, *key))
            }
            Next::WritePacks(version, packs) => {
                Some(statements.write_packs(dialect, *version, packs, IfLocked::Wait))
            }
            Next::Nothing => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.is_in_transaction = on.context.is_in_transaction;
        self.is_outrun = false;
        self.next = match self.next {
            Next::Read | Next::ReadLatest => self.after_read(on, answer)?,
            _ if changed(on, &answer)? > 0 => Next::Nothing,
            _ => {
                if let Next::Write(_, _, Some((group, _))) = self.next {
                    on.table.forget_key(group);
                }
                self.again(on.dialect)?
            }
        };
        Ok(())
    }

    fn groups(&self) -> Vec<u128> {
        match &self.next {
            Next::Encrypt(row, _) => row.group().into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn encrypt(&mut self, table: &Table, groups: &GroupKeys) -> Result<(), Problem> {
        if let Next::Encrypt(row, found) = &self.next {
            let stored = table.encrypt_row(&*table.opened()?, self.key, row, groups)?;
            let key = row.group().and_then(|group| groups.of(group));
            self.next = Next::Write(*found, stored, key.map(|key| (key.id, key.version)));
        }
        Ok(())
    }

    /// Only MySQL's insert fails so.
    fn lost_race(&mut self) -> bool {
        match self.again(Dialect::MySql) {
            Ok(next) => {
                self.next = next;
                true
            }
            Err(_) => false,
        }
    }

    fn is_outrun(&self) -> bool {
        self.is_outrun
    }
}
