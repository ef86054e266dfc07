//! A server that is killed in the middle of its work and started again, once or as often as
//! `OPAQUE_ID_TEST_KILLS` says. `cargo xtask stress packs` does the same to packs for longer.

use std::process::Command;

use opaque_id_sqlx::SupportedDatabase;

use opaque_id_tests::conformance::mapping::INDEXES;
use opaque_id_tests::conformance::report::Outcome::{NotApplicable, Passed};
use opaque_id_tests::conformance::report::{Cases, Verdict};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::load::{Load, create_sql, in_shop};
use opaque_id_tests::servers::{Container, Durability};
use opaque_id_tests::sql::execute;

pub(crate) fn cases<DB: SupportedDatabase>() -> Cases {
    vec![
        ("acknowledged_rows_survive_a_killed_server", |database| in_container(database, run::<DB>)),
        ("packs_survive_killed_clients_and_a_killed_server", |database| {
            in_container(database, packs)
        }),
    ]
}

fn in_container(database: &Database, run: fn(Engine) -> Verdict) -> Verdict {
    match database.kind.is_contained() {
        true => run(database.kind),
        false => Ok(NotApplicable),
    }
}

fn packs(kind: Engine) -> Verdict {
    #[cfg(feature = "older")]
    let program = env!("CARGO_BIN_EXE_packs-older");
    #[cfg(not(feature = "older"))]
    let program = env!("CARGO_BIN_EXE_packs");
    let mut packs = Command::new(program);
    let output = packs.args(["6", "1", kind.name(), "grouped"]).output()?;
    match output.status.success() {
        true => Ok(Passed),
        false => Err(String::from_utf8([output.stdout, output.stderr].concat())?.into()),
    }
}

fn run<DB: SupportedDatabase>(kind: Engine) -> Verdict {
    let mut server = Container::start(kind, Durability::Full)?;
    execute(kind, &server.url, "CREATE DATABASE shop")?;
    execute(kind, &in_shop(&server.url)?, &create_sql(kind, &INDEXES))?;
    let urls = vec![in_shop(&server.url)?];
    let load = Load::start::<DB>(urls, &INDEXES)?;
    let kills = std::env::var("OPAQUE_ID_TEST_KILLS").ok();
    let kills = kills.map(|kills| kills.parse()).transpose()?;
    for _ in 0..kills.unwrap_or(1) {
        load.wait_for(2_000)?;
        server.kill()?;
        if kind != Engine::Postgres {
            load.killed();
        }
        server.start_again()?;
        load.moved(0, in_shop(&server.url)?);
    }
    // The load continues from its state.
    load.wait_for(1_000)?;
    let mut seen = load.stop()?;
    seen.look_up::<DB>(kind, &in_shop(&server.url)?)?;
    if let Some(kills) = kills {
        println!("{kind}: {kills} kills\n{seen}");
    }
    seen.verdict().map(|()| Passed)
}
