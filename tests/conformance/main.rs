//! What the adapters promise, on real databases: each adapter on each database, case by case.
//!
//! `cargo test -p opaque-id-tests --test conformance`; a word after `--` chooses cases by name, and
//! `OPAQUE_ID_TEST_ONLY=sqlite` databases. CONTRIBUTING.md names the other settings.

/// Cases by name, each of which is run with a shop of its own.
macro_rules! cases {
    ($shop:ty, |$on:ident, $database:ident, $run:ident| $body:expr; $($case:ident)*) => {
        vec![$((
            stringify!($case),
            |$database| <$shop>::block_on(async {
                let $on = <$shop>::connect($database).await?;
                let $run = $case;
                $body
            }),
        )),*]
    };
}

mod cases;
mod check_schema;
mod diesel;
mod dropped;
mod integers;
mod keys;
mod limits;
mod mapping;
mod packs;
mod report;
mod seaorm;
mod shop;
mod sqlx;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use opaque_id_tests::{Result, database, servers};

use database::Database;
use dropped::PoolShop;
use integers::IntegerShop;
use packs::PackShop;
use report::{Outcome, Report};
use servers::Kind;

/// The table that a whole run has to come out at.
const DOCUMENTED: &str = include_str!("../../docs/CONFORMANCE.md");

#[derive(Clone, Copy)]
struct Case {
    adapter: &'static str,
    kind: Kind,
    name: &'static str,
    run: fn(&Database) -> Result<Outcome>,
}

impl Case {
    fn full_name(self) -> String {
        format!("{}::{}::{}", self.adapter, self.kind, self.name)
    }
}

type Cases = Vec<(&'static str, fn(&Database) -> Result<Outcome>)>;

/// An adapter on a database: the shared cases, then its own.
fn suite<S: PoolShop + IntegerShop + PackShop>(
    kind: Kind,
    own: Cases,
) -> impl Iterator<Item = Case> {
    cases::all::<S>()
        .into_iter()
        .chain(keys::all::<S>())
        .chain(integers::all::<S>())
        .chain(mapping::all::<S>())
        .chain(packs::all::<S>())
        .chain(limits::all::<S>())
        .chain(dropped::all::<S>())
        .chain(own)
        .map(move |(name, run)| Case {
            adapter: S::ADAPTER,
            kind,
            name,
            run,
        })
}

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Servers do most of the work, and many cases wait for each other's locks.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    args.test_threads.get_or_insert(2 * cores);
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Arguments) -> Result<ExitCode> {
    let only = servers::asked_for()?;
    let all: Vec<Case> = sqlx::suites()
        .into_iter()
        .chain(diesel::suites())
        .chain(seaorm::suites())
        .chain(check_schema::suites())
        .collect();
    let adapters = in_order(all.iter().map(|case| case.adapter));
    for adapter in &adapters {
        for kind in Kind::ALL {
            if !all
                .iter()
                .any(|case| (case.adapter, case.kind) == (adapter, kind))
            {
                return Err(format!("{adapter} has no suite on {kind}").into());
            }
        }
    }
    let chosen: Vec<Case> = all
        .iter()
        .copied()
        .filter(|case| only.contains(&case.kind) && is_asked_for(args, &case.full_name()))
        .collect();
    let kinds: BTreeSet<Kind> = chosen.iter().map(|case| case.kind).collect();

    let report = Arc::new(Report::default());
    let servers = if args.list {
        Arc::default()
    } else {
        Arc::new(servers::start(&Vec::from_iter(kinds))?)
    };
    for (kind, server) in servers.iter() {
        println!("{kind}: {}", server.version);
    }
    let trials = chosen.iter().map(|&case| {
        let (servers, report) = (Arc::clone(&servers), Arc::clone(&report));
        Trial::test(case.full_name(), move || {
            let database = Database::create(case.kind, &servers[&case.kind])
                .map_err(|error| error.to_string())?;
            let outcome = catch_unwind(AssertUnwindSafe(|| (case.run)(&database)));
            let mark = match &outcome {
                Ok(Ok(outcome)) => *outcome,
                _ => Outcome::Failed,
            };
            report.record((case.adapter, case.kind), case.name, mark);
            match outcome {
                Ok(Ok(_)) => Ok(()),
                Ok(Err(error)) => Err(cases::message(&*error).into()),
                Err(panic) => {
                    drop(database);
                    resume_unwind(panic)
                }
            }
        })
    });
    let conclusion = libtest_mimic::run(args, trials.collect());
    // Another version of a server may have less, or more.
    let standard = servers.values().all(|server| server.is_standard);
    drop(servers);
    if args.list {
        return Ok(conclusion.exit_code());
    }

    let table = report.table(&adapters, &in_order(all.iter().map(|case| case.name)));
    println!("\n{table}");
    let left_out: Vec<&str> = Kind::ALL
        .iter()
        .filter(|kind| !only.contains(kind))
        .map(|kind| kind.name())
        .collect();
    if !left_out.is_empty() {
        println!("left out by OPAQUE_ID_TEST_ONLY: {}", left_out.join(", "));
    }
    let whole = chosen.len() == all.len() && standard && !conclusion.has_failed();
    if whole && !DOCUMENTED.contains(&table) {
        return Err("docs/CONFORMANCE.md has another table; copy the one above there".into());
    }
    Ok(conclusion.exit_code())
}

/// As libtest-mimic sees it, which asks only after all trials are there.
fn is_asked_for(args: &Arguments, name: &str) -> bool {
    let matches = |filter: &String| match args.exact {
        true => name == filter,
        false => name.contains(filter.as_str()),
    };
    args.filter.as_ref().is_none_or(matches) && !args.skip.iter().any(matches)
}

/// Each once, where it stood first.
fn in_order(names: impl Iterator<Item = &'static str>) -> Vec<&'static str> {
    let mut seen = BTreeSet::new();
    names.filter(|name| seen.insert(*name)).collect()
}
