//! Packs of rows in groups, and the erasure of a group.

use std::collections::BTreeMap;
use std::process::Command;

use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByKey, Group, Grouped, InGroup, Json, Lenient, Undecoded, Update};
use opaque_id_sqlx::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::message;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::tools::from_pypi;
use opaque_id_tests::trials::Case;
use serde_json::json;

use super::{Event, copy, events, fill};
use crate::functions::cases::OLD;
use crate::functions::{contains, ends_with, expect, run, starts_with};

pub(super) const CASES: &[Case] = cases![packs_of_erased_people, packs_without_the_key_of_a_group,];

/// A row of a person, who is a group.
#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Visit {
    person: u32,
    text: String,
}

impl InGroup for Visit {
    fn group(&self) -> Group {
        Group::new(self.person.into())
    }
}

type Visits<V = Visit, E = Grouped<Json>> = PackTable<Event, V, E>;

/// Returns five rows of each person. Each has a name and an account that nobody else has, and an illness that many have. The
/// thirty people whose groups are erased have a clinic in common.
fn visits() -> Vec<(Internal<Event>, Visit)> {
    let illnesses = ["diabetes", "asthma", "migraine", "gout", "anemia", "epilepsy"];
    let row = |n: u32| {
        let person = n % 90;
        let (name, account) =
            (person.wrapping_mul(2_654_435_761), u64::from(person + 1) * 48_271_048_271);
        let illness = illnesses[person as usize % 6];
        let clinic = if person.is_multiple_of(3) { ", clinic Lakeside" } else { "" };
        let text = format!(
            "patient n{name:010x}, diagnosis {illness}{clinic}, account {account:014}, visit {n}"
        );
        (Internal::generate(), Visit { person, text })
    };
    (0..450).map(row).collect()
}

/// Creates the table of visits and writes rows. Most of them are merged.
fn create_visits(database: &Database, rows: &[(Internal<Event>, Visit)]) -> Result {
    database.execute(&Visits::<Visit>::create_sql(dialect(database.kind), "events"))?;
    fill::<_, _, Grouped<Json>, ByKey>(database, "events", rows)
}

/// Returns the rows of a table's tier as an independent reader wants them.
fn dump(database: &Database, tiers: &[&str]) -> Result<Vec<String>> {
    let mut rows = Vec::new();
    for tier in tiers {
        let (id, body) = match (database.kind, *tier) {
            (Engine::Postgres, "meta") => ("to_hex(id)", "encode(body, 'hex')"),
            (Engine::Postgres, _) => ("encode(uuid_send(id), 'hex')", "encode(body, 'hex')"),
            (Engine::Sqlite, "meta") => ("printf('%x', id)", "hex(body)"),
            _ => ("HEX(id)", "HEX(body)"),
        };
        let columns = format!("CONCAT('{tier} ', {id}, ' ', version, ' ', {body})");
        let found = database.lines(&format!("SELECT {columns} FROM events_{tier}"))?;
        rows.extend(found.lines().map(str::to_owned));
    }
    Ok(rows)
}

/// Another program reads the tables, with the secret.
fn packs_of_erased_people(database: &Database) -> Result {
    let rows = visits();
    create_visits(database, &rows)?;
    let of_groups = "error: expected a table without groups, found one with groups";
    events(database).refuses("import --from old --columns body", of_groups)?;
    let former_keys = dump(database, &["keys"])?;
    let is_erased = |visit: &Visit| visit.person.is_multiple_of(3);
    let texts = |erased: bool| -> Vec<_> {
        let rows = rows.iter().filter(|(_, visit)| is_erased(visit) == erased);
        rows.map(|(_, visit)| json!(visit).to_string()).collect()
    };
    let (erased, kept) = (texts(true), texts(false));
    let reader = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/read_packs.py");
    let tools = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("pack-tools");
    let tools = from_pypi(&tools, &["cryptography==50.0.2", "zstandard==0.25.0"])?;
    let read = || -> Result<[u64; 4]> {
        let given = json!({
            "secret": OLD.split_once(':').ok_or("a key id")?.1, "domain": "event", "table": "events",
            "rows": dump(database, &["meta", "keys", "recent", "packs"])?,
            "former_keys": former_keys, "erased": erased, "kept": kept,
        });
        let (is_ok, stdout, stderr) =
            run(Command::new(tools.join("python3")).arg(reader), &given.to_string())?;
        expect(&stderr, is_ok, true)?;
        let found: BTreeMap<String, u64> = serde_json::from_str(&stdout)?;
        Ok(["values", "sealed", "opened", "pieces"].map(|name| found[name]))
    };

    // A dictionary of rows that somebody has taken for public ones, and then one of what many share.
    as_application!(database, OLD, |pool, keyring| {
        let packs = Visits::<Visit>::open_existing(&pool, &keyring, "events").await?;
        let samples: Vec<_> = rows.iter().map(|(_, visit)| visit).collect();
        packs.train_from_public(&pool, samples, 4_096).await?;
    })?;
    let events = events(database);
    events.ok("rekey")?;
    events.ok("train --bytes 4096")?;
    as_application!(database, OLD, |pool, keyring| {
        let packs = Visits::<Visit>::open_existing(&pool, &keyring, "events").await?;
        for person in (0..90).step_by(3) {
            packs.erase(&pool, Group::new(person)).await?;
        }
        packs.merge_all(&pool).await?;
    })?;
    // Frames are left in packs, and rows in the first dictionary.
    let [_, sealed, opened, pieces] = read()?;
    let is_left = sealed > 0 && opened == sealed && pieces > 0;
    expect(&format!("{sealed} {opened} {pieces}"), is_left, true)?;

    // What all of them shared is in the second dictionary.
    events.ok("train --bytes 4096")?;
    let (stdout, stderr) = events.fails("sweep")?;
    ends_with(&stdout, "\n0 old dictionaries deleted\n")?;
    contains(&stderr, "2 old dictionaries are left")?;
    ends_with(&events.ok("sweep --unused-for 0")?, "\n2 old dictionaries deleted\n")?;
    let [values, sealed, opened, pieces] = read()?;
    expect("left", [sealed, opened, pieces], [0, 0, 0])?;
    expect("values", values >= 60, true)?;
    let nothing = "0 packs and 0 recent rows encrypted again\n0 old dictionaries deleted\n";
    events.prints("sweep", nothing)?;
    starts_with(&events.ok("verify")?, "300 rows in ")?;
    expect("rows", events.ok("export")?.lines().count(), kept.len())
}

/// If the key of a group is missing, only the rows of this group cannot be read.
fn packs_without_the_key_of_a_group(database: &Database) -> Result {
    let rows = visits();
    create_visits(database, &rows)?;
    let backup = database.another()?;
    backup.execute(&Visits::<Visit>::create_sql(dialect(database.kind), "events"))?;
    for table in ["events_recent", "events_packs", "events_meta", "events_keys"] {
        copy(database, &backup, table, table)?;
    }
    // The keys of three groups of the 90: two are missing, and one cannot be read.
    let first = "(SELECT id FROM events_keys ORDER BY id LIMIT";
    database.execute(&format!(
        "CREATE TABLE kept_keys AS SELECT * FROM events_keys; \
         DELETE FROM events_keys WHERE id IN (SELECT id FROM {first} 2) AS two); \
         UPDATE events_keys SET version = version + 1 WHERE id IN (SELECT id FROM {first} 1) AS one)"
    ))?;
    let events = events(database);
    let (stdout, _) = events.fails("verify")?;
    let problem = "the key of its group is not in the table";
    let of_row = |line: &&str| line.contains("a row of events") && line.contains(problem);
    expect(&stdout, stdout.lines().filter(of_row).count(), 15)?;
    // They are no reason to replace what others have written since the backup.
    let restore = format!("restore --force --backup-url {}", backup.url);
    let (stdout, _) = events.fails(&restore)?;
    let is_left = stdout.contains("; 16 problems") && !stdout.contains("restored");
    expect(&stdout, is_left, true)?;
    // Nor are their keys made again for the rows of packs that are corrupt.
    let keys = dump(database, &["keys"])?.len();
    database.execute("CREATE TABLE kept_packs AS SELECT * FROM events_packs")?;
    database.execute("UPDATE events_packs SET version = version + 1")?;
    let (stdout, stderr) = events.fails(&restore)?;
    contains(&(stdout + &stderr), &format!("cannot be written: {problem}"))?;
    expect("keys", dump(database, &["keys"])?.len(), keys)?;
    database.execute("DELETE FROM events_packs")?;
    database.execute("INSERT INTO events_packs SELECT * FROM kept_packs")?;
    let (stdout, stderr) = events.fails("export")?;
    expect("rows", (stdout.lines().count(), stderr.lines().count()), (435, 15))?;
    as_application!(database, OLD, |pool, keyring| {
        type Readable = Visits<std::result::Result<Visit, Undecoded>, Lenient<Grouped<Json>>>;
        let packs = Readable::open_existing(&pool, &keyring, "events").await?;
        let (mut found, mut pages) = (Vec::new(), packs.scan());
        while let Some(page) = packs.next_page(&pool, &mut pages).await? {
            found.extend(page);
        }
        let missing: Vec<_> = found.iter().filter(|(_, visit)| visit.is_err()).collect();
        expect("rows", (found.len(), missing.len()), (450, 15))?;
        let strict = Visits::<Visit>::open_existing(&pool, &keyring, "events").await?;
        let readable: Vec<_> =
            found.iter().filter(|(_, visit)| visit.is_ok()).map(|(id, _)| *id).collect();
        expect("all", strict.get_all(&pool, &readable).await?.iter().flatten().count(), 435)?;
        expect("one", strict.get(&pool, readable[7]).await?.is_some(), true)?;
        strict.update(&pool, readable[7], |visit| visit.map_or(Update::Keep, Update::Put)).await?;
        expect("missing", strict.get(&pool, missing[0].0).await.is_err(), true)?;
        let page = strict.next_page(&pool, &mut strict.scan()).await;
        expect("a page", page.is_err(), true)?;
        // A row that was not read is not written over.
        let put = packs.put(&pool, missing[0].0, &missing[0].1).await;
        contains(&message(&put.err().ok_or("written")?), "could not be read")?;
        // The pack keeps its rows, and what is new waits beside it.
        let merged = strict.merge_all(&pool).await;
        contains(&message(&merged.err().ok_or("merged")?), "the key of its group")?;
        expect("one", strict.get(&pool, readable[7]).await?.is_some(), true)?;
    })?;
    database.execute("DELETE FROM events_keys")?;
    database.execute("INSERT INTO events_keys SELECT * FROM kept_keys")?;
    events.ok("verify")?;
    expect("rows", events.ok("export")?.lines().count(), 450)
}
