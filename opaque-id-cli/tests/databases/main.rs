//! What the program does to databases, on real servers: the functions that `opaque-id sql functions` prints, and `opaque-id packs`.
//!
//! `cargo test -p opaque-id-cli --test databases`; a word after `--` chooses cases by name.

mod functions;
mod packs;

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
            eprintln!("databases: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Arguments) -> Result<ExitCode> {
    let kinds = servers::asked_for()?;
    let servers = match args.list {
        true => BTreeMap::new(),
        false => servers::start(&kinds)?,
    };
    for (kind, server) in &servers {
        println!("{kind}: {}", server.version);
    }
    let servers = Arc::new(servers);
    let functions = [
        functions::cases::ALL,
        functions::attacks::ALL,
        functions::owners::ALL,
    ];
    let functions = functions.concat();
    let trials = kinds.iter().flat_map(|&kind| {
        let servers = Arc::clone(&servers);
        // SQLite has no functions, as it does not encrypt.
        let functions = functions.iter().filter(move |_| kind != Kind::Sqlite);
        let cases = packs::ALL.iter().chain(functions);
        cases.map(move |&(name, case)| {
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
