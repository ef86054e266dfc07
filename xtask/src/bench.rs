use clap::ValueEnum;

use crate::{Result, cargo, libraries, run};

#[derive(Clone, Copy, Default, ValueEnum)]
pub(crate) enum What {
    #[default]
    Codec,
    Peers,
    Keys,
    Views,
    Application,
    Refusals,
    Mapping,
    PacksRatios,
    Cluster,
}

/// Runs a benchmark. `publish` writes its figures to benches/results, and draws their plots again.
pub(crate) fn bench(what: What, publish: bool) -> Result {
    let name = what.to_possible_value().ok_or("a benchmark has a name")?;
    let name = name.get_name();
    let has_servers = match what {
        What::Codec | What::Peers | What::Keys | What::Views => {
            libraries::install_valgrind()?;
            false
        }
        What::PacksRatios => false,
        What::Application | What::Refusals | What::Mapping => {
            libraries::install()?;
            true
        }
        What::Cluster => {
            libraries::install()?;
            let program =
                "run --release --package opaque-id-tests --bin cluster --locked -- figures";
            return run(cargo(&program.split(' ').collect::<Vec<_>>()));
        }
    };
    let mut bench = cargo(&[
        "bench",
        "--package=opaque-id-benches",
        "--locked",
        "--bench",
    ]);
    bench.arg(name);
    bench.args(has_servers.then_some("--features=servers"));
    if !publish {
        return run(bench);
    }
    bench.args(["--", "--publish"]);
    run(bench)?;
    let plots = "run --package opaque-id-benches --bin plots --locked";
    run(cargo(&plots.split(' ').collect::<Vec<_>>()))
}
