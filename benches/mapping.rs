//! Rows per second and bytes per row: mapping tables with both indexes, relative to a plain auto-increment table, to one with a random
//! 16-byte primary key, and to the same statement by hand. A server's processor time per row is beside the rates. Each server runs a round of
//! each in turn. `cargo xtask bench mapping`.

use std::time::{Duration, Instant};

use opaque_id_benches::is_smoke;
use opaque_id_sqlx::{Dialect, External, OpaqueId, UuidMap};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers::{self, ProcessorTime};
use sqlx::{AssertSqlSafe, Connection, QueryBuilder};

const SINGLES: usize = 40;
const BULKS: usize = 5;
const BULK: usize = 1_000;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

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
    /// A row with a UUID in a column, by sqlx alone.
    Row,
    /// A new id and its row in one transaction.
    RowOfNewId,
}

impl Act {
    /// Returns whether it has a variant for lists.
    fn has_lists(self) -> bool {
        use Act::*;
        !matches!(self, ToExternal | Upsert | Query | Row | RowOfNewId)
    }

    /// Returns the same by hand.
    fn by_hand(self) -> Option<Self> {
        match self {
            Self::Issue | Self::GetOrInsert | Self::GetKnown => Some(Self::Upsert),
            Self::Find | Self::ToExternal => Some(Self::Query),
            Self::RowOfNewId => Some(Self::Row),
            _ => None,
        }
    }
}

/// The first case is the baseline.
const CASES: [(&str, Act, &str); 15] = [
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
    ("row and get_or_insert", Act::RowOfNewId, "unique_ids"),
    ("by hand, row with a UUID column", Act::Row, "uuid_rows"),
    ("by hand, upsert of a new id", Act::Upsert, "unique_ids"),
    ("by hand, query", Act::Query, "unique_ids"),
];

#[derive(Clone, Copy, Default)]
struct Cost {
    calls: usize,
    time: Duration,
    /// SQLite has no server.
    server: Duration,
}

impl Cost {
    fn seconds(self) -> f64 {
        self.time.as_secs_f64() / self.calls as f64
    }

    fn server_seconds(self) -> f64 {
        self.server.as_secs_f64() / self.calls as f64
    }

    /// Returns the speed relative to the same by hand, and the server's time relative to it.
    fn ratios(self, by_hand: Self) -> (String, String) {
        let server = match self.server.is_zero() {
            true => String::new(),
            false => format!("{:.2}", self.server_seconds() / by_hand.server_seconds()),
        };
        (format!("{:.2}", by_hand.seconds() / self.seconds()), server)
    }
}

fn main() -> Result {
    let rounds = if is_smoke() { 1 } else { 50 };
    let runtime = tokio::runtime::Runtime::new()?;
    for kind in Engine::asked_for()? {
        let started = servers::start(&[kind])?;
        let server = &started[&kind];
        println!("\n{kind} {}, {} rows a case", server.version, rounds * BULKS * BULK);
        let database = Database::create(kind, server)?;
        // PostgreSQL's container has no TLS either.
        let settings = if kind == Engine::Mysql { "ssl-mode=disabled" } else { "" };
        let url = format!("{}{settings}", database.url);
        let processor = server.container_id().map(ProcessorTime::of).transpose()?;
        let server_time = || processor.as_ref().map_or(Ok(Duration::ZERO), ProcessorTime::used);
        runtime.block_on(async {
            match kind {
                Engine::Postgres => postgres(&url, server_time, rounds).await,
                Engine::Sqlite => sqlite(&url, server_time, rounds).await,
                Engine::Mysql | Engine::Mariadb => mysql(&url, server_time, rounds).await,
            }
        })?;
    }
    Ok(())
}

fn print(costs: &[[Cost; 2]]) {
    println!(
        "{:<34} {:>12} {:>6} {:>8} {:>9} {:>8} {:>14} {:>6} {:>9}",
        "",
        "one a call",
        "ratio",
        "by hand",
        "server",
        "by hand",
        "1,000 a call",
        "ratio",
        "server"
    );
    for ((case, act, _), [one, list]) in CASES.iter().zip(costs) {
        let by_hand = act.by_hand().and_then(|it| CASES.iter().position(|(_, act, _)| *act == it));
        let (speed, server) = by_hand.map_or_else(Default::default, |it| one.ratios(costs[it][0]));
        print!(
            "{case:<34} {:>10.0}/s {:>6.2} {speed:>8} {:>6.1} µs {server:>8}",
            1.0 / one.seconds(),
            costs[0][0].seconds() / one.seconds(),
            one.server_seconds() * 1e6,
        );
        if act.has_lists() {
            print!(
                " {:>12.0}/s {:>6.2} {:>6.1} µs",
                BULK as f64 / list.seconds(),
                costs[0][1].seconds() / list.seconds(),
                list.server_seconds() / BULK as f64 * 1e6,
            );
        }
        println!();
    }
}

macro_rules! bench {
    ($name:ident, $database:ty, $dialect:expr, $tables:expr, $upsert:literal, $query:literal, $analyze:literal, $sizes:expr) => {
        async fn $name(
            url: &str,
            server_time: impl Fn() -> Result<Duration>,
            rounds: usize,
        ) -> Result {
            let mut connection = <$database as sqlx::Database>::Connection::connect(url).await?;
            let connection = &mut connection;
            sqlx::raw_sql($tables).execute(&mut *connection).await?;
            let maps = [
                ("unique_ids", UuidMap::<Order>::unique("unique_ids")),
                ("hashed_ids", UuidMap::<Order>::hashed("hashed_ids")),
            ];
            for (_, map) in &maps {
                let create = map.create_sql($dialect);
                sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut *connection).await?;
            }

            let mut costs = [[Cost::default(); 2]; CASES.len()];
            for _ in 0..rounds {
                let mut known = Vec::new();
                for ((_, act, table), costs) in CASES.iter().zip(&mut costs) {
                    let map = maps.iter().find(|(name, _)| name == table);
                    let map = map.map_or(&maps[0].1, |(_, map)| map);
                    for (rows, calls, cost) in [(1, SINGLES, 0), (BULK, BULKS, 1)] {
                        if rows > 1 && !act.has_lists() {
                            continue;
                        }
                        let mut lists: Vec<(Vec<External<Order>>, _)> = Vec::new();
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
                            lists.push((ids, internal));
                        }
                        let before = server_time()?;
                        let start = Instant::now();
                        for (ids, internal) in &lists {
                            match act {
                                Act::Plain => {
                                    QueryBuilder::<$database>::new("INSERT INTO plain_rows (n) ")
                                        .push_values(ids, |mut row, _| {
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
                                    .push_values(ids, |mut row, id| {
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
                                    map.get_or_insert_all(&mut *connection, ids).await?;
                                }
                                Act::Find => {
                                    map.find_all(&mut *connection, ids).await?;
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
                                Act::Row => {
                                    QueryBuilder::<$database>::new(
                                        "INSERT INTO uuid_rows (n, uuid) VALUES (7, ",
                                    )
                                    .push_bind(ids[0].to_uuid())
                                    .push(")")
                                    .build()
                                    .execute(&mut *connection)
                                    .await?;
                                }
                                Act::RowOfNewId => {
                                    let mut transaction = connection.begin().await?;
                                    let id = map.get_or_insert(&mut *transaction, ids[0]).await?;
                                    QueryBuilder::<$database>::new(
                                        "INSERT INTO mapped_rows (n, id) VALUES (7, ",
                                    )
                                    .push_bind(id)
                                    .push(")")
                                    .build()
                                    .execute(&mut *transaction)
                                    .await?;
                                    transaction.commit().await?;
                                }
                            }
                        }
                        costs[cost].calls += calls;
                        costs[cost].time += start.elapsed();
                        costs[cost].server += server_time()?.saturating_sub(before);
                        if *act == Act::GetOrInsert && rows > 1 {
                            known.extend(lists.into_iter().flat_map(|(ids, _)| ids));
                        }
                    }
                }
            }
            print(&costs);

            println!("{:<28} {:>10} {:>10} {:>10}", "bytes a row", "table", "indexes", "both");
            for table in ["plain_rows", "random_rows", "uuid_rows", "unique_ids", "hashed_ids"] {
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
    "CREATE TABLE plain_rows (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE random_rows (id UUID PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE uuid_rows (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, uuid UUID NOT NULL UNIQUE, n BIGINT NOT NULL);
     CREATE TABLE mapped_rows (id BIGINT PRIMARY KEY, n BIGINT NOT NULL);",
    "INSERT INTO unique_ids (uuid) VALUES ($1) ON CONFLICT (uuid) DO UPDATE SET uuid = EXCLUDED.uuid RETURNING id",
    "SELECT id FROM unique_ids WHERE uuid = $1",
    "",
    ["SELECT pg_relation_size('{table}')", "SELECT pg_indexes_size('{table}')"]
);

bench!(
    sqlite,
    sqlx::Sqlite,
    Dialect::Sqlite,
    "CREATE TABLE plain_rows (id INTEGER PRIMARY KEY AUTOINCREMENT, n INTEGER NOT NULL);
     CREATE TABLE random_rows (id BLOB PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
     CREATE TABLE uuid_rows (id INTEGER PRIMARY KEY AUTOINCREMENT, uuid BLOB NOT NULL UNIQUE, n INTEGER NOT NULL);
     CREATE TABLE mapped_rows (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);",
    "INSERT INTO unique_ids (uuid) VALUES ($1) ON CONFLICT (uuid) DO UPDATE SET uuid = EXCLUDED.uuid RETURNING id",
    "SELECT id FROM unique_ids WHERE uuid = $1",
    "",
    [
        "SELECT SUM(pgsize) FROM dbstat WHERE name = '{table}'",
        "SELECT COALESCE(SUM(pgsize), 0) FROM dbstat JOIN sqlite_schema USING (name) WHERE tbl_name = '{table}' AND type = 'index'",
    ]
);

// InnoDB keeps the rows within the index of the primary key.
bench!(
    mysql,
    sqlx::MySql,
    Dialect::MySql,
    "CREATE TABLE plain_rows (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE random_rows (id BINARY(16) NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
     CREATE TABLE uuid_rows (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, uuid BINARY(16) NOT NULL UNIQUE, n BIGINT NOT NULL);
     CREATE TABLE mapped_rows (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);",
    "INSERT INTO unique_ids (uuid) VALUES (?) ON DUPLICATE KEY UPDATE id = LAST_INSERT_ID(id)",
    "SELECT id FROM unique_ids WHERE uuid = ?",
    "TABLE ",
    [
        "SELECT CAST(stat_value * @@innodb_page_size AS SIGNED) FROM mysql.innodb_index_stats \
         WHERE database_name = DATABASE() AND table_name = '{table}' AND index_name = 'PRIMARY' AND stat_name = 'size'",
        "SELECT CAST(COALESCE(SUM(stat_value * @@innodb_page_size), 0) AS SIGNED) FROM mysql.innodb_index_stats \
         WHERE database_name = DATABASE() AND table_name = '{table}' AND index_name <> 'PRIMARY' AND stat_name = 'size'",
    ]
);
