//! Reads a range page by page. Each page is one snapshot of both tiers, and a missing pack is an error, as a pack must end where the
//! next one begins.

use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Problem;
use crate::format::{Kind, Pack, Row, Value};
use crate::statement::Tier;
use crate::table::{Table, Unreadable};

/// Reads the next rows of a range, in one snapshot.
pub struct Page {
    rest: Rest,
    /// Unreadable and missing packs and rows, if the page goes on without them.
    problems: Option<Vec<Problem>>,
    /// The rows, in the range's order.
    rows: Option<Vec<FoundRow>>,
}

/// A row of a range, or the reason why it cannot be read.
pub(crate) type FoundRow = (u128, Result<Value, Box<Problem>>);

/// The unread part of a range.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// The first and the last key; `None` if nothing is left.
    pub(crate) keys: Option<(u128, u128)>,
    pub(crate) is_descending: bool,
    /// How many packs to read next.
    pub(crate) packs: u32,
}

/// A pack and its rows that cannot be read.
type Opened = (Arc<Pack>, Unreadable);

/// How many bytes of packs the first page and the largest one read.
const FIRST_BYTES: u32 = 128 << 10;
const MOST_BYTES: u32 = 1 << 20;

impl Rest {
    pub(crate) fn new(first: u128, last: u128, is_descending: bool) -> Self {
        Self { keys: (first <= last).then_some((first, last)), is_descending, packs: 0 }
    }
}

impl Page {
    pub(crate) fn new(table: &Table, rest: Rest) -> Result<Self, Problem> {
        let pack_bytes = table.opened()?.contents.settings.pack_bytes;
        let packs = |bytes: u32| (bytes / pack_bytes).max(2);
        let rest =
            Rest { packs: (rest.packs * 2).clamp(packs(FIRST_BYTES), packs(MOST_BYTES)), ..rest };
        Ok(Self { rest, problems: None, rows: None })
    }

    /// Goes on without what cannot be read or is missing. A pack that cannot be read does not say where it ends, so only
    /// ascending pages can.
    pub(crate) fn lenient(self) -> Self {
        Self { problems: Some(Vec::new()), ..self }
    }

    pub(crate) fn take_problems(&mut self) -> Vec<Problem> {
        self.problems.take().unwrap_or_default()
    }

    fn problem(&mut self, problem: Problem) -> Result<(), Problem> {
        match &mut self.problems {
            Some(problems) => {
                problems.push(problem);
                Ok(())
            }
            None => Err(problem),
        }
    }

    /// Returns the rows and the rest.
    pub(crate) fn take_rows(&mut self) -> (Vec<FoundRow>, Rest) {
        (self.rows.take().unwrap_or_default(), self.rest)
    }

    /// Leaves out the rows of packs that cannot be read.
    fn readable(
        &mut self,
        found: Vec<(u128, Result<Opened, Problem>)>,
        are_full: bool,
    ) -> Result<Vec<Opened>, Problem> {
        let ids: Vec<_> = found.iter().skip(1).map(|(id, _)| *id).collect();
        let ends = ids.into_iter().map(Some).chain([None]);
        let mut packs = Vec::with_capacity(found.len());
        for ((id, pack), end) in found.into_iter().zip(ends) {
            let empty = |end| (Arc::new(Pack { id, end, rows: Vec::new() }), Unreadable::new());
            packs.push(match pack {
                Ok(pack) => pack,
                // The next page begins with it, and knows its end.
                Err(_) if self.problems.is_some() && are_full && end.is_none() => empty(Some(id)),
                Err(problem) => {
                    self.problem(problem)?;
                    empty(end)
                }
            });
        }
        Ok(packs)
    }

    /// As many as the packs may have.
    fn limits(&self) -> (i64, i64) {
        let packs = i64::from(self.rest.packs);
        (packs, packs * 16)
    }
}

impl Work for Page {
    fn is_done(&self) -> bool {
        self.rest.keys.is_none() || self.rows.is_some()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let keys = self.rest.keys.filter(|_| self.rows.is_none())?;
        let (packs, rows) = self.limits();
        let is_descending = self.rest.is_descending;
        Some(table.statements.range(dialect, keys, is_descending, packs, rows))
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let Some((first, last)) = self.rest.keys else {
            return Ok(());
        };
        let state = on.state()?;
        let mut recent = Vec::new();
        let mut packs = Vec::new();
        for (tier, stored) in on.table.read(rows(on, answer)?)? {
            match tier {
                Tier::Recent => {
                    recent.push((stored.id, on.table.open_row(&state, &stored, on.groups)));
                }
                Tier::Packs => {
                    let pack = on.table.open_readable(&state, on.context, &stored, on.groups);
                    packs.push((stored.id, pack));
                }
                Tier::Keys => {}
            }
        }
        packs.sort_unstable_by_key(|(id, _)| *id);
        recent.sort_unstable_by_key(|(key, _)| *key);
        let (most_packs, most_rows) = self.limits();
        let is_full = |len: usize, most: i64| i64::try_from(len).is_ok_and(|len| len >= most);
        let (packs_are_full, rows_are_full) =
            (is_full(packs.len(), most_packs), is_full(recent.len(), most_rows));
        let packs = self.readable(packs, packs_are_full)?;

        // Each pack must end where the next one begins, and they must cover the page.
        let gap = |id| on.gap(on.table.location(Kind::Pack, id));
        for pair in packs.windows(2) {
            let [(pack, _), (next, _)] = pair else { continue };
            if pack.end != Some(next.id) {
                self.problem(gap(pack.id))?;
            }
        }
        let (Some((lowest, _)), Some((highest, _))) = (packs.first(), packs.last()) else {
            return Err(Problem::Gap { location: on.table.packs() });
        };

        // The page's part of the range, from the smallest key to the largest one.
        let mut covered = (first, last);
        if self.rest.is_descending {
            if packs_are_full {
                covered.0 = covered.0.max(lowest.id);
            }
            if rows_are_full && let Some((key, _)) = recent.first() {
                covered.0 = covered.0.max(*key);
            }
        } else {
            if packs_are_full && let Some(end) = highest.end {
                covered.1 = covered.1.min(end - 1);
            }
            if rows_are_full && let Some((key, _)) = recent.last() {
                covered.1 = covered.1.min(*key);
            }
        }
        if lowest.id > covered.0 || highest.end.is_some_and(|end| end <= covered.1) {
            self.problem(gap(highest.id))?;
        }

        let is_covered = |key: u128| covered.0 <= key && key <= covered.1;
        let packed = packs.into_iter().flat_map(|(pack, unreadable)| {
            let rows = Arc::unwrap_or_clone(pack).rows.into_iter();
            let rows = rows.map(|(key, value)| (key, Ok(Row::Value(value))));
            let unreadable = unreadable.into_iter().map(|(key, problem)| (key, Err(problem)));
            merged(rows, unreadable)
        });
        let packed = packed.filter(|(key, _)| is_covered(*key));
        let recent = recent.into_iter().filter(|(key, _)| is_covered(*key));
        let mut rows = overlaid(packed, recent);
        self.rest.keys = match self.rest.is_descending {
            true => (covered.0 > first).then(|| (first, covered.0 - 1)),
            false => (covered.1 < last).then(|| (covered.1 + 1, last)),
        };
        if self.rest.is_descending {
            rows.reverse();
        }
        self.rows = Some(rows);
        Ok(())
    }
}

/// Returns the rows of packs, replaced by recent ones, in the order of their keys. A recent row that cannot be read hides the pack's value
/// as well, because it may be a deletion.
fn overlaid(
    packed: impl Iterator<Item = MayFail>,
    recent: impl Iterator<Item = MayFail>,
) -> Vec<FoundRow> {
    let row = |(key, row): MayFail| match row {
        Ok(Row::Value(value)) => Some((key, Ok(value))),
        Ok(Row::Deleted) => None,
        Err(problem) => Some((key, Err(Box::new(problem)))),
    };
    merged(packed, recent).filter_map(row).collect()
}

/// A row or the mark of a deleted one, or the reason why it cannot be read.
type MayFail = (u128, Result<Row, Problem>);

/// Merges rows in the order of their keys. Those of the second iterator take the place of the first one's with the same key.
fn merged(
    first: impl Iterator<Item = MayFail>,
    second: impl Iterator<Item = MayFail>,
) -> impl Iterator<Item = MayFail> {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    std::iter::from_fn(move || match (first.peek(), second.peek()) {
        (Some((a, _)), Some((b, _))) if a < b => first.next(),
        (Some((a, _)), Some((b, _))) => {
            if a == b {
                first.next();
            }
            second.next()
        }
        (Some(_), None) => first.next(),
        _ => second.next(),
    })
}
