use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::verify::Progress;
use super::{On, Work, changed, rows};
use crate::error::Refusal;
use crate::split;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// How many bodies a statement reads.
const BODIES: i64 = 64;

/// What a rekeying has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rekeyed {
    /// How many packs were sealed anew.
    pub packs: u64,
    /// How many recent rows were sealed anew.
    pub rows: u64,
    /// How many of either, and of settings and dictionaries, were changed by another client meanwhile. They are sealed with
    /// that client's secret.
    pub lost: u64,
}

/// Seals anew what is sealed with another secret or compressed with another dictionary than the current ones: settings and
/// dictionaries, then packs, then recent rows. Whatever is current already is skipped, so that a run that ends early is
/// continued by the next one.
pub struct Rekey {
    next: Next,
    /// Settings and dictionaries, the last one first.
    meta: Vec<Stored>,
    found: Vec<(Tier, Stored)>,
    rekeyed: Rekeyed,
    /// The first that cannot be read. Others do not wait for it.
    problem: Option<Refusal>,
    progress: Progress,
}

enum Next {
    ReadMeta,
    UpdateMeta(Stored),
    /// Reads what is stale, from an id on.
    Read(Tier, Option<u128>),
    WritePacks(u128, i64, Vec<Stored>),
    Replace(i64, Stored),
    Nothing,
}

impl Rekey {
    pub(crate) fn new(progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            progress: Box::new(progress),
            next: Next::ReadMeta,
            meta: Vec::new(),
            found: Vec::new(),
            rekeyed: Rekeyed::default(),
            problem: None,
        }
    }

    /// Returns what was sealed anew, and the first that could not be read.
    pub(crate) fn into_outcome(self) -> (Rekeyed, Option<Refusal>) {
        (self.rekeyed, self.problem)
    }

    fn next_meta(&mut self) -> Next {
        match self.meta.pop() {
            Some(stored) => Next::UpdateMeta(stored),
            None => Next::Read(Tier::Packs, Some(0)),
        }
    }

    /// Returns what to write next of what was read, or where to read on from `last`.
    fn next_body(&mut self, on: &On<'_>, mut last: (Tier, u128)) -> Next {
        while let Some((tier, stored)) = self.found.pop() {
            match reseal(on, tier, &stored) {
                Ok(next) => return next,
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    last = (tier, stored.id);
                }
            }
        }
        Next::Read(last.0, on.table.statements.ids().after(last.1))
    }
}

fn reseal(on: &On<'_>, tier: Tier, stored: &Stored) -> Result<Next, Refusal> {
    let state = on.state()?;
    Ok(match tier {
        Tier::Packs => {
            let pack = on.table.open_pack(&state, on.context, stored)?;
            let packs = split::seal(on.table, &state, stored.version, Arc::unwrap_or_clone(pack))?;
            Next::WritePacks(stored.id, stored.version, packs)
        }
        Tier::Recent => {
            let row = on.table.open_row(&state, stored)?;
            let row = on.table.seal_row(&state, stored.id, &row)?;
            Next::Replace(stored.version, row)
        }
    })
}

impl Work for Rekey {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match &self.next {
            Next::ReadMeta => Some(statements.read_meta(dialect)),
            Next::UpdateMeta(stored) => Some(statements.update_meta(dialect, stored)),
            Next::Read(tier, Some(from)) => {
                let header = table.current_header()?;
                Some(statements.stale(dialect, *tier, *from, &header, BODIES))
            }
            Next::Read(_, None) | Next::Nothing => None,
            Next::WritePacks(_, version, packs) => {
                Some(statements.write_packs(dialect, *version, packs))
            }
            Next::Replace(version, row) => Some(statements.replace(dialect, *version, row)),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        let mut count = |answer: &Answer, done: fn(&mut Rekeyed)| {
            match changed(on, answer)? {
                0 => self.rekeyed.lost += 1,
                _ => done(&mut self.rekeyed),
            }
            (self.progress)(self.rekeyed.packs + self.rekeyed.rows);
            Ok::<_, Refusal>(())
        };
        self.next = match &self.next {
            Next::ReadMeta => {
                let rows = rows(on, answer)?;
                for resealed in on.table.reseal_meta(rows.clone())? {
                    match resealed {
                        Ok(stored) => self.meta.push(stored),
                        Err(problem) => {
                            self.problem.get_or_insert(problem);
                        }
                    }
                }
                on.table.learn(on.context, rows)?;
                self.next_meta()
            }
            Next::UpdateMeta(_) => {
                count(&answer, |_| {})?;
                self.next_meta()
            }
            &Next::Read(tier, _) => {
                self.found = on.table.read(rows(on, answer)?)?;
                self.found.reverse();
                match (self.found.first().map(|(_, stored)| stored.id), tier) {
                    (Some(last), _) => self.next_body(on, (tier, last)),
                    (None, Tier::Packs) => Next::Read(Tier::Recent, Some(0)),
                    (None, Tier::Recent) => Next::Nothing,
                }
            }
            &Next::WritePacks(id, ..) => {
                count(&answer, |rekeyed| rekeyed.packs += 1)?;
                self.next_body(on, (Tier::Packs, id))
            }
            Next::Replace(_, row) => {
                let id = row.id;
                count(&answer, |rekeyed| rekeyed.rows += 1)?;
                self.next_body(on, (Tier::Recent, id))
            }
            Next::Nothing => Next::Nothing,
        };
        // After the largest id of the packs come the rows.
        if let Next::Read(tier, None) = self.next {
            self.next = match tier {
                Tier::Packs => Next::Read(Tier::Recent, Some(0)),
                Tier::Recent => Next::Nothing,
            };
        }
        Ok(())
    }
}
