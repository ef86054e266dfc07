//! The promises of the adapters, case by case. Each adapter's test target provides its shops, and runs the
//! cases on each database.

pub mod cases;
pub mod columns;
pub mod dropped;
pub mod integers;
pub mod keys;
pub mod limits;
pub mod mapping;
pub mod packs;
pub mod report;
pub mod shop;
pub mod types;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;

use crate::Result;
use crate::engine::Engine;
use crate::trials::{self, Trial};

use columns::ColumnShop;
use dropped::PoolShop;
use packs::PackShop;
use report::{Case, Cases, Outcome, Report};
use types::TypeShop;

/// Returns the cases of an adapter on a database: the shared ones, then its own.
pub fn suite<S: PoolShop + TypeShop + PackShop + ColumnShop>(
    kind: Engine,
    own: Cases,
) -> Vec<Case> {
    let shared = [
        cases::all::<S>(),
        keys::all::<S>(),
        integers::all::<S>(),
        types::all::<S>(),
        mapping::all::<S>(),
        packs::all::<S>(),
        columns::all::<S>(),
        limits::all::<S>(),
        dropped::all::<S>(),
    ];
    let all = shared.into_iter().flatten().chain(own);
    all.map(|(name, run)| Case { adapter: S::ADAPTER, kind, name, run }).collect()
}

/// Runs the chosen cases, and compares the resulting columns with the table in docs/CONFORMANCE.md.
pub fn main(all: Vec<Case>, by_default: &[Engine]) -> ExitCode {
    trials::main(|args| run(args, &all, by_default))
}

fn run(args: &trials::Arguments, all: &[Case], by_default: &[Engine]) -> Result<ExitCode> {
    let adapters = in_order(all.iter().map(|case| case.adapter));
    for adapter in &adapters {
        for kind in Engine::ALL {
            if !all.iter().any(|case| (case.adapter, case.kind) == (adapter, kind)) {
                return Err(format!("{adapter} has no suite on {kind}").into());
            }
        }
    }
    let report = Report::default();
    let cases = all.iter().map(|&case| Trial {
        name: format!("{}::{}::{}", case.adapter, case.kind, case.name),
        kind: case.kind,
        run: Box::new({
            let report = report.clone();
            move |database| {
                let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(database)));
                let mark = match &outcome {
                    Ok(Ok(outcome)) => *outcome,
                    _ => Outcome::Failed,
                };
                report.record((case.adapter, case.kind), case.name, mark);
                match outcome {
                    Ok(Ok(_)) => Ok(()),
                    Ok(Err(error)) => Err(cases::message(&*error).into()),
                    Err(panic) => resume_unwind(panic),
                }
            }
        }),
    });
    let ran = trials::run(args, cases.collect(), by_default)?;
    if args.list {
        return Ok(ran.exit_code);
    }
    let names = in_order(all.iter().map(|case| case.name));
    println!("\n{}", report.table(&adapters, &names));
    let is_documented = || report.table(&adapters, &names) == report::documented(&adapters);
    if ran.is_whole && ran.exit_code == ExitCode::SUCCESS && !is_documented() {
        return Err("docs/CONFORMANCE.md has other columns; copy the ones above there".into());
    }
    Ok(ran.exit_code)
}

/// Returns each name once, at its first place.
fn in_order(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}
