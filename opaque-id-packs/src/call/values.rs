//! Walks the values of a column in the order of their ids: encrypts them again, or reads them. The application may write meanwhile.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Cell, Statement};

use super::verify::{self, BODIES, NO_HEADER, Progress, Verified};
use super::{On, Rekeyed, Work, changed, rows};
use crate::column::ColumnName;
use crate::error::Problem;
use crate::format::PackCipher;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// Encrypts again what is under another secret or dictionary than the current ones: settings and dictionaries, then values. A value
/// is replaced only if it is still the one that was read. Whatever is current is skipped, so that a run that ends early is continued
/// by the next one.
pub struct RekeyValues {
    column: ColumnName,
    next: Next,
    /// Settings and dictionaries, the last one first.
    meta: Vec<Stored>,
    /// Ids and values, the last one first.
    found: Vec<(u128, Vec<u8>)>,
    rekeyed: Rekeyed,
    /// The first that cannot be read. Others do not wait for it.
    problem: Option<Problem>,
    progress: Progress,
}

enum Next {
    ReadMeta,
    UpdateMeta(Stored),
    /// Reads what does not begin with a header, from an id on.
    Read(u128, [u8; 3]),
    Replace {
        id: u128,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    Nothing,
}

impl RekeyValues {
    pub(crate) fn new(column: ColumnName, progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            column,
            next: Next::ReadMeta,
            meta: Vec::new(),
            found: Vec::new(),
            rekeyed: Rekeyed::default(),
            problem: None,
            progress: Box::new(progress),
        }
    }

    /// Returns what was encrypted again, and the first that could not be read.
    pub(crate) fn into_outcome(self) -> (Rekeyed, Option<Problem>) {
        (self.rekeyed, self.problem)
    }

    fn next_meta(&mut self, on: &On<'_>) -> Result<Next, Problem> {
        match self.meta.pop() {
            Some(stored) => Ok(Next::UpdateMeta(stored)),
            None => read(on, Some(0)),
        }
    }

    /// Returns the next state: a write of one of the values that were read, or a read from `last` on.
    fn next_value(&mut self, on: &On<'_>, mut last: u128) -> Result<Next, Problem> {
        let state = on.state()?;
        while let Some((id, from)) = self.found.pop() {
            let opened = on.table.open_value(&state, id, &from);
            match opened.and_then(|value| on.table.encrypt_value(&state, id, value)) {
                Ok(to) => return Ok(Next::Replace { id, from, to }),
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    last = id;
                }
            }
        }
        read(on, on.table.statements.ids().after(last))
    }
}

fn read(on: &On<'_>, from: Option<u128>) -> Result<Next, Problem> {
    let header = on.table.current_header(Tier::Recent)?;
    Ok(from.map_or(Next::Nothing, |from| Next::Read(from, header)))
}

fn read_values(on: &On<'_>, answer: &[Vec<Cell>]) -> Result<Vec<(u128, Vec<u8>)>, Problem> {
    on.table.statements.read_values(answer).ok_or_else(|| on.table.columns())
}

impl Work for RekeyValues {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let (statements, column) = (&table.statements, &self.column);
        Some(match &self.next {
            Next::ReadMeta => statements.read_meta(dialect),
            Next::UpdateMeta(stored) => statements.update_meta(dialect, stored),
            Next::Read(from, header) => {
                statements.stale_values(dialect, column, *from, header, BODIES)
            }
            Next::Replace { id, from, to } => {
                statements.replace_value(dialect, column, *id, from, to)
            }
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.next = match &self.next {
            Next::ReadMeta => {
                let rows = rows(on, answer)?;
                for reencrypted in on.table.reencrypt_meta(rows.clone())? {
                    match reencrypted {
                        Ok(stored) => self.meta.push(stored),
                        Err(problem) => {
                            self.problem.get_or_insert(problem);
                        }
                    }
                }
                on.table.learn(on.context, rows)?;
                self.next_meta(on)?
            }
            Next::UpdateMeta(_) => {
                self.rekeyed.lost += u64::from(changed(on, &answer)? == 0);
                self.next_meta(on)?
            }
            Next::Read(..) => {
                self.found = read_values(on, &rows(on, answer)?)?;
                self.found.reverse();
                match self.found.first().map(|(id, _)| *id) {
                    Some(last) => self.next_value(on, last)?,
                    None => Next::Nothing,
                }
            }
            &Next::Replace { id, .. } => {
                match changed(on, &answer)? {
                    0 => self.rekeyed.lost += 1,
                    _ => self.rekeyed.rows += 1,
                }
                (self.progress)(self.rekeyed.rows);
                self.next_value(on, id)?
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }
}

/// Reads all values of a column, and finds those that cannot be read. It changes nothing.
pub struct VerifyValues {
    column: ColumnName,
    next: NextRead,
    verified: Verified,
    /// The latest dictionary that a value has.
    dictionary: u16,
    progress: Progress,
}

enum NextRead {
    /// Reads settings and dictionaries.
    Meta,
    /// Reads values, from an id on.
    Values(u128),
    /// Reads the settings once more, as they are after all values.
    MetaAgain,
    Nothing,
}

impl VerifyValues {
    pub(crate) fn new(column: ColumnName, progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            column,
            next: NextRead::Meta,
            verified: Verified::default(),
            dictionary: 0,
            progress: Box::new(progress),
        }
    }

    pub(crate) fn into_verified(self) -> Verified {
        self.verified
    }
}

impl Work for VerifyValues {
    fn is_done(&self) -> bool {
        matches!(self.next, NextRead::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match self.next {
            NextRead::Meta | NextRead::MetaAgain => statements.read_meta(dialect),
            NextRead::Values(from) => {
                statements.stale_values(dialect, &self.column, from, &NO_HEADER, BODIES)
            }
            NextRead::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let answer = rows(on, answer)?;
        self.next = match self.next {
            NextRead::Meta => {
                self.verified.problems = on.table.verify_meta(answer)?;
                NextRead::Values(0)
            }
            NextRead::Values(_) => {
                let state = on.state()?;
                let found = read_values(on, &answer)?;
                for (id, body) in &found {
                    match on.table.open_value(&state, *id, body) {
                        Ok(_) => {
                            self.verified.values += 1;
                            let dictionary = PackCipher::dictionary_id(body).unwrap_or(0);
                            self.dictionary = self.dictionary.max(dictionary);
                        }
                        Err(problem) => self.verified.problems.push(problem),
                    }
                }
                (self.progress)(self.verified.values);
                let after = found.last().and_then(|(id, _)| on.table.statements.ids().after(*id));
                after.map_or(NextRead::MetaAgain, NextRead::Values)
            }
            NextRead::MetaAgain => {
                let problems = verify::settings(on, answer, self.dictionary)?;
                self.verified.problems.extend(problems);
                NextRead::Nothing
            }
            NextRead::Nothing => NextRead::Nothing,
        };
        Ok(())
    }
}
