//! opaque-id-seaorm on each database, case by case. One shop serves all databases, like SeaORM's connection.
//!
//! `cargo test -p opaque-id-tests --features seaorm --test seaorm`

mod columns;
mod entity;
mod integers;
mod keys;
mod mapping;
mod migration;
mod own;
mod shop;
mod types;

use std::process::ExitCode;

use opaque_id_tests::conformance::{main as run, suite};
use opaque_id_tests::engine::Engine;
use shop::SeaOrmShop;

/// It has sqlx's drivers, so sqlx's cases prove most of what is different on MySQL and MariaDB.
const BY_DEFAULT: [Engine; 2] = [Engine::Postgres, Engine::Sqlite];

fn main() -> ExitCode {
    run(Engine::ALL.map(|kind| suite::<SeaOrmShop>(kind, own::cases())).concat(), &BY_DEFAULT)
}
