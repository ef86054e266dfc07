//! What the guide promises of mapping tables and sequences in clusters and behind poolers, under load and under
//! faults. `cargo xtask test cluster`.

mod load;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use opaque_id_sqlx::Dialect;
use opaque_id_sqlx::mapping::Index;
use opaque_id_tests::Result;
use opaque_id_tests::database::{execute, text};
use opaque_id_tests::servers::{Cluster, Kind};
use sqlx::MySql;

use load::{LAST_TABLE, Load, create_sql};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let is_short = args.iter().any(|arg| arg == "--short");
    match multi_master(Kind::Mariadb, is_short) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cluster: {error}");
            ExitCode::FAILURE
        }
    }
}

fn pause(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

/// Prints what is done, and how long it took.
fn timed<T>(what: &str, act: impl FnOnce() -> Result<T>) -> Result<T> {
    let start = Instant::now();
    let done = act().map_err(|error| format!("{what}: {error}"))?;
    println!("  {what}: {:.1} s", start.elapsed().as_secs_f64());
    Ok(done)
}

fn multi_master(kind: Kind, is_short: bool) -> Result {
    let cluster = timed("three nodes start", || Cluster::start(kind))?;
    let indexes = [Index::Unique];
    let shop = |node: usize| -> Result<String> {
        Ok(cluster.nodes[node].url()?.replace("/mysql", "/shop"))
    };
    execute(kind, &cluster.nodes[0].url()?, "CREATE DATABASE shop")?;
    execute(kind, &shop(0)?, &create_sql(Dialect::MySql, &indexes))?;
    let urls = (0..3).map(shop).collect::<Result<Vec<_>>>()?;
    for url in &urls {
        let count = format!("SELECT CAST(COUNT(*) AS CHAR) FROM {LAST_TABLE}");
        while text(kind, url, &count).is_err() {
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    let load = Load::start::<MySql>(urls, &indexes)?;
    let calm = if is_short { 2 } else { 8 };
    pause(calm);
    let killed = &cluster.nodes[1];
    killed.kill()?;
    pause(calm);
    timed("a killed node comes back", || {
        killed.start_again()?;
        load.moved(1, shop(1)?);
        cluster.wait_until_whole()
    })?;
    pause(calm);
    let mut seen = load.stop()?;
    for (number, node) in cluster.nodes.iter().enumerate() {
        seen.look_up::<MySql>(&indexes, &node.name, &shop(number)?)?;
    }
    seen.verdict()
}
