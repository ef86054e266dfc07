//! The effects of `opaque-id packs` on the tables of an application.

/// Does what an application does, with a pool of the database's kind and a keyring.
macro_rules! as_application {
    ($database:expr, $entries:expr, |$pool:ident, $keyring:ident| $act:block) => {
        opaque_id_tests::sql::on_a_thread(async || {
            let $keyring = opaque_id_core::Keyring::from_entries("the test", $entries)?;
            match $database.kind {
                Engine::Postgres => as_application!(sqlx::postgres::PgPool, $database, $pool, $act),
                Engine::Mysql | Engine::Mariadb => {
                    as_application!(sqlx::mysql::MySqlPool, $database, $pool, $act)
                }
                Engine::Sqlite => as_application!(sqlx::sqlite::SqlitePool, $database, $pool, $act),
            }
            Ok(())
        })
    };
    ($type:ty, $database:expr, $pool:ident, $act:block) => {{
        let $pool = <$type>::connect(&$database.url).await?;
        $act
    }};
}

mod columns;
mod damage;
mod groups;
mod import;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use opaque_id_core::Keyring;
use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByEncryptedKey, ByKey, Encoding, Json, Order, Raw, Settings, Update};
use opaque_id_sqlx::{Dialect, Internal, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::{error, message};
use opaque_id_tests::conformance::packs::{Initials, initial};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::on_a_thread;
use opaque_id_tests::trials::Case;
use serde_json::{Value, json};
use sqlx::mysql::MySqlPool;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::{AssertSqlSafe, query};
use tempfile::NamedTempFile;

use self::damage::back_up;
use crate::functions::attacks::drop_role;
use crate::functions::cases::{BOTH, NEW, OLD};
use crate::functions::{contains, ends_with, expect, opaque_id, run, starts_with};

pub(crate) fn all() -> Vec<Case> {
    [CASES, import::CASES, damage::CASES, groups::CASES, columns::CASES].concat()
}

const CASES: &[Case] = cases![
    packs_from_day_to_day,
    packs_without_an_application,
    packs_of_settings_that_change,
    packs_of_integers_without_an_application,
    packs_of_processes_that_are_killed,
    packs_of_a_secret_that_is_not_there,
    packs_that_cannot_be_opened,
    packs_by_the_rights_of_the_document,
    packs_of_a_server_that_logs_statements,
];

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

#[derive(OpaqueId)]
#[opaque_id(prefix = "reading", domain = "sensor.reading", key = i64)]
struct Reading;

/// A file of resources with the readings.
fn resources() -> Result<NamedTempFile> {
    let file = NamedTempFile::new()?;
    std::fs::write(&file, "[resource.reading]\nkey = \"i64\"\ndomain = \"sensor.reading\"\n")?;
    Ok(file)
}

/// Creates the tables as a migration does.
fn create(database: &Database, table: &str, options: &[&str]) -> Result {
    let dialect = database.kind.name();
    let args = ["sql", "packs", "--dialect", dialect, "--table", table];
    database.execute(&opaque_id("", &[&args, options].concat(), "")?)
}

/// Creates the table of events, and writes rows of which some are merged.
fn create_events(database: &Database, rows: &[(Internal<Event>, Value)]) -> Result {
    create(database, "events", &[])?;
    fill::<_, _, Json, ByKey>(database, "events", rows)
}

/// Opens the table as an application does, and writes rows of which some are merged.
fn fill<T: OpaqueId<Internal = Internal<T>> + Send, V: Send + Sync, E: Encoding<V>, O: Order>(
    database: &Database,
    table: &str,
    rows: &[(Internal<T>, V)],
) -> Result {
    as_application!(database, OLD, |pool, keyring| {
        let settings = Settings::default().pack_bytes(1_900);
        let packs = PackTable::<T, V, E, O>::open(&pool, &keyring, table, settings).await?;
        let (first, last) = rows.split_at(rows.len() * 2 / 3);
        packs.put_all(&pool, first).await?;
        packs.merge_all(&pool).await?;
        packs.put_all(&pool, last).await?;
    })
}

/// `opaque-id packs` on a table, with a keyring. Spaces separate the words of a command line.
#[derive(Clone)]
struct Packs<'d> {
    database: &'d Database,
    entries: &'d str,
    /// The resource and the table. They follow the first word.
    of: Vec<&'d str>,
}

impl<'d> Packs<'d> {
    fn new(database: &'d Database, of: &'d str) -> Self {
        Self { database, entries: OLD, of: of.split(' ').collect() }
    }

    fn under(&self, entries: &'d str) -> Self {
        Self { entries, ..self.clone() }
    }

    fn with(&self, more: &[&'d str]) -> Self {
        Self { of: [&self.of[..], more].concat(), ..*self }
    }

    fn command(&self, line: &str) -> Command {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
        command.args(["packs", first]).args(&self.of).args(rest.split_terminator(' '));
        command.env("OPAQUE_ID_KEYS", self.entries).env("DATABASE_URL", &self.database.url);
        command
    }

    /// The output of a command that succeeds.
    fn ok(&self, line: &str) -> Result<String> {
        self.ok_with(line, "")
    }

    fn ok_with(&self, line: &str, input: &str) -> Result<String> {
        match run(&mut self.command(line), input)? {
            (true, stdout, stderr) if stderr.is_empty() => Ok(stdout),
            (_, stdout, stderr) => Err(format!("{line}: {stdout}{stderr}").into()),
        }
    }

    fn prints(&self, line: &str, expected: &str) -> Result {
        expect(line, &*self.ok(line)?, expected)
    }

    /// Checks that all packs and rows, or values, can be read.
    fn verify(&self) -> Result {
        ends_with(&self.ok("verify")?, "nothing is corrupt or missing\n")
    }

    /// Starts a command, and kills it after some milliseconds.
    fn kill(&self, line: &str, millis: u64) -> Result {
        let mut command = self.command(line);
        let mut running = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        std::thread::sleep(Duration::from_millis(millis));
        running.kill()?;
        running.wait()?;
        Ok(())
    }

    /// Both outputs of a command that fails.
    fn fails(&self, line: &str) -> Result<(String, String)> {
        self.fails_with(line, "")
    }

    fn fails_with(&self, line: &str, input: &str) -> Result<(String, String)> {
        let (is_good, stdout, stderr) = run(&mut self.command(line), input)?;
        expect(&format!("{line}: {stdout}{stderr}"), is_good, false)?;
        Ok((stdout, stderr))
    }

    /// Checks that a command fails without results, and with this text in its error.
    fn refuses(&self, line: &str, expected: &str) -> Result {
        let (stdout, stderr) = self.fails(line)?;
        expect(line, &*stdout, "")?;
        contains(&stderr, expected)
    }
}

fn events(database: &Database) -> Packs<'_> {
    Packs::new(database, "--prefix event --key Uuid7 events")
}

fn rows(count: usize) -> Vec<(Internal<Event>, Value)> {
    let value = |i| json!({"actor": format!("user {}", i % 7), "what": "log in \u{1b}[31m\u{9b}\u{7f}\"é\"", "n": i});
    (0..count).map(|i| (Internal::generate(), value(i))).collect()
}

/// A row as a line of an import.
fn line((id, value): &(Internal<Event>, Value)) -> String {
    json!({"key": id.as_repr().to_string(), "value": value}).to_string() + "\n"
}

fn packs_from_day_to_day(database: &Database) -> Result {
    let mut rows = rows(1_500);
    rows[1].1 = Value::Null;
    create_events(database, &rows)?;
    let events = events(database);
    let verified = events.ok("verify")?;
    starts_with(&verified, "1000 rows in ")?;
    let end = " packs and 500 recent rows could be read; nothing is corrupt or missing\n";
    ends_with(&verified, end)?;

    // The table is not of this audience, so the option is not ignored.
    let (stdout, _) = events.fails("export --audience partner")?;
    expect("rows", &*stdout, "")?;

    // A dictionary, and then another secret.
    let used = "a dictionary of up to 2048 bytes is used from now on";
    starts_with(&events.ok("train --bytes 2048")?, used)?;
    ends_with(&events.ok("rekey")?, " packs and 500 recent rows encrypted again\n")?;
    events.under(&BOTH).ok("rekey")?;
    events.under(&BOTH).prints("rekey", "0 packs and 0 recent rows encrypted again\n")?;

    // The old secret is retired. What is exported is what was written, also by another program's eyes.
    let events = events.under(NEW);
    let exported = events.ok("export")?;
    let lines = exported.lines().map(serde_json::from_str);
    let lines = lines.collect::<std::result::Result<Vec<Value>, _>>()?;
    let expected = rows.iter().map(|row| serde_json::from_str(&line(row)));
    let expected = expected.collect::<std::result::Result<Vec<Value>, _>>()?;
    expect("rows", lines == expected, true)?;
    let has_commands = exported.contains(['\u{1b}', '\u{9b}', '\u{7f}']);
    expect("a terminal's commands", has_commands, false)?;

    // A dictionary that nothing needs any more may break, and the current one may not.
    events.ok("train --bytes 4096")?;
    events.ok("rekey")?;
    database.execute("UPDATE events_meta SET version = version + 1 WHERE id = 1")?;
    let (stdout, _) = events.fails("verify")?;
    starts_with(&stdout, "the dictionary 1 of events_meta cannot be read: not genuine")?;
    ends_with(&stdout, "; 1 problem\n")?;
    expect("all rows", events.ok("export")? == exported, true)?;
    database.execute("UPDATE events_meta SET version = version + 1 WHERE id = 2")?;
    let (_, stderr) = events.fails("verify")?;
    let missing = "error: the settings (id 0) of events_meta cannot be read: its dictionary 2 is not in the table, or cannot be read\n";
    expect("it says so", &*stderr, missing)
}

/// All commands on a table that no application has ever opened, and then the application.
fn packs_without_an_application(database: &Database) -> Result {
    let events = events(database);
    let missing = "create the missing tables by `create_sql` or `opaque-id packs create` (for columns, `--column`): ";
    events.refuses("verify", missing)?;
    let create = "create --pack-bytes 15960 --pack-level 3 --pack-padding padme";
    let created = "encoding       json\n\
                    order          by key\n\
                    rows           without groups\n\
                    erase_after    3600\n\
                    pack_bytes     15960\n\
                    pack_level     3\n\
                    pack_padding   padme\n\
                    row_level      3\n\
                    row_padding    64\n\
                    write_through  false\n";
    for _ in ["the first time", "again"] {
        events.prints(create, created)?;
    }
    let nothing =
        "0 rows in 1 packs and 0 recent rows could be read; nothing is corrupt or missing\n";
    events.prints("verify", nothing)?;
    events.prints("export", "")?;
    ends_with(&events.ok("sweep")?, "\n0 old dictionaries deleted\n")?;

    let rows = rows(2_000);
    let lines: String = rows.iter().map(line).collect();
    expect("rows", &*events.ok_with("import -", &lines)?, "2000 rows written\n")?;
    expect("rows", events.ok("export")?.lines().count(), 2_000)?;
    as_application!(database, OLD, |pool, keyring| {
        let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
        let (id, value) = &rows[7];
        expect("a row", packs.get(&pool, *id).await?.as_ref(), Some(value))?;
        packs.put(&pool, *id, &json!(7)).await?;
        expect("a row", packs.get(&pool, *id).await?, Some(json!(7)))?;
    })
}

/// A table is created for what it is, by the first command, and configured.
fn packs_of_settings_that_change(database: &Database) -> Result {
    // A migration has created the tables, of which one is lost.
    create(database, "events", &[])?;
    database.execute("DROP TABLE events_recent")?;
    let events = events(database);
    events.ok("create")?;
    for (options, differs) in [
        ("--pack-bytes 15960", "pack_bytes 15960, found 8064"),
        ("--encoding raw", "encoding raw, found json"),
        ("--by-encrypted-key", "order by encrypted key, found by key"),
        ("--write-through", "write_through true, found false"),
    ] {
        let differs = format!("the table events exists with other settings: expected {differs}; ");
        events.refuses(&format!("create {options}"), &differs)?;
    }

    let shown = events.ok("configure")?;
    expect(&shown, shown.contains("->"), false)?;
    contains(&shown, "\npack_bytes     8064\n")?;
    let changed = events.ok("configure --pack-bytes 4000 --erase-after 60 --row-padding none")?;
    for change in [
        "erase_after    3600 -> 60\n",
        "pack_bytes     8064 -> 4000\n",
        "row_padding    64 -> none\n",
        "pack_padding   64\n",
    ] {
        contains(&changed, change)?;
    }
    let shown = events.ok("configure")?;
    contains(&shown, "\npack_bytes     4000\n")?;
    let wrong = "expected bytes of a pack from 256 to 1048576, found 7";
    events.refuses("configure --pack-bytes 7", wrong)?;
    events.prints("configure", &shown)
}

fn packs_of_integers_without_an_application(database: &Database) -> Result {
    let file = resources()?;
    let file = file.path().to_str().ok_or("UTF-8")?;
    let reading = Packs::new(database, "--prefix reading --resources").with(&[file]);
    let readings = reading.with(&["readings"]);
    create(database, "readings", &["--key", "i64", "--by-encrypted-key"])?;
    let create = "create --by-encrypted-key --encoding raw --write-through";
    let created = readings.ok(create)?;
    contains(&created, "order          by encrypted key\n")?;
    contains(&created, "write_through  true\n")?;
    readings.prints(create, &created)?;
    // Lines that are no rows are named, and the others are written.
    let input = "{\"key\":\"0\",\"base64\":\"AA==\"}\n\n{\"key\":\"7\",\"value\":1}\n{\"key\":\"x\",\"base64\":\"\"}\nsecret\n{\"key\":\"7\",\"base64\":\"!\"}";
    let (stdout, stderr) = readings.fails_with("import -", input)?;
    expect("one is written", &*stdout, "1 rows written\n")?;
    expect(
        "problems",
        &*stderr,
        "line 3: expected `key` and `base64`: the table's values are not JSON\n\
         line 4: expected a signed 64-bit integer\n\
         line 5: expected a JSON object like those of `opaque-id packs export`, found Syntax error at column 1\n\
         line 6: expected base64 with padding (RFC 4648, section 4)\n",
    )?;
    // The key of its order is still the same.
    let rows: Vec<_> = (-50..50_i64).map(|i| (i * 1_000, [0xff, i.to_le_bytes()[0]])).collect();
    let encode = |(key, value): &(i64, [u8; 2])| {
        let value = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, value);
        format!("{{\"key\":\"{key}\",\"base64\":\"{value}\"}}\n")
    };
    let lines: String = rows.iter().map(encode).collect();
    readings.ok_with("import -", &lines)?;
    type Readings = PackTable<Reading, Vec<u8>, Raw, ByEncryptedKey>;
    as_application!(database, OLD, |pool, keyring| {
        let packs = Readings::open_existing(&pool, &keyring, "readings").await?;
        for (key, value) in &rows {
            let id = Internal::<Reading>::from_key(*key)?;
            expect("a value", packs.get(&pool, id).await?, Some(value.to_vec()))?;
        }
    })?;
    // What is there stays.
    let columns = "id BIGINT PRIMARY KEY, body VARCHAR(9)";
    old_table(database, "old", columns, "(-50000, 'x'), (7, 'new')")?;
    readings.prints("import --from old --value body", "1 rows written, 1 were there\n")?;
    let exported = readings.ok("export")?;
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let lines = lines + "{\"key\":\"7\",\"base64\":\"bmV3\"}";
    expect("rows", sorted(&exported), sorted(&lines))?;
    if database.kind == Engine::Sqlite {
        let by_key = reading.with(&["by_key"]);
        by_key.ok("create --encoding raw")?;
        by_key.ok_with("import -", &lines)?;
        refuses_uuids(database, &["by_key"])?;
    }
    let wrong = "expected --value because the table's values are not JSON, found --columns";
    readings.refuses("import --from old --columns body", wrong)?;

    // Reading commands accept a backup without keys.
    for sql in [
        "ALTER TABLE readings_recent RENAME TO kept",
        "CREATE TABLE readings_recent AS SELECT * FROM kept",
    ] {
        database.execute(sql)?;
    }
    let no_key = "a primary key over id of readings_recent";
    readings.refuses("import --from old --value body", no_key)?;
    readings.refuses("rekey", no_key)?;
    expect("rows", sorted(&readings.ok("export")?), sorted(&exported))
}

/// SQLite compares keys of all types: none of integers is found next to 16 bytes.
fn refuses_uuids(database: &Database, named: &[&str]) -> Result {
    let uuids = Packs::new(database, "--prefix reading --domain sensor.reading --key uuid7");
    let packs = uuids.under(&BOTH).with(named);
    ["verify", "rekey"].iter().try_for_each(|command| packs.refuses(command, "INTEGER"))
}

/// Creates a table that is not one of packs.
fn old_table(database: &Database, name: &str, columns: &str, rows: &str) -> Result {
    database.execute(&format!("CREATE TABLE {name} ({columns})"))?;
    database.execute(&format!("INSERT INTO {name} VALUES {rows}"))
}

fn quotation_mark(database: &Database) -> char {
    if database.kind == Engine::Postgres { '"' } else { '`' }
}

/// The type of a key of 16 bytes.
fn key_type(database: &Database) -> &'static str {
    match database.kind {
        Engine::Postgres => "UUID",
        Engine::Mysql | Engine::Mariadb => "BINARY(16)",
        Engine::Sqlite => "BLOB",
    }
}

/// Whenever a process is killed, each row is there as a whole or not at all, once, and the next process goes on.
fn packs_of_processes_that_are_killed(database: &Database) -> Result {
    let rows = rows(4_000);
    create_events(database, &[])?;
    // As it prints them.
    let lines: String = rows.iter().map(line).collect();
    let lines = lines.replace('\u{9b}', "\\u009b").replace('\u{7f}', "\\u007f");
    let file = NamedTempFile::new()?;
    std::fs::write(&file, &lines)?;
    let path = file.path().to_str().ok_or("UTF-8")?;
    let events = events(database).under(&BOTH);
    let import = format!("import {path}");
    let written: BTreeSet<_> = lines.lines().collect();
    for attempt in 0..8 {
        std::thread::scope(|scope| {
            let importing = scope.spawn(|| events.kill(&import, 25 * attempt));
            events.kill("rekey", 25 * attempt)?;
            importing.join().map_err(|_| "the import panicked")?
        })?;
        let exported = events.ok("export")?;
        let mut keys = BTreeSet::new();
        for line in exported.lines() {
            expect("as it was written", written.contains(line), true)?;
            expect("once", keys.insert(line), true)?;
        }
        events.verify()?;
    }
    events.ok(&import)?;
    events.ok("rekey")?;
    expect("all rows", events.under(NEW).ok("export")? == lines, true)
}

/// The id of a pack, by its place in the table.
fn nth(n: u32) -> String {
    format!("(SELECT id FROM (SELECT id FROM events_packs ORDER BY id LIMIT 1 OFFSET {n}) AS nth)")
}

fn delete(database: &Database, n: u32) -> Result {
    database.execute(&format!("DELETE FROM events_packs WHERE id = {}", nth(n)))
}

type Entries = PackTable<Event, String, Initials>;

/// Does what a line of the table of rights is about.
async fn act(line: &str, pool: &PgPool, rows: &[(Internal<Event>, String)]) -> Result {
    let is_rotated = ["`rekey`", "`sweep`"].contains(&line);
    let keyring = Keyring::from_entries("the test", if is_rotated { &BOTH } else { OLD })?;
    let entries = Entries::open_existing(pool, &keyring, "entries").await?;
    match line {
        "write and merge" => {
            entries.put_all(pool, rows).await?;
            entries.delete(pool, rows[0].0).await?;
            let change = |_| Update::Put("c, a new group".to_owned());
            entries.update(pool, rows[1].0, change).await?;
            query("DELETE FROM dictionaries").execute(pool).await?;
            entries.merge_all(pool).await?;
            entries.put(pool, rows[2].0, &rows[2].1).await?;
        }
        "erase a group" => entries.erase(pool, initial("b")).await?,
        "`configure`, `train`" => {
            entries.configure(pool, Settings::default().pack_bytes(900)).await?;
            let samples = rows.iter().map(|(_, value)| value);
            entries.train_from_public(pool, samples, 1_024).await?;
        }
        "`rekey`" => drop(entries.rekey(pool, |_| ()).await?),
        "`sweep`" => {
            let swept = entries.sweep(pool, Duration::ZERO, |_| ()).await?;
            expect("dictionaries", swept.dictionaries_left, 0)?;
        }
        _ => return Err("another line".into()),
    }
    Ok(())
}

/// Each line of OPERATIONS.md grants enough rights.
fn packs_by_the_rights_of_the_document(database: &Database) -> Result {
    if database.kind != Engine::Postgres {
        return Ok(());
    }
    let text = |(i, (id, value)): (usize, (Internal<Event>, Value))| {
        (id, format!("{} {value}", if i.is_multiple_of(2) { "a" } else { "b" }))
    };
    let rows: Vec<_> = rows(2_000).into_iter().enumerate().map(text).collect();
    database.execute(&Entries::create_sql(Dialect::Postgres, "entries"))?;
    // A writer deletes them here, to write one back.
    database.execute("CREATE VIEW dictionaries AS SELECT * FROM entries_meta WHERE id <> 0")?;
    as_application!(database, OLD, |pool, keyring| {
        let entries = Entries::open(&pool, &keyring, "entries", Settings::default()).await?;
        entries.put_all(&pool, &rows[..1_000]).await?;
        entries.merge_all(&pool).await?;
        let samples = rows.iter().map(|(_, value)| value);
        entries.train_from_public(&pool, samples, 1_024).await?;
    })?;
    let tables = ["recent", "packs", "meta", "keys"].map(|name| format!("entries_{name}"));
    let role = format!("packer_{}", database.name());
    let document = include_str!("../../../docs/OPERATIONS.md");
    let (_, section) = document.split_once("\n### Grant rights on packs\n").ok_or("no heading")?;
    let table = section.split("\n#").next().unwrap_or_default();
    for line in table.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let all = tables.join(", ");
        database.execute(&format!(
            "CREATE ROLE {role}; GRANT SELECT ON {all} TO {role}; GRANT SELECT, DELETE ON dictionaries TO {role}"
        ))?;
        let as_role = database.url.parse::<PgConnectOptions>()?.options([("role", &role)]);
        let run = || {
            on_a_thread(async || {
                act(cells[0], &PgPool::connect_with(as_role.clone()).await?, &rows).await
            })
        };
        contains(&error(run()), "permission denied")?;
        for (cell, table) in cells[1..].iter().zip(&tables) {
            let words = cell.split([',', ' ']).filter(|word| !word.is_empty());
            let is_right = |word: &&str| word.chars().all(|char| char.is_ascii_uppercase());
            for right in words.filter(is_right) {
                database.execute(&format!("GRANT {right} ON {table} TO {role}"))?;
            }
        }
        run().map_err(|error| format!("{}: {}", cells[0], message(&*error)))?;
        drop_role(database, &role)?;
    }
    Ok(())
}

/// The operator who restores has the secret of the settings, but not the right one of the packs.
fn packs_of_a_secret_that_is_not_there(database: &Database) -> Result {
    create_events(database, &rows(300))?;
    let backup = back_up(database)?;
    let events = events(database);
    let both = events.under(&BOTH);
    both.ok("rekey")?;
    database.execute("DELETE FROM events_meta")?;
    copy(&backup, database, "events_meta", "events_meta")?;
    database.execute("DELETE FROM events_recent")?;
    let exported = both.ok("export")?;

    let restore = format!("restore --backup-url {}", backup.url);
    let other = format!("1:{},{OLD}", "5a".repeat(31) + "00");
    for entries in [&other, OLD] {
        let (stdout, _) = events.under(entries).fails(&restore)?;
        expect(&stdout, stdout.contains("restored"), false)?;
    }
    expect("they stay", both.ok("export")? == exported, true)?;
    events.ok(&format!("{restore} --force"))?;
    expect("its rows", events.ok("export")?.lines().count(), 300)
}

/// Copies rows of packs from one database to another.
fn copy(from: &Database, to: &Database, rows: &str, into: &str) -> Result {
    let id = match into {
        "events_meta" => "id".to_owned(),
        _ => literal(from, "id"),
    };
    let body = literal(from, "body");
    let values = format!("{id}, ',', version, ',', {body}");
    let insert = format!("CONCAT('INSERT INTO {into} VALUES (', {values}, ')')");
    let inserts = from.lines(&format!("SELECT {insert} FROM {rows}"))?;
    to.execute(&inserts.replace('\n', ";\n"))
}

/// The literal of an id of 16 bytes, or of bytes.
fn literal(database: &Database, column: &str) -> String {
    match (database.kind, column) {
        (Engine::Postgres, "id") => "quote_literal(id)".to_owned(),
        (Engine::Postgres, _) => {
            format!("quote_literal(concat('\\x', encode({column}, 'hex')))")
        }
        (Engine::Sqlite, _) => format!("'x' || quote(hex({column}))"),
        _ => format!("CONCAT('0x', HEX({column}))"),
    }
}

/// A replica would repeat the statements of a merger without its locks.
fn packs_of_a_server_that_logs_statements(database: &Database) -> Result {
    if !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(());
    }
    create_events(database, &rows(30))?;
    let has_log = database.text("SELECT CONCAT(@@log_bin)")? == "1";
    on_a_thread(async || {
        let keyring = Keyring::from_entries("the test", OLD)?;
        let pool = MySqlPool::connect(&database.url).await?;
        let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
        let mut connection = pool.acquire().await?;
        for (format, is_refused) in [("STATEMENT", has_log), ("MIXED", false), ("ROW", false)] {
            let set = AssertSqlSafe(format!("SET SESSION binlog_format = '{format}'"));
            query(set).execute(&mut *connection).await?;
            let merged = packs.merge_all(&mut *connection).await.map_err(|error| message(&error));
            let rekeyed =
                packs.rekey(&mut *connection, |_| {}).await.map_err(|error| message(&error));
            for refused in [merged.err(), rekeyed.err()] {
                let is_named = refused.as_ref().map(|error| error.contains("binlog_format"));
                expect(&format!("{format}: {refused:?}"), is_named, is_refused.then_some(true))?;
            }
        }
        Ok(())
    })
}

fn packs_that_cannot_be_opened(database: &Database) -> Result {
    create(database, "events", &[])?;
    let events = events(database);
    events.refuses("verify", "error: the tables events_… have no settings")?;
    fill::<_, _, Json, ByKey>(database, "events", &rows(3))?;
    let unreadable = "error: the settings (id 0) of events_meta cannot be read: ";
    events.under(NEW).refuses("verify", unreadable)?;
    let missing = "error: a statement on a table of packs or an encrypted column failed: create the missing tables";
    let invalid = "error: invalid value 'events; DROP' for '<TABLE>': ";
    for (prefix, table, error) in [
        ("evnt", "events", unreadable),
        ("event", "event", missing),
        ("event", "events; DROP", invalid),
    ] {
        let of = ["--prefix", prefix, table];
        Packs::new(database, "--key uuid7").with(&of).refuses("verify", error)?;
    }
    // Too few rows, and then too large a dictionary.
    let few =
        "error: expected more samples for a dictionary, about a hundred times its size, found 3";
    events.refuses("train", few)?;
    events.refuses("train --bytes 9999999", "error: invalid value '9999999' for '--bytes <N>': ")
}
