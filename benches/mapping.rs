//! Rows per second and bytes per row: mapping tables with both indexes, relative to a plain auto-increment table, to one with a random
//! 16-byte primary key, and to the same statement by hand. Each server runs a round of each in turn. `cargo xtask bench mapping`.

use std::time::{Duration, Instant};

use opaque_id_benches::is_smoke;
use opaque_id_sqlx::{Dialect, External, OpaqueId, UuidMap};
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers::{self, Server};
use sqlx::{AssertSqlSafe, Connection, QueryBuilder};

const SINGLES: usize = 40;
const BULKS: usize = 5;
const BULK: usize = 1_000;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

/// The first case is the baseline.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Plain,
    RandomKey,
    Issue,
    GetOrInsert,
    GetKnown,
    Find,
    ToExternal,
    /// An upsert and a query of one id by sqlx alone, of a new and of a known id.
    Upsert,
    Query,
}

const CASES: [(&str, Act, &str); 13] = [
    ("auto-increment row", Act::Plain, "plain_rows"),
    ("random 16-byte key row", Act::RandomKey, "random_rows"),
    ("unique index, issue", Act::Issue, "unique_ids"),
    ("hashed index, issue", Act::Issue, "hashed_ids"),
    ("unique index, get_or_insert", Act::GetOrInsert, "unique_ids"),
    ("hashed index, get_or_insert", Act::GetOrInsert, "hashed_ids"),
    ("unique index, get_or_insert, known", Act::GetKnown, "unique_ids"),
    ("hashed index, get_or_insert, known", Act::GetKnown, "hashed_ids"),
    ("unique index, find", Act::Find, "unique_ids"),
    ("hashed index, find", Act::Find, "hashed_ids"),
    ("unique index, to_external", Act::ToExternal, "unique_ids"),
    ("by hand, upsert of a new id", Act::Upsert, "unique_ids"),
    ("by hand, query", Act::Query, "unique_ids"),
];

fn main() -> Result {
    let rounds = if is_smoke() { 1 } else { 50 };
    let kinds = Engine::asked_for()?.into_iter();
    let runtime = tokio::runtime::Runtime::new()?;
    for kind in kinds.filter(|kind| *kind != Engine::Sqlite) {
        let started = servers::start(&[kind])?;
        let server = &started[&kind];
        println!("\n{kind} {}, {} rows a case", server.version, rounds * BULKS * BULK);
        runtime.block_on(async {
            match kind {
                Engine::Postgres => postgres(server, rounds).await,
                _ => mysql(server, rounds).await,
            }
        })?;
    }
    Ok(())
}

macro_rules! bench {
    ($name:ident, $database:ty, $dialect:expr, $settings:literal, $tables:expr, $upsert:literal, $query:literal, $analyze:literal, $sizes:expr) => {
        async fn $name(server: &Server, rounds: usize) -> Result {
            let mut connection =
                <$database as sqlx::Database>::Connection::connect(&server.url).await?;
            let connection = &mut connection;
            sqlx::raw_sql("CREATE DATABASE bench").execute(&mut *connection).await?;
            let (start, _) = server.url.rsplit_once('/').ok_or("no database in the URL")?;
            *connection = <$database as sqlx::Database>::Connection::connect(&format!(
                "{start}/bench{}",
                $settings
            ))
            .await?;
            sqlx::raw_sql($tables).execute(&mut *connection).await?;
            let maps = [
                ("unique_ids", UuidMap::<Order>::unique("unique_ids")),
                ("hashed_ids", UuidMap::<Order>::hashed("hashed_ids")),
            ];
            for (_, map) in &maps {
                let create = map.create_sql($dialect);
                sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
            }

            let mut times = [[Duration::ZERO; 2]; CASES.len()];
            for _ in 0..rounds {
                let mut known = Vec::new();
                for ((_, act, table), times) in CASES.iter().zip(&mut times) {
                    let map = maps.iter().find(|(name, _)| name == table);
                    let map = map.map_or(&maps[0].1, |(_, map)| map);
                    for (rows, calls, time) in [(1, SINGLES, 0), (BULK, BULKS, 1)] {
                        if rows > 1 && matches!(act, Act::ToExternal | Act::Upsert | Act::Query) {
                            continue;
                        }
                        for call in 0..calls {
                            let ids: Vec<External<Order>> = match act {
                                Act::GetKnown | Act::Find | Act::ToExternal | Act::Query => {
                                    let all: &Vec<_> = &known;
                                    let start = call * rows % (all.len() / 2);
                                    let half =
                                        if *table == "unique_ids" { 0 } else { all.len() / 2 };
                                    all[half + start..][..rows].to_vec()
                                }
                                _ => (0..rows).map(|_| External::random()).collect(),
                            };
                            let internal = match act {
                                Act::ToExternal => {
                                    map.find_all(&mut *connection, &ids).await?.swap_remove(0)
                                }
                                _ => None,
                            };
                            let started = Instant::now();
                            match act {
                                Act::Plain => {
                                    QueryBuilder::<$database>::new("INSERT INTO plain_rows (n) ")
                                        .push_values(&ids, |mut row, _| {
                                            row.push_bind(7_i64);
                                        })
                                        .build()
                                        .execute(&mut *connection)
                                        .await?;
                                }
                                Act::RandomKey => {
                                    QueryBuilder::<$database>::new(
                                        "INSERT INTO random_rows (id, n) ",
                                    )
                                    .push_values(&ids, |mut row, id| {
                                        row.push_bind(id.to_uuid()).push_bind(7_i64);
                                    })
                                    .build()
                                    .execute(&mut *connection)
                                    .await?;
                                }
                                Act::Issue => {
                                    map.issue_all(&mut *connection, rows).await?;
                                }
                                Act::GetOrInsert | Act::GetKnown => {
                                    map.get_or_insert_all(&mut *connection, &ids).await?;
                                }
                                Act::Find => {
                                    map.find_all(&mut *connection, &ids).await?;
                                }
                                Act::ToExternal => {
                                    let internal = internal.ok_or("a known id")?;
                                    map.to_external(&mut *connection, internal).await?;
                                }
                                Act::Upsert => {
                                    let upsert = sqlx::query($upsert).bind(ids[0].to_uuid());
                                    upsert.fetch_optional(&mut *connection).await?;
                                }
                                Act::Query => {
                                    let query = sqlx::query_scalar($query).bind(ids[0].to_uuid());
                                    let _: i64 = query.fetch_one(&mut *connection).await?;
                                }
                            }
                            times[time] += started.elapsed();
                            if *act == Act::GetOrInsert && rows > 1 {
                                known.extend(ids);
                            }
                        }
                    }
                }
            }

            let rates = times.map(|[single, bulk]| {
                // A case of single ids has no calls of lists.
                let rate = |rows: usize, time: Duration| match time.is_zero() {
                    true => 0.0,
                    false => rows as f64 / time.as_secs_f64(),
                };
                [rate(rounds * SINGLES, single), rate(rounds * BULKS * BULK, bulk)]
            });
            println!(
                "{:<34} {:>12} {:>6} {:>14} {:>6}",
                "", "one a call", "ratio", "1,000 a call", "ratio"
            );
            for ((case, ..), rate) in CASES.iter().zip(rates) {
                println!(
                    "{case:<34} {:>10.0}/s {:>6.2} {:>12.0}/s {:>6.2}",
                    rate[0],
                    rate[0] / rates[0][0],
                    rate[1],
                    rate[1] / rates[0][1],
                );
            }
            println!("{:<28} {:>10} {:>10} {:>10}", "bytes a row", "table", "indexes", "both");
            for table in ["plain_rows", "random_rows", "unique_ids", "hashed_ids"] {
                sqlx::raw_sql(AssertSqlSafe(format!(
                    "ANALYZE {analyze}{table}",
                    analyze = $analyze
                )))
                .execute(&mut *connection)
                .await?;
                let count: i64 =
                    sqlx::query_scalar(AssertSqlSafe(format!("SELECT COUNT(*) FROM {table}")))
                        .fetch_one(&mut *connection)
                        .await?;
                let mut sizes = [0.0; 2];
                for (size, select) in sizes.iter_mut().zip($sizes) {
                    let select = select.replace("{table}", table);
                    let bytes: i64 = sqlx::query_scalar(AssertSqlSafe(select))
                        .fetch_one(&mut *connection)
                        .await?;
                    *size = bytes as f64 / count as f64;
                }
                println!(
                    "{table:<28} {:>10.1} {:>10.1} {:>10.1}",
                    sizes[0],
                    sizes[1],
                    sizes[0] + sizes[1]
                );
            }
            Ok(())
        }
    };
}

bench!(
    postgres,
    sqlx::Postgres,
    Dialect::Postgres,
    "",
    "CREATE TABLE plain_rows (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE random_rows (id UUID PRIMARY KEY, n BIGINT NOT NULL);",
    "INSERT INTO unique_ids (uuid) VALUES ($1) ON CONFLICT (uuid) DO UPDATE SET uuid = EXCLUDED.uuid RETURNING id",
    "SELECT id FROM unique_ids WHERE uuid = $1",
    "",
    [
        "SELECT pg_relation_size('{table}')",
        "SELECT pg_indexes_size('{table}')",
    ]
);

// InnoDB keeps the rows within the index of the primary key.
bench!(
    mysql,
    sqlx::MySql,
    Dialect::MySql,
    // PostgreSQL's container has none either.
    "?ssl-mode=disabled",
    "CREATE TABLE plain_rows (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE random_rows (id BINARY(16) NOT NULL PRIMARY KEY, n BIGINT NOT NULL);",
    "INSERT INTO unique_ids (uuid) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
    "SELECT id FROM unique_ids WHERE uuid = ?",
    "TABLE ",
    [
        "SELECT CAST(stat_value * @@innodb_page_size AS SIGNED) FROM mysql.innodb_index_stats \
         WHERE database_name = 'bench' AND table_name = '{table}' AND index_name = 'PRIMARY' AND stat_name = 'size'",
        "SELECT CAST(COALESCE(SUM(stat_value * @@innodb_page_size), 0) AS SIGNED) FROM mysql.innodb_index_stats \
         WHERE database_name = 'bench' AND table_name = '{table}' AND index_name <> 'PRIMARY' AND stat_name = 'size'",
    ]
);
