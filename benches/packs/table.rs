//! Tables with the same rows, and what clients do with them.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use opaque_id_packs::format::{Codec, GroupKeys, Kind, PackCipher, Padding, Place, Row};
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{Raw, Update};
use opaque_id_sqlx::key::{Uuid, Uuid7};
use opaque_id_sqlx::{IdRange, Internal, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;
use sqlx::{AssertSqlSafe, PgPool};

#[derive(OpaqueId)]
#[opaque_id(prefix = "row")]
pub(crate) struct Record;

pub(crate) type Id = Internal<Record>;
pub(crate) type Packs = PackTable<Record, Vec<u8>, Raw>;

/// Rows of a range.
pub(crate) const RANGE: usize = 1_000;

/// Rows, which repeat under new keys where more are needed.
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
}

/// Returns the key of a row: ten of them per second.
pub(crate) fn id(i: usize) -> Result<Id> {
    let hasher = BuildHasherDefault::<DefaultHasher>::default();
    let [a, b] = [0, 1].map(|part| hasher.hash_one((part, i)));
    let millis = 1_700_000_000_000 + 100 * i as u64;
    Ok(Id::from_key(Uuid7::from_parts(millis, u16::try_from(a & 0xfff)?, b))?)
}

pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) layout: Layout,
    pub(crate) set: Arc<Set>,
    /// How many rows it has.
    pub(crate) rows: AtomicUsize,
    pub(crate) get: Arc<str>,
    pub(crate) range: Arc<str>,
    pub(crate) insert: Arc<str>,
    pub(crate) update: Arc<str>,
}

pub(crate) enum Layout {
    Plain,
    /// Encrypted one by one.
    Sealed(Codec, PackCipher),
    Packs(Packs),
}

impl Table {
    pub(crate) fn new(name: String, layout: Layout, set: &Arc<Set>) -> Self {
        Self {
            get: format!("SELECT body FROM {name} WHERE id = $1").into(),
            range: format!("SELECT id, body FROM {name} WHERE id BETWEEN $1 AND $2 ORDER BY id")
                .into(),
            insert: format!("INSERT INTO {name} (id, body) VALUES ($1, $2)").into(),
            update: format!("UPDATE {name} SET body = $2 WHERE id = $1").into(),
            set: Arc::clone(set),
            rows: AtomicUsize::new(0),
            name,
            layout,
        }
    }

    /// Fills it up to this number of rows.
    pub(crate) async fn fill(&self, pool: &PgPool, len: usize) -> Result {
        let (chunk, insert) = match &self.layout {
            Layout::Packs(_) => (10_000, String::new()),
            _ => {
                let name = &self.name;
                let select = "SELECT * FROM UNNEST(CAST($1 AS uuid[]), CAST($2 AS bytea[]))";
                (1_000, format!("INSERT INTO {name} (id, body) {select}"))
            }
        };
        let mut filled = self.rows.load(Ordering::Relaxed);
        while filled < len {
            let next = len.min(filled + chunk);
            match &self.layout {
                Layout::Packs(packs) => {
                    packs.put_all(pool, &rows(&self.set, filled, next)?).await?;
                    packs.merge_all(pool).await?;
                }
                _ => {
                    let ids = (filled..next).map(id).collect::<Result<Vec<_>>>()?;
                    let bodies = (filled..next).map(|i| self.body(i));
                    sqlx::query(AssertSqlSafe(&*insert))
                        .bind(ids.iter().map(|id| id.expose_key().into()).collect::<Vec<Uuid>>())
                        .bind(bodies.collect::<Result<Vec<_>>>()?)
                        .execute(pool)
                        .await?;
                }
            }
            filled = next;
        }
        self.rows.store(filled, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn body(&self, i: usize) -> Result<Vec<u8>> {
        let value = self.set.value(i);
        Ok(match &self.layout {
            Layout::Sealed(codec, cipher) => {
                let plaintext = Row::Value(value.clone().into()).encode(
                    codec,
                    Padding::None,
                    &GroupKeys::default(),
                )?;
                cipher.encrypt(place(id(i)?), codec, &plaintext)
            }
            _ => value.clone(),
        })
    }

    /// Checks that a body has the value of a row.
    pub(crate) fn check(&self, i: usize, id: Id, body: Vec<u8>) -> Result {
        let value = match &self.layout {
            Layout::Sealed(codec, cipher) => {
                let plaintext = cipher.open(place(id), codec, &body)?;
                match Row::decode(&plaintext, codec, &GroupKeys::default())? {
                    Row::Value(value) => value.bytes,
                    Row::Deleted => return Err("a row is deleted".into()),
                }
            }
            _ => body,
        };
        check(self.set.value(i) == &value)
    }

    pub(crate) async fn act(&self, pool: &PgPool, act: Act, random: &mut Random) -> Result {
        let len = self.rows.load(Ordering::Relaxed);
        let i = match act {
            Act::Append => self.rows.fetch_add(1, Ordering::Relaxed),
            Act::Range => random.below(len - RANGE.min(len - 1)),
            _ => random.below(len),
        };
        let id_of_row = id(i)?;
        match (act, &self.layout) {
            (Act::Get, Layout::Packs(packs)) => {
                let value = packs.get(pool, id_of_row).await?;
                check(value.as_ref() == Some(self.set.value(i)))
            }
            (Act::Get, _) => {
                let body = sqlx::query_scalar(AssertSqlSafe(Arc::clone(&self.get)))
                    .bind(id_of_row)
                    .fetch_one(pool)
                    .await?;
                self.check(i, id_of_row, body)
            }
            (Act::Range, Layout::Packs(packs)) => {
                let last = id(len.min(i + RANGE) - 1)?;
                let range = IdRange::<Id>::all().within(id_of_row.expose_key()..=last.expose_key());
                let mut pages = packs.pages(range);
                let mut next = i;
                while let Some(page) = packs.next_page(pool, &mut pages).await? {
                    for (_, value) in page {
                        check(self.set.value(next) == &value)?;
                        next += 1;
                    }
                }
                check(next == len.min(i + RANGE))
            }
            (Act::Range, _) => {
                let last = len.min(i + RANGE);
                let rows: Vec<(Id, Vec<u8>)> =
                    sqlx::query_as(AssertSqlSafe(Arc::clone(&self.range)))
                        .bind(id_of_row)
                        .bind(id(last - 1)?)
                        .fetch_all(pool)
                        .await?;
                check(rows.len() == last - i)?;
                for (i, (id, body)) in (i..).zip(rows) {
                    self.check(i, id, body)?;
                }
                Ok(())
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
            (Act::Replace | Act::Append | Act::Update, _) => {
                let sql = match act {
                    Act::Append => &self.insert,
                    _ => &self.update,
                };
                let written = sqlx::query(AssertSqlSafe(Arc::clone(sql)))
                    .bind(id_of_row)
                    .bind(self.body(i)?)
                    .execute(pool)
                    .await?;
                check(written.rows_affected() == 1)
            }
        }
    }

    /// What the database calls its tables.
    pub(crate) fn relations(&self) -> Vec<String> {
        match &self.layout {
            Layout::Packs(_) => {
                ["recent", "packs", "meta"].map(|suffix| format!("{}_{suffix}", self.name)).to_vec()
            }
            _ => vec![self.name.clone()],
        }
    }
}

pub(crate) fn rows(set: &Set, first: usize, end: usize) -> Result<Vec<(Id, Vec<u8>)>> {
    (first..end).map(|i| Ok((id(i)?, set.value(i).clone()))).collect()
}

pub(crate) fn place(id: Id) -> Place {
    Place { kind: Kind::Row, id: Uuid::from(id.expose_key()).as_u128(), version: 0 }
}

pub(crate) fn check(is_as_written: bool) -> Result {
    match is_as_written {
        true => Ok(()),
        false => Err("a row is not as it was written".into()),
    }
}

/// What a client does again and again, to a random row.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    Get,
    Range,
    /// Writes a row, whatever was there.
    Replace,
    /// Writes a row that depends on what was there.
    Update,
    Append,
}
