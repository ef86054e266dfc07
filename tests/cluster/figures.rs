//! Calls per second of sixteen writers, and rows that another node does not find yet. `cargo xtask bench
//! cluster`.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opaque_id_sql::mapping::Index;
use opaque_id_sqlx::{External, Sequence, SupportedDatabase};
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::load::{Failure, Order, Parcel, WRITERS, connect, create_sql, in_shop, map};
use opaque_id_tests::servers::{Cluster, Container, Durability, Topology};
use opaque_id_tests::sql::execute;
use sqlx::{MySql, Postgres};
use tokio::runtime::Runtime;

use crate::migrate;

const DURATION: Duration = Duration::from_secs(8);
/// More UUIDs than a writer requests.
const UUIDS: usize = 400_000;

#[derive(Clone, Copy)]
enum Act {
    Issue(usize),
    /// Finds missing ids.
    Find(usize),
    /// All writers request the same new ids in the same order.
    GetOrInsert(usize),
    /// Gets or inserts ids, and then finds them on the other node.
    FindElsewhere,
    /// Takes seven numbers from blocks of ten.
    Next,
}

const THROUGHPUT: [(&str, Act); 6] = [
    ("issue 1", Act::Issue(1)),
    ("issue 100", Act::Issue(100)),
    ("find 1", Act::Find(1)),
    ("find 100", Act::Find(100)),
    ("get_or_insert 1", Act::GetOrInsert(1)),
    ("get_or_insert 100", Act::GetOrInsert(100)),
];

pub(crate) fn figures() -> Result {
    let plain = Container::start(Engine::Mariadb, Durability::Full)?;
    execute(Engine::Mariadb, &plain.url, "CREATE DATABASE shop")?;
    let url = in_shop(&plain.url)?;
    let dialect = opaque_id_sqlx::Dialect::MySql;
    execute(Engine::Mariadb, &url, &create_sql(dialect, &[Index::Unique]))?;
    let url = [without_tls(&url)];
    for (name, act) in THROUGHPUT {
        measure::<MySql>(&format!("MariaDB: {name}"), act, &url, &url)?;
    }
    drop(plain);

    let galera = Cluster::start(Topology::Galera)?;
    let urls = with_tables(&galera)?;
    for (nodes, urls) in [(1, &urls[..1]), (3, &urls)] {
        for (name, act) in THROUGHPUT {
            measure::<MySql>(&format!("Galera, {nodes} written to: {name}"), act, urls, urls)?;
        }
    }
    measure::<MySql>("Galera: next_all 7", Act::Next, &urls, &urls)?;
    measure::<MySql>("Galera: find elsewhere", Act::FindElsewhere, &urls, &urls)?;
    for node in &galera.nodes {
        execute(Engine::Mariadb, &node.url()?, "SET GLOBAL wsrep_sync_wait = 7")?;
    }
    let what = "Galera, wsrep_sync_wait = 7: find elsewhere";
    measure::<MySql>(what, Act::FindElsewhere, &urls, &urls)?;
    drop(galera);

    let group = Cluster::start(Topology::MultiPrimary)?;
    let urls = with_tables(&group)?;
    measure::<MySql>("Group Replication: next_all 7", Act::Next, &urls, &urls)?;
    for consistency in ["EVENTUAL", "BEFORE", "BEFORE_AND_AFTER"] {
        let set = format!("SET GLOBAL group_replication_consistency = '{consistency}'");
        for node in &group.nodes {
            execute(Engine::Mysql, &node.url()?, &set)?;
        }
        let what = format!("Group Replication, {consistency}: find elsewhere");
        measure::<MySql>(&what, Act::FindElsewhere, &urls, &urls)?;
    }
    drop(group);

    let replicas = Cluster::start(Topology::Replicas)?;
    let urls = migrate(&replicas.nodes[0], &replicas, &[Index::Unique])?;
    let (primary, others) = urls.split_at(1);
    let names: Vec<_> =
        replicas.nodes[1..].iter().map(|node| format!("\"{}\"", node.name)).collect();
    for (commit, standbys) in [("on", 1), ("remote_apply", 1), ("remote_apply", 2)] {
        let admin = replicas.nodes[0].url()?;
        for setting in [
            format!("synchronous_commit = {commit}"),
            format!("synchronous_standby_names = 'ANY {standbys} ({})'", names.join(",")),
        ] {
            execute(Engine::Postgres, &admin, &format!("ALTER SYSTEM SET {setting}"))?;
        }
        execute(Engine::Postgres, &admin, "SELECT pg_reload_conf()")?;
        let what = format!("PostgreSQL, {commit}, ANY {standbys}: find elsewhere");
        measure::<Postgres>(&what, Act::FindElsewhere, primary, others)?;
    }
    Ok(())
}

/// PostgreSQL's containers have no TLS either.
fn without_tls(url: &str) -> String {
    format!("{url}?ssl-mode=disabled")
}

fn with_tables(cluster: &Cluster) -> Result<Vec<String>> {
    Ok(migrate(&cluster.nodes[0], cluster, &[Index::Unique])?
        .iter()
        .map(|url| without_tls(url))
        .collect())
}

/// The results of one writer.
#[derive(Default)]
struct Done {
    times: Vec<Duration>,
    not_found: usize,
    numbers: Vec<u64>,
    errors: Vec<String>,
}

/// Runs all writers, the first on the first node and so on, and prints their results.
fn measure<DB: SupportedDatabase>(
    what: &str,
    act: Act,
    nodes: &[String],
    others: &[String],
) -> Result {
    let uuids: Arc<[_]> = (0..UUIDS).map(|_| External::random()).collect();
    let runtime = Runtime::new()?;
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let node = nodes[writer % nodes.len()].clone();
            let other = others[(writer + 1) % others.len()].clone();
            runtime.spawn(write::<DB>(act, node, other, Arc::clone(&uuids), start + DURATION))
        })
        .collect();
    let mut all = Done::default();
    let mut calls = vec![0; nodes.len()];
    for (writer, done) in writers.into_iter().enumerate() {
        let done = runtime.block_on(done)?;
        calls[writer % nodes.len()] += done.times.len();
        all.times.extend(done.times);
        all.not_found += done.not_found;
        all.numbers.extend(done.numbers);
        all.errors.extend(done.errors);
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = |calls: usize| format!("{:.0}", calls as f64 / seconds);
    all.times.sort_unstable();
    let count = all.times.len();
    let milliseconds =
        |place: usize| all.times.get(place).map_or(0.0, |time| time.as_secs_f64() * 1e3);
    println!(
        "  {what}: {count} calls, {}/s ({}), ms: p50 {:.1}, p99 {:.1}, max {:.0}",
        rate(count),
        calls.into_iter().map(rate).collect::<Vec<_>>().join(", "),
        milliseconds(count / 2),
        milliseconds(count * 99 / 100),
        milliseconds(count.saturating_sub(1)),
    );
    match act {
        Act::FindElsewhere => println!("    {} not found", all.not_found),
        Act::Next => {
            let distinct = all.numbers.iter().collect::<HashSet<_>>().len();
            println!("    {} numbers, {distinct} distinct", all.numbers.len());
        }
        Act::Issue(_) | Act::Find(_) | Act::GetOrInsert(_) => {}
    }
    all.errors.sort_unstable();
    for errors in all.errors.chunk_by(|one, next| one == next) {
        println!("    {} × {}", errors.len(), errors[0]);
    }
    Ok(())
}

async fn write<DB: SupportedDatabase>(
    act: Act,
    node: String,
    other: String,
    uuids: Arc<[External<Order>]>,
    end: Instant,
) -> Done {
    let (pool, other) = (&connect::<DB>(&node), &connect::<DB>(&other));
    let map = map(Index::Unique);
    let sequence = Sequence::<Parcel>::new().block(10);
    let mut done = Done::default();
    let mut rest = uuids.iter().copied().cycle();
    while Instant::now() < end {
        let start = Instant::now();
        let mut shared = |count| rest.by_ref().take(count).collect::<Vec<_>>();
        let called = async {
            match act {
                Act::Issue(count) => {
                    map.issue_all(pool, count).await.map_err(Failure::Map)?;
                }
                Act::Find(count) => {
                    let absent: Vec<_> = (0..count).map(|_| External::random()).collect();
                    map.find_all(pool, &absent).await.map_err(Failure::Map)?;
                }
                Act::GetOrInsert(count) => {
                    let ids = shared(count);
                    map.get_or_insert_all(pool, &ids).await.map_err(Failure::Map)?;
                }
                Act::FindElsewhere => {
                    let ids = shared(1);
                    map.get_or_insert_all(pool, &ids).await.map_err(Failure::Map)?;
                    let found = map.find_all(other, &ids).await.map_err(Failure::Map)?;
                    done.not_found += found.iter().filter(|id| id.is_none()).count();
                }
                Act::Next => {
                    let ids = sequence.next_all(pool, 7).await.map_err(Failure::Sequence)?;
                    done.numbers.extend(ids.iter().map(|id| id.expose_key().sequence()));
                }
            }
            Ok::<_, Failure>(())
        };
        match called.await {
            Ok(()) => done.times.push(start.elapsed()),
            Err(failure) => done.errors.push(failure.class_and_text(false).1),
        }
    }
    done
}
