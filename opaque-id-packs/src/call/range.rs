use std::collections::BTreeMap;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Refusal;
use crate::format::{Kind, Row};
use crate::statement::Tier;
use crate::table::Table;

/// Reads the next rows of a range, in one snapshot.
pub struct Page {
    rest: Rest,
    /// The rows, in the range's order.
    rows: Option<Vec<(u128, Vec<u8>)>>,
}

/// What is left of a range.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// The first and the last key; `None` if nothing is left.
    pub(crate) keys: Option<(u128, u128)>,
    pub(crate) is_descending: bool,
    /// How many packs to read next.
    pub(crate) packs: u32,
}

/// How many bytes of packs the first page and the largest one read.
const FIRST_BYTES: u32 = 64 << 10;
const MOST_BYTES: u32 = 1 << 20;

impl Rest {
    pub(crate) fn new(first: u128, last: u128, is_descending: bool) -> Self {
        Self {
            keys: (first <= last).then_some((first, last)),
            is_descending,
            packs: 0,
        }
    }
}

impl Page {
    pub(crate) fn new(table: &Table, rest: Rest) -> Result<Self, Refusal> {
        let pack_bytes = table.opened()?.contents.settings.pack_bytes;
        let packs = |bytes: u32| (bytes / pack_bytes).max(2);
        let rest = Rest {
            packs: (rest.packs * 2).clamp(packs(FIRST_BYTES), packs(MOST_BYTES)),
            ..rest
        };
        Ok(Self { rest, rows: None })
    }

    /// Returns the rows and what is left.
    pub(crate) fn into_rows(self) -> (Vec<(u128, Vec<u8>)>, Rest) {
        (self.rows.unwrap_or_default(), self.rest)
    }

    /// As many as the packs may have.
    fn limits(&self) -> (i64, i64) {
        let packs = i64::from(self.rest.packs);
        (packs, packs * 16)
    }
}

impl Work for Page {
    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let keys = self.rest.keys.filter(|_| self.rows.is_none())?;
        let (packs, rows) = self.limits();
        let is_descending = self.rest.is_descending;
        Some(
            table
                .statements
                .range(dialect, keys, is_descending, packs, rows),
        )
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        let Some((first, last)) = self.rest.keys else {
            return Ok(());
        };
        let state = on.state()?;
        let mut recent = Vec::new();
        let mut packs = Vec::new();
        for (tier, stored) in on.table.read(rows(on, answer)?)? {
            match tier {
                Tier::Recent => {
                    let row = on.table.open_row(&state, &stored)?;
                    recent.push((stored.id, row));
                }
                Tier::Packs => packs.push(on.table.open_pack(&state, on.context, &stored)?),
            }
        }
        packs.sort_unstable_by_key(|pack| pack.id);
        recent.sort_unstable_by_key(|(key, _)| *key);
        let (most_packs, most_rows) = self.limits();
        let is_full = |len: usize, most: i64| i64::try_from(len).is_ok_and(|len| len >= most);
        let (packs_are_full, rows_are_full) = (
            is_full(packs.len(), most_packs),
            is_full(recent.len(), most_rows),
        );

        // Each pack must end where the next one begins, and they must cover the page.
        let gap = |id| Refusal::Gap {
            place: on.table.place(Kind::Pack, id),
        };
        if let Some(pair) = packs
            .windows(2)
            .find(|pair| pair[0].end != Some(pair[1].id))
        {
            return Err(gap(pair[0].id));
        }
        let (Some(lowest), Some(highest)) = (packs.first(), packs.last()) else {
            return Err(Refusal::Gap {
                place: format!("{}_packs", on.table.name()),
            });
        };

        // What of the range this page covers, from the smallest key to the largest one.
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
            return Err(gap(highest.id));
        }

        let is_covered = |key: u128| covered.0 <= key && key <= covered.1;
        let mut found = BTreeMap::new();
        for pack in &packs {
            let rows = pack.rows.iter().filter(|(key, _)| is_covered(*key));
            found.extend(rows.map(|(key, value)| (*key, value.clone())));
        }
        for (key, row) in recent.into_iter().filter(|(key, _)| is_covered(*key)) {
            match row {
                Row::Value(value) => found.insert(key, value),
                Row::Deleted => found.remove(&key),
            };
        }
        self.rest.keys = match self.rest.is_descending {
            true => (covered.0 > first).then(|| (first, covered.0 - 1)),
            false => (covered.1 < last).then(|| (covered.1 + 1, last)),
        };
        let mut rows: Vec<_> = found.into_iter().collect();
        if self.rest.is_descending {
            rows.reverse();
        }
        self.rows = Some(rows);
        Ok(())
    }
}
