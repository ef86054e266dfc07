//! Walks the values of a column in the order of their ids: encrypts them again, or reads them. The application may write meanwhile.

use std::time::Duration;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Cell, Statement};

use super::rekey::Sweep;
use super::verify::{self, BODIES, NO_HEADER, Progress, Verified};
use super::{On, Rekey, Rekeyed, Work, changed, rows};
use crate::column::ColumnName;
use crate::error::Problem;
use crate::format::{Kind, PackCipher};
use crate::statement::Tier;
use crate::table::Table;

/// Reads the keys that a value needs, or makes them: its group's, and before that its dictionary.
pub struct ValueKeys {
    /// The group of a value that is to be encrypted.
    group: Option<u128>,
    /// A value to decrypt, and its row's key.
    value: Option<(u128, Vec<u8>)>,
}

impl ValueKeys {
    pub(crate) fn to_encrypt(group: Option<u128>) -> Self {
        Self { group, value: None }
    }

    pub(crate) fn to_decrypt(id: u128, body: &[u8]) -> Self {
        Self { group: None, value: Some((id, body.to_owned())) }
    }
}

impl Work for ValueKeys {
    fn is_done(&self) -> bool {
        true
    }

    fn next(&self, _: &Table, _: Dialect) -> Option<Statement> {
        None
    }

    fn answer(&mut self, _: &On<'_>, _: Answer) -> Result<(), Problem> {
        Ok(())
    }

    fn groups(&self) -> Vec<u128> {
        self.group.into_iter().collect()
    }

    fn groups_to_read(&self, table: &Table) -> Vec<u128> {
        let value = self.value.as_ref();
        value.and_then(|(id, body)| table.group_of_value(*id, body)).into_iter().collect()
    }
}

/// Encrypts again what is under another secret or dictionary than the current ones: settings, dictionaries and keys of groups, then
/// values. A value is replaced only if it is still the one that was read. Whatever is current is skipped, so that a run that ends early
/// is continued by the next one.
pub struct RekeyValues {
    column: ColumnName,
    next: Next,
    /// Ids and values, the last one first.
    found: Vec<(u128, Vec<u8>)>,
    rekeyed: Rekeyed,
    /// The first that cannot be read. Others do not wait for it.
    problem: Option<Problem>,
    progress: Progress,
    sweep: Option<Sweep>,
}

enum Next {
    /// Encrypts the rest again.
    First(Box<Rekey>),
    /// Reads values from an id on: all, or only values with another header.
    Read(u128, Option<[u8; 3]>),
    Replace {
        id: u128,
        from: Vec<u8>,
        to: Vec<u8>,
    },
    /// Deletes the dictionaries before this one.
    DeleteDictionaries(u16),
    Nothing,
}

impl RekeyValues {
    pub(crate) fn new(column: ColumnName, progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            column,
            next: Next::First(Box::new(Rekey::of_column())),
            found: Vec::new(),
            rekeyed: Rekeyed::default(),
            problem: None,
            progress: Box::new(progress),
            sweep: None,
        }
    }

    /// Also deletes the dictionaries that have not been current for this time.
    pub(crate) fn sweeping(self, unused_for: Duration) -> Self {
        Self { sweep: Some(Sweep::new(unused_for)), ..self }
    }

    /// Returns what was encrypted again, and the first that could not be read.
    pub(crate) fn into_outcome(self) -> (Rekeyed, Option<Problem>) {
        (self.rekeyed, self.problem)
    }

    /// Returns the next state: a write of one of the values that were read, or a read from `last` on.
    fn next_value(&mut self, on: &On<'_>, mut last: u128) -> Result<Next, Problem> {
        let state = on.state()?;
        while let Some((id, from)) = self.found.pop() {
            let is_current = from.starts_with(&on.table.current_header(Tier::Recent)?);
            let value = match on.table.open_value(&state, id, &from, on.groups) {
                // The ciphertext of an erased group makes room for a mark.
                Err(Problem::Erased { .. })
                    if self.sweep.is_some()
                        && (!is_current || on.table.group_of_value(id, &from).is_some()) =>
                {
                    Ok(None)
                }
                Ok(value) if !is_current => Ok(Some(value)),
                Ok(_) | Err(Problem::Erased { .. }) => {
                    last = id;
                    continue;
                }
                Err(problem) => Err(problem),
            };
            match value.and_then(|value| on.table.encrypt_value(&state, id, value, on.groups)) {
                Ok(to) => return Ok(Next::Replace { id, from, to }),
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    last = id;
                }
            }
        }
        self.read(on, on.table.statements.ids().after(last))
    }

    /// Returns the state that reads from an id on. After the largest id, a sweep deletes dictionaries.
    fn read(&mut self, on: &On<'_>, from: Option<u128>) -> Result<Next, Problem> {
        if let Some(from) = from {
            let has_erased = self.sweep.is_some() && on.state()?.groups.is_some();
            let header = on.table.current_header(Tier::Recent)?;
            return Ok(Next::Read(from, (!has_erased).then_some(header)));
        }
        let Some(sweep) = self.sweep else { return Ok(Next::Nothing) };
        let unused = sweep.end(on, self.problem.as_ref(), &mut self.rekeyed)?;
        Ok(unused.map_or(Next::Nothing, Next::DeleteDictionaries))
    }
}

/// Reads a page of values. In a table whose key has several columns, values may have the same id. A page that ends among them leaves them all
/// to the next one, because that begins after the last id.
fn read_values(on: &On<'_>, answer: &[Vec<Cell>]) -> Result<Vec<(u128, Vec<u8>)>, Problem> {
    let values = on.table.statements.read_values(answer);
    let mut values = values.ok_or_else(|| on.table.columns())?;
    let ends = values.first().zip(values.last()).map(|(first, last)| (first.0, last.0));
    let is_full = i64::try_from(values.len()).is_ok_and(|count| count >= BODIES);
    match ends.filter(|_| is_full) {
        Some((first, last)) if first == last => Err(Problem::Value {
            location: on.table.location(Kind::Value, last),
            reason: format!("expected an id of its own, found {BODIES} values or more with it"),
        }),
        Some((_, last)) => {
            values.retain(|(id, _)| *id < last);
            Ok(values)
        }
        None => Ok(values),
    }
}

impl Work for RekeyValues {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let (statements, column) = (&table.statements, &self.column);
        match &self.next {
            Next::First(rekey) => rekey.next(table, dialect),
            Next::Read(from, header) => {
                let header = header.as_ref().map_or(&NO_HEADER[..], |header| header);
                Some(statements.stale_values(dialect, column, *from, header, BODIES))
            }
            Next::Replace { id, from, to } => {
                Some(statements.replace_value(dialect, column, *id, from, to))
            }
            Next::DeleteDictionaries(before) => {
                Some(statements.delete_dictionaries(dialect, *before))
            }
            Next::Nothing => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::First(mut rekey) => {
                rekey.answer(on, answer)?;
                if rekey.is_done() {
                    (self.rekeyed, self.problem) = rekey.into_outcome();
                    self.sweep.as_mut().map_or(Ok(()), |sweep| sweep.begin(on))?;
                    self.read(on, Some(0))?
                } else {
                    Next::First(rekey)
                }
            }
            Next::Read(..) => {
                self.found = read_values(on, &rows(on, answer)?)?;
                self.found.reverse();
                match self.found.first().map(|(id, _)| *id) {
                    Some(last) => self.next_value(on, last)?,
                    None => self.read(on, None)?,
                }
            }
            Next::Replace { id, .. } => {
                match changed(on, &answer)? {
                    0 => self.rekeyed.lost += 1,
                    _ => self.rekeyed.rows += 1,
                }
                (self.progress)(self.rekeyed.rows);
                self.next_value(on, id)?
            }
            Next::DeleteDictionaries(_) => {
                self.rekeyed.dictionaries = changed(on, &answer)?;
                Next::Nothing
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
                    match on.table.open_value(&state, *id, body, on.groups) {
                        Ok(_) | Err(Problem::Erased { .. }) => {
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
