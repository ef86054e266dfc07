use clap::{Args, ValueEnum};

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
    Mapping,
    InsertRates,
    ObjectStore,
    Packs,
    PacksRatios,
    Cluster,
}

/// The settings of `insert-rates`; without them, its own defaults.
#[derive(Args)]
#[command(next_help_heading = "Options of insert-rates")]
pub(crate) struct InsertRates {
    /// mysql, mariadb, postgres or sqlite; all if left out
    #[arg(long)]
    database: Option<String>,
    /// How long each case runs [default: 60]
    #[arg(long)]
    seconds: Option<u32>,
    /// MiB of pages that a server can keep in memory [default: 32]
    #[arg(long)]
    memory: Option<u32>,
    /// Reads, and as many writes, per second [default: 500]
    #[arg(long)]
    iops: Option<u32>,
    /// Secondary indexes, 0 to 5 [default: 0]
    #[arg(long)]
    indexes: Option<u32>,
    /// Rows of a statement [default: 10]
    #[arg(long)]
    rows: Option<u32>,
    /// Wait for the disk at each commit
    #[arg(long)]
    durable: bool,
}

impl InsertRates {
    fn args(&self) -> Vec<String> {
        let numbers = [
            ("seconds", self.seconds),
            ("memory", self.memory),
            ("iops", self.iops),
            ("indexes", self.indexes),
            ("rows", self.rows),
        ];
        let numbers = numbers
            .into_iter()
            .filter_map(|(name, number)| Some(format!("--{name}={}", number?)));
        let database = self
            .database
            .iter()
            .map(|name| format!("--database={name}"));
        let durable = self.durable.then(|| "--durable".to_owned());
        numbers.chain(database).chain(durable).collect()
    }
}

/// Runs a benchmark. `publish` writes its figures to benches/results, and draws their plots again.
pub(crate) fn bench(what: What, publish: bool, insert_rates: &InsertRates) -> Result {
    let args = insert_rates.args();
    if what != What::InsertRates && !args.is_empty() {
        return Err(format!("{} is an option of insert-rates only", args.join(" ")).into());
    }
    let name = what.to_possible_value().ok_or("a benchmark has a name")?;
    let name = name.get_name();
    let has_servers = match what {
        What::Codec | What::Peers | What::Keys | What::Views => {
            libraries::install_valgrind()?;
            false
        }
        What::PacksRatios | What::ObjectStore => false,
        What::Application | What::Refusals | What::Mapping | What::InsertRates | What::Packs => {
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
    bench.arg("--").args(args);
    if !publish {
        return run(bench);
    }
    bench.arg("--publish");
    run(bench)?;
    let plots = "run --package opaque-id-benches --bin plots --locked";
    run(cargo(&plots.split(' ').collect::<Vec<_>>()))
}
