//! `cargo xtask bench`.

use crate::{Result, cargo, run, tools};

const COUNTING: [&str; 4] = ["codec", "peers", "keys", "views"];

const WITH_SERVERS: [&str; 6] =
    ["application", "refusals", "mapping", "insert-rates", "packs", "cluster"];

pub(crate) fn names() -> Vec<&'static str> {
    [&COUNTING[..], &WITH_SERVERS, &["timing"]].concat()
}

/// After a run with `--publish`, the plots of its figures are drawn again.
pub(crate) fn bench(name: &str, options: &[String]) -> Result {
    if COUNTING.contains(&name) {
        tools::debian("need", "benchmarks")?;
    }
    let has_servers = WITH_SERVERS.contains(&name);
    if has_servers {
        tools::debian("need", "linked")?;
    }
    if name == "cluster" {
        let program = "run --release --package opaque-id-tests --bin cluster --locked";
        let mut cluster = cargo(&format!("{program} -- figures"));
        cluster.args(options);
        return run(cluster);
    }
    let features = if has_servers { "--features=servers" } else { "" };
    let package = "--package=opaque-id-benches";
    let mut bench = cargo(&format!("bench {package} --locked --bench {name} {features} --"));
    bench.args(options);
    run(bench)?;
    if !options.iter().any(|option| option == "--publish") {
        return Ok(());
    }
    run(cargo(&format!("run {package} --bin plots --locked")))
}
