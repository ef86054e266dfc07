//! Writes rows: by one upsert into the recent table, or through it into their packs, as the settings say.

use std::collections::BTreeMap;
use std::vec;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{Change, On, STATEMENT_BYTES, Work};
use crate::error::Problem;
use crate::format::Row;
use crate::statement::Stored;
use crate::table::Table;

/// How many rows a statement writes.
const ROWS: usize = 1_000;

/// Writes rows, as the table's settings say.
pub struct Put(Box<dyn Work>);

impl Put {
    pub(crate) fn new(
        table: &Table,
        rows: impl IntoIterator<Item = (u128, Row)>,
    ) -> Result<Self, Problem> {
        Ok(Self(
            match table.opened()?.contents.settings.write_through {
                true => Box::new(PutThrough::new(rows)),
                false => Box::new(PutRecent::new(table, rows)?),
            },
        ))
    }
}

impl Work for Put {
    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        self.0.next(table, dialect)
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.0.answer(on, answer)
    }

    fn lost_race(&mut self) -> bool {
        self.0.lost_race()
    }

    fn is_outrun(&self) -> bool {
        self.0.is_outrun()
    }
}

/// Writes rows into the recent table, whatever was there.
struct PutRecent {
    rest: vec::IntoIter<(u128, Row)>,
    /// The rows of the next statement.
    chunk: Vec<Stored>,
}

impl PutRecent {
    fn new(table: &Table, rows: impl IntoIterator<Item = (u128, Row)>) -> Result<Self, Problem> {
        let mut put = Self {
            rest: last_of_each(rows),
            chunk: Vec::new(),
        };
        put.encrypt(table)?;
        Ok(put)
    }

    fn encrypt(&mut self, table: &Table) -> Result<(), Problem> {
        let state = table.opened()?;
        self.chunk.clear();
        let mut bytes = 0;
        while self.chunk.len() < ROWS && bytes < STATEMENT_BYTES as usize {
            let Some((id, row)) = self.rest.next() else {
                break;
            };
            let stored = table.encrypt_row(&state, id, &row)?;
            bytes += stored.body.len();
            self.chunk.push(stored);
        }
        Ok(())
    }
}

/// Returns the last row of each key, in order: two clients that write the same rows do not deadlock.
fn last_of_each(rows: impl IntoIterator<Item = (u128, Row)>) -> vec::IntoIter<(u128, Row)> {
    let rows: BTreeMap<_, _> = rows.into_iter().collect();
    rows.into_iter().collect::<Vec<_>>().into_iter()
}

impl Work for PutRecent {
    fn is_done(&self) -> bool {
        self.chunk.is_empty()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        match &self.chunk[..] {
            [] => None,
            rows => Some(table.statements.put(dialect, rows)),
        }
    }

    fn answer(&mut self, on: &On<'_>, _: Answer) -> Result<(), Problem> {
        self.encrypt(on.table)
    }
}

/// Writes rows into their packs, one after the other.
struct PutThrough {
    rest: vec::IntoIter<(u128, Row)>,
    current: Option<Change>,
}

impl PutThrough {
    fn new(rows: impl IntoIterator<Item = (u128, Row)>) -> Self {
        let mut put = Self {
            rest: last_of_each(rows),
            current: None,
        };
        put.go_on();
        put
    }

    fn go_on(&mut self) {
        let change = |(key, row): (u128, Row)| Change::new(key, move |_| Ok(Some(row.clone())));
        self.current = self.rest.next().map(change);
    }
}

impl Work for PutThrough {
    fn is_done(&self) -> bool {
        self.current.is_none()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        self.current.as_ref()?.next(table, dialect)
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        if let Some(current) = &mut self.current {
            current.answer(on, answer)?;
            if current.is_done() {
                self.go_on();
            }
        }
        Ok(())
    }

    fn lost_race(&mut self) -> bool {
        self.current.as_mut().is_some_and(Work::lost_race)
    }

    fn is_outrun(&self) -> bool {
        self.current.as_ref().is_some_and(Work::is_outrun)
    }
}
