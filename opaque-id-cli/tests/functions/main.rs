//! What `opaque-id sql functions` prints, on real servers: it seals and opens as the program does, whatever the session is
//! set to, and shows no subkey to those who may only execute it.
//!
//! `cargo test -p opaque-id-cli --test functions`; a word after `--` chooses cases by name.

mod attacks;
mod cases;
mod functions;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::servers::{self, Kind};

type Case = (&'static str, fn(&Database) -> Result);

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    // Servers do most of the work.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    args.test_threads.get_or_insert(2 * cores);
    match run(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("functions: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Arguments) -> Result<ExitCode> {
    let mut kinds = servers::asked_for()?;
    // It does not encrypt.
    kinds.retain(|kind| *kind != Kind::Sqlite);
    let servers = match args.list {
        true => BTreeMap::new(),
        false => servers::start(&kinds)?,
    };
    for (kind, server) in &servers {
        println!("{kind}: {}", server.version);
    }
    let servers = Arc::new(servers);
    let all: Vec<Case> = cases::ALL.iter().chain(attacks::ALL).copied().collect();
    let trials = kinds.iter().flat_map(|&kind| {
        let servers = Arc::clone(&servers);
        all.iter().map(move |&(name, case)| {
            let servers = Arc::clone(&servers);
            Trial::test(format!("{kind}::{name}"), move || {
                let database = Database::create(kind, &servers[&kind]);
                let done = database.and_then(|database| case(&database));
                // With the start of the SQL, or of what a client wrote, which may be long.
                done.map_err(|error| {
                    error
                        .to_string()
                        .chars()
                        .take(2000)
                        .collect::<String>()
                        .into()
                })
            })
        })
    });
    let conclusion = libtest_mimic::run(args, trials.collect());
    drop(servers);
    Ok(conclusion.exit_code())
}
