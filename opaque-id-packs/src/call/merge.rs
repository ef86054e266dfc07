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
use crate::cache::Waiting;
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
    /// How many packs these rows belong to.
    pub packs_left: u64,
    /// How many of these packs have rows that do not wait for more: they or the pack are locked or cannot be read.
    pub packs_stuck: u64,
    /// For how long merges of this process have found rows of a pack each time, of the pack that has waited longest.
    pub left_for: Duration,
    /// The same, of packs that are stuck.
    pub stuck_for: Duration,
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
    /// When this call has looked for deletions in packs that wait for more.
    looked: HashMap<u128, Instant>,
    /// The packs that rows are left for, and whether they are stuck.
    left: HashMap<u128, bool>,
    next: Next,
    /// The packs that would get enough, the last one first.
    packs: Vec<Wanted>,
    /// Where to look next.
    from: Option<u128>,
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
    has_doubted: bool,
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
    /// The settings and dictionaries are others than this process knows: it reads them before the survey.
    Doubt(u128),
    Read(Wanted),
    Write {
        version: i64,
        /// The id of the pack after it.
        next: Option<u128>,
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
    pack: u128,
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
            looked: HashMap::new(),
            left: HashMap::new(),
            next: Next::Survey(0),
            packs: Vec::new(),
            from: None,
            window: ROWS,
            rest: Rest::default(),
            merged: Merged::default(),
            lost: HashSet::new(),
            stayed: HashMap::new(),
            is_out_of_date: false,
            has_doubted: false,
            passes: 1,
            problem: None,
        })
    }

    fn limit(&self, wanted: Wanted) -> i64 {
        wanted.limit.min(self.window)
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
                self.left.clear();
                Next::Survey(0)
            }
            (None, None) => Next::Nothing,
        }
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
    fn is_overdue(&mut self, table: &Table, pack: u128) -> bool {
        let now = Instant::now();
        let waiting = table.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let unread = waiting.get(&pack).map_or(now, |waiting| waiting.unread);
        let is_overdue = now.duration_since(unread) >= self.patience;
        if is_overdue {
            self.looked.insert(pack, now);
        }
        is_overdue
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

    fn after_survey(&mut self, on: &On<'_>, answer: Answer, from: u128) -> Result<Next, Problem> {
        let survey = on.table.statements.read_survey(&rows(on, answer)?);
        let survey = survey.ok_or_else(|| on.table.columns())?;
        if !self.has_doubted && !on.state()?.is_of(&survey.meta) {
            self.has_doubted = true;
            return Ok(Next::Doubt(from));
        }
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
                false => self.leave(pack, found, false),
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
        if i64::try_from(rows.len()).is_ok_and(|found| found >= self.limit(wanted)) {
            let last = rows.last().map_or(0, |(_, stored)| stored.id);
            more = on.table.statements.ids().after(last);
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
                let row = on.table.open_row(&state, &stored, on.groups);
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
            let location = on.table.location(Kind::Pack, wanted.pack);
            self.problem.get_or_insert(Problem::Gap { location });
            self.leave_rest(wanted.pack);
        }
        // One may be among those that were not read.
        if wanted.is_overdue && !has_deletion && more.is_none() {
            let Rest { rows, bytes: rest } = std::mem::take(&mut self.rest);
            let all = Rest { rows: rows + merged.len() as u64, bytes: rest + bytes as u64 };
            self.leave(wanted.pack, all, false);
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
            next,
            packs: split::encrypt(on.table, &state, version, pack, on.groups)?,
            rows: Rows { pack: wanted.pack, merged, bytes: bytes as u64 },
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
            let unmerged = Rest { rows: rows.merged.len() as u64, bytes: rows.bytes };
            self.leave(rows.pack, unmerged, true);
            self.leave_rest(rows.pack);
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
            Next::Survey(from) | Next::Doubt(from) => statements.survey(dialect, *from, SURVEYED),
            Next::Read(wanted) => {
                statements.read_to_merge(dialect, wanted.pack, wanted.from, self.limit(*wanted))
            }
            Next::Write { version, next, packs, .. } => {
                statements.write_packs(dialect, *version, packs, IfLocked::Skip(*next))
            }
            Next::Delete(rows) => statements.delete_recent(dialect, &rows.merged),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Survey(from) | Next::Doubt(from) => self.after_survey(on, answer, from)?,
            Next::Read(wanted) => match self.after_read(on, answer, wanted) {
                Ok(next) => next,
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                    self.leave_rest(wanted.pack);
                    self.go_on()
                }
            },
            Next::Write { version, packs, rows, more, .. } => {
                let is_written = changed(on, &answer)? > 0;
                self.after_write(is_written, version, &packs, rows, more)
            }
            Next::Delete(rows) => {
                let (all, deleted) = (rows.merged.len() as u64, changed(on, &answer)?);
                self.merged.rows += deleted;
                let left = all.saturating_sub(deleted);
                if left > 0 {
                    let left = Rest { rows: left, bytes: rows.bytes * left / all };
                    self.leave(rows.pack, left, true);
                    let stayed = rows.merged.iter().map(|row| (row.id, row.version));
                    self.stayed.extend(stayed.map(|row| (row, self.passes)));
                    self.is_out_of_date = true;
                }
                self.go_on()
            }
            Next::Nothing => Next::Nothing,
        };
        if self.is_done() {
            self.end(on.table);
        }
        Ok(())
    }

    fn doubts_settings(&self) -> bool {
        matches!(self.next, Next::Doubt(_))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use opaque_id_sql::statement::Cell;

    use super::*;
    use crate::format::{COMPRESSED, GroupKeys, Pack, Value};
    use crate::settings::Settings;
    use crate::split::tests::{open, value};
    use crate::table::Context;

    /// A table as a server has it.
    #[derive(Default)]
    struct Server {
        recent: BTreeMap<u128, Stored>,
        packs: BTreeMap<u128, Stored>,
    }

    fn cells(tier: i64, id: u128, version: i64, rest: [Cell; 2]) -> Vec<Cell> {
        let [body, next] = rest;
        vec![Cell::Integer(tier), key(id), Cell::Integer(version), body, next]
    }

    fn key(id: u128) -> Cell {
        let id = i128::try_from(id).expect("a small id") - (1 << 63);
        Cell::Integer(i64::try_from(id).expect("an integer"))
    }

    impl Server {
        fn answer(&mut self, next: &Next, limit: impl Fn(Wanted) -> i64) -> Answer {
            let changed = |rows: usize| Answer::Changed { rows: rows as u64, insert_id: None };
            match next {
                Next::Survey(_) | Next::Doubt(_) => {
                    let mut packs = BTreeMap::<_, (i64, i64)>::new();
                    for row in self.recent.values() {
                        let (pack, _) = self.packs.range(..=row.id).next_back().expect("a pack");
                        let (rows, bytes) = packs.entry(*pack).or_default();
                        *rows += 1;
                        *bytes += i64::try_from(row.body.len()).expect("a length");
                    }
                    let row = |(pack, (rows, bytes))| {
                        vec![Cell::Integer(1), key(pack), Cell::Integer(rows), Cell::Integer(bytes)]
                    };
                    Answer::Rows(packs.into_iter().map(row).collect())
                }
                Next::Read(wanted) => {
                    let pack = &self.packs[&wanted.pack];
                    let next = self.packs.range(wanted.pack + 1..).next().map(|(id, _)| *id);
                    let body = Cell::Bytes(pack.body.clone());
                    let place = [body, key(next.unwrap_or(pack.id))];
                    let mut rows = vec![cells(1, pack.id, pack.version, place)];
                    let range = wanted.from..=next.unwrap_or(u64::MAX.into());
                    let limit = usize::try_from(limit(*wanted)).expect("a number");
                    rows.extend(self.recent.range(range).take(limit).map(|(id, row)| {
                        cells(0, *id, row.version, [Cell::Bytes(row.body.clone()), key(*id)])
                    }));
                    Answer::Rows(rows)
                }
                Next::Write { packs, .. } => {
                    self.packs.extend(packs.iter().map(|pack| (pack.id, pack.clone())));
                    changed(packs.len())
                }
                Next::Delete(rows) => {
                    let before = self.recent.len();
                    rows.merged.iter().for_each(|row| drop(self.recent.remove(&row.id)));
                    changed(before - self.recent.len())
                }
                Next::Nothing => unreachable!("it is done"),
            }
        }
    }

    /// An async adapter cannot yield before an answer is processed.
    #[test]
    fn little_is_compressed_between_two_statements() {
        for (settings, is_last) in [
            (Settings::inline(), true),
            (Settings::inline(), false),
            (Settings::large(), true),
            (Settings::large(), false),
            (Settings::large().pack_bytes(1 << 20), true),
        ] {
            let pack_bytes = settings.pack_bytes as usize;
            let table = open(settings.row_level(1).pack_level(1));
            let state = table.opened().expect("open");
            let groups = GroupKeys::default();
            let mut server = Server::default();
            let first = table.encrypt_first_pack(&state.contents).expect("a pack");
            let pack = Pack { id: 0, end: (!is_last).then_some(1 << 40), rows: Vec::new() };
            let packs = split::encrypt(&table, &state, first.version, pack, &groups);
            server.packs.extend(packs.expect("packs").into_iter().map(|pack| (pack.id, pack)));
            let rows = (0..2_000).map(|id| {
                let row = Row::Value(Value::from(value(id)));
                let stored = table.encrypt_row(&state, id * 1_000, &row, &groups);
                (id * 1_000, stored.expect("a row"))
            });
            server.recent.extend(rows);
            let mut merge = Merge::new(&table, true).expect("open");
            let (mut most, mut answers) = (0, 0);
            while !merge.is_done() {
                let answer = server.answer(&merge.next, |wanted| merge.limit(wanted));
                let context = Context { began: Instant::now(), is_in_transaction: false };
                let dialect = Dialect::Sqlite;
                let on = On { table: &table, context, dialect, groups: &groups };
                let before = COMPRESSED.get();
                merge.answer(&on, answer).expect("an answer");
                most = most.max(COMPRESSED.get() - before);
                answers += 1;
            }
            assert_eq!((merge.merged.rows, server.recent.len()), (2_000, 0));
            // A pack of such rows has six times its size, and up to a quarter of a megabyte is added.
            let added = pack_bytes.max(256 << 10);
            assert!(most < 2 * (6 * pack_bytes + added), "{most} bytes for {pack_bytes}");
            // Nor are there many more statements than that takes.
            assert!(answers < 60, "{answers} for {pack_bytes}");
        }
    }
}
