//! The size of packs with groups, by the number of neighbors in one group.

use opaque_id_core::Keyring;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{Encoding, Group, Raw, Settings};
use opaque_id_sqlx::{Dialect, MasterSecret};
use opaque_id_tests::Result;
use sqlx::sqlite::SqlitePoolOptions;
use sqlx::{AssertSqlSafe, SqlitePool};

use crate::report::{NO_GROUPS, Report};
use crate::rows::Record;
use crate::table::{Set, id};

/// 0 is a table without groups.
const NEIGHBORS: [usize; 5] = [0, 1000, 100, 10, 1];

enum Numbered {}

impl Encoding<(u64, Vec<u8>)> for Numbered {
    const NAME: &'static str = "raw";
    const IS_GROUPED: bool = true;

    fn encode((_, bytes): &(u64, Vec<u8>)) -> std::result::Result<Vec<u8>, String> {
        Ok(bytes.clone())
    }

    fn decode(bytes: &[u8]) -> std::result::Result<(u64, Vec<u8>), String> {
        Ok((0, bytes.to_vec()))
    }

    fn group((group, _): &(u64, Vec<u8>)) -> Option<Group> {
        Some(Group::new((*group).into()))
    }
}

pub(crate) async fn grouped(set: &Set, dictionary: usize, report: &mut Report) -> Result {
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let len = set.len().min(20_000);
    let mut cases = vec![("values".to_owned(), set.values[..len].iter().map(Vec::len).sum())];
    for neighbors in NEIGHBORS {
        let (name, pool) = match neighbors {
            0 => {
                let row = |i| set.value(i).clone();
                (NO_GROUPS.to_owned(), filled::<_, Raw>(&keyring, dictionary, row, len).await?)
            }
            _ => {
                let row = |i: usize| ((i / neighbors) as u64, set.value(i).clone());
                let pool = filled::<_, Numbered>(&keyring, dictionary, row, len).await?;
                (neighbors.to_string(), pool)
            }
        };
        let keys = match neighbors {
            0 => "0",
            _ => "(SELECT SUM(LENGTH(id) + 8 + LENGTH(body)) FROM rows_keys)",
        };
        let sum = format!("SELECT SUM(LENGTH(id) + 8 + LENGTH(body)) + {keys} FROM rows_packs");
        let bytes: i64 = sqlx::query_scalar(AssertSqlSafe(sum)).fetch_one(&pool).await?;
        cases.push((name, usize::try_from(bytes)?));
    }
    let title = format!("{}: MB of {len} rows by neighbors of one group", set.name);
    report.sizes(&title, &format!("groups {}", set.name), cases)
}

pub(crate) async fn in_memory(tables: String) -> Result<SqlitePool> {
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await?;
    sqlx::raw_sql(AssertSqlSafe(tables)).execute(&pool).await?;
    Ok(pool)
}

async fn filled<V: Send + Sync, E: Encoding<V>>(
    keyring: &Keyring,
    dictionary: usize,
    row: impl Fn(usize) -> V,
    len: usize,
) -> Result<SqlitePool> {
    let tables = PackTable::<Record, V, E>::create_sql(Dialect::Sqlite, "rows");
    let pool = &in_memory(tables).await?;
    let packs: PackTable<Record, V, E> =
        PackTable::open(pool, keyring, "rows", Settings::default()).await?;
    for first in (0..len).step_by(10_000) {
        let rows = (first..len.min(first + 10_000)).map(|i| Ok((id(i)?, row(i))));
        let rows = rows.collect::<Result<Vec<_>>>()?;
        packs.put_all(pool, &rows).await?;
        if first == 0 {
            // The same dictionary for groups of each size: `train` copies only texts that 20 groups share.
            packs.train_from_public(pool, rows.iter().map(|(_, row)| row), dictionary).await?;
        }
        packs.merge_all(pool).await?;
    }
    packs.rekey(pool, |_| {}).await?;
    Ok(pool.clone())
}
