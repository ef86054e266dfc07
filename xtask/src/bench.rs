use std::path::Path;

use crate::{Result, cargo, run, target_dir};

/// The group and the case that everything is compared with.
const BASELINE: (&str, &str) = ("permutation", "bare AES block");

/// How many steps one criterion sample makes (`STEPS` in the benchmark).
const STEPS: f64 = 1_000.0;

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum What {
    #[default]
    Codec,
    Mapping,
}

pub(crate) fn bench(what: What) -> Result {
    match what {
        What::Codec => codec(),
        What::Mapping => cargo_bench("opaque-id-tests", "mapping"),
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

fn codec() -> Result {
    cargo_bench("opaque-id-core", "codec")?;
    let criterion = target_dir().join("criterion");
    let mut cases = Vec::new();
    for group in ["permutation", "id"] {
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
        .find(|(group, name, _)| (*group, name.as_str()) == BASELINE)
        .ok_or("no bare AES block was measured")?;
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
