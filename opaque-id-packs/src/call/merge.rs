//! Moves recent rows into packs: a survey of the recent table, then pack by pack a read, a statement that replaces the pack and inserts
//! its right parts if it has the version that was read, and a deletion of the merged rows in the versions that were merged. Locked
//! rows and packs are passed over.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::change::apply;
use super::{On, ROUNDS, STATEMENT_BYTES, Work, changed, rows};
use crate::error::Problem;
use crate::format::{Kind, Row};
use crate::split;
use crate::statement::{IfLocked, Stored, Tier};
use crate::table::Table;

/// How many recent rows a statement looks at to find out where they belong.
const SURVEYED: i64 = 10_000;

/// How many rows are merged into a pack at once.
const ROWS: i64 = 1_000;

/// The result of a [merge].
///
/// [merge]: crate#merging
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Merged {
    /// How many rows were moved into packs, with the marks of deleted ones.
    pub rows: u64,
    /// How many packs were written.
    pub packs: u64,
    /// How many packs were not written, because another client was faster or has locked them.
    pub lost: u64,
    /// How many of the rows that the call has found stay in the recent table: until there are more for their packs, until the client
    /// that has locked or replaced them is done, or until they and their pack can be read.
    pub rows_left: u64,
    /// The size of these rows in bytes, as they are stored.
    pub bytes_left: u64,
}

/// Moves recent rows into their packs. Rows and packs that another transaction has locked stay as they are, so that an idle
/// transaction does not stop a merger.
///
/// A pass surveys the recent table, and then merges pack by pack. If other clients have split packs or written them first, the
/// survey is out of date, and there is another pass.
pub struct Merge {
    /// The number of bytes that a pack must get to be merged.
    min_bytes: i64,
    /// For how long a deletion may wait for more.
    patience: Duration,
    /// Since when packs have rows that wait for more, as this call has found it.
    waiting: HashMap<u128, Instant>,
    next: Next,
    /// The packs that would get enough, the last one first.
    packs: Vec<Wanted>,
    /// Where to look next.
    from: Option<u128>,
    /// The rows that the survey has found for the pack that is being merged, and for packs that are split from it, and that are not merged
    /// yet.
    rest: Rest,
    merged: Merged,
    /// The packs that others have written first or locked, with the versions that this call has read.
    lost: HashSet<(u128, i64)>,
    /// Rows that cannot be read, and rows that this call has merged and that may still be there, since they were locked, each
    /// with the last pass that has counted it.
    stayed: HashMap<(u128, i64), u32>,
    is_out_of_date: bool,
    passes: u32,
    /// Why the rows of a pack had to stay. Those of others do not wait for it.
    problem: Option<Problem>,
}

/// A pack to merge.
#[derive(Clone, Copy)]
struct Wanted {
    pack: u128,
    /// The first key to read.
    from: u128,
    /// How many rows to read at once.
    limit: i64,
    /// The rows that it would get, by the survey.
    surveyed: Option<Rest>,
    /// Whether its rows have waited for so long that a deletion must not wait for more.
    is_overdue: bool,
}

/// Recent rows.
#[derive(Clone, Copy, Default)]
struct Rest {
    rows: u64,
    bytes: u64,
}

enum Next {
    Survey(u128),
    Read(Wanted),
    Write {
        version: i64,
        packs: Vec<Stored>,
        rows: Rows,
        /// How many rows to read at once, and from where on, if there may be more for these packs.
        more: Option<(i64, u128)>,
    },
    /// Those that are merged.
    Delete(Rows),
    Nothing,
}

/// The rows that are merged into a pack.
struct Rows {
    /// Without bodies.
    merged: Vec<Stored>,
    bytes: u64,
}

impl Merge {
    /// Merges rows into packs that get a quarter of their size, or all rows.
    pub(crate) fn new(table: &Table, all: bool) -> Result<Self, Problem> {
        let settings = &table.opened()?.contents.settings;
        Ok(Self {
            min_bytes: if all { 0 } else { i64::from(settings.pack_bytes) / 4 },
            patience: Duration::from_secs(settings.erase_after.into()),
            waiting: HashMap::new(),
            next: Next::Survey(0),
            packs: Vec::new(),
            from: None,
            rest: Rest::default(),
            merged: Merged::default(),
            lost: HashSet::new(),
            stayed: HashMap::new(),
            is_out_of_date: false,
            passes: 1,
            problem: None,
        })
    }

    /// Returns what was merged, and the first pack that could not be.
    pub(crate) fn into_outcome(self) -> (Merged, Option<Problem>) {
        (self.merged, self.problem)
    }

    fn go_on(&mut self) -> Next {
        let wanted = self.packs.pop();
        if wanted.is_none_or(|wanted| wanted.surveyed.is_some()) {
            let surveyed = wanted.and_then(|wanted| wanted.surveyed);
            let before = std::mem::replace(&mut self.rest, surveyed.unwrap_or_default());
            // Others have merged them, or have split packs.
            self.is_out_of_date |= before.rows > 0;
        }
        match (wanted, self.from) {
            (Some(wanted), _) => Next::Read(wanted),
            (None, Some(from)) => Next::Survey(from),
            (None, None) if self.is_out_of_date && self.passes < ROUNDS => {
                self.is_out_of_date = false;
                self.passes += 1;
                (self.merged.rows_left, self.merged.bytes_left) = (0, 0);
                Next::Survey(0)
            }
            (None, None) => Next::Nothing,
        }
    }

    /// Counts all rows that the pack would still get as rows that stay.
    fn leave_rest(&mut self) {
        let Rest { rows, bytes } = std::mem::take(&mut self.rest);
        self.leave(rows, bytes);
    }

    /// Counts rows that stay in the recent table.
    fn leave(&mut self, rows: u64, bytes: u64) {
        self.merged.rows_left += rows;
        self.merged.bytes_left += bytes;
    }

    /// Returns whether a pack has waited for more rows for so long that a deletion must not.
    fn is_overdue(&mut self, table: &Table, pack: u128) -> bool {
        let now = Instant::now();
        let waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let since = waiting.get(&pack).copied().unwrap_or(now);
        let is_overdue = now.duration_since(since) >= self.patience;
        self.waiting.insert(pack, if is_overdue { now } else { since });
        is_overdue
    }

    fn after_survey(&mut self, on: &On<'_>, answer: Answer) -> Result<Next, Problem> {
        let survey = on.table.statements.read_survey(&rows(on, answer)?);
        let survey = survey.ok_or_else(|| on.table.columns())?;
        self.from = survey.next;
        for (pack, rows, bytes) in survey.packs {
            let limit = (i64::from(STATEMENT_BYTES) / (bytes / rows.max(1)).max(1)).clamp(1, ROWS);
            let found = Rest { rows: rows.unsigned_abs(), bytes: bytes.unsigned_abs() };
            let is_overdue = bytes < self.min_bytes && self.is_overdue(on.table, pack);
            match bytes >= self.min_bytes || is_overdue {
                true => {
                    let surveyed = Some(found);
                    self.packs.push(Wanted { pack, from: pack, limit, surveyed, is_overdue });
                }
                false => self.leave(found.rows, found.bytes),
            }
        }
        self.packs.sort_unstable_by_key(|wanted| Reverse(wanted.pack));
        Ok(self.go_on())
    }

    /// Computes the pack with its rows (I2: they were read in one snapshot).
    fn after_read(&mut self, on: &On<'_>, answer: Answer, wanted: Wanted) -> Result<Next, Problem> {
        let state = on.state()?;
        let read = on.table.read(rows(on, answer)?)?;
        let (packs, rows): (Vec<_>, Vec<_>) =
            read.into_iter().partition(|(tier, _)| *tier == Tier::Packs);
        let (_, stored) = packs
            .first()
            .ok_or_else(|| Problem::Gap { location: on.table.location(Kind::Pack, wanted.pack) })?;
        let (version, next) = (stored.version, stored.next);
        let mut pack =
            Arc::unwrap_or_clone(on.table.open_pack(&state, on.context, stored, on.groups)?);
        let mut more = None;
        if i64::try_from(rows.len()).is_ok_and(|found| found >= wanted.limit) {
            let last = rows.last().map_or(0, |(_, stored)| stored.id);
            more = on.table.statements.ids().after(last);
        }
        let (mut merged, mut bytes) = (Vec::new(), 0);
        let (mut seen, mut is_gap, mut has_deletion) = (Rest::default(), false, false);
        for (_, stored) in rows {
            let (place, len) = ((stored.id, stored.version), stored.body.len());
            if pack.end.is_some_and(|end| stored.id >= end) {
                // The next pack's own, unless there is none.
                is_gap = next.is_none_or(|next| stored.id < next);
                more = None;
                break;
            }
            if let Some(counted) = self.stayed.get_mut(&place) {
                if std::mem::replace(counted, self.passes) < self.passes {
                    self.leave(1, len as u64);
                }
            } else {
                // They may be much longer than the pack's rows are on average.
                if bytes + len > STATEMENT_BYTES as usize && !merged.is_empty() {
                    more = Some(stored.id);
                    break;
                }
                match on.table.open_row(&state, &stored, on.groups) {
                    Ok(row) => {
                        bytes += len;
                        has_deletion |= matches!(row, Row::Deleted);
                        apply(&mut pack, stored.id, row);
                        merged.push(Stored::new(stored.id, stored.version, Vec::new()));
                    }
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                        self.stayed.insert(place, self.passes);
                        self.leave(1, len as u64);
                    }
                }
            }
            seen.rows += 1;
            seen.bytes += len as u64;
        }
        self.rest.rows = self.rest.rows.saturating_sub(seen.rows);
        self.rest.bytes = self.rest.bytes.saturating_sub(seen.bytes);
        if is_gap {
            let location = on.table.location(Kind::Pack, wanted.pack);
            self.problem.get_or_insert(Problem::Gap { location });
            self.leave_rest();
        }
        // One may be among those that were not read.
        if wanted.is_overdue && !has_deletion && more.is_none() {
            self.leave(merged.len() as u64, bytes as u64);
            self.leave_rest();
            return Ok(self.go_on());
        }
        let more = more.map(|from| (wanted.limit, from));
        if merged.is_empty() {
            self.packs.extend(more.map(|(limit, from)| Wanted {
                from,
                limit,
                surveyed: None,
                ..wanted
            }));
            return Ok(self.go_on());
        }
        Ok(Next::Write {
            version,
            packs: split::encrypt(on.table, &state, version, pack, on.groups)?,
            rows: Rows { merged, bytes: bytes as u64 },
            more,
        })
    }

    fn after_write(
        &mut self,
        is_written: bool,
        version: i64,
        packs: &[Stored],
        rows: Rows,
        more: Option<(i64, u128)>,
    ) -> Next {
        if !is_written {
            self.merged.lost += 1;
            self.leave(rows.merged.len() as u64, rows.bytes);
            self.leave_rest();
            // Another writer of a pack has changed its version; otherwise it is locked, perhaps for long.
            self.is_out_of_date |= self.lost.insert((packs[0].id, version));
            return self.go_on();
        }
        self.merged.packs += packs.len() as u64;
        if let Some((limit, from)) = more {
            // More rows can only be of the pack that begins last before them, and of those after it.
            let first = packs.iter().rposition(|pack| pack.id <= from);
            let again = packs[first.unwrap_or(0)..].iter().rev();
            self.packs.extend(again.map(|pack| Wanted {
                pack: pack.id,
                from: from.max(pack.id),
                limit,
                surveyed: None,
                is_overdue: false,
            }));
        }
        Next::Delete(rows)
    }
}

impl Work for Merge {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match &self.next {
            Next::Survey(from) => statements.survey(dialect, *from, SURVEYED),
            Next::Read(Wanted { pack, from, limit, .. }) => {
                statements.read_to_merge(dialect, *pack, *from, *limit)
            }
            Next::Write { version, packs, .. } => {
                statements.write_packs(dialect, *version, packs, IfLocked::Skip)
            }
            Next::Delete(rows) => statements.delete_recent(dialect, &rows.merged),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Survey(_) => self.after_survey(on, answer)?,
            Next::Read(wanted) => match self.after_read(on, answer, wanted) {
                Ok(next) => next,
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    self.leave_rest();
                    self.go_on()
                }
            },
            Next::Write { version, packs, rows, more } => {
                let is_written = changed(on, &answer)? > 0;
                self.after_write(is_written, version, &packs, rows, more)
            }
            Next::Delete(rows) => {
                let (all, deleted) = (rows.merged.len() as u64, changed(on, &answer)?);
                self.merged.rows += deleted;
                let left = all.saturating_sub(deleted);
                if left > 0 {
                    self.leave(left, rows.bytes * left / all);
                    let stayed = rows.merged.iter().map(|row| (row.id, row.version));
                    self.stayed.extend(stayed.map(|row| (row, self.passes)));
                    self.is_out_of_date = true;
                }
                self.go_on()
            }
            Next::Nothing => Next::Nothing,
        };
        if self.is_done() {
            let mut waiting = on.table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            *waiting = std::mem::take(&mut self.waiting);
        }
        Ok(())
    }
}
