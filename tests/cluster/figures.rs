//! Rows that sixteen writers have got or inserted and that another node does not find yet. `cargo xtask bench
//! cluster`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use opaque_id_sql::mapping::Index;
use opaque_id_sqlx::{External, MappingError, SupportedDatabase, UuidMap};
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::load::{Order, WRITERS, connect, map};
use opaque_id_tests::servers::{Cluster, Topology};
use opaque_id_tests::sql::execute;
use sqlx::{MySql, Pool, Postgres};
use tokio::runtime::Runtime;

use crate::migrate;

const DURATION: Duration = Duration::from_secs(8);
/// More UUIDs than a writer requests.
const UUIDS: usize = 400_000;

pub(crate) fn figures() -> Result {
    let galera = Cluster::start(Topology::Galera)?;
    let urls = with_tables(&galera)?;
    measure::<MySql>("Galera", &urls, &urls)?;
    for node in &galera.nodes {
        execute(Engine::Mariadb, &node.url()?, "SET GLOBAL wsrep_sync_wait = 7")?;
    }
    measure::<MySql>("Galera, wsrep_sync_wait = 7", &urls, &urls)?;
    drop(galera);

    let group = Cluster::start(Topology::MultiPrimary)?;
    let urls = with_tables(&group)?;
    for consistency in ["EVENTUAL", "BEFORE", "BEFORE_AND_AFTER"] {
        let set = format!("SET GLOBAL group_replication_consistency = '{consistency}'");
        for node in &group.nodes {
            execute(Engine::Mysql, &node.url()?, &set)?;
        }
        measure::<MySql>(&format!("Group Replication, {consistency}"), &urls, &urls)?;
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
        let what = format!("PostgreSQL, {commit}, ANY {standbys}");
        measure::<Postgres>(&what, primary, others)?;
    }
    Ok(())
}

/// Returns URLs without TLS. PostgreSQL's containers have none either.
fn with_tables(cluster: &Cluster) -> Result<Vec<String>> {
    let urls = migrate(&cluster.nodes[0], cluster, &[Index::Unique])?;
    Ok(urls.iter().map(|url| format!("{url}?ssl-mode=disabled")).collect())
}

/// Runs all writers, the first on the first node and so on, and prints their results. All writers request the
/// same new ids in the same order.
fn measure<DB: SupportedDatabase>(what: &str, nodes: &[String], others: &[String]) -> Result {
    let uuids: Arc<[_]> = (0..UUIDS).map(|_| External::random()).collect();
    let runtime = Runtime::new()?;
    let end = Instant::now() + DURATION;
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let node = nodes[writer % nodes.len()].clone();
            let other = others[(writer + 1) % others.len()].clone();
            let uuids = Arc::clone(&uuids);
            runtime.spawn(async move {
                let (pool, other) = (connect::<DB>(&node), connect::<DB>(&other));
                let (map, mut found) = (map(Index::Unique), Vec::new());
                for uuid in uuids.iter().cycle().take_while(|_| Instant::now() < end) {
                    found.push(find_elsewhere(&map, &pool, &other, *uuid).await);
                }
                found
            })
        })
        .collect();
    let (mut calls, mut missing) = (0, 0);
    for writer in writers {
        for found in runtime.block_on(writer)? {
            calls += 1;
            match found {
                Ok(found) => missing += usize::from(!found),
                Err(error) => println!("    {error}"),
            }
        }
    }
    println!("  {what}: {missing} of {calls} ids not found on another node");
    Ok(())
}

async fn find_elsewhere<DB: SupportedDatabase>(
    map: &UuidMap<Order>,
    pool: &Pool<DB>,
    other: &Pool<DB>,
    uuid: External<Order>,
) -> std::result::Result<bool, MappingError> {
    map.get_or_insert(pool, uuid).await?;
    Ok(map.find(other, uuid).await?.is_some())
}
