//! Reads rows by key. The server sends no body for a pack that the cache has in the server's version.

use std::collections::HashMap;
use std::sync::Arc;

use opaque_id_sql::statement::Statement;

use super::{Disconnected, Session};
use crate::cache::{CacheStats, Cached};
use crate::error::TableError;
use crate::format::{Kind, Pack, Row, Value};
use crate::stored::{StoredRow, Tier};
use crate::table::{Unreadable, View};

pub(crate) async fn get(
    session: Disconnected,
    mut keys: Vec<u128>,
) -> Result<HashMap<u128, Value>, TableError> {
    let mut found = HashMap::new();
    if keys.is_empty() {
        return Ok(found);
    }
    keys.sort_unstable();
    keys.dedup();
    let mut session = session.connect().await;
    for keys in keys.chunks(session.sql().most_keys()) {
        let mut known: Vec<_> = keys.iter().filter_map(|key| session.table.cached(*key)).collect();
        known.dedup_by_key(|cached| cached.pack.id);
        let versions: Vec<_> = known.iter().map(|known| (known.pack.id, known.version)).collect();
        let read = session.sql().get(keys, &versions);
        let tiers = Tiers::read(&mut session, read).await?;
        read_values(&session, keys, &known, &tiers, &mut found)?;
    }
    session.end(found).await
}

fn read_values(
    session: &Session,
    keys: &[u128],
    known: &[Cached],
    tiers: &Tiers,
    found: &mut HashMap<u128, Value>,
) -> Result<(), TableError> {
    let (table, view) = (&session.table, session.view()?);
    // No other row of the pack is needed. A known pack comes without its body, even if the cache is gone by
    // now.
    let is_alone = keys.len() == 1 && known.is_empty() && table.cache().is_none();
    // This pack may have the next key as well.
    let mut open: Option<(Arc<Pack>, Unreadable)> = None;
    let mut read = CacheStats::default();
    for key in keys {
        match tiers.recent.get(key) {
            Some((_, Row::Value(value))) => {
                found.insert(*key, value.clone());
            }
            Some((_, Row::Deleted)) => {}
            None if is_alone => {
                let value = find(session, tiers.pack_of(session, *key)?, *key)?;
                found.extend(value.map(|value| (*key, value)));
            }
            None => {
                let stored = tiers.pack_of(session, *key)?;
                let (pack, unreadable) = match open.take().filter(|(pack, _)| pack.id == stored.id)
                {
                    Some(opened) => opened,
                    None => open_cached(&view, known, stored, &mut read)?,
                };
                if let Some((_, problem)) = unreadable.iter().find(|(place, _)| place == key) {
                    return Err(problem.clone());
                }
                found.extend(value_of(session, &pack, *key)?.map(|value| (*key, value.clone())));
                open = Some((pack, unreadable));
            }
        }
    }
    table.count_cached(read);
    Ok(())
}

fn open_cached(
    view: &View<'_>,
    known: &[Cached],
    stored: &StoredRow,
    read: &mut CacheStats,
) -> Result<(Arc<Pack>, Unreadable), TableError> {
    let is_known = |known: &&Cached| (known.pack.id, known.version) == (stored.id, stored.version);
    match known.iter().find(is_known) {
        Some(Cached { version, pack, len }) if stored.body.is_empty() => {
            view.check_age(pack.id, *version)?;
            view.table.check_end(stored, pack.end)?;
            read.hits += 1;
            read.bytes_saved += *len as u64;
            Ok((Arc::clone(pack), Unreadable::new()))
        }
        _ => {
            read.misses += 1;
            view.open_and_cache(stored)
        }
    }
}

/// A pack is opened only when it is needed, so recent rows can be read beside a corrupt pack.
pub(super) struct Tiers {
    pub(super) recent: HashMap<u128, (i64, Row)>,
    packs: Vec<StoredRow>,
}

impl Tiers {
    pub(super) async fn read(
        session: &mut Session,
        statement: Statement,
    ) -> Result<Self, TableError> {
        let stored = session.query_tiers(statement).await?;
        let view = session.view()?;
        let mut tiers = Self { recent: HashMap::new(), packs: Vec::new() };
        for (tier, stored) in stored {
            match tier {
                Tier::Recent => {
                    let row = view.open_row(&stored)?;
                    tiers.recent.insert(stored.id, (stored.version, row));
                }
                Tier::Packs => tiers.packs.push(stored),
                Tier::Keys => {}
            }
        }
        tiers.packs.sort_unstable_by_key(|pack| pack.id);
        Ok(tiers)
    }

    pub(super) fn pack_of(&self, session: &Session, key: u128) -> Result<&StoredRow, TableError> {
        let after = self.packs.partition_point(|pack| pack.id <= key);
        let missing = || TableError::Gap { location: session.table.packs_location() };
        self.packs[..after].last().ok_or_else(missing)
    }
}

/// The key must be below the next pack.
pub(super) fn value_of<'p>(
    session: &Session,
    pack: &'p Pack,
    key: u128,
) -> Result<Option<&'p Value>, TableError> {
    check_end(session, pack.id, pack.end, key)?;
    let place = pack.rows.binary_search_by_key(&key, |(key, _)| *key);
    Ok(place.ok().map(|place| &pack.rows[place].1))
}

/// Reads no other row of the pack.
pub(super) fn find(
    session: &Session,
    stored: &StoredRow,
    key: u128,
) -> Result<Option<Value>, TableError> {
    let (end, value) = session.view()?.find_in_pack(stored, key)?;
    check_end(session, stored.id, end, key)?;
    Ok(value)
}

fn check_end(session: &Session, id: u128, end: Option<u128>, key: u128) -> Result<(), TableError> {
    match end.is_some_and(|end| key >= end) {
        true => Err(session.gap_problem(session.table.location(Kind::Pack, id))),
        false => Ok(()),
    }
}
