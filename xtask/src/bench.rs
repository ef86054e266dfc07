use std::path::Path;

use crate::{Result, cargo, libraries, run, target_dir};

/// How many steps one criterion sample makes (`STEPS`, `KEYS` and `ROWS` in the benchmarks).
const STEPS: f64 = 1_000.0;

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum What {
    #[default]
    Codec,
    Keys,
    Mapping,
    Views,
    Refusals,
    Cluster,
}

pub(crate) fn bench(what: What) -> Result {
    match what {
        What::Codec => ratios("codec", &["permutation", "id"], "bare AES block"),
        What::Keys => ratios("keys", &["key"], "reading of the clock"),
        What::Views => ratios("views", &["view"], "JSON of raw keys"),
        What::Refusals => cargo_bench("opaque-id-axum", "refusals"),
        What::Mapping => cargo_bench("opaque-id-tests", "mapping"),
        What::Cluster => {
            libraries::install()?;
            let program =
                "run --release --package opaque-id-tests --bin cluster --locked -- figures";
            run(cargo(&program.split(' ').collect::<Vec<_>>()))
        }
    }
}

fn cargo_bench(package: &str, name: &str) -> Result {
    run(cargo(&[
        "bench",
        "--package",
        package,
        "--bench",
        name,
        "--locked",
    ]))
}

/// Runs a benchmark of the core, and prints its cases as ratios to one of them.
fn ratios(bench: &str, groups: &[&str], baseline: &str) -> Result {
    cargo_bench("opaque-id-core", bench)?;
    let criterion = target_dir().join("criterion");
    let mut cases = Vec::new();
    for group in groups {
        for folder in std::fs::read_dir(criterion.join(group))? {
            let folder = folder?.path();
            if folder.join("new/estimates.json").exists() {
                let name = json(&folder.join("new/benchmark.json"))?["function_id"]
                    .as_str()
                    .ok_or("a benchmark without a name")?
                    .to_owned();
                let median = json(&folder.join("new/estimates.json"))?["median"]["point_estimate"]
                    .as_f64()
                    .ok_or("a benchmark without a median")?;
                cases.push((group, name, median / STEPS));
            }
        }
    }
    let (_, _, baseline) = *cases
        .iter()
        .find(|(_, name, _)| name == baseline)
        .ok_or_else(|| format!("no {baseline} was measured"))?;
    cases.sort_by(|a, b| a.2.total_cmp(&b.2));
    println!("\n{:<12} {:<46} {:>9} {:>7}", "", "", "ns", "ratio");
    for (group, name, nanoseconds) in cases {
        println!(
            "{group:<12} {name:<46} {nanoseconds:>9.2} {:>7.2}",
            nanoseconds / baseline
        );
    }
    Ok(())
}

fn json(path: &Path) -> Result<serde_json::Value> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}
