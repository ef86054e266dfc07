//! The promises of the guide on mapping tables and sequences in clusters and behind a pooler, under load and
//! under faults, by `cargo xtask test cluster`; and their figures, by `cargo xtask bench cluster`.
//!
//! On a busy machine the nodes may expel one of them, and it then refuses every statement until it has joined
//! again. The tests' own statements wait for that.

mod figures;
mod simulation;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use opaque_id_sql::mapping::Index;
use opaque_id_sqlx::SupportedDatabase;
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::load::{
    LAST_TABLE, Load, LoadReport, create_sql, hashed_index_is_refused, in_shop,
};
use opaque_id_tests::servers::{Cluster, Container, Durability, Node, Pooler, Topology, wait_for};
use opaque_id_tests::sql::{execute, text};
use sqlx::{MySql, Postgres};

use self::simulation::{Faults, Like};

/// A part by its name. The argument is whether the test is short.
type Part = (&'static str, fn(bool) -> Result);

/// The parts of a test, and at the end the figures of a benchmark.
const PARTS: [Part; 11] = [
    ("galera", |is_short| multi_master(Topology::Galera, is_short)),
    ("group-replication", |is_short| multi_master(Topology::MultiPrimary, is_short)),
    ("single-primary", |_| single_primary()),
    ("postgres", |_| postgres()),
    ("patroni", |_| patroni()),
    ("myrocks", |_| myrocks()),
    ("like-cockroach", |_| simulated::<Postgres>(Like::Cockroach)),
    ("like-dsql", |_| simulated::<Postgres>(Like::Dsql)),
    ("like-tidb", |_| simulated::<MySql>(Like::Tidb)),
    ("libsql", |_| libsql()),
    ("figures", |_| figures::figures()),
];

fn main() -> ExitCode {
    let names = PARTS.map(|(name, _)| name);
    let mut parts: Vec<String> = std::env::args().skip(1).collect();
    let is_short = parts.iter().any(|part| part == "--short");
    parts.retain(|part| part != "--short");
    if parts.is_empty() {
        let count = if is_short { 1 } else { PARTS.len() - 1 };
        parts = names[..count].iter().map(ToString::to_string).collect();
    }
    let mut code = ExitCode::SUCCESS;
    for part in parts {
        println!("\n{part}");
        let done = match PARTS.iter().find(|(name, _)| *name == part) {
            Some((_, run)) => run(is_short),
            None => Err(format!("no such part; there are {}", names.join(", ")).into()),
        };
        if let Err(error) = done {
            eprintln!("  {part} FAILED: {error}");
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Waits while the writers write, for a quarter of half a minute or of `OPAQUE_ID_TEST_SECONDS`.
fn calm() -> Result {
    let seconds = std::env::var("OPAQUE_ID_TEST_SECONDS").ok();
    let seconds: u64 = seconds.map_or(Ok(30), |seconds| seconds.parse())?;
    std::thread::sleep(Duration::from_millis(seconds * 250));
    Ok(())
}

fn timed<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let done = act().map_err(|error| format!("{what}: {error:?}"))?;
    println!("  {what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

/// Returns the URL of our database on a node.
fn shop(node: &Node) -> Result<String> {
    in_shop(&node.url()?)
}

/// Stops the writers, and looks up all acknowledged rows on each node.
fn check<'n, DB: SupportedDatabase>(
    kind: Engine,
    load: Load,
    nodes: impl IntoIterator<Item = &'n Node>,
) -> Result<LoadReport> {
    let mut seen = load.stop()?;
    println!("{seen}");
    for node in nodes {
        timed(&format!("{}: all of it looked up", node.name), || {
            wait_for(|| seen.look_up::<DB>(kind, &shop(node)?))
        })?;
    }
    Ok(seen)
}

/// Creates the tables by a node that accepts writes, and waits until all nodes have them. Returns the nodes'
/// URLs.
fn migrate(first: &Node, cluster: &Cluster, indexes: &[Index]) -> Result<Vec<String>> {
    let kind = cluster.kind();
    wait_for(|| {
        let url = first.url()?;
        execute(kind, &url, "DROP DATABASE IF EXISTS shop")?;
        execute(kind, &url, "CREATE DATABASE shop")?;
        execute(kind, &in_shop(&url)?, &create_sql(kind, indexes))
    })?;
    let urls = cluster.nodes.iter().map(shop).collect::<Result<Vec<_>>>()?;
    let select = format!("SELECT CONCAT(COUNT(*)) FROM {LAST_TABLE}");
    for url in &urls {
        wait_for(|| text(kind, url, &select))?;
    }
    Ok(urls)
}

/// Runs the conformance cases behind a load balancer. Then a node is killed and another one cut off, while
/// all are written to.
fn multi_master(topology: Topology, is_short: bool) -> Result {
    let kind = topology.kind();
    let cluster = timed("three nodes start", || Cluster::start(topology))?;
    let conforms = match is_short {
        true => Ok(()),
        false => conformance(kind, &cluster),
    };
    // With the hashed index no node detects a concurrent insert on another one.
    let indexes = [Index::Unique];
    let urls = migrate(&cluster.nodes[0], &cluster, &indexes)?;
    wait_for(|| hashed_index_is_refused::<MySql>(kind, &urls[0]))?;
    let load = Load::start::<MySql>(urls, &indexes)?;
    let calm = || match is_short {
        true => {
            std::thread::sleep(Duration::from_secs(2));
            Ok(())
        }
        false => calm(),
    };
    calm()?;
    cluster.nodes[1].kill()?;
    calm()?;
    timed("the killed node is back", || {
        cluster.nodes[1].start_again()?;
        load.moved(1, shop(&cluster.nodes[1])?);
        cluster.wait_until_whole()
    })?;
    calm()?;
    if !is_short {
        load.cut_off(2, true);
        cluster.cut_off(2)?;
        std::thread::sleep(Duration::from_secs(20));
        timed("the node that was cut off is back", || {
            cluster.reconnect(2)?;
            cluster.wait_until_whole()
        })?;
        calm()?;
        load.cut_off(2, false);
    }
    check::<MySql>(kind, load, &cluster.nodes)?.verdict().and(conforms)
}

/// The cases that several writable nodes behind a load balancer cannot pass, by a part of their names, with
/// the reason.
const SKIPPED: [(&str, &str); 16] = [
    ("mapped_ids_of_the_same_hash", "the hashed index has no place on several writable nodes"),
    (
        "mapped_ids_wait_for_a_transaction",
        "no node waits for a transaction on another one: one of the two fails at its COMMIT",
    ),
    ("a_wait_for_a_lock_is_a_conflict", "the same"),
    ("errors_are_recognized_after_a_rollback", "the same"),
    ("integers_that_are_used_up", "each node counts by itself, in steps of its own"),
    ("keys_of_32_bits", "the same"),
    ("unsigned_keys", "the same"),
    (
        "two_tasks_insert_a_hundred_each",
        "its INSERTs are the application's: a node may reject them, and only their caller can retry",
    ),
    ("columns_follow_a_rotation", "its UPDATEs are the application's: the same"),
    ("packs_in_groups", "the tables of its backup have no primary key, which a group requires"),
    ("columns_in_groups", "the same"),
    ("packs_that_were_altered", "the same"),
    ("packs_that_are_put_back", "the same"),
    ("packs_without_primary_keys", "the same"),
    ("packs_that_are_many", "it reads what one server has counted"),
    ("packs_beside_an_idle_transaction", "it asks one server for its locks"),
];

/// The cases of maps and sequences that an engine cannot pass, by a part of their names, with the reason.
const NOT_SIMULATED: [(&str, &str); 3] = [
    ("mapped_ids_of_the_same_hash", "the hashed index has no place on an engine"),
    (
        "mapped_ids_wait_for_a_transaction",
        "above READ COMMITTED who has waited for another transaction conflicts with it",
    ),
    (
        "seaorm::postgres::s",
        "its migrator notes a migration in the transaction of its DDL, which Aurora DSQL refuses",
    ),
];

/// Runs sixteen writers through a simulation with failing statements and commits, and the conformance cases of maps and sequences
/// through one with failing calls.
fn simulated<DB: SupportedDatabase>(like: Like) -> Result {
    let kind = like.kind();
    let server = Container::start(kind, Durability::None)?;
    let url = simulation::start(like, Faults::All, &server.url)?;
    let indexes = [Index::Unique];
    execute(kind, &server.url, "CREATE DATABASE shop")?;
    let direct = in_shop(&server.url)?;
    execute(kind, &direct, &create_sql(kind, &indexes))?;
    hashed_index_is_refused::<DB>(kind, &in_shop(&url)?)?;
    let load = Load::start::<DB>(vec![in_shop(&url)?], &indexes)?;
    (0..4).try_for_each(|_| calm())?;
    let mut seen = load.stop()?;
    println!("{seen}");
    seen.look_up::<DB>(kind, &direct)?;
    seen.verdict()?;
    let url = simulation::start(like, Faults::OfCalls, &server.url)?;
    let maps = cases(kind, &url, &NOT_SIMULATED, "mapped_ids");
    maps.and(cases(kind, &url, &NOT_SIMULATED, "sequence"))
}

fn conformance(kind: Engine, cluster: &Cluster) -> Result {
    // A row that one node has acknowledged is read on another one.
    let (set, reset) = match kind {
        Engine::Mariadb => {
            ("SET GLOBAL wsrep_sync_wait = 7", "SET GLOBAL wsrep_sync_wait = DEFAULT")
        }
        _ => (
            "SET GLOBAL group_replication_consistency = 'BEFORE_AND_AFTER'",
            "SET GLOBAL group_replication_consistency = DEFAULT",
        ),
    };
    let on_all = |sql| cluster.nodes.iter().try_for_each(|node| execute(kind, &node.url()?, sql));
    on_all(set)?;
    let balancer = cluster.load_balancer()?;
    let conforms = cases(kind, &balancer.url()?, &SKIPPED, "");
    on_all(reset)?;
    conforms
}

/// Runs the conformance cases with this part in their names on the server of a URL, without the hashed index.
fn cases(kind: Engine, url: &str, skipped: &[(&str, &str)], filter: &str) -> Result {
    let mut cases = cargo_test();
    cases
        .args([
            "--workspace",
            "--all-features",
            "--locked",
            "--no-fail-fast",
            "--test=sqlx",
            "--test=diesel",
            "--test=seaorm",
            "--",
        ])
        .env("OPAQUE_ID_TEST_ONLY", kind.name())
        .env("OPAQUE_ID_TEST_INDEX", Index::Unique.to_string())
        .env(format!("OPAQUE_ID_TEST_{}_URL", kind.name().to_uppercase()), url);
    println!(
        "  skipped in all cases: the hashed index, which has no place on several servers that write"
    );
    for (case, reason) in skipped {
        println!("  skipped: {case}: {reason}");
        cases.args(["--skip", case]);
    }
    cases.args(Some(filter).filter(|filter| !filter.is_empty()));
    passes(cases, "the conformance cases")
}

fn cargo_test() -> Command {
    let mut test = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    test.arg("test");
    test
}

fn passes(mut test: Command, what: &str) -> Result {
    let status = test.status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{what}: {status}").into()),
    }
}

/// The primary of a group is killed while it is written to, and returns as a secondary.
fn single_primary() -> Result {
    const KIND: Engine = Engine::Mysql;
    let indexes = [Index::Unique, Index::Hashed];
    let cluster = timed("three members start", || Cluster::start(Topology::SinglePrimary))?;
    let [primary, others @ ..] = &cluster.nodes[..] else {
        return Err("a cluster without nodes".into());
    };
    migrate(primary, &cluster, &indexes)?;
    let load = Load::start::<MySql>(vec![shop(primary)?], &indexes)?;
    calm()?;
    primary.kill()?;
    // Callers do not know the new primary yet, and ask a node that may not write.
    load.moved(0, shop(&others[0])?);
    let next = timed("another member is the primary", || {
        wait_for(|| {
            for other in others {
                let read_only = "SELECT CAST(@@GLOBAL.super_read_only AS CHAR)";
                if text(KIND, &other.url()?, read_only)? == "0" {
                    return Ok(other);
                }
            }
            Err("no member takes writes".into())
        })
    })?;
    load.moved(0, shop(next)?);
    calm()?;
    timed("the killed member is back", || {
        primary.start_again()?;
        cluster.wait_until_whole()
    })?;
    calm()?;
    check::<MySql>(KIND, load, &cluster.nodes)?.verdict()
}

/// Runs the load behind each pooler. Then the primary is killed, and the more advanced replica takes its
/// place.
fn postgres() -> Result {
    const KIND: Engine = Engine::Postgres;
    let indexes = [Index::Unique, Index::Hashed];
    let cluster = timed("a primary and two replicas start", || Cluster::start(Topology::Replicas))?;
    let [primary, replicas @ ..] = &cluster.nodes[..] else {
        return Err("a cluster without nodes".into());
    };
    migrate(primary, &cluster, &indexes)?;

    for (name, pooler) in [
        ("PgBouncer", Pooler::PgBouncer),
        ("Odyssey", Pooler::Odyssey),
        ("Pgpool-II", Pooler::Pgpool),
    ] {
        let pooler = timed(&format!("{name} starts"), || cluster.pooler(pooler))?;
        let load = Load::start::<Postgres>(vec![shop(&pooler)?], &indexes)?;
        calm()?;
        let seen = check::<Postgres>(KIND, load, [primary])?;
        seen.verdict().and(seen.no_errors()).map_err(|error| format!("{name}: {error}"))?;
        for left in [
            "pg_locks WHERE locktype = 'advisory'",
            "pg_stat_activity WHERE state LIKE 'idle in transaction%'",
        ] {
            let count = text(KIND, &primary.url()?, &format!("SELECT COUNT(*)::text FROM {left}"))?;
            println!("  left by the pooler's clients: {count} of {left}");
            if count != "0" {
                return Err(format!("{name}'s server connections are not clean").into());
            }
        }
    }

    let load = Load::start::<Postgres>(vec![shop(primary)?], &indexes)?;
    calm()?;
    primary.kill()?;
    let mut received = Vec::new();
    for replica in replicas {
        let lsn = "SELECT (pg_last_wal_receive_lsn() - '0/0')::text";
        received.push(text(KIND, &replica.url()?, lsn)?.parse::<u64>()?);
    }
    // The more advanced replica has all acknowledged rows.
    let (promoted, other) = match received[0] > received[1] {
        true => (&replicas[0], &replicas[1]),
        false => (&replicas[1], &replicas[0]),
    };
    text(KIND, &promoted.url()?, "SELECT pg_promote()::text")?;
    let follow =
        format!("ALTER SYSTEM SET primary_conninfo = 'host={} user=postgres'", promoted.name);
    execute(KIND, &other.url()?, &follow)?;
    execute(KIND, &other.url()?, "SELECT pg_reload_conf()")?;
    load.moved(0, shop(promoted)?);
    calm()?;
    check::<Postgres>(KIND, load, replicas)?.verdict()
}

/// HAProxy sends all writers to Patroni's primary. Another node becomes the primary on request, and again
/// when it is killed.
fn patroni() -> Result {
    const KIND: Engine = Engine::Postgres;
    let indexes = [Index::Unique, Index::Hashed];
    let cluster = timed("three nodes start", || Cluster::start(Topology::Patroni))?;
    let balancer = cluster.load_balancer()?;
    migrate(&balancer, &cluster, &indexes)?;
    let primary = || {
        let mut nodes = cluster.nodes.iter();
        let is_primary = |node: &&Node| {
            let is_replica =
                node.url().and_then(|url| text(KIND, &url, "SELECT pg_is_in_recovery()::text"));
            is_replica.is_ok_and(|is_replica| is_replica == "false")
        };
        nodes.find(is_primary).ok_or_else(|| "no node is the primary".into())
    };
    let load = Load::start::<Postgres>(vec![shop(&balancer)?], &indexes)?;
    calm()?;
    let first = primary()?;
    timed("another node is the primary, as asked", || {
        first.run(&["patronictl", "--config-file", "/patroni.yml", "switchover", "--force"])?;
        cluster.wait_until_whole()
    })?;
    calm()?;
    let second = primary()?;
    if second.name == first.name {
        return Err("Patroni did not switch".into());
    }
    second.kill()?;
    timed("another node is the primary", || wait_for(primary))?;
    calm()?;
    timed("the killed node is back", || {
        second.start_again()?;
        cluster.wait_until_whole()
    })?;
    calm()?;
    check::<Postgres>(KIND, load, &cluster.nodes)?.verdict()
}

/// Tables are MyRocks' unless their DDL names another engine, as for maps, sequences and packs.
fn myrocks() -> Result {
    const KIND: Engine = Engine::Mariadb;
    let indexes = [Index::Unique, Index::Hashed];
    let server = timed("a server starts", Container::start_myrocks)?;
    execute(KIND, &server.url, "CREATE DATABASE shop")?;
    let url = in_shop(&server.url)?;
    execute(KIND, &url, &create_sql(KIND, &indexes))?;
    let load = Load::start::<MySql>(vec![url.clone()], &indexes)?;
    calm()?;
    let mut seen = load.stop()?;
    println!("{seen}");
    seen.look_up::<MySql>(KIND, &url)?;
    seen.verdict()?;
    let skipped = [("seaorm::", "MyRocks has no room for the key of its migrator's table")];
    ["mapped_ids", "sequence", "packs"]
        .into_iter()
        .try_for_each(|filter| cases(KIND, &server.url, &skipped, filter))
}

/// The tests of an adapter for libSQL have their own workspace.
fn libsql() -> Result {
    let mut test = cargo_test();
    test.args(["--manifest-path=examples/libsql/Cargo.toml", "--target-dir=target/libsql"]);
    passes(test, "the tests of libSQL's adapter")
}
