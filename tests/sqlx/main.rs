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

use opaque_id_sqlx::SupportedDatabase;
use opaque_id_tests::conformance::columns::ColumnShop;
use opaque_id_tests::conformance::dropped::PoolShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::report::{Case, Cases};
use opaque_id_tests::conformance::types::TypeShop;
use opaque_id_tests::conformance::{main as run, suite};
use opaque_id_tests::engine::Engine;
use shop::SqlxShop;
use sqlx::{MySql, Postgres, Sqlite};

fn main() -> ExitCode {
    let suites = [
        all::<Postgres>(Engine::Postgres, own::postgres()),
        all::<MySql>(Engine::Mysql, own::mysql()),
        all::<MySql>(Engine::Mariadb, own::mysql()),
        all::<Sqlite>(Engine::Sqlite, own::sqlite()),
    ];
    run(suites.concat(), &Engine::ALL)
}

fn all<DB: SupportedDatabase>(kind: Engine, own: Cases) -> Vec<Case>
where
    SqlxShop<DB>: PoolShop + TypeShop + PackShop + ColumnShop,
{
    let own = [own, killed::cases::<DB>(), columns::cases(), pairs::cases::<DB>()];
    suite::<SqlxShop<DB>>(kind, own.concat())
}
