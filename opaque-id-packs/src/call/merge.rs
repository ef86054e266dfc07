use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::change::apply;
use super::{On, STATEMENT_BYTES, Work, changed, rows};
use crate::error::Refusal;
use crate::format::Kind;
use crate::split;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// How many recent rows a statement looks at to find out where they belong.
const SURVEYED: i64 = 10_000;

/// How many rows are merged into a pack at once.
const ROWS: i64 = 1_000;

/// What a [merge] has done.
///
/// [merge]: crate#merging
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// How many rows were moved into packs, with the marks of deleted ones.
    pub rows: u64,
    /// How many packs were written.
    pub packs: u64,
    /// How many packs another client was faster to write.
    pub lost: u64,
    /// How many rows stay in the recent table until there are more for their packs.
    pub rows_left: u64,
    /// The size of these rows in bytes, as they are stored.
    pub bytes_left: u64,
}

/// Moves recent rows into their packs.
pub struct Merge {
    /// Packs wait until they would get so many bytes.
    min_bytes: i64,
    next: Next,
    /// The packs that would get enough, the last one first, and how many rows to read at once.
    packs: Vec<(u128, i64)>,
    /// Where to look next.
    from: Option<u128>,
    merged: Merged,
    /// Why the rows of a pack had to stay. Those of others do not wait for it.
    problem: Option<Refusal>,
}

enum Next {
    Survey(u128),
    /// Reads the pack with this id, and so many rows.
    Read(u128, i64),
    Write {
        version: i64,
        packs: Vec<Stored>,
        /// Those that are merged, without bodies.
        rows: Vec<Stored>,
        /// How many rows to read at once, if there may be more for these packs.
        limit: Option<i64>,
    },
    /// Those that are merged.
    Delete(Vec<Stored>),
    Nothing,
}

impl Merge {
    /// Merges rows into packs that get a quarter of their size, or all rows.
    pub(crate) fn new(table: &Table, all: bool) -> Result<Self, Refusal> {
        let pack_bytes = i64::from(table.opened()?.contents.settings.pack_bytes);
        Ok(Self {
            min_bytes: if all { 0 } else { pack_bytes / 4 },
            next: Next::Survey(0),
            packs: Vec::new(),
            from: None,
            merged: Merged::default(),
            problem: None,
        })
    }

    /// Returns what was merged, and the first pack that could not be.
    pub(crate) fn into_outcome(self) -> (Merged, Option<Refusal>) {
        (self.merged, self.problem)
    }

    fn go_on(&mut self) -> Next {
        match (self.packs.pop(), self.from.take()) {
            (Some((pack, limit)), from) => {
                self.from = from;
                Next::Read(pack, limit)
            }
            (None, Some(from)) => Next::Survey(from),
            (None, None) => Next::Nothing,
        }
    }

    fn after_survey(&mut self, on: &On<'_>, answer: Answer) -> Result<Next, Refusal> {
        let survey = on.table.statements.read_survey(&rows(on, answer)?);
        let survey = survey.ok_or_else(|| on.table.columns())?;
        self.from = survey.next;
        for (id, rows, bytes) in survey.packs {
            if bytes >= self.min_bytes {
                let limit =
                    (i64::from(STATEMENT_BYTES) / (bytes / rows.max(1)).max(1)).clamp(1, ROWS);
                self.packs.push((id, limit));
            } else {
                self.merged.rows_left += rows.unsigned_abs();
                self.merged.bytes_left += bytes.unsigned_abs();
            }
        }
        self.packs
            .sort_unstable_by_key(|(id, _)| std::cmp::Reverse(*id));
        Ok(self.go_on())
    }

    /// Computes the pack with its rows (I2: they were read in one snapshot).
    fn after_read(
        &mut self,
        on: &On<'_>,
        answer: Answer,
        id: u128,
        limit: i64,
    ) -> Result<Next, Refusal> {
        let state = on.state()?;
        let read = on.table.read(rows(on, answer)?)?;
        let (packs, rows): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|(tier, _)| *tier == Tier::Packs);
        let (_, stored) = packs.first().ok_or_else(|| Refusal::Gap {
            place: on.table.place(Kind::Pack, id),
        })?;
        let version = stored.version;
        let mut pack = Arc::unwrap_or_clone(on.table.open_pack(&state, on.context, stored)?);
        let mut is_limited = i64::try_from(rows.len()).is_ok_and(|found| found >= limit);
        let mut merged = Vec::new();
        let mut bytes = 0;
        for (_, stored) in rows {
            bytes += stored.body.len();
            // They may be much longer than the pack's rows are on average.
            if bytes > STATEMENT_BYTES as usize && !merged.is_empty() {
                is_limited = true;
                break;
            }
            // The next pack's own.
            if pack.end.is_some_and(|end| stored.id >= end) {
                continue;
            }
            let row = on.table.open_row(&state, &stored)?;
            apply(&mut pack, stored.id, row);
            merged.push(Stored {
                body: Vec::new(),
                ..stored
            });
        }
        if merged.is_empty() {
            return Ok(self.go_on());
        }
        Ok(Next::Write {
            version,
            packs: split::seal(on.table, &state, version, pack)?,
            rows: merged,
            limit: is_limited.then_some(limit),
        })
    }
}

impl Work for Merge {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match &self.next {
            Next::Survey(from) => Some(statements.survey(dialect, *from, SURVEYED)),
            Next::Read(pack, limit) => Some(statements.read_to_merge(dialect, *pack, *limit)),
            Next::Write { version, packs, .. } => {
                Some(statements.write_packs(dialect, *version, packs))
            }
            Next::Delete(rows) => Some(statements.delete_recent(dialect, rows)),
            Next::Nothing => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Survey(_) => self.after_survey(on, answer)?,
            Next::Read(pack, limit) => match self.after_read(on, answer, pack, limit) {
                Ok(next) => next,
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    self.go_on()
                }
            },
            // The other client has merged the rows, or the next pass will.
            Next::Write { .. } if changed(on, &answer)? == 0 => {
                self.merged.lost += 1;
                self.go_on()
            }
            Next::Write {
                packs, rows, limit, ..
            } => {
                self.merged.packs += packs.len() as u64;
                if let (Some(limit), Some(last)) = (limit, rows.iter().map(|row| row.id).max()) {
                    // More rows can only be of the pack of the last one, and of those after it.
                    let first = packs.iter().rposition(|pack| pack.id <= last);
                    let again = packs[first.unwrap_or(0)..].iter().rev();
                    self.packs.extend(again.map(|pack| (pack.id, limit)));
                }
                Next::Delete(rows)
            }
            Next::Delete(rows) => {
                self.merged.rows += rows.len() as u64;
                self.go_on()
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }
}
