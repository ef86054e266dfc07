//! Encrypts everything again that is under another secret or dictionary than the current ones. A sweep also rewrites the packs that have
//! rows of erased groups, and then deletes the dictionaries that nothing needs. A run that ends early is continued by the next one.

use std::sync::Arc;
use std::time::Duration;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::verify::{BODIES, NO_HEADER, Progress};
use super::{On, Work, changed, rows};
use crate::error::Problem;
use crate::settings::unix_seconds;
use crate::split;
use crate::statement::{IfLocked, Stored, Tier};
use crate::table::{Context, Table};

/// The result of a rekeying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rekeyed {
    /// How many packs were encrypted again.
    pub packs: u64,
    /// How many recent rows, or values of a column, were encrypted again.
    pub rows: u64,
    /// How many of either, and of settings, dictionaries and keys of groups, another client has changed meanwhile or has locked. The next run
    /// finds them.
    pub lost: u64,
    /// How many dictionaries a sweep has deleted.
    pub dictionaries: u64,
    /// How many old dictionaries a sweep has kept, because something could not be encrypted again or because the current dictionary is
    /// too new.
    pub dictionaries_left: u64,
}

/// Encrypts again everything that is under another secret or dictionary than the current ones: settings and
/// dictionaries, then the keys of groups, then packs, then recent rows. Whatever is current already is skipped, so that a run that ends early is
/// continued by the next one.
pub struct Rekey {
    next: Next,
    /// Settings and dictionaries, the last one first.
    meta: Vec<Stored>,
    found: Vec<(Tier, Stored)>,
    /// Of the statement that has found them. Others of this process may have seen later ones since.
    read: Option<Context>,
    rekeyed: Rekeyed,
    /// The first that cannot be read. Others do not wait for it.
    problem: Option<Problem>,
    progress: Progress,
    /// Whether there are no packs and recent rows.
    is_column: bool,
    sweep: Option<Sweep>,
}

/// Deletes the dictionaries that nothing needs after everything was encrypted again.
#[derive(Clone, Copy)]
pub(super) struct Sweep {
    /// For how long a dictionary must not have been current.
    unused_for: Duration,
    /// The dictionary that was the current one when the walk began.
    dictionary: u16,
}

impl Sweep {
    pub(super) fn new(unused_for: Duration) -> Self {
        Self { unused_for, dictionary: 0 }
    }

    /// Notes the current dictionary, because everything that is read from now on gets it or a later one.
    pub(super) fn begin(&mut self, on: &On<'_>) -> Result<(), Problem> {
        on.table.forget_keys();
        self.dictionary = on.state()?.contents.dictionary;
        Ok(())
    }

    /// Returns the dictionary that everything has now, if those before it can be deleted: nobody has trained another one meanwhile, and no
    /// client still writes with them. A transaction does not see what others write.
    pub(super) fn end(
        self,
        on: &On<'_>,
        problem: Option<&Problem>,
        rekeyed: &mut Rekeyed,
    ) -> Result<Option<u16>, Problem> {
        let state = on.state()?;
        let (contents, old) = (&state.contents, state.dictionaries_before(self.dictionary));
        let age = unix_seconds().saturating_sub(contents.dictionary_since);
        let is_unused = problem.is_none()
            && rekeyed.lost == 0
            && contents.dictionary == self.dictionary
            && age >= self.unused_for.as_secs()
            && !on.context.is_in_transaction;
        match is_unused && old > 0 {
            true => Ok(Some(self.dictionary)),
            false => {
                rekeyed.dictionaries_left = if is_unused { 0 } else { old };
                Ok(None)
            }
        }
    }
}

enum Next {
    ReadMeta,
    UpdateMeta(Stored),
    /// Reads bodies from an id on: all, or only bodies with another header.
    Read(Tier, u128, Option<[u8; 3]>),
    /// Replaces a pack of this version, before the pack with this id.
    WritePacks(i64, Option<u128>, Vec<Stored>),
    Replace(i64, Stored),
    UpdateKey(i64, Stored),
    /// Deletes the dictionaries before this one.
    DeleteDictionaries(u16),
    Nothing,
}

impl Rekey {
    pub(crate) fn new(progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            progress: Box::new(progress),
            next: Next::ReadMeta,
            meta: Vec::new(),
            found: Vec::new(),
            read: None,
            rekeyed: Rekeyed::default(),
            problem: None,
            is_column: false,
            sweep: None,
        }
    }

    /// Also rewrites bodies with rows of erased groups, and deletes the dictionaries that have not been current for this time.
    pub(crate) fn sweeping(self, unused_for: Duration) -> Self {
        Self { sweep: Some(Sweep::new(unused_for)), ..self }
    }

    /// Encrypts again what a column has besides its values.
    pub(crate) fn of_column() -> Self {
        Self { is_column: true, ..Self::new(|_| {}) }
    }

    /// Returns what was encrypted again, and the first that could not be read.
    pub(crate) fn into_outcome(self) -> (Rekeyed, Option<Problem>) {
        (self.rekeyed, self.problem)
    }

    fn next_meta(&mut self, on: &On<'_>) -> Result<Next, Problem> {
        match self.meta.pop() {
            Some(stored) => Ok(Next::UpdateMeta(stored)),
            None if on.state()?.groups.is_some() => self.read(on, Tier::Keys, Some(0)),
            None => self.read(on, Tier::Keys, None),
        }
    }

    /// Returns the next state: a write of one of the bodies that were read, or a read from `last` on.
    fn next_body(&mut self, on: &On<'_>, mut last: (Tier, u128)) -> Result<Next, Problem> {
        while let Some((tier, stored)) = self.found.pop() {
            let is_swept = self.sweep.is_some();
            match reencrypt(on, self.read.unwrap_or(on.context), tier, &stored, is_swept) {
                Ok(Some(next)) => return Ok(next),
                Ok(None) => last = (tier, stored.id),
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    last = (tier, stored.id);
                }
            }
        }
        let ids = on.table.statements.ids();
        let after = match last.0 {
            Tier::Keys => last.1.checked_add(1),
            Tier::Packs | Tier::Recent => ids.after(last.1),
        };
        self.read(on, last.0, after)
    }

    /// Returns the state that reads from an id on. After the largest id of a tier comes the next one.
    fn read(&mut self, on: &On<'_>, tier: Tier, from: Option<u128>) -> Result<Next, Problem> {
        let (tier, from) = match (tier, from) {
            (tier, Some(from)) => (tier, from),
            (Tier::Keys, None) if !self.is_column => (Tier::Packs, 0),
            (Tier::Packs, None) => (Tier::Recent, 0),
            (Tier::Keys, None) => return Ok(Next::Nothing),
            (Tier::Recent, None) => {
                let Some(sweep) = self.sweep else { return Ok(Next::Nothing) };
                let unused = sweep.end(on, self.problem.as_ref(), &mut self.rekeyed)?;
                return Ok(unused.map_or(Next::Nothing, Next::DeleteDictionaries));
            }
        };
        let has_erased = self.sweep.is_some() && tier != Tier::Keys && on.state()?.groups.is_some();
        let header = on.table.current_header(tier)?;
        Ok(Next::Read(tier, from, (!has_erased).then_some(header)))
    }
}

/// Returns the statement that writes a body again, or `None` if a sweep leaves it as it is.
fn reencrypt(
    on: &On<'_>,
    read: Context,
    tier: Tier,
    stored: &Stored,
    is_swept: bool,
) -> Result<Option<Next>, Problem> {
    let state = on.state()?;
    let is_current = || Ok(stored.body.starts_with(&on.table.current_header(tier)?));
    if is_swept && is_current()? && !on.table.has_erased(&state, tier, stored, on.groups) {
        return Ok(None);
    }
    Ok(Some(match tier {
        Tier::Packs => {
            let pack = on.table.open_pack(&state, read, stored, on.groups)?;
            let pack = Arc::unwrap_or_clone(pack);
            let packs = split::encrypt(on.table, &state, stored.version, pack, on.groups)?;
            Next::WritePacks(stored.version, stored.next, packs)
        }
        Tier::Keys => Next::UpdateKey(stored.version, on.table.reencrypt_key(stored)?),
        Tier::Recent => {
            let row = on.table.open_row(&state, stored, on.groups)?;
            let row = on.table.encrypt_row(&state, stored.id, &row, on.groups)?;
            Next::Replace(stored.version, row)
        }
    }))
}

impl Work for Rekey {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match &self.next {
            Next::ReadMeta => statements.read_meta(dialect),
            Next::UpdateMeta(stored) => statements.update_meta(dialect, stored),
            Next::Read(tier, from, header) => {
                let header = header.as_ref().map_or(&NO_HEADER[..], |header| header);
                statements.stale(dialect, *tier, *from, header, BODIES)
            }
            Next::WritePacks(version, next, packs) => {
                statements.write_packs(dialect, *version, packs, IfLocked::Skip(*next))
            }
            Next::UpdateKey(version, key) => statements.update_key(dialect, *version, key),
            Next::Replace(version, row) => statements.replace(dialect, *version, row, None),
            Next::DeleteDictionaries(before) => statements.delete_dictionaries(dialect, *before),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let mut count = |answer: &Answer, done: fn(&mut Rekeyed)| {
            match changed(on, answer)? {
                0 => self.rekeyed.lost += 1,
                _ => done(&mut self.rekeyed),
            }
            (self.progress)(self.rekeyed.packs + self.rekeyed.rows);
            Ok::<_, Problem>(())
        };
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
                self.sweep.as_mut().map_or(Ok(()), |sweep| sweep.begin(on))?;
                self.next_meta(on)?
            }
            Next::UpdateMeta(_) => {
                count(&answer, |_| {})?;
                self.next_meta(on)?
            }
            &Next::Read(tier, ..) => {
                let found = on.table.read_tier(tier, rows(on, answer)?)?;
                self.read = Some(on.context);
                self.found = found.into_iter().rev().map(|stored| (tier, stored)).collect();
                match self.found.first().map(|(_, stored)| stored.id) {
                    Some(last) => self.next_body(on, (tier, last))?,
                    None => self.read(on, tier, None)?,
                }
            }
            Next::WritePacks(_, _, packs) => {
                let id = packs[0].id;
                count(&answer, |rekeyed| rekeyed.packs += 1)?;
                self.next_body(on, (Tier::Packs, id))?
            }
            Next::UpdateKey(_, key) => {
                let id = key.id;
                count(&answer, |_| {})?;
                self.next_body(on, (Tier::Keys, id))?
            }
            Next::Replace(_, row) => {
                let id = row.id;
                count(&answer, |rekeyed| rekeyed.rows += 1)?;
                self.next_body(on, (Tier::Recent, id))?
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
