use std::collections::HashMap;
use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Refusal;
use crate::format::{Kind, Pack, Row};
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// How many keys a statement asks for.
const KEYS: usize = 1_000;

/// Reads the values of keys.
pub struct Get {
    /// Each once, in order.
    asked: Vec<u128>,
    /// How many of them have been read.
    done: usize,
    /// The packs that the cache has of the next keys, in order, with their versions.
    known: Vec<(i64, Arc<Pack>)>,
    found: HashMap<u128, Vec<u8>>,
}

impl Get {
    pub(crate) fn new(table: &Table, mut asked: Vec<u128>) -> Self {
        asked.sort_unstable();
        asked.dedup();
        let mut get = Self {
            asked,
            done: 0,
            known: Vec::new(),
            found: HashMap::new(),
        };
        get.recall(table);
        get
    }

    pub(crate) fn into_found(self) -> HashMap<u128, Vec<u8>> {
        self.found
    }

    fn chunk(&self) -> &[u128] {
        let rest = &self.asked[self.done..];
        &rest[..rest.len().min(KEYS)]
    }

    fn recall(&mut self, table: &Table) {
        let cached = self.chunk().iter().filter_map(|key| table.cached(*key));
        let mut known: Vec<_> = cached.collect();
        known.dedup_by_key(|(_, pack)| pack.id);
        self.known = known;
    }
}

impl Work for Get {
    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let known = self.known.iter().map(|(version, pack)| (pack.id, *version));
        match self.chunk() {
            [] => None,
            keys => Some(table.statements.get(dialect, keys, &known.collect::<Vec<_>>())),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        let Tiers { recent, packs } = Tiers::read(on, answer, &self.known)?;
        let mut found = Vec::new();
        for key in self.chunk() {
            match recent.get(key) {
                Some((_, Row::Value(value))) => found.push((*key, value.clone())),
                Some((_, Row::Deleted)) => {}
                None => {
                    let (_, pack) = pack_of(on, &packs, *key)?;
                    if let Some(value) = value_of(pack, *key) {
                        found.push((*key, value.to_owned()));
                    }
                }
            }
        }
        self.found.extend(found);
        self.done += self.chunk().len();
        self.recall(on.table);
        Ok(())
    }
}

/// What both tiers have of some keys.
pub(super) struct Tiers {
    /// Rows with their versions.
    pub(super) recent: HashMap<u128, (i64, Row)>,
    /// Packs with their versions, in order.
    pub(super) packs: Vec<(i64, Arc<Pack>)>,
}

impl Tiers {
    /// Reads an answer. The server sends no body for a pack that is `known`.
    pub(super) fn read(
        on: &On<'_>,
        answer: Answer,
        known: &[(i64, Arc<Pack>)],
    ) -> Result<Self, Refusal> {
        let state = on.state()?;
        let mut tiers = Self {
            recent: HashMap::new(),
            packs: Vec::new(),
        };
        for (tier, stored) in on.table.read(rows(on, answer)?)? {
            match tier {
                Tier::Recent => {
                    let row = on.table.open_row(&state, &stored)?;
                    tiers.recent.insert(stored.id, (stored.version, row));
                }
                Tier::Packs => tiers.packs.push((stored.version, open(on, &stored, known)?)),
            }
        }
        tiers.packs.sort_unstable_by_key(|(_, pack)| pack.id);
        Ok(tiers)
    }
}

fn open(on: &On<'_>, stored: &Stored, known: &[(i64, Arc<Pack>)]) -> Result<Arc<Pack>, Refusal> {
    let known = known
        .iter()
        .find(|(version, pack)| (pack.id, *version) == (stored.id, stored.version));
    match known {
        Some((version, pack)) if stored.body.is_empty() => {
            on.table.check_age(on.context, pack.id, *version)?;
            Ok(Arc::clone(pack))
        }
        _ => on.table.open_and_cache(&*on.state()?, on.context, stored),
    }
}

/// Returns the pack that a key belongs to, with its version.
pub(super) fn pack_of<'p>(
    on: &On<'_>,
    packs: &'p [(i64, Arc<Pack>)],
    key: u128,
) -> Result<&'p (i64, Arc<Pack>), Refusal> {
    let after = packs.partition_point(|(_, pack)| pack.id <= key);
    let found = packs[..after].last().ok_or_else(|| Refusal::Gap {
        place: format!("{}_packs", on.table.name()),
    })?;
    match found.1.end {
        Some(end) if key >= end => Err(Refusal::Gap {
            place: on.table.place(Kind::Pack, found.1.id),
        }),
        _ => Ok(found),
    }
}

pub(super) fn value_of(pack: &Pack, key: u128) -> Option<&[u8]> {
    let place = pack.rows.binary_search_by_key(&key, |(key, _)| *key).ok()?;
    Some(&pack.rows[place].1)
}
