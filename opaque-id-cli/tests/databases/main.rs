//! The program's effects on databases, on real servers: the functions of `opaque-id sql functions`,
//! `opaque-id packs`, and the input of `opaque-id sqlx-toml`.
//!
//! `cargo test -p opaque-id-cli --test databases`; a word after `--` chooses cases by name.

/// Writes cases by the names of their functions.
macro_rules! cases {
    ($($case:ident),* $(,)?) => {
        &[$((stringify!($case), $case)),*]
    };
}

mod functions;
mod packs;
mod sqlx_toml;

use std::process::ExitCode;

use functions::{attacks, cases, owners};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::trials::{self, Trial};

fn main() -> ExitCode {
    let trial = |kind: Engine, name: &str, run: fn(&Database) -> Result| Trial {
        name: format!("{kind}::{name}"),
        kind,
        run: Box::new(run),
    };
    let trials = Engine::ALL.into_iter().flat_map(|kind| {
        let (all, owners) = ([cases::ALL, attacks::ALL].concat(), owners::ALL);
        let functions = match kind {
            // SQLite does not encrypt.
            Engine::Sqlite => Vec::new(),
            Engine::Postgres => [&all, owners, sqlx_toml::ALL].concat(),
            Engine::Mysql | Engine::Mariadb => all,
        };
        let cases = functions.into_iter().chain(packs::all());
        cases.map(move |(name, run)| trial(kind, name, run))
    });
    let trials = trials.collect();
    trials::main(|args| Ok(trials::run(args, trials, &Engine::ALL)?.exit_code))
}
