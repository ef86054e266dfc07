//! Tables with the same rows, and the operations of clients on them.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opaque_id_packs::sqlx::{EncryptedColumn, PackTable};
use opaque_id_packs::{Encrypted, Raw, Update};
use opaque_id_sqlx::key::Uuid7;
use opaque_id_sqlx::{Dialect, IdRange};
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;
use sqlx::Pool;

use crate::rows::{Body, Id, Record, Rows};

pub(crate) type Packs = PackTable<Record, Vec<u8>, Raw>;
pub(crate) type Column = EncryptedColumn<Record, Vec<u8>, Raw>;

pub(crate) const RANGE: usize = 1_000;

/// The rows repeat under new keys if more are needed.
pub(crate) struct Set {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<Vec<u8>>,
}

impl Set {
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn value(&self, i: usize) -> &Vec<u8> {
        &self.values[i % self.len()]
    }

    pub(crate) fn rows(&self, places: Range<usize>) -> Result<Vec<(Id, Body)>> {
        places.map(|i| Ok((id(i)?, self.value(i).clone()))).collect()
    }

    /// The latest rows of the first fifth, as many as `PackTable::train` would read.
    pub(crate) fn samples(&self, dictionary: usize) -> Vec<&Vec<u8>> {
        let mut bytes = 0;
        let samples = self.values[..self.len() / 5].iter().rev().take_while(|row| {
            bytes += row.len();
            bytes < dictionary * 100
        });
        samples.collect()
    }
}

/// Ten keys per second.
pub(crate) fn id(i: usize) -> Result<Id> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let [a, b] = [0, 1].map(|part| hasher.hash_one((part, i)));
    let millis = 1_700_000_000_000 + 100 * i as u64;
    Ok(Id::from_key(Uuid7::from_parts(millis, u16::try_from(a & 0xfff)?, b))?)
}

pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    set: Arc<Set>,
    pub(crate) rows: AtomicUsize,
    get: String,
    range: String,
    update: String,
}

pub(crate) enum Layout {
    Plain,
    Column(Column),
    Packs(Packs),
}

impl Table {
    pub(crate) fn new<DB: Rows>(name: String, layout: Layout, set: &Arc<Set>) -> Arc<Self> {
        let [first, second] = match DB::SQL {
            Dialect::Postgres => ["$1", "$2"],
            _ => ["?", "?"],
        };
        let select = format!("body FROM {name} WHERE id");
        Arc::new(Self {
            get: format!("SELECT {select} = {first}"),
            range: format!("SELECT id, {select} BETWEEN {first} AND {second} ORDER BY id"),
            update: format!("UPDATE {name} SET body = {first} WHERE id = {second}"),
            set: Arc::clone(set),
            rows: AtomicUsize::new(0),
            name,
            layout,
        })
    }

    pub(crate) async fn fill<DB: Rows>(&self, pool: &Pool<DB>, len: usize) -> Result {
        for first in (self.rows.load(Ordering::Relaxed)..len).step_by(10_000) {
            self.insert(pool, first..len.min(first + 10_000)).await?;
            self.merge(pool).await?;
        }
        Ok(())
    }

    pub(crate) async fn insert<DB: Rows>(&self, pool: &Pool<DB>, places: Range<usize>) -> Result {
        let rows = self.set.rows(places.clone())?;
        if let Layout::Packs(packs) = &self.layout {
            packs.put_all(pool, &rows).await?;
        } else {
            for chunk in rows.chunks(1_000) {
                let encrypted = chunk.iter().map(|(id, value)| Ok((*id, self.body(*id, value)?)));
                let encrypted = encrypted.collect::<Result<Vec<_>>>()?;
                DB::insert(pool, &self.name, encrypted).await?;
            }
        }
        self.rows.fetch_max(places.end, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) async fn merge<DB: Rows>(&self, pool: &Pool<DB>) -> Result {
        if let Layout::Packs(packs) = &self.layout {
            packs.merge_all(pool).await?;
        }
        Ok(())
    }

    fn body(&self, id: Id, value: &Vec<u8>) -> Result<Body> {
        Ok(match &self.layout {
            Layout::Column(column) => column.encrypt(id, value)?.as_bytes().to_vec(),
            _ => value.clone(),
        })
    }

    fn check(&self, i: usize, id: Id, body: Body) -> Result {
        let value = match &self.layout {
            Layout::Column(column) => column.decrypt(id, &Encrypted::from_bytes(body))?,
            _ => body,
        };
        check(self.set.value(i) == &value)
    }

    pub(crate) fn choose(&self, act: Act, random: &mut Random) -> usize {
        let len = self.rows.load(Ordering::Relaxed);
        match act {
            Act::Append => self.rows.fetch_add(1, Ordering::Relaxed),
            Act::Range => random.below(len - RANGE.min(len - 1)),
            _ => random.below(len),
        }
    }

    pub(crate) async fn act<DB: Rows>(&self, pool: &Pool<DB>, act: Act, i: usize) -> Result {
        let id_of_row = id(i)?;
        match (act, &self.layout) {
            (Act::Get, Layout::Packs(packs)) => {
                let value = packs.get(pool, id_of_row).await?;
                check(value.as_ref() == Some(self.set.value(i)))
            }
            (Act::Get, _) => {
                let body = DB::row(pool, &self.get, id_of_row).await?;
                self.check(i, id_of_row, body)
            }
            (Act::Range, layout) => {
                let end = self.rows.load(Ordering::Relaxed).min(i + RANGE);
                let (mut next, last) = (i, id(end - 1)?);
                if let Layout::Packs(packs) = layout {
                    let keys = id_of_row.expose_key()..=last.expose_key();
                    let mut pages = packs.pages(IdRange::<Id>::all().within(keys));
                    while let Some(page) = packs.next_page(pool, &mut pages).await? {
                        for (_, value) in page {
                            check(self.set.value(next) == &value)?;
                            next += 1;
                        }
                    }
                } else {
                    for (id, body) in DB::rows(pool, &self.range, [id_of_row, last]).await? {
                        self.check(next, id, body)?;
                        next += 1;
                    }
                }
                check(next == end)
            }
            (Act::Replace | Act::Append, Layout::Packs(packs)) => {
                Ok(packs.put(pool, id_of_row, self.set.value(i)).await?)
            }
            (Act::Update, Layout::Packs(packs)) => {
                let expected = self.set.value(i).clone();
                let update = move |value: Option<Vec<u8>>| match value {
                    Some(value) if value == expected => Update::Put(value),
                    _ => Update::Delete,
                };
                Ok(packs.update(pool, id_of_row, update).await?)
            }
            (Act::Append, _) => {
                let body = self.body(id_of_row, self.set.value(i))?;
                DB::insert(pool, &self.name, vec![(id_of_row, body)]).await
            }
            (Act::Replace | Act::Update, _) => {
                let body = self.body(id_of_row, self.set.value(i))?;
                check(DB::update(pool, &self.update, body, id_of_row).await? == 1)
            }
        }
    }

    pub(crate) fn relations(&self) -> Vec<String> {
        match &self.layout {
            Layout::Packs(_) => {
                ["recent", "packs", "meta"].map(|suffix| format!("{}_{suffix}", self.name)).to_vec()
            }
            _ => vec![self.name.clone()],
        }
    }
}

fn check(is_as_written: bool) -> Result {
    match is_as_written {
        true => Ok(()),
        false => Err("a row is not as it was written".into()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Get,
    Range,
    Replace,
    Update,
    Append,
}
