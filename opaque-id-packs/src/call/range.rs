//! Reads a range page by page. Each page is one snapshot of both tiers, and each pack must end where the next
//! one begins.

use std::sync::Arc;

use super::{Disconnected, Session};
use crate::error::TableError;
use crate::format::{Kind, Pack, Row, Value};
use crate::stored::Tier;
use crate::table::Unreadable;

pub(crate) struct Page {
    pub(crate) rows: Vec<FoundRow>,
    pub(crate) problems: Vec<TableError>,
    pub(crate) rest: UnreadRange,
}

pub(crate) type FoundRow = (u128, Result<Value, Box<TableError>>);

/// The unread part of a range.
#[derive(Clone, Copy, Debug)]
pub struct UnreadRange {
    /// `None` if nothing is left.
    pub(crate) keys: Option<(u128, u128)>,
    pub(crate) is_descending: bool,
    pub(crate) packs: u32,
}

type Opened = (Arc<Pack>, Unreadable);

const FIRST_BYTES: u32 = 128 << 10;
const MOST_BYTES: u32 = 1 << 20;

impl UnreadRange {
    pub(crate) fn new(first: u128, last: u128, is_descending: bool) -> Self {
        Self { keys: (first <= last).then_some((first, last)), is_descending, packs: 0 }
    }
}

/// If `is_lenient`, it continues without unreadable or missing packs. An unreadable pack does not show its
/// end, so only ascending pages can continue.
pub(crate) async fn page(
    session: Disconnected,
    rest: UnreadRange,
    is_lenient: bool,
) -> Result<Page, TableError> {
    let mut session = session.connect().await;
    let page = Page::read_with(&mut session, rest, is_lenient.then(Vec::new)).await?;
    session.end(page).await
}

impl Page {
    pub(crate) async fn read(session: &mut Session, rest: UnreadRange) -> Result<Self, TableError> {
        Self::read_with(session, rest, None).await
    }

    /// Without a list, the first problem ends the read.
    async fn read_with(
        session: &mut Session,
        rest: UnreadRange,
        mut problems: Option<Vec<TableError>>,
    ) -> Result<Self, TableError> {
        let Some((first, last)) = rest.keys else {
            return Ok(Self { rows: Vec::new(), problems: Vec::new(), rest });
        };
        let pack_bytes = session.state()?.contents.settings.pack_bytes;
        let most = |bytes: u32| (bytes / pack_bytes).max(2);
        let count = (rest.packs * 2).clamp(most(FIRST_BYTES), most(MOST_BYTES));
        let (most_packs, most_rows) = (i64::from(count), i64::from(count) * 16);
        let read = session.sql().range((first, last), rest.is_descending, most_packs, most_rows);
        let stored = session.query_tiers(read).await?;
        let view = session.view()?;
        let (mut recent, mut packs) = (Vec::new(), Vec::new());
        for (tier, stored) in stored {
            match tier {
                Tier::Recent => recent.push((stored.id, view.open_row(&stored))),
                Tier::Packs => packs.push((stored.id, view.open_readable(&stored))),
                Tier::Keys => {}
            }
        }
        packs.sort_unstable_by_key(|(id, _)| *id);
        recent.sort_unstable_by_key(|(key, _)| *key);
        let is_full = |len: usize, most: i64| i64::try_from(len).is_ok_and(|len| len >= most);
        let (packs_are_full, rows_are_full) =
            (is_full(packs.len(), most_packs), is_full(recent.len(), most_rows));
        let packs = readable(packs, packs_are_full, &mut problems)?;

        let gap = |id| session.gap_problem(session.table.location(Kind::Pack, id));
        for pair in packs.windows(2) {
            let [(pack, _), (next, _)] = pair else { continue };
            if pack.end != Some(next.id) {
                note(&mut problems, gap(pack.id))?;
            }
        }
        let (Some((lowest, _)), Some((highest, _))) = (packs.first(), packs.last()) else {
            return Err(TableError::Gap { location: session.table.packs_location() });
        };

        let mut covered = (first, last);
        if rest.is_descending {
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
            note(&mut problems, gap(highest.id))?;
        }

        let is_covered = |key: u128| covered.0 <= key && key <= covered.1;
        let packed = packs.into_iter().flat_map(|(pack, unreadable)| {
            let rows = Arc::unwrap_or_clone(pack).rows.into_iter();
            let rows = rows.map(|(key, value)| (key, Ok(Row::Value(value))));
            let unreadable = unreadable.into_iter().map(|(key, problem)| (key, Err(problem)));
            overlay(rows, unreadable)
        });
        let packed = packed.filter(|(key, _)| is_covered(*key));
        let recent = recent.into_iter().filter(|(key, _)| is_covered(*key));
        let mut rows = overlaid(packed, recent);
        let keys = match rest.is_descending {
            true => (covered.0 > first).then(|| (first, covered.0 - 1)),
            false => (covered.1 < last).then(|| (covered.1 + 1, last)),
        };
        if rest.is_descending {
            rows.reverse();
        }
        let rest = UnreadRange { keys, packs: count, ..rest };
        Ok(Self { rows, problems: problems.unwrap_or_default(), rest })
    }
}

fn note(problems: &mut Option<Vec<TableError>>, problem: TableError) -> Result<(), TableError> {
    match problems {
        Some(problems) => {
            problems.push(problem);
            Ok(())
        }
        None => Err(problem),
    }
}

fn readable(
    found: Vec<(u128, Result<Opened, TableError>)>,
    are_full: bool,
    problems: &mut Option<Vec<TableError>>,
) -> Result<Vec<Opened>, TableError> {
    let ids: Vec<_> = found.iter().skip(1).map(|(id, _)| *id).collect();
    let ends = ids.into_iter().map(Some).chain([None]);
    let mut packs = Vec::with_capacity(found.len());
    for ((id, pack), end) in found.into_iter().zip(ends) {
        let empty = |end| (Arc::new(Pack { id, end, rows: Vec::new() }), Unreadable::new());
        packs.push(match pack {
            Ok(pack) => pack,
            // The next page begins with this pack and then knows its end.
            Err(_) if problems.is_some() && are_full && end.is_none() => empty(Some(id)),
            Err(problem) => {
                note(problems, problem)?;
                empty(end)
            }
        });
    }
    Ok(packs)
}

/// An unreadable recent row hides the pack's value as well, because it may be a deletion.
fn overlaid(
    packed: impl Iterator<Item = MayFail>,
    recent: impl Iterator<Item = MayFail>,
) -> Vec<FoundRow> {
    let row = |(key, row): MayFail| match row {
        Ok(Row::Value(value)) => Some((key, Ok(value))),
        Ok(Row::Deleted) => None,
        Err(problem) => Some((key, Err(Box::new(problem)))),
    };
    overlay(packed, recent).filter_map(row).collect()
}

type MayFail = (u128, Result<Row, TableError>);

/// A row of the second iterator replaces the first one's row with the same key.
fn overlay(
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
