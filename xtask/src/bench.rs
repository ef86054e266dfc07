use clap::ValueEnum;

use crate::{Result, cargo, libraries, run};

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
            libraries::require_valgrind()?;
            false
        }
        What::ObjectStore | What::HotRanges | What::Timing => false,
        What::Application | What::Refusals | What::Mapping | What::InsertRates | What::Packs => {
            libraries::require()?;
            true
        }
        What::Cluster => {
            libraries::require()?;
            let program =
                "run --release --package opaque-id-tests --bin cluster --locked -- figures";
            let mut cluster = cargo(&program.split(' ').collect::<Vec<_>>());
            cluster.args(options);
            return run(cluster);
        }
    };
    let mut bench = cargo(&["bench", "--package=opaque-id-benches", "--locked", "--bench"]);
    bench.arg(name);
    bench.args(has_servers.then_some("--features=servers"));
    bench.arg("--").args(options);
    run(bench)?;
    if !options.iter().any(|option| option == "--publish") {
        return Ok(());
    }
    let plots = "run --package opaque-id-benches --bin plots --locked";
    run(cargo(&plots.split(' ').collect::<Vec<_>>()))
}
