//! Packs on each database, relative to an encrypted column with the same dictionary in an ordinary table: one client, whose
//! cases take turns.

use std::time::Instant;

use opaque_id_core::Keyring;
use opaque_id_packs::sqlx::{EncryptedColumn, PackTable};
use opaque_id_packs::{Encrypted, Raw, Settings};
use opaque_id_sqlx::{Dialect, IdRange, Internal, MasterSecret};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::random::Random;
use sqlx::{AssertSqlSafe, MySqlPool, PgPool, QueryBuilder, SqlitePool};

use crate::report::{COLUMN, Report, Turn};
use crate::table::{Id, RANGE, Record, Set, id};
use crate::{Plan, is_smoke};

/// Rows that are there before the rounds, of which each inserts some.
const ROWS: usize = 20_000;
const INSERTED: usize = 3_000;

const CASES: [&str; 5] = ["inserts", "point reads", "ranges", "updates", "merged"];

/// What a column's table and packs do per second.
type Rates = [[Vec<f64>; 2]; CASES.len()];

type Value = Encrypted<Record, Vec<u8>>;

pub(crate) async fn databases(
    kind: Kind,
    database: &Database,
    set: &Set,
    plan: Plan,
    report: &mut Report,
) -> Result {
    let url = &*database.url;
    let rates = match kind {
        Kind::Postgres => postgres(PgPool::connect(url).await?, set, plan).await?,
        Kind::Mysql | Kind::Mariadb => mysql(MySqlPool::connect(url).await?, set, plan).await?,
        Kind::Sqlite => sqlite(SqlitePool::connect(url).await?, set, plan).await?,
    };
    report.begin(&format!("{kind}: rows and ranges per second of one client"));
    for (case, [column, packs]) in CASES.iter().zip(rates) {
        let turns = |rates: Vec<f64>| rates.into_iter().map(Turn::of).collect();
        let cases = [(COLUMN, turns(column)), ("packs", turns(packs))];
        report.add(&format!("{kind} {case}"), 1, &cases)?;
    }
    Ok(())
}

/// Adds how often per second a case happened that began then.
fn add(rates: &mut Rates, case: usize, which: usize, count: usize, since: Instant) {
    rates[case][which].push(count as f64 / since.elapsed().as_secs_f64());
}

macro_rules! measure {
    ($name:ident, $pool:ty, $database:ty, $dialect:expr) => {
        async fn $name(pool: $pool, set: &Set, plan: Plan) -> Result<Rates> {
            let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
            let (id_type, bytes) = match $dialect {
                Dialect::Postgres => ("UUID", "BYTEA"),
                Dialect::MySql => ("BINARY(16)", "LONGBLOB"),
                _ => ("BLOB", "BLOB"),
            };
            let tables = format!(
                "CREATE TABLE in_column (id {id_type} NOT NULL PRIMARY KEY, body {bytes} NOT NULL);\n{}{}",
                EncryptedColumn::<Record, Vec<u8>, Raw>::create_sql($dialect, "bodies"),
                PackTable::<Record, Vec<u8>, Raw>::create_sql($dialect, "in_packs"),
            );
            sqlx::raw_sql(AssertSqlSafe(tables)).execute(&pool).await?;
            let column: EncryptedColumn<Record, Vec<u8>, Raw> =
                EncryptedColumn::open(&pool, &keyring, "bodies", Settings::large()).await?;
            let packs: PackTable<Record, Vec<u8>, Raw> =
                PackTable::open(&pool, &keyring, "in_packs", Settings::large()).await?;
            let rows = |first: usize, count: usize| -> Result<Vec<(Id, Vec<u8>)>> {
                (first..first + count).map(|i| Ok((id(i)?, set.value(i).clone()))).collect()
            };
            let insert = async |rows: &[(Id, Vec<u8>)]| -> Result {
                for chunk in rows.chunks(1_000) {
                    let values = chunk.iter().map(|(id, value)| Ok((*id, column.encrypt(*id, value)?)));
                    let values = values.collect::<Result<Vec<_>>>()?;
                    let mut query =
                        QueryBuilder::<$database>::new("INSERT INTO in_column (id, body) ");
                    query.push_values(values, |mut row, (id, value)| {
                        row.push_bind(id).push_bind(value);
                    });
                    query.build().execute(&pool).await?;
                }
                Ok(())
            };
            let count = if is_smoke() { 1_200 } else { ROWS };
            let inserted = if is_smoke() { 100 } else { INSERTED };
            let first = rows(0, count)?;
            packs.put_all(&pool, &first).await?;
            packs.train(&pool, plan.dictionary).await?;
            let samples: Vec<_> = first.iter().map(|(_, value)| value.clone()).collect();
            column.train(&pool, &samples, plan.dictionary).await?;
            insert(&first).await?;
            packs.merge_all(&pool).await?;
            packs.rekey(&pool, |_| {}).await?;

            let mut rates = Rates::default();
            let mut random = Random(7);
            let get = match $dialect {
                Dialect::Postgres => "SELECT body FROM in_column WHERE id = $1",
                _ => "SELECT body FROM in_column WHERE id = ?",
            };
            let range = match $dialect {
                Dialect::Postgres => "SELECT id, body FROM in_column WHERE id BETWEEN $1 AND $2 ORDER BY id",
                _ => "SELECT id, body FROM in_column WHERE id BETWEEN ? AND ? ORDER BY id",
            };
            let update = match $dialect {
                Dialect::Postgres => "UPDATE in_column SET body = $1 WHERE id = $2",
                _ => "UPDATE in_column SET body = ? WHERE id = ?",
            };
            for round in 0..plan.rounds {
                let new = rows(count + round * inserted, inserted)?;
                let since = Instant::now();
                insert(&new).await?;
                add(&mut rates, 0, 0, inserted, since);
                let both = Instant::now();
                packs.put_all(&pool, &new).await?;
                add(&mut rates, 0, 1, inserted, both);
                // A row that is inserted and merged, of the same row in a column.
                packs.merge_all(&pool).await?;
                add(&mut rates, 4, 1, inserted, both);
                rates[4][0].push(rates[0][0].last().copied().unwrap_or_default());

                let places: Vec<_> = (0..inserted / 10).map(|_| random.below(count)).collect();
                let since = Instant::now();
                for place in &places {
                    let (id, value) = &first[*place];
                    let found: Value = sqlx::query_scalar(get).bind(*id).fetch_one(&pool).await?;
                    assert_eq!(&column.decrypt(*id, &found)?, value);
                }
                add(&mut rates, 1, 0, places.len(), since);
                let since = Instant::now();
                for place in &places {
                    let (id, value) = &first[*place];
                    assert_eq!(packs.get(&pool, *id).await?.as_ref(), Some(value));
                }
                add(&mut rates, 1, 1, places.len(), since);

                let starts: Vec<_> = (0..10).map(|_| random.below(count - RANGE)).collect();
                let since = Instant::now();
                for start in &starts {
                    let (low, high) = (first[*start].0, first[start + RANGE - 1].0);
                    let found: Vec<(Internal<Record>, Value)> =
                        sqlx::query_as(range).bind(low).bind(high).fetch_all(&pool).await?;
                    for ((id, body), (expected, value)) in found.iter().zip(&first[*start..]) {
                        assert!(id == expected && &column.decrypt(*id, body)? == value);
                    }
                    assert_eq!(found.len(), RANGE);
                }
                add(&mut rates, 2, 0, starts.len(), since);
                let since = Instant::now();
                for start in &starts {
                    let (low, high) = (first[*start].0, first[start + RANGE - 1].0);
                    let mut pages =
                        packs.pages(IdRange::all().within(low.expose_key()..=high.expose_key()));
                    let mut found = 0;
                    while let Some(page) = packs.next_page(&pool, &mut pages).await? {
                        for ((id, value), expected) in page.iter().zip(&first[start + found..]) {
                            assert!((id, value) == (&expected.0, &expected.1));
                        }
                        found += page.len();
                    }
                    assert_eq!(found, RANGE);
                }
                add(&mut rates, 2, 1, starts.len(), since);

                let since = Instant::now();
                for place in &places {
                    let (id, value) = &first[*place];
                    let value = column.encrypt(*id, value)?;
                    sqlx::query(update).bind(value).bind(*id).execute(&pool).await?;
                }
                add(&mut rates, 3, 0, places.len(), since);
                let since = Instant::now();
                for place in &places {
                    let (id, value) = &first[*place];
                    packs.put(&pool, *id, value).await?;
                }
                add(&mut rates, 3, 1, places.len(), since);
                packs.merge_all(&pool).await?;
            }
            Ok(rates)
        }
    };
}

measure!(postgres, PgPool, sqlx::Postgres, Dialect::Postgres);
measure!(mysql, MySqlPool, sqlx::MySql, Dialect::MySql);
measure!(sqlite, SqlitePool, sqlx::Sqlite, Dialect::Sqlite);
