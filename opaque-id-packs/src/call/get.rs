//! Reads rows by key. A recent row hides the row of a pack, and a pack that the cache has in this version is sent without its body.

use std::collections::HashMap;
use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::cache::{CacheStats, Cached};
use crate::error::Problem;
use crate::format::{Kind, Pack, Row, Value};
use crate::statement::{Statements, Stored, Tier};
use crate::table::{Table, Unreadable, count};

/// For how many keys the cache is asked, at least as many as a statement takes.
const RECALLED: usize = 1_000;

/// Reads the values of keys.
pub struct Get {
    /// Each once, in order.
    asked: Vec<u128>,
    /// How many of them have been read.
    done: usize,
    /// The packs that the cache has of the next keys, in order.
    known: Vec<Cached>,
    found: HashMap<u128, Value>,
}

impl Get {
    pub(crate) fn new(table: &Table, mut asked: Vec<u128>) -> Self {
        asked.sort_unstable();
        asked.dedup();
        let mut get = Self { asked, done: 0, known: Vec::new(), found: HashMap::new() };
        get.recall(table);
        get
    }

    pub(crate) fn into_found(self) -> HashMap<u128, Value> {
        self.found
    }

    /// Returns the keys of the next statement.
    fn chunk(&self, dialect: Dialect) -> &[u128] {
        let rest = &self.asked[self.done..];
        &rest[..rest.len().min(Statements::most_keys(dialect))]
    }

    fn recall(&mut self, table: &Table) {
        let keys = self.asked[self.done..].iter().take(RECALLED);
        let cached = keys.filter_map(|key| table.cached(*key));
        let mut known: Vec<_> = cached.collect();
        known.dedup_by_key(|cached| cached.pack.id);
        self.known = known;
    }
}

impl Work for Get {
    fn is_done(&self) -> bool {
        self.done == self.asked.len()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let known = self.known.iter().map(|cached| (cached.pack.id, cached.version));
        match self.chunk(dialect) {
            [] => None,
            keys => Some(table.statements.get(dialect, keys, &known.collect::<Vec<_>>())),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let tiers = Tiers::read(on, answer)?;
        // Its other rows are wanted by nobody. Of a pack that was known the answer has no body, also if the cache is gone now.
        let is_alone = self.chunk(on.dialect).len() == 1
            && self.known.is_empty()
            && on.table.cache().is_none();
        // The pack of the last key, which may have the next one as well.
        let mut open: Option<(Arc<Pack>, Unreadable)> = None;
        let (mut found, mut read) = (Vec::new(), CacheStats::default());
        for key in self.chunk(on.dialect) {
            match tiers.recent.get(key) {
                Some((_, Row::Value(value))) => found.push((*key, value.clone())),
                Some((_, Row::Deleted)) => {}
                None if is_alone => {
                    let stored = tiers.pack_of(on, *key)?;
                    let (table, context) = (on.table, on.context);
                    let (end, value) =
                        table.find_in_pack(&*on.state()?, context, stored, on.groups, *key)?;
                    check_end(on, stored.id, end, *key)?;
                    found.extend(value.map(|value| (*key, value)));
                }
                None => {
                    let stored = tiers.pack_of(on, *key)?;
                    let (pack, unreadable) =
                        match open.take().filter(|(pack, _)| pack.id == stored.id) {
                            Some(opened) => opened,
                            None => self.open(on, stored, &mut read)?,
                        };
                    if let Some((_, problem)) = unreadable.iter().find(|(place, _)| place == key) {
                        return Err(problem.clone());
                    }
                    found.extend(value_of(on, &pack, *key)?.map(|value| (*key, value.clone())));
                    open = Some((pack, unreadable));
                }
            }
        }
        on.table.count_cached(read);
        self.found.extend(found);
        self.done += self.chunk(on.dialect).len();
        self.recall(on.table);
        Ok(())
    }
}

impl Get {
    /// Opens a pack. The server sends no body for one that is known.
    fn open(
        &self,
        on: &On<'_>,
        stored: &Stored,
        read: &mut CacheStats,
    ) -> Result<(Arc<Pack>, Unreadable), Problem> {
        let mut known = self.known.iter();
        let known =
            known.find(|known| (known.pack.id, known.version) == (stored.id, stored.version));
        match known {
            Some(Cached { version, pack, len }) if stored.body.is_empty() => {
                on.table.check_age(on.context, Kind::Pack, pack.id, count(*version))?;
                on.table.check_end(stored, pack.end)?;
                read.hits += 1;
                read.bytes_saved += *len as u64;
                Ok((Arc::clone(pack), Unreadable::new()))
            }
            _ => {
                read.misses += 1;
                on.table.open_and_cache(&*on.state()?, on.context, stored, on.groups)
            }
        }
    }
}

/// The contents of both tiers for some keys. A pack is not opened before it is needed: a recent row is there also if the pack is
/// corrupt.
pub(super) struct Tiers {
    /// Rows with their versions.
    pub(super) recent: HashMap<u128, (i64, Row)>,
    /// In order.
    packs: Vec<Stored>,
}

impl Tiers {
    pub(super) fn read(on: &On<'_>, answer: Answer) -> Result<Self, Problem> {
        let state = on.state()?;
        let mut tiers = Self { recent: HashMap::new(), packs: Vec::new() };
        for (tier, stored) in on.table.read(rows(on, answer)?)? {
            match tier {
                Tier::Recent => {
                    let row = on.table.open_row(&state, &stored, on.groups)?;
                    tiers.recent.insert(stored.id, (stored.version, row));
                }
                Tier::Packs => tiers.packs.push(stored),
                Tier::Keys => {}
            }
        }
        tiers.packs.sort_unstable_by_key(|pack| pack.id);
        Ok(tiers)
    }

    /// Returns the pack with the greatest id that is not above a key.
    pub(super) fn pack_of(&self, on: &On<'_>, key: u128) -> Result<&Stored, Problem> {
        let after = self.packs.partition_point(|pack| pack.id <= key);
        self.packs[..after].last().ok_or_else(|| Problem::Gap { location: on.table.packs() })
    }
}

/// Returns the value that a pack has of a key, which must be below the next pack.
pub(super) fn value_of<'p>(
    on: &On<'_>,
    pack: &'p Pack,
    key: u128,
) -> Result<Option<&'p Value>, Problem> {
    check_end(on, pack.id, pack.end, key)?;
    let place = pack.rows.binary_search_by_key(&key, |(key, _)| *key);
    Ok(place.ok().map(|place| &pack.rows[place].1))
}

/// Checks that a key is below the pack after this one.
pub(super) fn check_end(
    on: &On<'_>,
    id: u128,
    end: Option<u128>,
    key: u128,
) -> Result<(), Problem> {
    match end.is_some_and(|end| key >= end) {
        true => Err(on.gap(on.table.location(Kind::Pack, id))),
        false => Ok(()),
    }
}
