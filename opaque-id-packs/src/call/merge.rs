//! Moves recent rows into packs.
//!
//! A survey counts the recent rows of each pack. Then each pack takes three statements: one reads the pack
//! and its recent rows in one snapshot, one replaces the pack and inserts its right parts, and one removes
//! the merged rows. The last two require the versions that were read. The statements skip rows and packs that
//! another transaction has locked, so that an idle transaction does not stop a merger.
//!
//! If other clients have written or split packs meanwhile, there is another pass.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::change::apply;
use super::{Calls, PackCall, STATEMENT_BYTES, Session};
use crate::cache::PackBacklog;
use crate::error::TableError;
use crate::format::{Kind, Row};
use crate::merged::Merged;
use crate::split;
use crate::statement::{IfLocked, Survey};
use crate::stored::{StoredRow, Tier};
use crate::table::Table;

const SURVEYED: i64 = 10_000;

const ROWS: i64 = 1_000;

/// The first pass, and the ones that follow it because other clients have written meanwhile.
const PASSES: u32 = 10;

impl Calls {
    pub fn merge(&self, all: bool) -> PackCall<'static, Merged> {
        self.connected(move |session| merge(session, all))
    }
}

async fn merge(mut session: Session, all: bool) -> Result<Merged, TableError> {
    session.check_binlog().await?;
    let settings = session.state()?.contents.settings.clone();
    let mut merge = Merge {
        min_bytes: if all { 0 } else { i64::from(settings.pack_bytes) / 4 },
        erase_after: Duration::from_secs(settings.erase_after.into()),
        window: ROWS,
        passes: 1,
        ..Merge::default()
    };
    let mut is_checked = false;
    loop {
        let mut from = Some(0);
        while let Some(first) = from {
            let survey = merge.survey(&mut session, first, &mut is_checked).await?;
            from = survey.next;
            merge.merge_packs(&mut session, survey).await?;
        }
        if !merge.needs_another_pass || merge.passes == PASSES {
            break;
        }
        merge.needs_another_pass = false;
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

#[derive(Default)]
struct Merge {
    /// The number of bytes that a pack must get to be merged.
    min_bytes: i64,
    /// A deletion may wait this long for more rows of its pack.
    erase_after: Duration,
    /// When this call has read the rows of a pack and found no deletion.
    found_no_deletion: HashMap<u128, Instant>,
    /// The packs whose rows stay. The flag says whether a lock or an unreadable body is the reason.
    left: HashMap<u128, bool>,
    /// The number of rows to read at once, from the size of the last rows.
    window: i64,
    /// The surveyed rows of the current pack, and of packs that are split from it, that are not merged yet.
    unmerged: RowCount,
    merged: Merged,
    /// The packs that others have written first or locked, with their versions.
    lost: HashSet<(u128, i64)>,
    /// The rows that stay in this call, because they are unreadable or locked, with the last pass that
    /// counted them.
    kept: HashMap<(u128, i64), u32>,
    needs_another_pass: bool,
    passes: u32,
    /// The first reason why rows had to stay. The call merges the other packs first.
    problem: Option<TableError>,
}

#[derive(Clone, Copy)]
struct PackTask {
    pack: u128,
    from: u128,
    limit: i64,
    looks_for_deletions: bool,
}

#[derive(Clone, Copy, Default)]
struct RowCount {
    rows: u64,
    bytes: u64,
}

struct NewPacks {
    version: i64,
    next: Option<u128>,
    packs: Vec<StoredRow>,
    /// These rows have no bodies.
    rows: Vec<StoredRow>,
    bytes: u64,
}

impl Merge {
    /// If the settings and dictionaries differ from the known ones, this reads them first.
    async fn survey(
        &mut self,
        session: &mut Session,
        from: u128,
        is_checked: &mut bool,
    ) -> Result<Survey, TableError> {
        loop {
            let rows = session.query(session.sql().survey(from, SURVEYED)).await?;
            let survey = session.table.statements.read_survey(&rows);
            let survey = survey.ok_or_else(|| session.table.wrong_columns())?;
            if *is_checked || session.state()?.matches_server(&survey.meta) {
                return Ok(survey);
            }
            *is_checked = true;
            session.read_settings().await?;
        }
    }

    async fn merge_packs(
        &mut self,
        session: &mut Session,
        mut survey: Survey,
    ) -> Result<(), TableError> {
        survey.packs.sort_unstable_by_key(|(pack, ..)| *pack);
        for (pack, rows, bytes) in survey.packs {
            let limit = (i64::from(STATEMENT_BYTES) / (bytes / rows.max(1)).max(1)).clamp(1, ROWS);
            let surveyed = RowCount { rows: rows.unsigned_abs(), bytes: bytes.unsigned_abs() };
            let looks_for_deletions =
                bytes < self.min_bytes && self.is_deletion_check_due(&session.table, pack);
            if bytes < self.min_bytes && !looks_for_deletions {
                self.leave(pack, surveyed, false);
                continue;
            }
            self.unmerged = surveyed;
            let mut queue = vec![PackTask { pack, from: pack, limit, looks_for_deletions }];
            while let Some(task) = queue.pop() {
                self.merge_pack(session, task, &mut queue).await?;
            }
            // Another client has merged the missing rows or has split a pack.
            self.needs_another_pass |= self.unmerged.rows > 0;
        }
        Ok(())
    }

    /// Merges as many rows as a statement may contain. The tasks for the other rows go into the queue.
    async fn merge_pack(
        &mut self,
        session: &mut Session,
        task: PackTask,
        queue: &mut Vec<PackTask>,
    ) -> Result<(), TableError> {
        let limit = task.limit.min(self.window);
        let read = session.sql().read_to_merge(task.pack, task.from, limit);
        let stored = session.query_tiers(read).await?;
        let before = self.unmerged;
        let (filled, more) = match self.apply_rows(session, task, limit, stored) {
            Ok(filled) => filled,
            Err(problem) => {
                self.problem.get_or_insert(problem);
                self.unmerged = before;
                self.leave_unmerged(task.pack);
                return Ok(());
            }
        };
        let Some(filled) = filled else {
            queue.extend(more.map(|from| PackTask { from, ..task }));
            return Ok(());
        };
        let NewPacks { version, next, packs, rows, bytes } = filled;
        let all = rows.len() as u64;
        let write = session.sql().write_packs(version, &packs, IfLocked::Skip(next));
        if session.write(write).await? == 0 {
            self.merged.lost += 1;
            self.leave(task.pack, RowCount { rows: all, bytes }, true);
            self.leave_unmerged(task.pack);
            // If the same version was lost before, another transaction has locked the pack, perhaps for long.
            // Only a new version is worth another pass.
            self.needs_another_pass |= self.lost.insert((packs[0].id, version));
            return Ok(());
        }
        self.merged.packs += packs.len() as u64;
        let deleted = session.write(session.sql().delete_recent(&packs[0], &rows)).await?;
        self.merged.rows += deleted;
        let left = all.saturating_sub(deleted);
        if left > 0 {
            self.leave(task.pack, RowCount { rows: left, bytes: bytes * left / all }, true);
            self.kept.extend(rows.iter().map(|row| ((row.id, row.version), self.passes)));
            self.needs_another_pass = true;
        }
        if deleted == 0 && packs.len() > 1 {
            // A failover may have undone the split.
            self.leave_unmerged(task.pack);
        } else if let Some(from) = more {
            // The remaining rows begin at `from`. They belong to the last pack that begins at or before
            // `from`, or to packs after it.
            let first = packs.iter().rposition(|pack| pack.id <= from);
            queue.extend(packs[first.unwrap_or(0)..].iter().rev().map(|pack| PackTask {
                pack: pack.id,
                from: from.max(pack.id),
                limit: task.limit,
                looks_for_deletions: false,
            }));
        }
        Ok(())
    }

    /// Applies recent rows to their pack, and encrypts the packs that replace it. The second result is the id
    /// that further rows of the pack may begin with. The pack and the rows were read in one snapshot, or an
    /// older row could replace a newer one.
    fn apply_rows(
        &mut self,
        session: &Session,
        task: PackTask,
        limit: i64,
        stored: Vec<(Tier, StoredRow)>,
    ) -> Result<(Option<NewPacks>, Option<u128>), TableError> {
        let (table, view) = (&session.table, session.view()?);
        let (packs, mut rows): (Vec<_>, Vec<_>) =
            stored.into_iter().partition(|(tier, _)| *tier == Tier::Packs);
        // SQL does not promise the order of a UNION ALL.
        rows.sort_unstable_by_key(|(_, stored)| stored.id);
        let location = || table.location(Kind::Pack, task.pack);
        let (_, stored) = packs.first().ok_or_else(|| TableError::Gap { location: location() })?;
        let (version, next) = (stored.version, stored.next);
        let mut pack = Arc::unwrap_or_clone(view.open_pack(stored)?);
        let mut more = None;
        if i64::try_from(rows.len()).is_ok_and(|found| found >= limit) {
            let last = rows.last().map_or(0, |(_, stored)| stored.id);
            more = table.statements.ids().after(last);
        }
        let is_full = more.is_some();
        let most_work = STATEMENT_BYTES.max(view.state.contents.settings.pack_bytes) as usize;
        let (mut applied, mut bytes, mut work) = (Vec::new(), 0, 0);
        let (mut read, mut is_gap, mut has_deletion) = (RowCount::default(), false, false);
        let mut is_cut = false;
        for (_, stored) in rows {
            let (row_version, len) = ((stored.id, stored.version), stored.body.len());
            if pack.end.is_some_and(|end| stored.id >= end) {
                // Rows from the next pack's id on belong to that pack. Rows before it have no pack.
                is_gap = next.is_none_or(|next| stored.id < next);
                more = None;
                break;
            }
            if let Some(counted) = self.kept.get_mut(&row_version) {
                if std::mem::replace(counted, self.passes) < self.passes {
                    self.leave(task.pack, RowCount { rows: 1, bytes: len as u64 }, true);
                }
            } else {
                let row = view.open_row(&stored);
                let value = match &row {
                    Ok(Row::Value(value)) => value.len(),
                    _ => 0,
                };
                // A row may be much longer than the average row of its pack.
                if work + len.max(value) > most_work && !applied.is_empty() {
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
                        applied.push(StoredRow::new(stored.id, stored.version, Vec::new()));
                    }
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                        self.kept.insert(row_version, self.passes);
                        self.leave(task.pack, RowCount { rows: 1, bytes: len as u64 }, true);
                    }
                }
            }
            read.rows += 1;
            read.bytes += len as u64;
        }
        if is_cut {
            self.window = i64::try_from(read.rows).unwrap_or(ROWS).max(1);
        } else if is_full {
            self.window = (self.window + self.window / 4 + 1).min(ROWS);
        }
        self.unmerged.rows = self.unmerged.rows.saturating_sub(read.rows);
        self.unmerged.bytes = self.unmerged.bytes.saturating_sub(read.bytes);
        if is_gap {
            self.problem.get_or_insert(TableError::Gap { location: location() });
            self.leave_unmerged(task.pack);
        }
        // If there are more rows, a deletion may be among them.
        if task.looks_for_deletions && !has_deletion && more.is_none() {
            self.found_no_deletion.insert(task.pack, Instant::now());
            let RowCount { rows, bytes: rest } = std::mem::take(&mut self.unmerged);
            let all = RowCount { rows: rows + applied.len() as u64, bytes: rest + bytes as u64 };
            self.leave(task.pack, all, false);
            return Ok((None, None));
        }
        if applied.is_empty() {
            return Ok((None, more));
        }
        let packs = split::encrypt(&view, version, pack)?;
        Ok((Some(NewPacks { version, next, packs, rows: applied, bytes: bytes as u64 }), more))
    }

    fn leave_unmerged(&mut self, pack: u128) {
        let rest = std::mem::take(&mut self.unmerged);
        self.leave(pack, rest, true);
    }

    fn leave(&mut self, pack: u128, RowCount { rows, bytes }: RowCount, is_stuck: bool) {
        self.merged.rows_left += rows;
        self.merged.bytes_left += bytes;
        if rows > 0 {
            *self.left.entry(pack).or_default() |= is_stuck;
        }
    }

    fn is_deletion_check_due(&self, table: &Table, pack: u128) -> bool {
        let now = Instant::now();
        let waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let checked = waiting.get(&pack).map_or(now, |waiting| waiting.deletions_checked);
        now.duration_since(checked) >= self.erase_after
    }

    fn end(&mut self, table: &Table) {
        let now = Instant::now();
        let mut waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut *waiting);
        for (pack, is_stuck) in self.left.drain() {
            let new = PackBacklog { since: now, deletions_checked: now, stuck: None };
            let mut it = before.get(&pack).copied().unwrap_or(new);
            if let Some(checked) = self.found_no_deletion.get(&pack) {
                it.deletions_checked = *checked;
            }
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
