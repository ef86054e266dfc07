//! Reads everything and lists corrupt and missing packs. It changes nothing.

use std::fmt;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Cell, Statement};

use super::{On, Work, rows};
use crate::error::Problem;
use crate::format::{FormatError, Kind, PackCipher};
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// How many bodies a statement reads.
pub(super) const BODIES: i64 = 64;

/// A header of the wrong length, so it never matches.
pub(super) const NO_HEADER: [u8; 4] = [0; 4];

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// How many packs could be read.
    pub packs: u64,
    /// How many rows they have.
    pub packed_rows: u64,
    /// How many recent rows could be read, with the marks of deleted ones.
    pub recent_rows: u64,
    /// How many values of a column could be read.
    pub values: u64,
    /// Unreadable and missing packs and rows. [`Problem::location`] has the id as it is in the database.
    pub problems: Vec<Problem>,
    /// The keys of packs and recent rows that cannot be read or are missing.
    pub(crate) damage: Vec<Damage>,
}

/// Keys whose packs cannot be read or are missing, from the first one up to the last, or the key of a recent row that cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    pub(crate) first: u128,
    /// The key after the last one: the id of the next pack.
    pub(crate) end: Option<u128>,
    /// The version of a recent row.
    pub(crate) recent: Option<i64>,
    /// Whether no other keyring and no dictionary can read the pack or the row.
    pub(crate) is_certain: bool,
}

impl Damage {
    /// Returns the damage of packs from a key up to the next pack.
    fn of_packs(first: u128, end: Option<u128>) -> Self {
        Self { first, end, recent: None, is_certain: true }
    }
}

/// Without the keys.
impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Damage(..)")
    }
}

/// A function that receives the number of packs and rows that are done.
pub(super) type Progress = Box<dyn FnMut(u64) + Send>;

/// Reads all packs and all recent rows, and finds what is corrupt or missing. It changes nothing.
pub struct Verify {
    next: Next,
    progress: Progress,
    verified: Verified,
    /// The latest dictionary that a body has.
    dictionary: u16,
    /// Whether something could be read that is encrypted with the secret of a key id.
    can_open: [bool; 4],
    /// The places of damage that is certain only if the secret of this key id is the right one.
    in_doubt: Vec<(usize, usize)>,
}

enum Next {
    /// Reads settings and dictionaries.
    Meta,
    /// Reads bodies, from an id on.
    Bodies(Tier, u128),
    /// Reads the settings once more, as they are after all bodies.
    MetaAgain,
    Nothing,
}

impl Verify {
    pub(crate) fn new(progress: impl FnMut(u64) + Send + 'static) -> Self {
        Self {
            next: Next::Meta,
            progress: Box::new(progress),
            verified: Verified::default(),
            dictionary: 0,
            can_open: [false; 4],
            in_doubt: Vec::new(),
        }
    }

    pub(crate) fn into_verified(self) -> Verified {
        self.verified
    }

    /// Notes a body that cannot be read.
    fn unreadable(&mut self, problem: Problem, stored: &Stored, damage: Damage) {
        if let Problem::Unreadable { source: FormatError::NotGenuine, .. } = problem {
            self.in_doubt.push((self.verified.damage.len(), key_id(stored)));
        }
        self.damaged(problem, damage);
    }

    /// Notes keys without a body that can be read.
    fn damaged(&mut self, problem: Problem, damage: Damage) {
        use FormatError::{Dictionary, NoDictionary, NoGroupKey, UnknownKeyId, Version};
        let is_certain = !matches!(
            problem,
            // The server may show another state to the next who asks.
            Problem::Older { .. }
                | Problem::Unreadable {
                    source: Dictionary { .. }
                        | NoDictionary { .. }
                        | NoGroupKey
                        | UnknownKeyId { .. }
                        | Version { .. },
                    ..
                }
        );
        self.verified.problems.push(problem);
        self.verified.damage.push(Damage { is_certain, ..damage });
    }

    fn packs(&mut self, on: &On<'_>, found: &[Stored], is_first: bool) -> Result<(), Problem> {
        let state = on.state()?;
        let first = found.first().map(|stored| stored.id);
        if is_first && first != Some(0) {
            let location = on.table.packs();
            self.damaged(Problem::Gap { location }, Damage::of_packs(0, first));
        }
        for stored in found {
            match on.table.open_readable(&state, on.context, stored, on.groups) {
                Ok((pack, unreadable)) => {
                    // The pack is genuine, so a backup has nothing better: its keys of groups are missing.
                    self.verified
                        .problems
                        .extend(unreadable.into_iter().map(|(_, problem)| problem));
                    self.verified.packs += 1;
                    self.verified.packed_rows += pack.rows.len() as u64;
                    self.has_opened(stored);
                    if let (true, Some(end)) = (pack.end != stored.next, pack.end) {
                        let location = on.table.location(Kind::Pack, pack.id);
                        self.damaged(Problem::Gap { location }, Damage::of_packs(end, stored.next));
                    }
                }
                Err(problem) => {
                    self.unreadable(problem, stored, Damage::of_packs(stored.id, stored.next));
                }
            }
        }
        Ok(())
    }

    fn recent(&mut self, on: &On<'_>, found: &[Stored]) -> Result<(), Problem> {
        let state = on.state()?;
        for stored in found {
            match on.table.open_row(&state, stored, on.groups) {
                Ok(_) => {
                    self.verified.recent_rows += 1;
                    self.has_opened(stored);
                }
                // The row is genuine, so a backup has nothing better.
                Err(problem @ Problem::Unreadable { source: FormatError::NoGroupKey, .. }) => {
                    self.verified.problems.push(problem);
                }
                Err(problem) => {
                    let end = on.table.statements.ids().after(stored.id);
                    let damage = Damage::of_packs(stored.id, end);
                    let recent = Some(stored.version);
                    self.unreadable(problem, stored, Damage { recent, ..damage });
                }
            }
        }
        Ok(())
    }

    fn keys(&mut self, on: &On<'_>, found: &[Stored]) {
        let problems = found.iter().filter_map(|stored| on.table.open_key(stored).err());
        self.verified.problems.extend(problems);
    }

    fn has_opened(&mut self, stored: &Stored) {
        let found = PackCipher::dictionary_id(&stored.body).unwrap_or(0);
        self.dictionary = self.dictionary.max(found);
        self.can_open[key_id(stored)] = true;
    }

    /// Checks that the settings are not older than the rows: the number of the dictionary only increases.
    fn settings(&mut self, on: &On<'_>, answer: Vec<Vec<Cell>>) -> Result<(), Problem> {
        self.verified.problems.extend(settings(on, answer, self.dictionary)?);
        Ok(())
    }
}

/// Reads the settings again, and returns what is wrong with them, also if they are older than the latest dictionary of a body.
pub(super) fn settings(
    on: &On<'_>,
    answer: Vec<Vec<Cell>>,
    expected: u16,
) -> Result<Vec<Problem>, Problem> {
    let mut problems = Vec::new();
    match on.table.learn(on.context, answer) {
        Ok(true) => {}
        Ok(false) => problems.push(on.table.settings_missing()),
        Err(problem) => problems.push(problem),
    }
    let found = on.state()?.contents.dictionary;
    if found < expected {
        problems.push(Problem::Settings {
            table: on.table.name().to_owned(),
            reason: format!(
                "expected dictionary {expected}, which rows have, or a later one, found {found}: the settings were deleted and written \
                 again, or are older than the rows"
            ),
        });
    }
    Ok(problems)
}

/// Returns the key id that a body claims, in its first byte.
fn key_id(stored: &Stored) -> usize {
    stored.body.first().map_or(0, |first| usize::from(first & 0b11))
}

impl Work for Verify {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match self.next {
            Next::Meta | Next::MetaAgain => statements.read_meta(dialect),
            Next::Bodies(tier, from) => statements.stale(dialect, tier, from, &NO_HEADER, BODIES),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let answer = rows(on, answer)?;
        let (tier, from) = match self.next {
            Next::Meta => {
                self.verified.problems = on.table.verify_meta(answer)?;
                let is_grouped = on.state()?.groups.is_some();
                self.next = Next::Bodies(if is_grouped { Tier::Keys } else { Tier::Packs }, 0);
                return Ok(());
            }
            Next::Bodies(tier, from) => (tier, from),
            Next::MetaAgain => {
                self.next = Next::Nothing;
                for (place, key_id) in std::mem::take(&mut self.in_doubt) {
                    self.verified.damage[place].is_certain &= self.can_open[key_id];
                }
                return self.settings(on, answer);
            }
            Next::Nothing => return Ok(()),
        };
        let found = on.table.read_tier(tier, answer)?;
        match tier {
            Tier::Packs => self.packs(on, &found, from == 0)?,
            Tier::Recent => self.recent(on, &found)?,
            Tier::Keys => self.keys(on, &found),
        }
        let is_full = i64::try_from(found.len()).is_ok_and(|found| found >= BODIES);
        let last = found.last().filter(|_| is_full);
        let ids = on.table.statements.ids();
        let after = |id: u128| if tier == Tier::Keys { id.checked_add(1) } else { ids.after(id) };
        self.next = match (tier, last.and_then(|last| after(last.id))) {
            (_, Some(from)) => Next::Bodies(tier, from),
            (Tier::Keys, None) => Next::Bodies(Tier::Packs, 0),
            (Tier::Packs, None) => Next::Bodies(Tier::Recent, 0),
            (Tier::Recent, None) => Next::MetaAgain,
        };
        (self.progress)(self.verified.packs + self.verified.recent_rows);
        Ok(())
    }
}
