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
    tier: Tier,
    from: Option<u128>,
    progress: Progress,
    /// Where the next pack must begin, and the pack before it.
    expected: Option<(Option<u128>, u128)>,
    verified: Verified,
}

impl Verify {
    pub(crate) fn new(progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            tier: Tier::Packs,
            from: Some(0),
            progress: Box::new(progress),
            expected: None,
            verified: Verified::default(),
        }
    }

    pub(crate) fn into_verified(self) -> Verified {
        self.verified
    }

    fn pack(&mut self, on: &On<'_>, stored: &Stored) -> Result<(), Refusal> {
        let state = on.state()?;
        let gap = |id| Refusal::Gap {
            place: on.table.place(Kind::Pack, id),
        };
        match self.expected.take() {
            None if stored.id > 0 => self.verified.problems.push(Refusal::Gap {
                place: format!("the beginning of {}_packs", on.table.name()),
            }),
            Some((Some(end), before)) if end != stored.id => {
                self.verified.problems.push(gap(before));
            }
            Some((None, before)) if before < stored.id => self.verified.problems.push(gap(before)),
            _ => {}
        }
        match on.table.open_pack(&state, on.context, stored) {
            Ok(pack) => {
                self.verified.packs += 1;
                self.verified.packed_rows += pack.rows.len() as u64;
                self.expected = Some((pack.end, pack.id));
            }
            Err(problem) => {
                self.verified.problems.push(problem);
                // Nothing is known of where it ends.
                self.expected = Some((None, u128::MAX));
            }
        }
        Ok(())
    }
}

impl Work for Verify {
    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(statements.stale(dialect, self.tier, self.from?, &NO_HEADER, BODIES))
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        let state = on.state()?;
        let found = on.table.read(rows(on, answer)?)?;
        for (tier, stored) in &found {
            match tier {
                Tier::Packs => self.pack(on, stored)?,
                Tier::Recent => match on.table.open_row(&state, stored) {
                    Ok(_) => self.verified.recent_rows += 1,
                    Err(problem) => self.verified.problems.push(problem),
                },
            }
        }
        let ids = on.table.statements.ids();
        let last = found.last().and_then(|(_, stored)| ids.after(stored.id));
        self.from = match (last, self.tier) {
            (Some(from), _) => Some(from),
            (None, Tier::Packs) => {
                let place = match self.expected {
                    None => Some(format!("{}_packs", on.table.name())),
                    Some((Some(_), before)) => Some(on.table.place(Kind::Pack, before)),
                    Some((None, _)) => None,
                };
                let gap = place.map(|place| Refusal::Gap { place });
                self.verified.problems.extend(gap);
                self.tier = Tier::Recent;
                Some(0)
            }
            (None, Tier::Recent) => None,
        };
        let Verified {
            packs, recent_rows, ..
        } = &self.verified;
        (self.progress)(packs + recent_rows);
        Ok(())
    }
}
