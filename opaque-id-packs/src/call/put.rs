//! Writes rows: by one upsert into the recent table, or through it into their packs, as the settings say.

use std::collections::BTreeMap;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{Change, On, ROUNDS, STATEMENT_BYTES, Work, changed};
use crate::error::Problem;
use crate::format::{GroupKeys, Row};
use crate::statement::Stored;
use crate::table::Table;

/// How many rows a statement writes.
const ROWS: usize = 1_000;

/// Writes rows, as the table's settings say.
pub struct Put {
    is_through: bool,
    /// In order.
    rows: Vec<(u128, Row)>,
    /// How many of them are written.
    done: usize,
    next: Next,
    /// How often a group's key was replaced meanwhile.
    rounds: u32,
    is_outrun: bool,
}

enum Next {
    /// The next rows are not encrypted.
    Encrypt,
    /// Writes recent rows, whatever was there, if the keys of their groups are those that have encrypted them.
    Recent(Vec<Stored>, Vec<Stored>),
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
        Ok(Self {
            is_through: table.opened()?.contents.settings.write_through,
            rows: rows.into_iter().collect(),
            done: 0,
            next: Next::Encrypt,
            rounds: 0,
            is_outrun: false,
        })
    }

    /// Returns the rows of the next statement, or more.
    fn chunk(&self) -> &[(u128, Row)] {
        let rest = &self.rows[self.done..];
        &rest[..rest.len().min(ROWS)]
    }
}

impl Work for Put {
    fn is_done(&self) -> bool {
        self.done == self.rows.len()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        match &self.next {
            Next::Encrypt => None,
            Next::Recent(rows, keys) if keys.is_empty() => {
                Some(table.statements.put(dialect, rows))
            }
            Next::Recent(rows, keys) => Some(table.statements.put_grouped(dialect, rows, keys)),
            Next::Through(change) => change.next(table, dialect),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.is_outrun = false;
        self.done += match &mut self.next {
            Next::Encrypt => 0,
            // A group was erased, or its key encrypted again.
            Next::Recent(_, keys) if !keys.is_empty() && changed(on, &answer)? == 0 => {
                keys.iter().for_each(|key| on.table.forget_key(key.id));
                self.rounds += 1;
                self.is_outrun = true;
                match self.rounds > ROUNDS {
                    true => return Err(Problem::Outrun),
                    false => 0,
                }
            }
            Next::Recent(rows, _) => rows.len(),
            Next::Through(change) => {
                change.answer(on, answer)?;
                match change.is_done() {
                    true => 1,
                    false => return Ok(()),
                }
            }
        };
        self.next = Next::Encrypt;
        Ok(())
    }

    fn groups(&self) -> Vec<u128> {
        let mut groups: Vec<_> = match &self.next {
            Next::Encrypt => self.chunk().iter().filter_map(|(_, row)| row.group()).collect(),
            _ => Vec::new(),
        };
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    fn encrypt(&mut self, table: &Table, groups: &GroupKeys) -> Result<(), Problem> {
        if let Next::Through(change) = &mut self.next {
            return change.encrypt(table, groups);
        }
        self.next = match (&self.next, self.chunk()) {
            (Next::Encrypt, [(key, row), ..]) if self.is_through => {
                let row = row.clone();
                Next::Through(Change::new(*key, move |_| Ok(Some(row.clone()))))
            }
            (Next::Encrypt, [_, ..]) => {
                let state = table.opened()?;
                let (mut rows, mut bytes, mut keys) = (Vec::new(), 0, BTreeMap::new());
                for (id, row) in self.chunk() {
                    if bytes >= STATEMENT_BYTES as usize {
                        break;
                    }
                    let stored = table.encrypt_row(&state, *id, row, groups)?;
                    bytes += stored.body.len();
                    rows.push(stored);
                    let key = row.group().and_then(|group| groups.of(group));
                    keys.extend(key.map(|key| (key.id, key.version)));
                }
                let key = |(id, version)| Stored::new(id, version, Vec::new());
                Next::Recent(rows, keys.into_iter().map(key).collect())
            }
            _ => return Ok(()),
        };
        Ok(())
    }

    fn lost_race(&mut self) -> bool {
        match &mut self.next {
            Next::Through(change) => change.lost_race(),
            _ => false,
        }
    }

    fn is_outrun(&self) -> bool {
        match &self.next {
            Next::Through(change) => change.is_outrun(),
            _ => self.is_outrun,
        }
    }
}
