//! opaque-id-sqlx on each database, case by case.
//!
//! `cargo test -p opaque-id-tests --test sqlx`; a word after `--` chooses cases by name, and `OPAQUE_ID_TEST_ONLY=sqlite`
//! databases. CONTRIBUTING.md names the other settings.

mod columns;
mod integers;
mod keys;
mod killed;
mod macros;
mod mapping;
mod own;
mod pairs;
mod shop;
mod types;

use std::process::ExitCode;

use opaque_id_tests::conformance::{main as run, suite};
use opaque_id_tests::engine::Engine;
use shop::SqlxShop;
use sqlx::{MySql, Postgres, Sqlite};

fn main() -> ExitCode {
    let suites = [
        suite::<SqlxShop<Postgres>>(
            Engine::Postgres,
            [
                own::postgres(),
                killed::cases::<Postgres>(),
                columns::cases(),
                pairs::cases::<Postgres>(),
            ]
            .concat(),
        ),
        suite::<SqlxShop<MySql>>(
            Engine::Mysql,
            [own::mysql(), killed::cases::<MySql>(), columns::cases(), pairs::cases::<MySql>()]
                .concat(),
        ),
        suite::<SqlxShop<MySql>>(
            Engine::Mariadb,
            [own::mysql(), killed::cases::<MySql>(), columns::cases(), pairs::cases::<MySql>()]
                .concat(),
        ),
        suite::<SqlxShop<Sqlite>>(
            Engine::Sqlite,
            [own::sqlite(), killed::cases::<Sqlite>(), columns::cases(), pairs::cases::<Sqlite>()]
                .concat(),
        ),
    ];
    run(suites.concat())
}
