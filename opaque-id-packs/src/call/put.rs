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
pub struct Put {
    is_through: bool,
    rest: vec::IntoIter<(u128, Row)>,
    next: Next,
}

enum Next {
    /// Writes recent rows, whatever was there. Without rows, nothing is left.
    Recent(Vec<Stored>),
    /// Writes a row into its pack.
    Through(Change),
}

impl Put {
    pub(crate) fn new(
        table: &Table,
        rows: impl IntoIterator<Item = (u128, Row)>,
    ) -> Result<Self, Problem> {
        // The last row of each key, in order: two clients that write the same rows do not deadlock.
        let rows: BTreeMap<_, _> = rows.into_iter().collect();
        let mut put = Self {
            is_through: table.opened()?.contents.settings.write_through,
            rest: rows.into_iter().collect::<Vec<_>>().into_iter(),
            next: Next::Recent(Vec::new()),
        };
        put.go_on(table)?;
        Ok(put)
    }

    fn go_on(&mut self, table: &Table) -> Result<(), Problem> {
        self.next = match self.is_through.then(|| self.rest.next()).flatten() {
            Some((key, row)) => Next::Through(Change::new(key, move |_| Ok(Some(row.clone())))),
            None => Next::Recent(self.encrypt(table)?),
        };
        Ok(())
    }

    /// Encrypts the rows of the next statement.
    fn encrypt(&mut self, table: &Table) -> Result<Vec<Stored>, Problem> {
        let state = table.opened()?;
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while chunk.len() < ROWS && bytes < STATEMENT_BYTES as usize {
            let Some((id, row)) = self.rest.next() else {
                break;
            };
            let stored = table.encrypt_row(&state, id, &row)?;
            bytes += stored.body.len();
            chunk.push(stored);
        }
        Ok(chunk)
    }
}

impl Work for Put {
    fn is_done(&self) -> bool {
        matches!(&self.next, Next::Recent(rows) if rows.is_empty())
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        match &self.next {
            Next::Recent(rows) if rows.is_empty() => None,
            Next::Recent(rows) => Some(table.statements.put(dialect, rows)),
            Next::Through(change) => change.next(table, dialect),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        if let Next::Through(change) = &mut self.next {
            change.answer(on, answer)?;
            if !change.is_done() {
                return Ok(());
            }
        }
        self.go_on(on.table)
    }

    fn lost_race(&mut self) -> bool {
        match &mut self.next {
            Next::Recent(_) => false,
            Next::Through(change) => change.lost_race(),
        }
    }

    fn is_outrun(&self) -> bool {
        matches!(&self.next, Next::Through(change) if change.is_outrun())
    }
}
