//! Rows per second and bytes per row: mapping tables with both indexes, relative to a plain auto-increment table, to one with a random
//! 16-byte primary key, and to the same statement by hand. Each server runs a round of each in turn. `cargo xtask bench mapping`.

use std::time::{Duration, Instant};

use opaque_id_benches::is_smoke;
use opaque_id_sqlx::{External, OpaqueId, UuidMap};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers;
use sqlx::{Connection, MySqlConnection, PgConnection, QueryBuilder, SqliteConnection};

const SINGLES: usize = 40;
const BULKS: usize = 5;
const BULK: usize = 1_000;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

const TABLES: [&str; 2] = ["unique_ids", "hashed_ids"];

/// The number is that of the map's table.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Plain,
    RandomKey,
    Issue(usize),
    GetOrInsert(usize),
    Find(usize),
    ToExternal,
    /// An upsert and a query of one id by sqlx alone, of a new and of a known id.
    Upsert,
    Query,
}

impl Act {
    /// Returns whether it has a variant for lists.
    fn has_lists(self) -> bool {
        !matches!(self, Self::ToExternal | Self::Upsert | Self::Query)
    }

    /// Returns the same by hand.
    fn by_hand(self) -> Option<Self> {
        match self {
            Self::Issue(_) | Self::GetOrInsert(_) => Some(Self::Upsert),
            Self::Find(_) | Self::ToExternal => Some(Self::Query),
            _ => None,
        }
    }
}

/// The first case is the baseline.
const CASES: [(&str, Act); 11] = [
    ("auto-increment row", Act::Plain),
    ("random 16-byte key row", Act::RandomKey),
    ("unique index, issue", Act::Issue(0)),
    ("hashed index, issue", Act::Issue(1)),
    ("unique index, get_or_insert", Act::GetOrInsert(0)),
    ("hashed index, get_or_insert", Act::GetOrInsert(1)),
    ("unique index, find", Act::Find(0)),
    ("hashed index, find", Act::Find(1)),
    ("unique index, to_external", Act::ToExternal),
    ("by hand, upsert of a new id", Act::Upsert),
    ("by hand, query", Act::Query),
];

/// The times of each case's calls of one row, and of lists.
type Times = [[Duration; 2]; CASES.len()];

fn main() -> Result {
    let rounds = if is_smoke() { 1 } else { 50 };
    let runtime = tokio::runtime::Runtime::new()?;
    for kind in Engine::asked_for()? {
        let started = servers::start(&[kind])?;
        let server = &started[&kind];
        println!("\n{kind} {}, {} rows a case", server.version, rounds * BULKS * BULK);
        let database = Database::create(kind, server)?;
        let maps = [UuidMap::unique(TABLES[0]), UuidMap::hashed(TABLES[1])];
        create_tables(&database, &maps)?;
        // PostgreSQL's container has no TLS either.
        let settings = if kind == Engine::Mysql { "ssl-mode=disabled" } else { "" };
        let url = &format!("{}{settings}", database.url);
        print(&runtime.block_on(async {
            match kind {
                Engine::Postgres => postgres(url, &maps, rounds).await,
                Engine::Sqlite => sqlite(url, &maps, rounds).await,
                Engine::Mysql | Engine::Mariadb => mysql(url, &maps, rounds).await,
            }
        })?);
        for table in TABLES {
            println!("{table}: {} bytes a row", bytes(&database, table)?);
        }
    }
    Ok(())
}

fn create_tables(database: &Database, maps: &[UuidMap<Order>]) -> Result {
    let (id, key) = match database.kind {
        Engine::Postgres => ("BIGINT GENERATED ALWAYS AS IDENTITY", "UUID"),
        Engine::Sqlite => ("INTEGER", "BLOB"),
        Engine::Mysql | Engine::Mariadb => ("BIGINT NOT NULL AUTO_INCREMENT", "BINARY(16)"),
    };
    let (counted, without_rowid) = match database.kind {
        Engine::Sqlite => (" AUTOINCREMENT", " WITHOUT ROWID"),
        _ => ("", ""),
    };
    database.execute(&format!(
        "CREATE TABLE plain_rows (id {id} PRIMARY KEY{counted}, n BIGINT NOT NULL);
         CREATE TABLE random_rows (id {key} PRIMARY KEY, n BIGINT NOT NULL){without_rowid}"
    ))?;
    maps.iter().try_for_each(|map| database.execute(&map.create_sql(dialect(database.kind))))
}

/// Returns the bytes of a row with its indexes.
fn bytes(database: &Database, table: &str) -> Result<i64> {
    let all = match database.kind {
        Engine::Postgres => format!("pg_relation_size('{table}') + pg_indexes_size('{table}')"),
        Engine::Sqlite => format!(
            "SELECT SUM(pgsize) FROM dbstat JOIN sqlite_schema USING (name) WHERE tbl_name = '{table}'"
        ),
        Engine::Mysql | Engine::Mariadb => {
            database.execute(&format!("ANALYZE TABLE {table}"))?;
            format!(
                "SELECT CAST(SUM(stat_value) * @@innodb_page_size AS SIGNED) FROM mysql.innodb_index_stats \
                 WHERE database_name = DATABASE() AND table_name = '{table}' AND stat_name = 'size'"
            )
        }
    };
    Ok(database.integer(&format!("({all})"), "(SELECT 1) AS one")?
        / database.integer("COUNT(*)", table)?)
}

fn print(times: &Times) {
    println!(
        "{:<34} {:>12} {:>6} {:>8} {:>14} {:>6}",
        "", "one a call", "ratio", "by hand", "1,000 a call", "ratio"
    );
    let rates = times.map(|[one, list]| [1.0 / one.as_secs_f64(), 1.0 / list.as_secs_f64()]);
    for ((case, act), [one, list]) in CASES.iter().zip(rates) {
        let by_hand = act.by_hand().and_then(|it| CASES.iter().position(|(_, act)| *act == it));
        let by_hand = by_hand.map(|it| format!("{:.2}", one / rates[it][0])).unwrap_or_default();
        let ratio = one / rates[0][0];
        print!("{case:<34} {one:>10.0}/s {ratio:>6.2} {by_hand:>8}");
        if act.has_lists() {
            print!(" {:>12.0}/s {:>6.2}", list * BULK as f64, list / rates[0][1]);
        }
        println!();
    }
}

macro_rules! bench {
    ($name:ident, $connection:ty, $upsert:literal, $query:literal) => {
        async fn $name(url: &str, maps: &[UuidMap<Order>; 2], rounds: usize) -> Result<Times> {
            type DB = <$connection as Connection>::Database;

            let connection = &mut <$connection>::connect(url).await?;
            let mut times = Times::default();
            for _ in 0..rounds {
                let mut known = [Vec::new(), Vec::new()];
                let mut internal = [Vec::new(), Vec::new()];
                for ((_, act), times) in CASES.iter().zip(&mut times) {
                    for (rows, calls, time) in [(1, SINGLES, 0), (BULK, BULKS, 1)] {
                        if rows > 1 && !act.has_lists() {
                            continue;
                        }
                        let ids = |call: usize| -> Vec<External<Order>> {
                            match act {
                                Act::Find(map) => known[*map][call * rows..][..rows].to_vec(),
                                Act::Query => vec![known[0][call]],
                                _ => (0..rows).map(|_| External::random()).collect(),
                            }
                        };
                        let lists: Vec<_> = (0..calls).map(ids).collect();
                        let start = Instant::now();
                        for (call, ids) in lists.iter().enumerate() {
                            match act {
                                Act::Plain => {
                                    QueryBuilder::<DB>::new("INSERT INTO plain_rows (n) ")
                                        .push_values(ids, |mut row, _| {
                                            row.push_bind(7_i64);
                                        })
                                        .build()
                                        .execute(&mut *connection)
                                        .await?;
                                }
                                Act::RandomKey => {
                                    QueryBuilder::<DB>::new("INSERT INTO random_rows (id, n) ")
                                        .push_values(ids, |mut row, id| {
                                            row.push_bind(id.to_uuid()).push_bind(7_i64);
                                        })
                                        .build()
                                        .execute(&mut *connection)
                                        .await?;
                                }
                                Act::Issue(map) => {
                                    maps[*map].issue_all(&mut *connection, rows).await?;
                                }
                                Act::GetOrInsert(map) => {
                                    let call = maps[*map].get_or_insert_all(&mut *connection, ids);
                                    internal[*map] = call.await?;
                                }
                                Act::Find(map) => {
                                    maps[*map].find_all(&mut *connection, ids).await?;
                                }
                                Act::ToExternal => {
                                    maps[0]
                                        .to_external(&mut *connection, internal[0][call])
                                        .await?;
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
                        }
                        times[time] += start.elapsed() / u32::try_from(calls * rounds)?;
                        if let Act::GetOrInsert(map) = act {
                            known[*map] = lists.concat();
                        }
                    }
                }
            }
            Ok(times)
        }
    };
}

bench!(
    postgres,
    PgConnection,
    "INSERT INTO unique_ids (uuid) VALUES ($1) ON CONFLICT (uuid) DO UPDATE SET uuid = EXCLUDED.uuid RETURNING id",
    "SELECT id FROM unique_ids WHERE uuid = $1"
);
bench!(
    sqlite,
    SqliteConnection,
    "INSERT INTO unique_ids (uuid) VALUES ($1) ON CONFLICT (uuid) DO UPDATE SET uuid = EXCLUDED.uuid RETURNING id",
    "SELECT id FROM unique_ids WHERE uuid = $1"
);
bench!(
    mysql,
    MySqlConnection,
    "INSERT INTO unique_ids (uuid) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
    "SELECT id FROM unique_ids WHERE uuid = ?"
);
