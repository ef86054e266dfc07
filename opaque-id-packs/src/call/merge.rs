//! Moves recent rows into packs: a survey of the recent table, then pack by pack a read, a statement that replaces the pack and inserts
//! its right parts if it has the version that was read, and a deletion of the merged rows in the versions that were merged. Locked
//! rows and packs are passed over.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::change::apply;
use super::session::Session;
use super::{Disconnected, STATEMENT_BYTES};
use crate::cache::Waiting;
use crate::error::Problem;
use crate::format::{Kind, Row};
use crate::merged::Merged;
use crate::split;
use crate::statement::{IfLocked, Survey};
use crate::stored::{Stored, Tier};
use crate::table::Table;

/// How many recent rows a statement looks at to find out where they belong.
const SURVEYED: i64 = 10_000;

/// How many rows are merged into a pack at once.
const ROWS: i64 = 1_000;

/// How often a merge surveys the recent table, if other clients write meanwhile.
const PASSES: u32 = 10;

/// Moves recent rows into their packs. Rows and packs that another transaction has locked stay as they are, so that an idle
/// transaction does not stop a merger. Rows go into packs that get a quarter of their size, or all of them do.
///
/// A pass surveys the recent table, and then merges pack by pack. If other clients have split packs or written them first, the
/// survey is out of date, and there is another pass.
pub(crate) async fn merge(session: Disconnected, all: bool) -> Result<Merged, Problem> {
    let mut session = session.connect().await;
    let settings = session.state()?.contents.settings.clone();
    let mut merge = Merge {
        min_bytes: if all { 0 } else { i64::from(settings.pack_bytes) / 4 },
        patience: Duration::from_secs(settings.erase_after.into()),
        looked: HashMap::new(),
        left: HashMap::new(),
        window: ROWS,
        rest: Rest::default(),
        merged: Merged::default(),
        lost: HashSet::new(),
        stayed: HashMap::new(),
        is_out_of_date: false,
        passes: 1,
        problem: None,
    };
    let mut is_checked = false;
    loop {
        let mut from = Some(0);
        while let Some(first) = from {
            let survey = merge.survey(&mut session, first, &mut is_checked).await?;
            from = survey.next;
            merge.packs(&mut session, survey).await?;
        }
        if !merge.is_out_of_date || merge.passes == PASSES {
            break;
        }
        merge.is_out_of_date = false;
        merge.passes += 1;
        (merge.merged.rows_left, merge.merged.bytes_left) = (0, 0);
        merge.left.clear();
    }
    merge.end(&session.table);
    let Merge { merged, problem, .. } = merge;
    #[cfg(feature = "metrics")]
    crate::metrics::record(session.table.name(), &merged);
    session.end(()).await?;
    problem.map_or(Ok(merged), Err)
}

/// The state of a merge.
struct Merge {
    /// The number of bytes that a pack must get to be merged.
    min_bytes: i64,
    /// For how long a deletion may wait for more.
    patience: Duration,
    /// The time at which this call has read the rows of a pack and found no deletion.
    looked: HashMap<u128, Instant>,
    /// The packs that rows are left for, and whether they are stuck.
    left: HashMap<u128, bool>,
    /// How many rows to read at once, by what the last ones were like.
    window: i64,
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
    /// Whether its rows have waited for so long that a deletion must not wait for more.
    is_overdue: bool,
}

/// Recent rows.
#[derive(Clone, Copy, Default)]
struct Rest {
    rows: u64,
    bytes: u64,
}

/// A pack with its rows, before it is written.
struct Filled {
    version: i64,
    /// The id of the pack after it.
    next: Option<u128>,
    packs: Vec<Stored>,
    /// The rows that are merged, without bodies.
    rows: Vec<Stored>,
    bytes: u64,
}

impl Merge {
    /// Finds the packs of recent rows from a key on. If the settings and dictionaries are others than this process knows, it reads them
    /// first.
    async fn survey(
        &mut self,
        session: &mut Session,
        from: u128,
        is_checked: &mut bool,
    ) -> Result<Survey, Problem> {
        loop {
            let rows = session.rows(session.sql().survey(from, SURVEYED)).await?;
            let survey = session.table.statements.read_survey(&rows);
            let survey = survey.ok_or_else(|| session.table.columns())?;
            if *is_checked || session.state()?.is_of(&survey.meta) {
                return Ok(survey);
            }
            *is_checked = true;
            session.read_settings().await?;
        }
    }

    /// Merges the packs of a survey that get enough.
    async fn packs(&mut self, session: &mut Session, mut survey: Survey) -> Result<(), Problem> {
        survey.packs.sort_unstable_by_key(|(pack, ..)| *pack);
        for (pack, rows, bytes) in survey.packs {
            let limit = (i64::from(STATEMENT_BYTES) / (bytes / rows.max(1)).max(1)).clamp(1, ROWS);
            let surveyed = Rest { rows: rows.unsigned_abs(), bytes: bytes.unsigned_abs() };
            let is_overdue = bytes < self.min_bytes && self.is_overdue(&session.table, pack);
            if bytes < self.min_bytes && !is_overdue {
                self.leave(pack, surveyed, false);
                continue;
            }
            self.rest = surveyed;
            // A pack and the packs that were split from it, the last one first.
            let mut wanted = vec![Wanted { pack, from: pack, limit, is_overdue }];
            while let Some(next) = wanted.pop() {
                self.pack(session, next, &mut wanted).await?;
            }
            // Others have merged them, or have split packs.
            self.is_out_of_date |= self.rest.rows > 0;
        }
        Ok(())
    }

    /// Merges rows into a pack: as many as a statement may contain. More come later.
    async fn pack(
        &mut self,
        session: &mut Session,
        wanted: Wanted,
        later: &mut Vec<Wanted>,
    ) -> Result<(), Problem> {
        let limit = wanted.limit.min(self.window);
        let read = session.sql().read_to_merge(wanted.pack, wanted.from, limit);
        let stored = session.stored(read).await?;
        let rest = self.rest;
        let (filled, more) = match self.fill(session, wanted, limit, stored) {
            Ok(filled) => filled,
            Err(problem) => {
                self.problem.get_or_insert(problem);
                self.rest = rest;
                self.leave_rest(wanted.pack);
                return Ok(());
            }
        };
        let Some(filled) = filled else {
            later.extend(more.map(|from| Wanted { from, ..wanted }));
            return Ok(());
        };
        let Filled { version, next, packs, rows, bytes } = filled;
        let all = rows.len() as u64;
        let write = session.sql().write_packs(version, &packs, IfLocked::Skip(next));
        if session.changed(write).await? == 0 {
            self.merged.lost += 1;
            self.leave(wanted.pack, Rest { rows: all, bytes }, true);
            self.leave_rest(wanted.pack);
            // Another writer of a pack has changed its version; otherwise it is locked, perhaps for long.
            self.is_out_of_date |= self.lost.insert((packs[0].id, version));
            return Ok(());
        }
        self.merged.packs += packs.len() as u64;
        if let Some(from) = more {
            // More rows can only be of the pack that begins last before them, and of those after it.
            let first = packs.iter().rposition(|pack| pack.id <= from);
            later.extend(packs[first.unwrap_or(0)..].iter().rev().map(|pack| Wanted {
                pack: pack.id,
                from: from.max(pack.id),
                limit: wanted.limit,
                is_overdue: false,
            }));
        }
        let deleted = session.changed(session.sql().delete_recent(&rows)).await?;
        self.merged.rows += deleted;
        let left = all.saturating_sub(deleted);
        if left > 0 {
            self.leave(wanted.pack, Rest { rows: left, bytes: bytes * left / all }, true);
            self.stayed.extend(rows.iter().map(|row| ((row.id, row.version), self.passes)));
            self.is_out_of_date = true;
        }
        Ok(())
    }

    /// Computes the pack with its rows (I2: they were read in one snapshot), and from where on there may be more rows for it. Returns no
    /// pack if there is nothing to write.
    fn fill(
        &mut self,
        session: &Session,
        wanted: Wanted,
        limit: i64,
        stored: Vec<(Tier, Stored)>,
    ) -> Result<(Option<Filled>, Option<u128>), Problem> {
        let (table, state, groups) = (&session.table, session.state()?, session.groups());
        let (packs, mut rows): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|(tier, _)| *tier == Tier::Packs);
        // SQL does not promise the order of a UNION ALL.
        rows.sort_unstable_by_key(|(_, stored)| stored.id);
        let location = || table.location(Kind::Pack, wanted.pack);
        let (_, stored) = packs.first().ok_or_else(|| Problem::Gap { location: location() })?;
        let (version, next) = (stored.version, stored.next);
        let mut pack =
            Arc::unwrap_or_clone(table.open_pack(&state, session.context(), stored, groups)?);
        let mut more = None;
        if i64::try_from(rows.len()).is_ok_and(|found| found >= limit) {
            let last = rows.last().map_or(0, |(_, stored)| stored.id);
            more = table.statements.ids().after(last);
        }
        let is_full = more.is_some();
        let most_work = STATEMENT_BYTES.max(state.contents.settings.pack_bytes) as usize;
        let (mut merged, mut bytes, mut work) = (Vec::new(), 0, 0);
        let (mut seen, mut is_gap, mut has_deletion) = (Rest::default(), false, false);
        let mut is_cut = false;
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
                    self.leave(wanted.pack, Rest { rows: 1, bytes: len as u64 }, true);
                }
            } else {
                let row = table.open_row(&state, &stored, groups);
                let value = match &row {
                    Ok(Row::Value(value)) => value.len(),
                    _ => 0,
                };
                // They may be much longer than the pack's rows are on average.
                if work + len.max(value) > most_work && !merged.is_empty() {
                    more = Some(stored.id);
                    is_cut = true;
                    break;
                }
                match row {
                    Ok(row) => {
                        work += len.max(value);
                        bytes += len;
                        has_deletion |= matches!(row, Row::Deleted);
                        apply(&mut pack, stored.id, row);
                        merged.push(Stored::new(stored.id, stored.version, Vec::new()));
                    }
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                        self.stayed.insert(place, self.passes);
                        self.leave(wanted.pack, Rest { rows: 1, bytes: len as u64 }, true);
                    }
                }
            }
            seen.rows += 1;
            seen.bytes += len as u64;
        }
        if is_cut {
            self.window = i64::try_from(seen.rows).unwrap_or(ROWS).max(1);
        } else if is_full {
            self.window = (self.window + self.window / 4 + 1).min(ROWS);
        }
        self.rest.rows = self.rest.rows.saturating_sub(seen.rows);
        self.rest.bytes = self.rest.bytes.saturating_sub(seen.bytes);
        if is_gap {
            self.problem.get_or_insert(Problem::Gap { location: location() });
            self.leave_rest(wanted.pack);
        }
        // If there are more rows, a deletion may be among them.
        if wanted.is_overdue && !has_deletion && more.is_none() {
            self.looked.insert(wanted.pack, Instant::now());
            let Rest { rows, bytes: rest } = std::mem::take(&mut self.rest);
            let all = Rest { rows: rows + merged.len() as u64, bytes: rest + bytes as u64 };
            self.leave(wanted.pack, all, false);
            return Ok((None, None));
        }
        if merged.is_empty() {
            return Ok((None, more));
        }
        let packs = split::encrypt(table, &state, version, pack, groups)?;
        Ok((Some(Filled { version, next, packs, rows: merged, bytes: bytes as u64 }), more))
    }

    /// Counts all rows that the pack would still get as rows that stay, since they or the pack are locked or cannot be read.
    fn leave_rest(&mut self, pack: u128) {
        let rest = std::mem::take(&mut self.rest);
        self.leave(pack, rest, true);
    }

    /// Counts rows that stay in the recent table.
    fn leave(&mut self, pack: u128, Rest { rows, bytes }: Rest, is_stuck: bool) {
        self.merged.rows_left += rows;
        self.merged.bytes_left += bytes;
        if rows > 0 {
            *self.left.entry(pack).or_default() |= is_stuck;
        }
    }

    /// Returns whether a pack has waited for more rows for so long that a deletion must not.
    fn is_overdue(&self, table: &Table, pack: u128) -> bool {
        let now = Instant::now();
        let waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = waiting.get(&pack).map_or(now, |waiting| waiting.unread);
        now.duration_since(unread) >= self.patience
    }

    /// Remembers since when packs have rows that stay, and counts them.
    fn end(&mut self, table: &Table) {
        let now = Instant::now();
        let mut waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *waiting);
        for (pack, is_stuck) in self.left.drain() {
            let new = Waiting { since: now, unread: now, stuck: None };
            let mut it = before.get(&pack).copied().unwrap_or(new);
            it.unread = self.looked.get(&pack).copied().unwrap_or(it.unread);
            it.stuck = is_stuck.then(|| it.stuck.unwrap_or(now));
            let merged = &mut self.merged;
            merged.packs_left += 1;
            merged.packs_stuck += u64::from(is_stuck);
            merged.left_for = merged.left_for.max(now.duration_since(it.since));
            let stuck_for = it.stuck.map_or(Duration::ZERO, |stuck| now.duration_since(stuck));
            merged.stuck_for = merged.stuck_for.max(stuck_for);
            waiting.insert(pack, it);
        }
    }
}
