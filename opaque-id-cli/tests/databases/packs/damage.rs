//! Packs that are damaged, and their restoration from a backup.

use std::collections::BTreeSet;

use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByKey, Encoding, Json};
use opaque_id_sqlx::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::packs::incompressible;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::random::Random;
use opaque_id_tests::trials::Case;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use super::{Event, copy, create, create_events, delete, events, fill, literal, nth, rows};
use crate::functions::cases::{BOTH, NEW, OLD};
use crate::functions::{contains, ends_with, expect, starts_with};

pub(super) const CASES: &[Case] = cases![
    packs_of_a_backup,
    packs_that_another_client_has_restored,
    packs_that_were_altered,
    packs_without_one_bad_row,
];

/// A pack claims to be newer.
fn spoil(database: &Database, n: u32) -> Result {
    let spoil = "UPDATE events_packs SET version = version + 1 WHERE id =";
    database.execute(&format!("{spoil} {}", nth(n)))
}

/// A backup restores packs and recent rows. With `--force` a recent row that it does not have is deleted.
fn packs_that_were_altered(database: &Database) -> Result {
    create_events(database, &rows(3_000))?;
    let events = events(database);
    let before = events.ok("export")?;
    let backup = back_up(database)?;
    as_application!(database, OLD, |pool, keyring| {
        let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
        packs.put(&pool, Internal::generate(), &json!("since the backup")).await?;
    })?;
    // One pack claims to be newer, one is deleted, and two recent rows claim to be older.
    spoil(database, 2)?;
    delete(database, 6)?;
    for order in ["ASC", "DESC"] {
        let one = format!("SELECT id FROM events_recent ORDER BY id {order} LIMIT 1");
        database.execute(&format!(
            "UPDATE events_recent SET version = version - 1 WHERE id = (SELECT id FROM ({one}) AS one)"
        ))?;
    }
    let (stdout, stderr) = events.fails("verify")?;
    expect("errors", &*stderr, "")?;
    let lines: Vec<_> = stdout.lines().collect();
    expect(&stdout, lines.len(), 5)?;
    let starts = [
        "a pack of events_packs cannot be read",
        "expected a pack of events_packs to continue",
        "a row of events_recent cannot be read",
        "a row of events_recent cannot be read",
    ];
    for (line, start) in lines.iter().zip(starts) {
        starts_with(line, start)?;
        contains(line, " (id 0")?;
    }
    ends_with(lines[4], " recent rows could be read; 4 problems")?;
    let (stdout, stderr) = events.fails("export")?;
    expect("problems", stderr.lines().count(), 4)?;
    for line in stderr.lines() {
        let problem = line.strip_prefix("error: ").unwrap_or_default();
        expect(line, lines.contains(&problem), true)?;
    }
    let printed = stdout.lines().count();
    expect(&printed.to_string(), (2_701..2_999).contains(&printed), true)?;

    let restore = format!("restore --backup-url {}", backup.url);
    let (stdout, stderr) = events.fails(&restore)?;
    contains(&stdout, "1 rows restored from the backup: rows that were deleted since are")?;
    contains(&stdout, "; 1 problem")?;
    contains(&stderr, "the backup has no rows of a pack or a recent row")?;

    spoil(database, 2)?;
    let (exported, _) = events.fails("export")?;
    let both = events.under(&BOTH);
    let (_, stderr) = both.fails("rekey")?;
    starts_with(&stderr, "error: a pack of events_packs ")?;
    let (others, _) = events.under(NEW).fails("export")?;
    expect("the others", others == exported, true)?;
    let restored = both.ok(&format!("{restore} --force"))?;
    ends_with(&restored, "nothing is corrupt or missing\n")?;
    expect("all rows of the backup", both.ok("export")? == before, true)
}

/// Writes bytes into a table whose values are JSON, as another program may.
enum AnyBytes {}

impl Encoding<Vec<u8>> for AnyBytes {
    const NAME: &'static str = <Json as Encoding<Value>>::NAME;

    fn encode(value: &Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Ok(value.clone())
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Vec<u8>, String> {
        Ok(bytes.to_vec())
    }
}

/// A value that does not fit, or is not JSON, is named, and the others are written or printed.
fn packs_without_one_bad_row(database: &Database) -> Result {
    create(database, "events", &[])?;
    let values = ["1", "\"secret", "3"];
    let rows = values.map(|value| (Internal::<Event>::generate(), value.as_bytes().to_vec()));
    fill::<_, _, AnyBytes, ByKey>(database, "events", &rows)?;
    let events = events(database);
    let (stdout, stderr) = events.fails("export")?;
    let keys = rows.map(|(id, _)| id.as_repr().to_string());
    let line = |i: usize| format!("{{\"key\":\"{}\",\"value\":{}}}\n", keys[i], values[i]);
    expect("the others", stdout, line(0) + &line(2))?;
    let problem = format!("error: the row {}: expected JSON, found other bytes\n", keys[1]);
    expect("the problem", stderr, problem)?;

    let long = |bytes| format!("\"{}\"", "a".repeat(bytes));
    // Which cannot be compressed to what a row may have.
    let random = json!(incompressible(&mut Random(1), 8 << 20)).to_string();
    let values = ["1".to_owned(), long(65 << 20), random, long(129 << 20), "5".to_owned()];
    let lines = values.iter().map(|value| {
        format!("{{\"key\":\"{}\",\"value\":{value}}}\n", Internal::<Event>::generate().as_repr())
    });
    let file = NamedTempFile::new()?;
    std::fs::write(&file, lines.collect::<String>())?;
    let path = file.path().to_str().ok_or("UTF-8")?;
    let (stdout, stderr) = events.fails(&format!("import {path}"))?;
    expect("the others", &*stdout, "2 rows written\n")?;
    expect(&stderr, stderr.lines().count(), 3)?;
    // In the order in which it learns of them: a batch is checked when it is written.
    for line in [
        "line 2: a row of events_recent cannot be written: expected at most 67108864 bytes",
        "line 3: a row of events_recent: expected a value of at most 3145728 bytes",
        "line 4: expected at most 134217728 bytes",
    ] {
        contains(&stderr, line)?;
    }
    Ok(())
}

/// A backup is restored into another database. Since it was made, packs were split, and rows written and deleted. Then one pack
/// breaks, one is deleted, and somebody puts one back as it was in the backup.
fn packs_of_a_backup(database: &Database) -> Result {
    let rows = rows(1_200);
    create_events(database, &rows)?;
    let backup = back_up(database)?;
    let events = events(database);
    let of_backup = self::events(&backup).ok("export")?;

    // Every fourth row is written again, between those of the packs and so into all of them; every ninth is deleted.
    let later = |i: usize| i.is_multiple_of(4);
    as_application!(database, OLD, |pool, keyring| {
        let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
        for (i, (id, _)) in rows.iter().enumerate() {
            match (later(i), i.is_multiple_of(9)) {
                (true, _) => packs.put(&pool, *id, &long(i)).await?,
                (_, true) => packs.delete(&pool, *id).await?,
                _ => {}
            }
        }
        packs.merge_all(&pool).await?;
    })?;
    let before = events.ok("export")?;
    let kept: BTreeSet<_> = before.lines().collect();

    // The fifth pack of the backup, as it was.
    let fifth = "(SELECT * FROM events_packs ORDER BY id LIMIT 1 OFFSET 4) AS fifth";
    let id = backup.text(&format!("SELECT {} FROM {fifth}", literal(&backup, "id")))?;
    database.execute(&format!("DELETE FROM events_packs WHERE id = {id}"))?;
    copy(&backup, database, fifth, "events_packs")?;
    delete(database, 12)?;
    spoil(database, 20)?;
    delete(database, 0)?;
    let (stdout, _) = events.fails("verify")?;
    for problem in ["reaches into it", "a gap", "not genuine", "events_packs to continue"] {
        contains(&stdout, problem)?;
    }
    contains(&stdout, "; 4 problems")?;

    let restore = format!("restore --backup-url {}", backup.url);
    let restored = events.ok(&restore)?;
    expect(&restored, restored.lines().count(), 5)?;
    ends_with(&restored, "nothing is corrupt or missing\n")?;
    // Each row is as it was, or as the backup has it, and only those of four places are.
    let after = events.ok("export")?;
    let backed_up: BTreeSet<_> = of_backup.lines().collect();
    let (mut same, mut older, mut keys) = (0, 0, BTreeSet::new());
    for line in after.lines() {
        expect("once", keys.insert(&line[..50]), true)?;
        match (kept.contains(line), backed_up.contains(line)) {
            (true, _) => same += 1,
            (false, true) => older += 1,
            _ => return Err(format!("{line} was never written").into()),
        }
    }
    let are_few = same > 800 && (4..100).contains(&older);
    expect(&format!("{same}, {older}"), are_few, true)?;
    // Mergers go on, and nothing is left to do.
    events.ok_with("import -", &after)?;
    let again = events.ok(&restore)?;
    expect(&again, again.lines().count(), 1)?;
    expect("all rows", events.ok("export")? == after, true)
}

/// While one pack is restored, another client repairs the other.
fn packs_that_another_client_has_restored(database: &Database) -> Result {
    // Only SQLite's triggers write into the table that they belong to, and are one statement.
    if database.kind != Engine::Sqlite {
        return Ok(());
    }
    create_events(database, &rows(600))?;
    let events = events(database);
    let backup = back_up(database)?;
    let before = events.ok("export")?;
    spoil(database, 1)?;
    spoil(database, 3)?;
    let fourth = database.text(&format!("SELECT quote({})", nth(3)))?;
    database.execute(&format!(
        "CREATE TRIGGER other_client AFTER UPDATE ON events_packs WHEN NEW.id <> {fourth} BEGIN \
         UPDATE events_packs SET version = version - 1 WHERE id = {fourth}; END"
    ))?;
    let restored = events.ok(&format!("restore --force --backup-url {}", backup.url))?;
    let lines: Vec<_> = restored.lines().collect();
    expect(&restored, lines.len(), 3)?;
    contains(lines[0], " rows restored from the backup")?;
    contains(lines[1], " rows not restored: a pack of events_packs (id 0")?;
    expect("all rows", events.ok("export")? == before, true)
}

pub(super) fn back_up(database: &Database) -> Result<Database> {
    let backup = database.another()?;
    create(&backup, "events", &[])?;
    for table in ["events_recent", "events_packs", "events_meta"] {
        copy(database, &backup, table, table)?;
    }
    Ok(backup)
}

/// Longer than the value of a row, so that packs are split.
fn long(i: usize) -> Value {
    let noise: String = (0..20).map(|n| format!("{:x}", (i + 1) * (n + 7) * 7_919)).collect();
    json!({"later": noise, "n": i})
}
