//! A server that is killed in the middle of its work, and started again: once, or as often as `OPAQUE_ID_TEST_KILLS`
//! says.

use opaque_id_sqlx::SupportedDatabase;

use opaque_id_tests::Result;
use opaque_id_tests::conformance::mapping::{INDEXES, dialect, keyring};
use opaque_id_tests::conformance::report::Cases;
use opaque_id_tests::conformance::report::Outcome::{self, NotApplicable, Passed};
use opaque_id_tests::kind::Kind;
use opaque_id_tests::load::{Load, Packs, create_sql, in_shop};
use opaque_id_tests::servers::{Container, Durability};
use opaque_id_tests::sql::execute;

pub(crate) fn cases<DB: SupportedDatabase>() -> Cases {
    vec![("acknowledged_rows_survive_a_killed_server", |database| {
        match database.kind.is_contained() {
            true => run::<DB>(database.kind),
            false => Ok(NotApplicable),
        }
    })]
}

fn run<DB: SupportedDatabase>(kind: Kind) -> Result<Outcome> {
    let mut server = Container::start(kind, Durability::Full)?;
    execute(kind, &server.url, "CREATE DATABASE shop")?;
    let tables = [create_sql(dialect(kind), &INDEXES), Packs::create_sql(dialect(kind), "entries")];
    execute(kind, &in_shop(&server.url)?, &tables.join("\n"))?;
    let urls = vec![in_shop(&server.url)?];
    let load = Load::start::<DB>(urls, &INDEXES, Some(&keyring()?))?;
    let kills = std::env::var("OPAQUE_ID_TEST_KILLS").ok();
    let kills = kills.map(|kills| kills.parse()).transpose()?;
    for _ in 0..kills.unwrap_or(1) {
        load.wait_for(2_000)?;
        server.kill()?;
        server.start_again()?;
        load.moved(0, in_shop(&server.url)?);
    }
    // It goes on where it was.
    load.wait_for(1_000)?;
    let mut seen = load.stop()?;
    seen.look_up::<DB>(kind, &in_shop(&server.url)?)?;
    if let Some(kills) = kills {
        println!("{kind}: {kills} kills\n{seen}");
    }
    seen.verdict().map(|()| Passed)
}
