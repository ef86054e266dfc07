//! Cases on servers. The servers start before the cases and are removed after them.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Arc;

pub use libtest_mimic::Arguments;

use crate::Result;
use crate::database::Database;
use crate::engine::Engine;
use crate::servers;

/// The name of a case and its test of a database.
pub type Case = (&'static str, fn(&Database) -> Result);

/// A case. It gets its own database.
pub struct Trial {
    pub name: String,
    pub kind: Engine,
    pub run: Box<dyn Fn(&Database) -> Result + Send>,
}

pub struct Ran {
    pub exit_code: ExitCode,
    /// Whether nothing was left out, on servers with the tests' own choice of versions.
    pub is_whole: bool,
}

/// The `main` of a test target without a harness.
pub fn main(run: impl FnOnce(&Arguments) -> Result<ExitCode>) -> ExitCode {
    let mut args = Arguments::from_args();
    // Servers do most of the work, and many cases wait for each other's locks.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    args.test_threads.get_or_insert(2 * cores);
    run(&args).unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}

/// Starts the servers of the chosen trials, and runs the trials. Without `OPAQUE_ID_TEST_ONLY`, they are those
/// of the given databases.
pub fn run(args: &Arguments, all: Vec<Trial>, by_default: &[Engine]) -> Result<Ran> {
    let (only, count) = (Engine::asked_for_or(by_default)?, all.len());
    let is_chosen = |trial: &Trial| only.contains(&trial.kind) && is_asked_for(args, &trial.name);
    let chosen: Vec<Trial> = all.into_iter().filter(is_chosen).collect();
    let kinds: BTreeSet<Engine> = chosen.iter().map(|trial| trial.kind).collect();
    let servers = match args.list {
        true => Arc::default(),
        false => Arc::new(servers::start(&Vec::from_iter(kinds))?),
    };
    for (kind, server) in servers.iter() {
        println!("{kind}: {}", server.version);
    }
    let is_whole = chosen.len() == count && servers.values().all(|server| server.is_standard);
    let trials = chosen.into_iter().map(|Trial { name, kind, run }| {
        let servers = Arc::clone(&servers);
        libtest_mimic::Trial::test(name, move || {
            let database = Database::create(kind, &servers[&kind]);
            let done = database.and_then(|database| run(&database));
            // Only the start of a client's text is printed, because it may be long.
            done.map_err(|error| Vec::from_iter(error.to_string().chars().take(2000)))
                .map_err(|start| String::from_iter(start).into())
        })
    });
    let conclusion = libtest_mimic::run(args, trials.collect());
    drop(servers);
    let left_out = Engine::ALL.iter().filter(|kind| !only.contains(kind));
    let left_out = Vec::from_iter(left_out.map(|kind| kind.name()));
    if !args.list && !left_out.is_empty() {
        println!("left out: {} (OPAQUE_ID_TEST_ONLY chooses databases)", left_out.join(", "));
    }
    Ok(Ran { exit_code: conclusion.exit_code(), is_whole })
}

/// Returns whether libtest-mimic will run it. It checks this only after all trials are listed.
fn is_asked_for(args: &Arguments, name: &str) -> bool {
    let matches = |filter: &String| match args.exact {
        true => name == filter,
        false => name.contains(filter.as_str()),
    };
    args.filter.as_ref().is_none_or(matches) && !args.skip.iter().any(matches)
}
