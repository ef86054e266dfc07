use clap::ValueEnum;

use crate::{Result, cargo, run, tools};

#[derive(Clone, Copy, Default, PartialEq, ValueEnum)]
pub(crate) enum What {
    #[default]
    Codec,
    Peers,
    Keys,
    Views,
    Application,
    Refusals,
    Timing,
    Mapping,
    InsertRates,
    ObjectStore,
    HotRanges,
    Packs,
    Cluster,
}

/// Runs a benchmark with its own options. With `--publish`, which writes its figures, their plots are drawn again.
pub(crate) fn bench(what: What, options: &[String]) -> Result {
    let name = what.to_possible_value().ok_or("a benchmark has a name")?;
    let name = name.get_name();
    let has_servers = match what {
        What::Codec | What::Peers | What::Keys | What::Views => {
            tools::debian("need", "benchmarks")?;
            false
        }
        What::ObjectStore | What::HotRanges | What::Timing => false,
        What::Application | What::Refusals | What::Mapping | What::InsertRates | What::Packs => {
            tools::debian("need", "linked")?;
            true
        }
        What::Cluster => {
            tools::debian("need", "linked")?;
            let program = "run --release --package opaque-id-tests --bin cluster --locked";
            let mut cluster = cargo(&format!("{program} -- figures"));
            cluster.args(options);
            return run(cluster);
        }
    };
    let mut bench = cargo("bench --package=opaque-id-benches --locked --bench");
    bench.arg(name);
    bench.args(has_servers.then_some("--features=servers"));
    bench.arg("--").args(options);
    run(bench)?;
    if !options.iter().any(|option| option == "--publish") {
        return Ok(());
    }
    run(cargo("run --package opaque-id-benches --bin plots --locked"))
}
