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

fn main() -> std::process::ExitCode {
    opaque_id_tests::conformance::main(connections::suites())
}
