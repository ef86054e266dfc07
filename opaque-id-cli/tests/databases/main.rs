//! What the program does to databases, on real servers: the functions that `opaque-id sql functions` prints, and `opaque-id packs`.
//!
//! `cargo test -p opaque-id-cli --test databases`; a word after `--` chooses cases by name.

mod functions;
mod packs;

use std::process::ExitCode;

use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::trials::{self, Trial};

fn main() -> ExitCode {
    let functions = [
        functions::cases::ALL,
        functions::attacks::ALL,
        functions::owners::ALL,
    ];
    let functions = functions.concat();
    let trial = |kind: Kind, name: &str, run: fn(&Database) -> Result| Trial {
        name: format!("{kind}::{name}"),
        kind,
        run: Box::new(run),
    };
    let trials = Kind::ALL.into_iter().flat_map(|kind| {
        // SQLite has no functions, as it does not encrypt.
        let functions = functions.iter().filter(move |_| kind != Kind::Sqlite);
        let cases = packs::ALL.iter().chain(functions);
        cases.map(move |&(name, run)| trial(kind, name, run))
    });
    let trials = trials.collect();
    trials::main(|args| Ok(trials::run(args, trials)?.exit_code))
}
