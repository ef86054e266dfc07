use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Refusal;
use crate::format::Kind;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// How many bodies a statement reads.
const BODIES: i64 = 64;

/// Longer than what it is compared with, and so different from all of it.
const NO_HEADER: [u8; 4] = [0; 4];

/// What a verification has read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many packs could be read.
    pub packs: u64,
    /// How many rows they have.
    pub packed_rows: u64,
    /// How many recent rows could be read, with the marks of deleted ones.
    pub recent_rows: u64,
    /// What could not be read, and what is missing, each with its id as it is in the database.
    pub problems: Vec<Refusal>,
}

/// Is told how many packs and rows are done.
pub(super) type Progress = Box<dyn FnMut(u64) + Send>;

/// Reads all packs and all recent rows, and finds what is corrupt or missing. It changes nothing.
pub struct Verify {
    next: Next,
    progress: Progress,
    verified: Verified,
}

enum Next {
    /// Reads settings and dictionaries.
    Meta,
    /// Reads bodies, from an id on.
    Bodies(Tier, u128),
    Nothing,
}

impl Verify {
    pub(crate) fn new(progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            next: Next::Meta,
            progress: Box::new(progress),
            verified: Verified::default(),
        }
    }

    pub(crate) fn into_verified(self) -> Verified {
        self.verified
    }

    /// Reads a page of packs, which begins with the last one of the page before: it may have been split meanwhile, and where
    /// it ends now is known in this snapshot only.
    fn packs(
        &mut self,
        on: &On<'_>,
        found: &[Stored],
        is_first: bool,
        is_last: bool,
    ) -> Result<(), Refusal> {
        let state = on.state()?;
        if is_first && found.first().is_none_or(|stored| stored.id > 0) {
            self.verified.problems.push(Refusal::Gap {
                place: format!("the beginning of {}_packs", on.table.name()),
            });
        }
        let next = found.iter().skip(1).map(|stored| Some(stored.id));
        for (i, (stored, next)) in found.iter().zip(next.chain([None])).enumerate() {
            let is_new = is_first || i > 0;
            match on.table.open_pack(&state, on.context, stored) {
                Ok(pack) => {
                    if is_new {
                        self.verified.packs += 1;
                        self.verified.packed_rows += pack.rows.len() as u64;
                    }
                    if pack.end != next && (next.is_some() || is_last) {
                        self.verified.problems.push(Refusal::Gap {
                            place: on.table.place(Kind::Pack, pack.id),
                        });
                    }
                }
                Err(problem) if is_new => self.verified.problems.push(problem),
                Err(_) => {}
            }
        }
        Ok(())
    }

    fn recent(&mut self, on: &On<'_>, found: &[Stored]) -> Result<(), Refusal> {
        let state = on.state()?;
        for stored in found {
            match on.table.open_row(&state, stored) {
                Ok(_) => self.verified.recent_rows += 1,
                Err(problem) => self.verified.problems.push(problem),
            }
        }
        Ok(())
    }
}

impl Work for Verify {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match self.next {
            Next::Meta => Some(statements.read_meta(dialect)),
            Next::Bodies(tier, from) => {
                Some(statements.stale(dialect, tier, from, &NO_HEADER, BODIES))
            }
            Next::Nothing => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        let answer = rows(on, answer)?;
        let (tier, from) = match self.next {
            Next::Meta => {
                self.verified.problems = on.table.verify_meta(answer)?;
                self.next = Next::Bodies(Tier::Packs, 0);
                return Ok(());
            }
            Next::Bodies(tier, from) => (tier, from),
            Next::Nothing => return Ok(()),
        };
        let found = on.table.read(answer)?;
        let found: Vec<_> = found.into_iter().map(|(_, stored)| stored).collect();
        let is_last = i64::try_from(found.len()).is_ok_and(|found| found < BODIES);
        let last = found.last().filter(|_| !is_last).map(|stored| stored.id);
        self.next = match tier {
            Tier::Packs => {
                self.packs(on, &found, from == 0, is_last)?;
                match last {
                    Some(last) => Next::Bodies(Tier::Packs, last),
                    None => Next::Bodies(Tier::Recent, 0),
                }
            }
            Tier::Recent => {
                self.recent(on, &found)?;
                match last.and_then(|last| on.table.statements.ids().after(last)) {
                    Some(from) => Next::Bodies(Tier::Recent, from),
                    None => Next::Nothing,
                }
            }
        };
        (self.progress)(self.verified.packs + self.verified.recent_rows);
        Ok(())
    }
}
