//! Rows per second while a table outgrows its server's memory, by the kind of key: Trudeau's experiment
//! (*UUIDs are Popular, but Bad for Performance*, Percona 2019). `cargo xtask bench insert-rates`.
//!
//! Each case has its own server with limits of memory and of operations per second, paused during the turns
//! of the others. Each statement of its one client is a transaction.

use std::fmt::Write;
use std::fs;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use opaque_id_benches::is_smoke;
use opaque_id_sqlx::generator::{
    Clock, Generate, Int64Generator, PseudoOrderedGenerator, SystemRandom,
};
use opaque_id_sqlx::key::{StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_sqlx::layout::{Int64Layout, Shards};
use opaque_id_sqlx::{Internal, Keyring, MasterSecret, OpaqueId, UuidMap};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::on_threads;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers::{Container, Limits, wait_for};
use opaque_id_tests::sql::{execute, text};
use sqlx::{
    AssertSqlSafe, Connection, MySqlConnection, PgConnection, QueryBuilder, SqliteConnection,
};
use tokio::runtime::Runtime;

const TURN: Duration = Duration::from_secs(1);
/// The rows of one prefix of pseudo-ordered keys fit into memory.
const WINDOW: Duration = Duration::from_secs(1);
const VALUES: [i32; 5] = [2, 5, 10, 50, 100];
const NOTE: &str = "a hundred characters, as the row of an order has some text beside its numbers, and not much of it ..";

/// Measures rows per second while a table outgrows its server's memory.
#[derive(Parser)]
struct Args {
    /// mysql, mariadb, postgres or sqlite; all if left out
    #[arg(long)]
    database: Option<Engine>,
    /// How long each case runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// MiB of pages that a server can keep in memory
    #[arg(long, default_value_t = 32)]
    memory: u32,
    /// Reads, and as many writes, per second
    #[arg(long, default_value_t = 500)]
    iops: u32,
    /// Secondary indexes
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=5))]
    indexes: u8,
    /// Rows of a statement
    #[arg(long, default_value_t = 10)]
    rows: u8,
    /// Wait for the disk at each commit
    #[arg(long)]
    durable: bool,
    /// Only auto-increment and cases with this in their names
    #[arg(long, default_value = "")]
    only: String,
    /// Write the figures to benches/results
    #[arg(long)]
    publish: bool,
    /// The option that cargo passes to benchmarks
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct MappedOrder;

enum Key {
    Next,
    NextWith(Uuid),
    Mapped(Uuid),
    Text(String),
    Uuid(Uuid),
    Integer(i64),
}

enum Keys {
    Generated(Box<dyn FnMut() -> Key>),
    /// A key that is sealed into a text and opened again, as at an application's edge.
    Sealed(Keyring),
    Mapped(UuidMap<MappedOrder>, Commits),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Commits {
    Two,
    One,
}

/// The time does not include the turns of others.
#[derive(Clone, Default)]
struct OwnClock(Arc<AtomicU64>);

impl OwnClock {
    fn set(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::Relaxed);
    }
}

impl Clock for OwnClock {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// The first case is the baseline.
fn plans(kind: Engine, only: &str, clock: &OwnClock) -> Result<Vec<(&'static str, Keys)>> {
    let secret = MasterSecret::generate();
    let keyring = Keyring::builder().sealing(0, secret).build()?;
    let ordered = || {
        let secret = MasterSecret::generate();
        PseudoOrderedGenerator::with(&secret, WINDOW, 16, clock.clone(), SystemRandom)
    };
    let shards = Shards::with_bits(4)?;
    let mut sequence = 0;
    let int64 = Int64Generator::new(Int64Layout::with_node_bits(0)?, 0)?;
    let text = || Key::Text(Uuid::new_v4().to_string());
    let base64 = || Key::Text(STANDARD_NO_PAD.encode(Uuid::new_v4()));
    let uuid7 = || Key::Uuid(Uuid7::generate().into());
    let ulid = || Key::Uuid(Ulid::generate().into());
    let structured = || Key::Uuid(StructuredKey::generate().into());
    let sharded = move || {
        sequence += 1;
        Key::Uuid(shards.spread(sequence).expect("44 bits").into())
    };
    let int64 = move || Key::Integer(int64.generate().expect("the clock is right"));
    let [of_keys, of_column, of_statement] = [ordered()?, ordered()?, ordered()?];
    let unique = || UuidMap::unique("order_ids");
    let hashed = UuidMap::hashed("order_ids");
    let ordered_map = || ordered().map(|generator| unique().pseudo_ordered(generator));
    let mut plans = vec![
        ("auto-increment", generated(|| Key::Next)),
        ("UUIDv4 as CHAR(36)", generated(text)),
        ("UUIDv4 as CHAR(22)", generated(base64)),
        ("UUIDv4 as 16 bytes", generated(|| Key::Uuid(Uuid::new_v4()))),
        ("pseudo-ordered", generated(move || Key::Uuid(of_keys.generate()))),
        ("UUIDv7", generated(uuid7)),
        ("UUIDv7 sealed and opened", Keys::Sealed(keyring)),
        ("ULID", generated(ulid)),
        ("structured", generated(structured)),
        ("structured in 16 shards", generated(sharded)),
        ("64-bit id", generated(int64)),
        ("public UUID, random", generated(|| Key::NextWith(Uuid::new_v4()))),
        ("public UUID, ordered", generated(move || Key::NextWith(of_column.generate()))),
        ("map, unique", Keys::Mapped(unique(), Commits::Two)),
        ("map, hashed", Keys::Mapped(hashed, Commits::Two)),
        ("map, ordered", Keys::Mapped(ordered_map()?, Commits::Two)),
        ("map, ordered, transaction", Keys::Mapped(ordered_map()?, Commits::One)),
    ];
    if kind == Engine::Postgres {
        let key = move || Key::Mapped(of_statement.generate());
        plans.push(("map, ordered, statement", generated(key)));
    }
    plans.retain(|(name, ..)| *name == "auto-increment" || name.contains(only));
    Ok(plans)
}

fn generated(key: impl FnMut() -> Key + 'static) -> Keys {
    Keys::Generated(Box::new(key))
}

fn main() -> Result {
    let args = match is_smoke() {
        true => Args::parse_from([""]),
        false => Args::parse(),
    };
    let mut kinds = match args.database {
        Some(kind) => vec![kind],
        None => Engine::asked_for()?,
    };
    // A server that already runs cannot be limited.
    kinds.retain(|kind| *kind == Engine::Sqlite || kind.is_contained());
    for kind in kinds {
        match kind {
            Engine::Sqlite => measure::<SqliteConnection>(kind, &args)?,
            Engine::Postgres => measure::<PgConnection>(kind, &args)?,
            Engine::Mysql | Engine::Mariadb => measure::<MySqlConnection>(kind, &args)?,
        }
    }
    Ok(())
}

trait Client: Sized {
    async fn connect(url: &str) -> Result<Self>;
    async fn run(&mut self, sql: String) -> Result;
    async fn insert(&mut self, keys: Vec<Key>, row: i32) -> Result;
    async fn issue(&mut self, map: &UuidMap<MappedOrder>, count: u8) -> Result<Vec<Key>>;
    async fn number(&mut self, select: &str) -> Result<i64>;
}

macro_rules! client {
    ($connection:ty, $database:ty) => {
        impl Client for $connection {
            async fn connect(url: &str) -> Result<Self> {
                Ok(<Self as Connection>::connect(url).await?)
            }

            async fn run(&mut self, sql: String) -> Result {
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(self).await?;
                Ok(())
            }

            async fn insert(&mut self, keys: Vec<Key>, row: i32) -> Result {
                const ROW: &str = "a, b, c, d, e, note";
                let columns = match keys[0] {
                    Key::Next => "",
                    Key::NextWith(_) => "public_id, ",
                    _ => "id, ",
                };
                let insert = format!("INSERT INTO orders ({columns}{ROW}) ");
                let is_mapped = matches!(keys[0], Key::Mapped(_));
                let mut insert = match is_mapped {
                    false => QueryBuilder::<$database>::new(insert),
                    true => {
                        let mut mapped =
                            QueryBuilder::new("WITH ids AS (INSERT INTO order_ids (uuid) ");
                        mapped.push_values(&keys, |mut values, key| match key {
                            Key::Mapped(uuid) => drop(values.push_bind(*uuid)),
                            _ => {}
                        });
                        mapped.push(" RETURNING id, uuid) ");
                        mapped.push(insert);
                        mapped.push(format!("SELECT id, {ROW} FROM ids JOIN ("));
                        mapped
                    }
                };
                insert.push_values(keys.into_iter().zip(row..), |mut values, (key, row)| {
                    match key {
                        Key::Next => {}
                        Key::NextWith(uuid) | Key::Mapped(uuid) => drop(values.push_bind(uuid)),
                        Key::Text(text) => drop(values.push_bind(text)),
                        Key::Uuid(uuid) => drop(values.push_bind(uuid)),
                        Key::Integer(integer) => drop(values.push_bind(integer)),
                    }
                    for count in VALUES {
                        values.push_bind(row % count);
                    }
                    values.push_bind(NOTE);
                });
                if is_mapped {
                    insert.push(format!(") AS rows (uuid, {ROW}) USING (uuid)"));
                }
                insert.build().execute(self).await?;
                Ok(())
            }

            async fn issue(&mut self, map: &UuidMap<MappedOrder>, count: u8) -> Result<Vec<Key>> {
                let issued = map.issue_all(self, count.into()).await?.into_iter();
                Ok(issued.map(|(_, id)| Key::Integer(id.expose_key())).collect())
            }

            async fn number(&mut self, select: &str) -> Result<i64> {
                let select = AssertSqlSafe(select.to_owned());
                Ok(sqlx::query_scalar(select).fetch_one(self).await?)
            }
        }
    };
}

client!(PgConnection, sqlx::Postgres);
client!(MySqlConnection, sqlx::MySql);
client!(SqliteConnection, sqlx::Sqlite);

struct Case<C> {
    name: &'static str,
    keys: Keys,
    clock: OwnClock,
    client: C,
    container: Option<Rc<Container>>,
    rows: i32,
    time: Duration,
    edge: Duration,
    turns: Vec<Turn>,
}

struct Turn {
    end: Duration,
    rate: f64,
}

impl<C: Client> Case<C> {
    async fn create(
        kind: Engine,
        args: &Args,
        url: &str,
        container: Option<Rc<Container>>,
        clock: OwnClock,
        (name, mut keys): (&'static str, Keys),
    ) -> Result<Self> {
        let mut client = C::connect(url).await?;
        if kind == Engine::Sqlite {
            client.run(pragmas(args)).await?;
        }
        let first = match &mut keys {
            Keys::Generated(key) => key(),
            Keys::Sealed(_) => Key::Uuid(Uuid::nil()),
            Keys::Mapped(..) => Key::Integer(0),
        };
        client.run(create_sql(kind, &first, args.indexes)).await?;
        let map = match (&keys, first) {
            (Keys::Mapped(map, _), _) => Some(map.clone()),
            (_, Key::Mapped(_)) => Some(UuidMap::unique("order_ids")),
            _ => None,
        };
        if let Some(map) = map {
            client.run(map.create_sql(dialect(kind))).await?;
        }
        Ok(Self {
            name,
            keys,
            clock,
            client,
            container,
            rows: 0,
            time: Duration::ZERO,
            edge: Duration::ZERO,
            turns: Vec::new(),
        })
    }

    fn resume(&self) -> Result {
        self.container.iter().try_for_each(|container| container.resume())
    }

    fn pause(&self) -> Result {
        // A process cannot be paused while it waits for a limited disk.
        let pause = |container: &Rc<Container>| wait_for(|| container.pause());
        self.container.iter().try_for_each(pause)
    }

    fn turn(&mut self, runtime: &Runtime, turn: Duration, count: u8) -> Result {
        self.resume()?;
        let (rows, start) = (self.rows, Instant::now());
        runtime.block_on(async {
            loop {
                self.clock.set(self.time + start.elapsed());
                self.insert(count).await?;
                if start.elapsed() >= turn {
                    return Result::Ok(());
                }
            }
        })?;
        let time = start.elapsed();
        self.pause()?;
        self.time += time;
        self.turns
            .push(Turn { end: self.time, rate: f64::from(self.rows - rows) / time.as_secs_f64() });
        Ok(())
    }

    async fn insert(&mut self, count: u8) -> Result {
        let keys = match &mut self.keys {
            Keys::Generated(key) => (0..count).map(|_| key()).collect(),
            Keys::Sealed(keyring) => {
                let ids: Vec<_> = (0..count).map(|_| Internal::<Order>::generate()).collect();
                let start = Instant::now();
                let texts: Vec<_> =
                    ids.into_iter().map(|id| keyring.seal(id).to_string()).collect();
                let mut keys = Vec::with_capacity(texts.len());
                for text in texts {
                    let id = keyring.open::<Order>(text.parse()?)?;
                    keys.push(Key::Uuid(id.expose_key().into()));
                }
                self.edge += start.elapsed();
                keys
            }
            Keys::Mapped(map, commits) => {
                if *commits == Commits::One {
                    self.client.run("BEGIN".to_owned()).await?;
                }
                self.client.issue(map, count).await?
            }
        };
        self.client.insert(keys, self.rows).await?;
        if let Keys::Mapped(_, Commits::One) = self.keys {
            self.client.run("COMMIT".to_owned()).await?;
        }
        self.rows += i32::from(count);
        Ok(())
    }

    async fn bytes(&mut self, kind: Engine) -> Result<[f64; 2]> {
        if matches!(kind, Engine::Mysql | Engine::Mariadb) {
            let mapped = matches!(self.keys, Keys::Mapped(..));
            let tables = if mapped { "orders, order_ids" } else { "orders" };
            self.client.run(format!("ANALYZE TABLE {tables}")).await?;
        }
        let mut bytes = [0.0; 2];
        for (bytes, select) in bytes.iter_mut().zip(sizes(kind)) {
            *bytes = self.client.number(&select).await? as f64 / f64::from(self.rows);
        }
        Ok(bytes)
    }
}

fn measure<C: Client>(kind: Engine, args: &Args) -> Result {
    let runtime = Runtime::new()?;
    let count = plans(kind, &args.only, &OwnClock::default())?.len();
    let options = options(kind, args);
    let folder = tempfile::tempdir()?;
    let containers = match kind {
        Engine::Sqlite => Vec::new(),
        _ => start(kind, args, &options, if is_smoke() { 1 } else { count })?,
    };
    let mut cases = Vec::new();
    for i in 0..count {
        let clock = OwnClock::default();
        let plan = plans(kind, &args.only, &clock)?.swap_remove(i);
        let container = containers.get(i % containers.len().max(1)).cloned();
        let url = match &container {
            None => format!("sqlite://{}/{i}.db?mode=rwc", folder.path().display()),
            Some(container) => {
                execute(kind, &container.url, &format!("CREATE DATABASE bench_{i}"))?;
                let (start, _) = container.url.rsplit_once('/').ok_or("no database in the URL")?;
                format!("{start}/bench_{i}")
            }
        };
        if i == 0 {
            print_settings(kind, args, &url, &options)?;
        }
        // Smoke runs share a server.
        let container = container.filter(|_| !is_smoke());
        let case = Case::<C>::create(kind, args, &url, container, clock, plan);
        let case = runtime.block_on(case)?;
        case.pause()?;
        cases.push(case);
    }
    let (rounds, turn) = match is_smoke() {
        true => (1, Duration::ZERO),
        false => (args.seconds, TURN),
    };
    let bar = ProgressBar::new(u64::from(rounds) * cases.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {percent} %, {eta} left")?);
    for _ in 0..rounds {
        for case in &mut cases {
            case.turn(&runtime, turn, args.rows)
                .map_err(|error| format!("{}: {error}", case.name))?;
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    report(kind, args, &runtime, &mut cases)
}

/// The first server starts alone, because its image may have to be built.
fn start(
    kind: Engine,
    args: &Args,
    options: &[String],
    count: usize,
) -> Result<Vec<Rc<Container>>> {
    let limits = Limits {
        // A smoke run has all cases on one server.
        memory: (!is_smoke()).then_some(args.memory + own_memory(kind)),
        iops: (!is_smoke()).then_some(args.iops),
        options: options.to_vec(),
    };
    let start = || Container::start_limited(kind, &limits);
    let first = start()?;
    let others = on_threads(count - 1, |_| start())?;
    Ok(std::iter::once(first).chain(others).map(Rc::new).collect())
}

fn print_settings(kind: Engine, args: &Args, url: &str, options: &[String]) -> Result {
    let select = match kind {
        Engine::Sqlite => "SELECT sqlite_version()",
        _ => "SELECT version()",
    };
    println!("\n{kind} {}, {} secondary indexes", text(kind, url, select)?, args.indexes);
    match kind {
        Engine::Sqlite => println!("{}; the kernel's cache has no limit", pragmas(args)),
        _ => println!(
            "{}, in containers of {} MiB, {} reads and as many writes per second",
            options.join(" "),
            args.memory + own_memory(kind),
            args.iops,
        ),
    }
    println!("one client, {} rows a statement, each a transaction", args.rows);
    Ok(())
}

fn own_memory(kind: Engine) -> u32 {
    match kind {
        Engine::Postgres => 40,
        Engine::Mysql => 512,
        _ => 256,
    }
}

fn options(kind: Engine, args: &Args) -> Vec<String> {
    let Args { memory, iops, .. } = args;
    match kind {
        Engine::Sqlite => Vec::new(),
        Engine::Postgres => {
            let commit = if args.durable { "on" } else { "off" };
            vec![
                // The kernel caches the rest.
                format!("-cshared_buffers={}MB", memory / 2),
                "-cmax_connections=20".to_owned(),
                format!("-csynchronous_commit={commit}"),
            ]
        }
        Engine::Mysql | Engine::Mariadb => {
            let flush = if args.durable { 1 } else { 2 };
            let no_tls = match kind {
                Engine::Mysql => "--tls-version=",
                _ => "--skip-ssl",
            };
            vec![
                no_tls.to_owned(),
                "--skip-log-bin".to_owned(),
                format!("--innodb-buffer-pool-size={memory}M"),
                format!("--innodb-io-capacity={iops}"),
                format!("--innodb-flush-log-at-trx-commit={flush}"),
            ]
        }
    }
}

fn pragmas(args: &Args) -> String {
    let (kib, synchronous) = (args.memory * 1024, if args.durable { "FULL" } else { "NORMAL" });
    format!(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = {synchronous}; PRAGMA cache_size = -{kib}"
    )
}

fn create_sql(kind: Engine, first: &Key, indexes: u8) -> String {
    let (next, integer, uuid, ascii) = match kind {
        Engine::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "INTEGER", "BLOB", ""),
        Engine::Postgres => {
            ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "BIGINT", "UUID", "")
        }
        Engine::Mysql | Engine::Mariadb => (
            "BIGINT AUTO_INCREMENT PRIMARY KEY",
            "BIGINT",
            "BINARY(16)",
            " CHARACTER SET ascii COLLATE ascii_bin",
        ),
    };
    let id = match first {
        Key::Next | Key::NextWith(_) => next.to_owned(),
        Key::Text(text) => format!("CHAR({}){ascii} PRIMARY KEY", text.len()),
        Key::Uuid(_) => format!("{uuid} PRIMARY KEY"),
        Key::Integer(_) | Key::Mapped(_) => format!("{integer} PRIMARY KEY"),
    };
    let public_id = match first {
        Key::NextWith(_) => format!(", public_id {uuid} NOT NULL UNIQUE"),
        _ => String::new(),
    };
    let columns = ["a", "b", "c", "d", "e"];
    let mut sql = format!("CREATE TABLE orders (id {id}{public_id}");
    for column in columns {
        sql += &format!(", {column} INTEGER NOT NULL");
    }
    sql += ", note VARCHAR(200) NOT NULL);";
    for column in &columns[..usize::from(indexes)] {
        sql += &format!("CREATE INDEX orders_{column} ON orders ({column});");
    }
    sql
}

/// InnoDB keeps the rows within the index of the primary key.
fn sizes(kind: Engine) -> [String; 2] {
    const TABLES: &str = "IN ('orders', 'order_ids')";
    match kind {
        Engine::Sqlite => [
            format!("name {TABLES}"),
            "name IN (SELECT name FROM sqlite_schema WHERE type = 'index')".to_owned(),
        ]
        .map(|is| format!("SELECT COALESCE(SUM(pgsize), 0) FROM dbstat WHERE {is}")),
        Engine::Postgres => ["relation", "indexes"].map(|of| {
            format!("SELECT SUM(pg_{of}_size(oid))::BIGINT FROM pg_class WHERE relname {TABLES}")
        }),
        Engine::Mysql | Engine::Mariadb => ["=", "<>"].map(|is| {
            format!(
                "SELECT CAST(COALESCE(SUM(stat_value * @@innodb_page_size), 0) AS SIGNED) \
                 FROM mysql.innodb_index_stats WHERE database_name = DATABASE() \
                 AND table_name {TABLES} AND index_name {is} 'PRIMARY' AND stat_name = 'size'"
            )
        }),
    }
}

/// Prints rows per second of the first and the last tenth of the turns, ratios to the first case of all turns
/// and of the second half, and the share of sealing and opening in the time.
fn report<C: Client>(
    kind: Engine,
    args: &Args,
    runtime: &Runtime,
    cases: &mut [Case<C>],
) -> Result {
    let mut turns = String::from("case,seconds,rows_per_second\n");
    let mut table = String::from(
        "case,first,last,ratio,standard_error,last_ratio,rows,table_bytes,index_bytes,edge\n",
    );
    println!(
        "{:26} {:>9} {:>9} {:>7} {:>7} {:>10} {:>9} {:>9} {:>9}",
        "rows/s", "first", "last", "ratio", "error", "last ratio", "rows", "table B", "index B"
    );
    let baseline: Vec<f64> = cases[0].turns.iter().map(|turn| turn.rate).collect();
    for case in cases {
        let name = case.name;
        for Turn { end, rate } in &case.turns {
            writeln!(turns, "{name},{:.2},{rate:.0}", end.as_secs_f64())?;
        }
        let rates: Vec<f64> = case.turns.iter().map(|turn| turn.rate).collect();
        // Trudeau compared the first and the last of ten minutes.
        let tenth = rates.len().div_ceil(10);
        let (first, last) = (mean(&rates[..tenth]), mean(&rates[rates.len() - tenth..]));
        let half = rates.len() / 2;
        let ratio = mean(&rates) / mean(&baseline);
        let error = standard_error(&rates) / mean(&baseline);
        let last_ratio = mean(&rates[half..]) / mean(&baseline[half..]);
        let rows = case.rows;
        case.resume()?;
        let [bytes, index_bytes] = runtime.block_on(case.bytes(kind))?;
        case.pause()?;
        println!(
            "{name:26} {first:>9.0} {last:>9.0} {ratio:>7.3} {error:>7.3} {last_ratio:>10.3} {rows:>9} {bytes:>9.1} {index_bytes:>9.1}",
        );
        let edge = case.edge.as_secs_f64() / case.time.as_secs_f64();
        if edge > 0.0 {
            println!(
                "  sealing and opening: {:.0} ns per id, {:.3} % of the time",
                case.edge.as_secs_f64() * 1e9 / f64::from(rows),
                edge * 100.0
            );
        }
        writeln!(
            table,
            "{name},{first:.0},{last:.0},{ratio:.4},{error:.4},{last_ratio:.4},\
             {rows},{bytes:.1},{index_bytes:.1},{edge:.5}"
        )?;
    }
    if args.publish {
        let mut path = format!("{}/results/insert-rates-{kind}", env!("CARGO_MANIFEST_DIR"));
        if args.indexes > 0 {
            write!(path, "-{}-indexes", args.indexes)?;
        }
        if args.rows != 10 {
            write!(path, "-{}-rows", args.rows)?;
        }
        fs::write(format!("{path}.csv"), turns)?;
        fs::write(format!("{path}-cases.csv"), table)?;
    }
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// A server that writes in bursts alternates between fast and slow turns, so four of them are one sample.
fn standard_error(rates: &[f64]) -> f64 {
    let samples: Vec<f64> = rates.chunks_exact(4).map(mean).collect();
    let (count, center) = (samples.len() as f64, mean(&samples));
    let squares = samples.iter().map(|sample| (sample - center).powi(2));
    (squares.sum::<f64>() / (count * (count - 1.0))).sqrt()
}
