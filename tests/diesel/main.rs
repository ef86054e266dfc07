//! opaque-id-diesel on each database, blocking and asynchronous, case by case.
//!
//! `cargo test -p opaque-id-tests --features diesel --test diesel`

#![allow(
    clippy::duplicate_mod,
    reason = "the adapter's files are modules of each connection, as nothing is generic over diesel's connections"
)]

mod asynchronous;
mod blocking;
mod connections;
mod multi;
mod rows;
mod types;

use std::process::ExitCode;

use opaque_id_tests::conformance;
use opaque_id_tests::engine::Engine;

/// MariaDB has MySQL's driver.
const BY_DEFAULT: [Engine; 3] = [Engine::Postgres, Engine::Mysql, Engine::Sqlite];

fn main() -> ExitCode {
    conformance::main(connections::suites(), &BY_DEFAULT)
}
