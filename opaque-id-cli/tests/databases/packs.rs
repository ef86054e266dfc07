//! What `opaque-id packs` does to the tables of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opaque_id_core::Keyring;
use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::{EncryptedColumn, PackTable};
use opaque_id_packs::{
    ByEncryptedKey, ByKey, Encoding, Group, Grouped, InGroup, Json, Lenient, Normalizer, Order,
    Raw, Settings, TableName, Text, Undecoded, Update,
};
use opaque_id_sqlx::{Dialect, Internal, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::{error, message};
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::conformance::packs::{Initials, incompressible, initial};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::random::Random;
use opaque_id_tests::sql::on_a_thread;
use opaque_id_tests::tools::from_pypi;
use serde_json::{Value, json};
use sqlx::mysql::MySqlPool;
use sqlx::postgres::{PgConnectOptions, PgPool};
use sqlx::query;
use sqlx::sqlite::SqlitePool;
use tempfile::NamedTempFile;

use crate::functions::attacks::drop_role;
use crate::functions::cases::{BOTH, NEW, OLD};
use crate::functions::{contains, ends_with, expect, opaque_id, run, starts_with};
use opaque_id_tests::trials::Case;

pub(crate) const ALL: &[Case] = cases![
    packs_from_day_to_day,
    packs_without_an_application,
    packs_of_settings_that_change,
    packs_of_integers_without_an_application,
    packs_of_an_old_table,
    packs_of_old_tables_of_any_type,
    packs_of_an_old_table_with_hostile_keys,
    packs_of_an_old_table_in_use,
    packs_of_a_file_that_is_read_again,
    packs_of_processes_that_are_killed,
    packs_of_a_backup,
    packs_that_another_client_has_restored,
    packs_of_a_secret_that_is_not_there,
    packs_that_were_altered,
    packs_that_cannot_be_opened,
    packs_without_one_bad_row,
    packs_by_the_rights_of_the_document,
    packs_of_erased_people,
    packs_without_the_key_of_a_group,
    columns_from_day_to_day,
    columns_of_integers,
    columns_that_had_plaintext,
    columns_that_an_old_release_writes,
    columns_that_a_table_refuses,
    secrets_that_are_in_use,
    columns_of_rows_without_an_id,
];

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

#[derive(OpaqueId)]
#[opaque_id(prefix = "reading", domain = "sensor.reading", key = i64)]
struct Reading;

/// Does what an application does, with a pool of the database's kind and a keyring.
macro_rules! as_application {
    ($database:expr, $entries:expr, |$pool:ident, $keyring:ident| $act:block) => {
        on_a_thread(async || {
            let $keyring = Keyring::from_entries("the test", $entries)?;
            match $database.kind {
                Engine::Postgres => as_application!(PgPool, $database, $pool, $act),
                Engine::Mysql | Engine::Mariadb => {
                    as_application!(MySqlPool, $database, $pool, $act)
                }
                Engine::Sqlite => as_application!(SqlitePool, $database, $pool, $act),
            }
            Ok(())
        })
    };
    ($type:ty, $database:expr, $pool:ident, $act:block) => {{
        let $pool = <$type>::connect(&$database.url).await?;
        $act
    }};
}

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
    let missing = "create the missing tables by `create_sql` or `opaque-id packs create`: ";
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
    let wrong = "expected --value, as the table's values are not JSON, found --columns";
    readings.refuses("import --from old --columns body", wrong)
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

fn packs_of_an_old_table(database: &Database) -> Result {
    let ids: Vec<_> = (0..600).map(|_| Internal::<Event>::generate()).collect();
    let mark = quotation_mark(database);
    let quoted = format!("{mark}the Actor{mark}");
    let columns = format!("id {} PRIMARY KEY, {quoted} VARCHAR(40), n INTEGER", key_type(database));
    // Not in the order of the keys.
    let row = |i: usize, id: &Internal<Event>| {
        format!("({}, 'ada \"{i}\" ''é'' x', {i})", database.kind.uuid(*id.as_repr()))
    };
    let mut values: Vec<_> = ids.iter().enumerate().map(|(i, id)| row(i, id)).collect();
    values.reverse();
    old_table(database, "log", &columns, &values.join(","))?;
    database.execute("UPDATE log SET n = NULL WHERE n = 3")?;
    let events = events(database);
    events.ok("create")?;
    let from = events.with(&["--from", "log", "--columns", "the Actor,n"]);
    from.prints("import", "600 rows written, 0 were there\n")?;
    let exported = events.ok("export")?;
    for (i, line) in exported.lines().enumerate() {
        let found: Value = serde_json::from_str(line)?;
        let n = if i == 3 { Value::Null } else { json!(i) };
        let value = json!({"the Actor": format!("ada \"{i}\" 'é' x"), "n": n});
        expect(line, found, json!({"key": ids[i].as_repr().to_string(), "value": value}))?;
    }
    from.prints("import", "0 rows written, 600 were there\n")?;

    // Texts of integers have another order.
    old_table(database, "counts", "id BIGINT PRIMARY KEY, n INTEGER", &integers(-600..600))?;
    let counts = Packs::new(database, "--prefix count --key i64 counted");
    counts.ok("create")?;
    counts.prints("import --from counts --columns n", "1200 rows written, 0 were there\n")?;
    let exported = counts.ok("export")?;
    let found =
        exported.lines().map(serde_json::from_str).collect::<serde_json::Result<Vec<Value>>>()?;
    let row = |n: i64| json!({"key": n.to_string(), "value": {"n": n}});
    expect("integers", found, (-600..600).map(row).collect())?;

    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        let columns = "id INTEGER PRIMARY KEY, n BINARY(16), b BIT(3), z INTEGER ZEROFILL, o INTEGER, f FLOAT";
        old_table(database, "files", columns, "(-1000, 'bytes', 5, 7, 7, 16777217)")?;
        for column in ["n", "b", "z"] {
            let import = format!("import --from files --columns o,{column}");
            counts.refuses(&import, &format!("that JSON can have, found `{column}` "))?;
        }
        let import = "import --from files --columns f,o";
        match database.kind {
            Engine::Mariadb => counts.refuses(import, "found `f` float")?,
            _ => counts.prints(import, "1 rows written, 0 were there\n")?,
        }
    }

    // A name that is not there is an error of the database, and not a text.
    for from in ["--from log --columns nothing", "--from nothing --columns n"] {
        events.refuses(&format!("import {from}"), "nothing")?;
    }
    Ok(())
}

fn integers(range: std::ops::Range<i64>) -> String {
    range.map(|n| format!("({n}, {n})")).collect::<Vec<_>>().join(",")
}

/// Keys as text, and values as JSON, of which some are neither.
fn packs_of_old_tables_of_any_type(database: &Database) -> Result {
    let text = "id VARCHAR(40) PRIMARY KEY, body VARCHAR(99)";
    let rows = "('0192c1f0-7b1e-7a35-8f00-000000000001', '{\"n\": 1}'), \
                ('01JB0Z0YRYF8TRY000000000AA', NULL), \
                ('0192c1f07b1e7a358f00000000000003', 'secret'), \
                ('no\u{1b}[31mkey''s', '4')";
    old_table(database, "texts", text, rows)?;
    let events = events(database);
    events.ok("create")?;
    for expected in ["2 rows written, 0 were there\n", "0 rows written, 2 were there\n"] {
        let (stdout, stderr) = events.fails("import --from texts --value body")?;
        expect("rows", &*stdout, expected)?;
        let mut lines: Vec<_> = stderr.lines().collect();
        lines.sort_unstable();
        let problems = [
            "row: 0192c1f07b1e7a358f00000000000003: expected JSON, found other text",
            "row: no\\u{1b}[31mkey\\'s: expected a UUID, 32 hex digits or a ULID",
        ];
        expect("problems", lines, problems.to_vec())?;
    }
    let exported = events.ok("export")?;
    contains(&exported, "\"value\":{\"n\": 1}}")?;
    contains(&exported, "\"value\":null}")?;

    // The database's own type of JSON, keys of another name, and a view.
    let json = if database.kind == Engine::Postgres { "JSONB" } else { "JSON" };
    let columns = format!("event_id {} PRIMARY KEY, body {json}", key_type(database));
    let id = database.kind.uuid(*Internal::<Event>::generate().as_repr());
    old_table(database, "documents", &columns, &format!("({id}, '{{\"n\": [1.50]}}')"))?;
    database.execute("CREATE VIEW viewed AS SELECT event_id AS id, body FROM documents")?;
    let import = "import --from documents --id event_id --value body";
    events.prints(import, "1 rows written, 0 were there\n")?;
    events.prints("import --from viewed --value body", "0 rows written, 1 were there\n")?;
    let exported = events.ok("export")?.replace([' ', '0'], "");
    contains(&exported, "{\"n\":[1.5]}")
}

/// The last key of a page comes back in the next statement, and every name is in quotes.
fn packs_of_an_old_table_with_hostile_keys(database: &Database) -> Result {
    const KEYS: [&str; 8] = [
        "9 UNION SELECT 777, 777, body FROM secrets -- ",
        "z' UNION SELECT '777', '777', body FROM secrets -- ",
        "z\\' UNION SELECT '777', '777', body FROM secrets -- ",
        "z\\",
        "z'",
        "z\"`$$;\n/*",
        "zzzzzzzzzzzzzzzz",
        "z\0a",
    ];
    let readings = Packs::new(database, "--prefix reading --key int readings");
    readings.ok("create")?;
    old_table(database, "secrets", "body VARCHAR(99)", "('\"secret\"')")?;
    if database.kind == Engine::Postgres {
        database.execute(
            "CREATE FUNCTION evil(VARCHAR, VARCHAR) RETURNS BOOLEAN LANGUAGE sql AS 'SELECT 1 / 0 = 1';
             CREATE OPERATOR > (FUNCTION = evil, LEFTARG = VARCHAR, RIGHTARG = VARCHAR);
             CREATE OPERATOR < (FUNCTION = evil, LEFTARG = VARCHAR, RIGHTARG = VARCHAR)",
        )?;
    }
    let mark = quotation_mark(database);
    let is_text = |key: &&str| database.kind != Engine::Postgres || !key.contains('\0');
    let mut expected = String::new();
    for (i, key) in KEYS.into_iter().filter(is_text).enumerate() {
        let name = format!("old {i}; DROP TABLE secrets; -- $$\n/* ü");
        let hex: String = key.bytes().map(|byte| format!("{byte:02x}")).collect();
        let key = match database.kind {
            Engine::Postgres => format!("convert_from(decode('{hex}', 'hex'), 'UTF8')"),
            Engine::Mysql | Engine::Mariadb => format!("CONVERT(X'{hex}' USING utf8mb4)"),
            Engine::Sqlite => format!("CAST(X'{hex}' AS TEXT)"),
        };
        let columns = format!("{mark}id; --{mark} VARCHAR(99) PRIMARY KEY, body VARCHAR(99)");
        let rows = format!("({key}, '\"evil\"'), ('{i}', '\"good\"')");
        old_table(database, &format!("{mark}{name}{mark}"), &columns, &rows)?;
        let from = ["--from", &name, "--id", "id; --", "--value", "body"];
        let (stdout, stderr) = readings.with(&from).fails("import")?;
        expect(&stderr, &*stdout, "1 rows written, 0 were there\n")?;
        expect(&stderr, stderr.lines().count(), 1)?;
        expected += &format!("{{\"key\":\"{i}\",\"value\":\"good\"}}\n");
    }
    readings.prints("export", &expected)?;
    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        for (ty, key) in [("VARBINARY(36)", "X'ff41'"), ("BINARY(20)", "X'ff41'"), ("FLOAT", "0.1")]
        {
            let columns = format!("id {ty} PRIMARY KEY, body VARCHAR(9)");
            old_table(database, "inexact", &columns, &format!("({key}, '1')"))?;
            let (_, stderr) = readings.fails("import --from inexact --value body")?;
            expect(&stderr, stderr.contains("found that key again"), ty == "FLOAT")?;
            database.execute("DROP TABLE inexact")?;
        }
    }
    Ok(())
}

/// An application that moves from an old table: it writes and deletes in both, in the old one first.
struct Moving<'d> {
    database: &'d Database,
    /// The rows that there should be.
    rows: BTreeMap<Internal<Event>, String>,
}

impl Moving<'_> {
    fn go_on(&mut self, steps: impl Iterator<Item = u64> + Send) -> Result {
        as_application!(self.database, OLD, |pool, keyring| {
            let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
            let mut random = Random(7);
            for step in steps {
                let nth = random.below(self.rows.len());
                let id = *self.rows.keys().nth(nth).ok_or("a row")?;
                let body = format!("written at step {step}");
                let new = Internal::generate();
                let (id, sql) = match step % 4 {
                    // In the packs alone.
                    0 => (id, None),
                    1 => (id, Some(format!("UPDATE log SET body = '{body}' WHERE id = :id"))),
                    2 => (id, Some("DELETE FROM log WHERE id = :id".to_owned())),
                    _ => (new, Some(format!("INSERT INTO log VALUES (:id, '{body}')"))),
                };
                if let Some(sql) = sql {
                    let sql = sqlx::AssertSqlSafe(
                        sql.replace(":id", &self.database.kind.uuid(*id.as_repr())),
                    );
                    sqlx::raw_sql(sql).execute(&pool).await?;
                }
                if step % 4 == 2 {
                    packs.delete(&pool, id).await?;
                    self.rows.remove(&id);
                } else {
                    packs.put(&pool, id, &json!({"body": body})).await?;
                    self.rows.insert(id, body);
                }
                if step % 50 == 0 {
                    packs.merge_all(&pool).await?;
                }
            }
        })
    }
}

/// The import is killed again and again, while the application reads and writes.
fn packs_of_an_old_table_in_use(database: &Database) -> Result {
    let rows: BTreeMap<_, _> =
        (0..3_000).map(|i| (Internal::<Event>::generate(), format!("old {i}"))).collect();
    let columns = format!("id {} PRIMARY KEY, body VARCHAR(40)", key_type(database));
    let values =
        rows.iter().map(|(id, body)| format!("({}, '{body}')", database.kind.uuid(*id.as_repr())));
    old_table(database, "log", &columns, &values.collect::<Vec<_>>().join(","))?;
    let events = events(database);
    events.ok("create")?;
    let import = "import --from log --columns body";
    let mut command = events.command(import);
    let mut first = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    // It may have written and merged all of them between two looks.
    while database.integer("COUNT(*)", "events_recent")? == 0 && first.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(2));
    }
    first.kill()?;
    first.wait()?;

    let is_over = AtomicBool::new(false);
    let mut moving = Moving { database, rows };
    let imported = std::thread::scope(|scope| {
        let steps = (0..).take_while(|_| !is_over.load(Ordering::Relaxed));
        let application = scope.spawn(|| moving.go_on(steps));
        let imported = (|| {
            (1..8).try_for_each(|attempt| events.kill(import, 40 * attempt))?;
            events.ok(import)
        })();
        is_over.store(true, Ordering::Relaxed);
        application.join().map_err(|_| "the application panicked")??;
        imported
    })?;
    expect(&imported, imported.ends_with(", 0 were there\n"), false)?;
    let mut found = BTreeMap::new();
    for line in events.ok("export")?.lines() {
        let line: Value = serde_json::from_str(line)?;
        let [key, body] = [&line["key"], &line["value"]["body"]].map(|text| text.as_str());
        found.insert(key.ok_or("a key")?.to_owned(), body.ok_or("a body")?.to_owned());
    }
    let expected: BTreeMap<_, _> =
        moving.rows.iter().map(|(id, body)| (id.as_repr().to_string(), body.clone())).collect();
    let differ = found.iter().filter(|(key, body)| expected.get(*key) != Some(body)).count();
    let lost = expected.keys().filter(|key| !found.contains_key(*key)).count();
    expect("rows that differ, and lost ones", (differ, lost), (0, 0))?;
    events.verify()
}

fn packs_of_a_file_that_is_read_again(database: &Database) -> Result {
    let events = events(database);
    events.ok("create")?;
    let rows = rows(600);
    let lines: String = rows.iter().map(line).collect();
    // A run that ended early, and then the application.
    let first: String = rows.iter().take(250).map(line).collect();
    events.ok_with("import -", &first)?;
    as_application!(database, OLD, |pool, keyring| {
        let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
        packs.merge_all(&pool).await?;
        for i in [0, 200, 599] {
            packs.put(&pool, rows[i].0, &json!("of the application")).await?;
        }
    })?;
    let bad = format!("{lines}{{\"key\":\"0192c1f0-7b1e-7a35-8f00-000000000001\"}}\n");
    let (stdout, stderr) = events.fails_with("import --keep -", &bad)?;
    expect("rows", &*stdout, "349 rows written, 251 were there\n")?;
    starts_with(&stderr, "line 601: expected `key` and `value`")?;
    let exported = events.ok("export")?;
    expect("rows", exported.lines().count(), 600)?;
    expect("rows", exported.matches("of the application").count(), 3)?;
    // Without the option they are replaced. The space between JSON's tokens does not matter.
    events.ok_with("import -", &lines.replace("\",\"", "\",\t\""))?;
    expect("rows", events.ok("export")?.contains("of the application"), false)?;
    let verified = events.ok("verify")?;
    expect(&verified, verified.contains(" 0 rows in 1 packs"), false)
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

/// A pack claims to be newer.
fn spoil(database: &Database, n: u32) -> Result {
    let spoil = "UPDATE events_packs SET version = version + 1 WHERE id =";
    database.execute(&format!("{spoil} {}", nth(n)))
}

fn delete(database: &Database, n: u32) -> Result {
    database.execute(&format!("DELETE FROM events_packs WHERE id = {}", nth(n)))
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
    contains(&stdout, "1 rows restored, as the backup has them: rows that were deleted since are")?;
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
        let as_role = PgConnectOptions::from_str(&database.url)?.options([("role", &role)]);
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

/// The type of a column of long values.
fn value_type(database: &Database) -> &'static str {
    match database.kind {
        Engine::Postgres => "BYTEA",
        Engine::Mysql | Engine::Mariadb => "LONGBLOB",
        Engine::Sqlite => "BLOB",
    }
}

fn columns_from_day_to_day(database: &Database) -> Result {
    let (id, value) = (key_type(database), value_type(database));
    let columns = format!("event_id {id} NOT NULL PRIMARY KEY, notes {value}");
    database.execute(&format!("CREATE TABLE logins ({columns})"))?;
    let table = Packs::new(database, "--prefix event --key uuid7 logins_notes");
    let notes = table.with(&["--column", "logins.notes", "--id", "event_id"]);
    let create = "create --row-padding none";
    let created = notes.ok(create)?;
    contains(&created, "row_padding    none\n")?;
    notes.prints(create, &created)?;
    for (command, expected) in [
        ("create --row-level 19", "row_level 19, found 3, expected row_padding 64, found none; "),
        ("create --write-through", "cannot be used with"),
    ] {
        notes.refuses(command, expected)?;
    }
    table.refuses("verify --column logins.other", "other")?;
    table.refuses("verify --column notes", "expected a column as TABLE.COLUMN")?;
    contains(&table.ok("configure --row-level 9")?, "row_level      3 -> 9\n")?;

    let rows = rows(300);
    as_application!(database, OLD, |pool, keyring| {
        let notes = EncryptedColumn::<Event, Value>::open_existing(&pool, &keyring, "logins_notes");
        let notes = notes.await?;
        let insert = |(id, value): &(Internal<Event>, Value)| -> Result {
            let value = database.kind.bytes(notes.encrypt(*id, value)?.as_bytes());
            let id = database.kind.uuid(*id.as_repr());
            database.execute(&format!("INSERT INTO logins VALUES ({id}, {value})"))
        };
        rows[..100].iter().try_for_each(insert)?;
        notes.train(&pool, rows.iter().map(|(_, value)| value), 2_048).await?;
        rows[100..].iter().try_for_each(insert)?;
    })?;
    let null = database.kind.uuid(*Internal::<Event>::generate().as_repr());
    database.execute(&format!("INSERT INTO logins VALUES ({null}, NULL)"))?;

    let good = "300 values could be read; nothing is corrupt or missing\n";
    notes.prints("verify", good)?;
    notes.prints("rekey", "100 values encrypted again\n")?;
    notes.under(&BOTH).prints("rekey", "300 values encrypted again\n")?;
    notes.under(&BOTH).prints("rekey", "0 values encrypted again\n")?;
    notes.under(NEW).prints("verify", good)?;
    notes.refuses("verify", "the keyring has no secret with key id")?;

    // The value of another row.
    let [one, other] = [0, 1].map(|i| database.kind.uuid(*rows[i].0.as_repr()));
    let value = format!("(SELECT notes FROM (SELECT * FROM logins) AS l WHERE event_id = {other})");
    database.execute(&format!("UPDATE logins SET notes = {value} WHERE event_id = {one}"))?;
    let (stdout, _) = notes.under(NEW).fails("verify")?;
    starts_with(&stdout, "a value of logins_notes cannot be read: not genuine")?;
    contains(&stdout, &format!("(id {})\n", rows[0].0.as_repr()))?;
    ends_with(&stdout, "299 values could be read; 1 problem\n")
}

/// Creates a table of 1,000 customers with their addresses in plaintext, and returns the commands for the column.
fn customers(database: &Database) -> Result<Packs<'_>> {
    let (id, value) = (key_type(database), value_type(database));
    let index = if value == "LONGBLOB" { "BINARY(16)" } else { value };
    let conflict = if database.kind == Engine::Sqlite { "ON CONFLICT REPLACE" } else { "" };
    database.execute(&format!(
        "CREATE TABLE customers (id {id} PRIMARY KEY, email VARCHAR(100) UNIQUE {conflict}, sealed {value}, email_index {index})"
    ))?;
    let row = |i| {
        let id = database.kind.uuid(*Internal::<Event>::generate().as_repr());
        format!("({id}, 'Kunde{i}@Zürich.example')")
    };
    let rows = (0..1_000).map(row).collect::<Vec<_>>().join(", ");
    database.execute(&format!("INSERT INTO customers (id, email) VALUES {rows}"))?;
    let of = "--prefix event --key uuid7 --column customers.sealed customers_email";
    let customers = Packs::new(database, of);
    customers.ok("create --encoding raw")?;
    Ok(customers)
}

const INDEXED: [&str; 6] =
    ["--plaintext", "email", "--index", "email_index", "--normalize", "caseless"];

/// The command is killed again and again, and the application reads the values that it has written.
fn columns_that_had_plaintext(database: &Database) -> Result {
    let customers = customers(database)?;
    let indexed = customers.with(&INDEXED);
    let (stdout, _) = indexed.fails("verify")?;
    ends_with(&stdout, "\n… and 900 more\n0 values could be read; 1000 problems\n")?;
    if database.kind == Engine::Postgres {
        // Nothing may be said of rows that the role does not see.
        let role = format!("clerk_{}", database.name());
        database.execute(&format!(
            "ALTER TABLE customers ENABLE ROW LEVEL SECURITY; CREATE POLICY none ON customers USING (false); \
             CREATE ROLE {role}; GRANT ALL ON customers, customers_email_meta TO {role}"
        ))?;
        for subcommand in ["verify", "rekey", "convert --plaintext email"] {
            let mut clerk = customers.command(subcommand);
            let (_, stdout, stderr) = run(clerk.env("PGOPTIONS", format!("-c role={role}")), "")?;
            contains(&format!("{stdout}{stderr}"), "affected by row-level security policy")?;
        }
        drop_role(database, &role)?;
        database.execute("ALTER TABLE customers DISABLE ROW LEVEL SECURITY")?;
    }
    let plain = "a value of customers_email is in plaintext: expected it to be encrypted";
    starts_with(&stdout, plain)?;
    let left = "1000 rows written; 1000 values are in plaintext, and 0 have no fingerprint\n";
    indexed.prints("convert --to index", left)?;
    database.execute("CREATE UNIQUE INDEX emails ON customers (email_index)")?;
    (0..6).try_for_each(|attempt| indexed.kill("convert", 15 * attempt))?;
    let done = " rows written; 0 values are in plaintext, and 0 have no fingerprint\n";
    ends_with(&indexed.ok("convert")?, done)?;
    indexed.prints("verify", "1000 values could be read; nothing is corrupt or missing\n")?;
    let (stdout, _) = customers.fails("verify --index email_index --normalize exact")?;
    ends_with(&stdout, "; 1000 problems\n")?;
    as_application!(database, OLD, |pool, keyring| {
        type Emails = EncryptedColumn<Event, String, Text>;
        let emails = Emails::open_existing(&pool, &keyring, "customers_email").await?;
        let emails = emails.with_index(&pool, |email| Normalizer::Caseless.apply(email)).await?;
        let fingerprint = emails.fingerprint(&"KUNDE7@zürich.example".to_owned())?;
        let fingerprint = database.kind.bytes(fingerprint.as_bytes());
        let found = format!("customers WHERE email_index = {fingerprint}");
        expect("one customer", database.integer("COUNT(*)", &found)?, 1)?;
    })
}

/// A release that knows no index changes and deletes addresses.
fn columns_that_an_old_release_writes(database: &Database) -> Result {
    let customers = customers(database)?;
    let indexed = customers.with(&INDEXED);
    for (command, expected) in [
        ("convert", "expected --plaintext, the column of the plaintext"),
        (
            "convert --to index --plaintext email",
            "expected --index, the column of the fingerprints",
        ),
        ("verify --index email_index", "expected --normalize, with the normalizer of"),
    ] {
        customers.refuses(command, expected)?;
    }
    indexed.ok("convert --to index")?;
    database.execute("CREATE UNIQUE INDEX emails ON customers (email_index)")?;
    let email = |i: u32| format!("email = 'Kunde{i}@Zürich.example'");
    let swap =
        |from: &str, to: &str| database.execute(&format!("UPDATE customers SET {to} WHERE {from}"));
    swap(&email(1), &email(2_000))?;
    swap(&email(2), &email(1))?;
    swap(&email(2_000), &email(2))?;
    swap(&email(3), "email = NULL")?;
    let (stdout, _) = indexed.fails("verify")?;
    contains(&stdout, "a value of customers_email has another fingerprint: run")?;
    indexed.ok("convert")?;
    indexed.prints("verify", "999 values could be read; nothing is corrupt or missing\n")?;
    database.execute("UPDATE customers SET email_index = NULL WHERE sealed IS NOT NULL")?;
    starts_with(&indexed.ok("convert --to plaintext")?, "999 rows written; 999 values")?;

    database.execute(
        "CREATE TABLE letters (id INTEGER PRIMARY KEY, mail VARCHAR(100), \
         FOREIGN KEY (mail) REFERENCES customers (email) ON UPDATE CASCADE)",
    )?;
    indexed.refuses("convert", "a foreign key refers to the column of plaintext")
}

fn columns_that_a_table_refuses(database: &Database) -> Result {
    let customers = customers(database)?;
    let (encrypt, decrypt) =
        ("convert --plaintext email", "convert --plaintext email --to plaintext");
    let refused = |convert: &str, more: &[&str]| {
        let (stdout, stderr) = customers.fails(convert)?;
        expect(&stdout, stdout.contains("Kunde"), false)?;
        more.iter().try_for_each(|more| contains(&format!("{stdout}{stderr}"), more))
    };
    let [raises, cancels, restores] = match database.kind {
        Engine::Postgres => ["RAISE '%', OLD.email", "RETURN NULL", "NEW.email := OLD.email"],
        Engine::Sqlite => ["SELECT RAISE(ABORT, 'Kunde')", "SELECT RAISE(IGNORE)", ""],
        _ => ["SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1213", "", "SET NEW.email = OLD.email"],
    };
    let with_trigger = |row: &str, action, act: &dyn Fn() -> Result| {
        let (when, begin, end) = match database.kind {
            Engine::Postgres => {
                database.execute(&format!(
                    "CREATE OR REPLACE FUNCTION act() RETURNS trigger LANGUAGE plpgsql AS \
                     $$ BEGIN IF {row} THEN {action}; END IF; RETURN NEW; END $$"
                ))?;
                (String::new(), "EXECUTE FUNCTION act()", String::new())
            }
            Engine::Sqlite => (format!("WHEN {row}"), "BEGIN", format!("{action}; END")),
            _ => (String::new(), "BEGIN", format!("IF {row} THEN {action}; END IF; END")),
        };
        database.execute(&format!(
            "CREATE TRIGGER act BEFORE UPDATE ON customers FOR EACH ROW {when} {begin} {end}"
        ))?;
        act()?;
        let of = if database.kind == Engine::Postgres { " ON customers" } else { "" };
        database.execute(&format!("DROP TRIGGER act{of}"))
    };
    let raised = "a trigger or function raises an error";
    for (action, expected) in [
        (raises, raised),
        (cancels, "a trigger, rule or policy leaves the row as it is"),
        (restores, "1 values were not converted: look for"),
    ] {
        if !action.is_empty() {
            with_trigger("OLD.email LIKE 'Kunde7@%'", action, &|| {
                if action == cancels {
                    let (stdout, _) = customers.with(&INDEXED).fails("convert --to index")?;
                    contains(&stdout, expected)?;
                }
                refused(encrypt, &[expected, "; 1 values are in plaintext"])
            })?;
        }
    }
    customers.ok(encrypt)?;

    // SQLite would delete one of two equal rows.
    let id = database.kind.uuid(*Internal::<Event>::generate().as_repr());
    let insert = "INSERT INTO customers (id, email) VALUES";
    database.execute(&format!("{insert} ({id}, 'Kunde7@Zürich.example')"))?;
    refused(decrypt, &["another row has it in a unique index", "\n999 rows written; 1000 "])?;
    database.execute(&format!("DELETE FROM customers WHERE id = {id}"))?;
    starts_with(&customers.ok(decrypt)?, "1 rows written; 1000 values")?;
    customers.ok(encrypt)?;

    // The new column is too short for 900 values.
    let (check, reason) = match database.kind {
        Engine::Sqlite => ("CHECK (LENGTH(email) <= 22)", "a constraint refuses it"),
        _ => ("", "a column is too short for it"),
    };
    let rename = |to| format!("ALTER TABLE customers RENAME COLUMN email TO {to}");
    database.execute(&rename("old"))?;
    database.execute(&format!("ALTER TABLE customers ADD COLUMN email VARCHAR(22) {check}"))?;
    refused(decrypt, &[reason, "\n… and 800 more\n100 rows written; 100 values"])?;
    database.execute(&rename("short"))?;
    database.execute("ALTER TABLE customers ADD COLUMN email VARCHAR(100)")?;
    starts_with(&customers.ok(decrypt)?, "900 rows written; 900 values")?;
    customers.ok(encrypt)?;

    let shown = if database.kind == Engine::Postgres { "OLD.id::text" } else { "HEX(OLD.id)" };
    let first =
        format!("SELECT {shown} FROM customers WHERE sealed IS NOT NULL ORDER BY id LIMIT 1")
            .replace("OLD.", "");
    let first = format!("{shown} = '{}'", database.text(&first)?);
    let both = customers.under(&BOTH);
    with_trigger(&first, raises, &|| contains(&both.fails("rekey")?.1, raised))?;
    both.prints("rekey", "1 values encrypted again\n")
}

/// No file names the tables. Their names say nothing, and other columns have bytes as well.
fn secrets_that_are_in_use(database: &Database) -> Result {
    let customers = customers(database)?;
    customers.with(&INDEXED).ok("convert")?;
    create_events(database, &rows(200))?;
    let visits = Packs::new(database, "--prefix event --key uuid7 visits");
    contains(&visits.ok("create --groups")?, "rows           in groups\n")?;
    let (other, mark) = (value_type(database), quotation_mark(database));
    let empty = database.kind.bytes(&[]);
    let [photos, photo] = [4, 0xff].map(|byte| database.kind.bytes(&[byte; 99]));
    old_table(
        database,
        &format!("{mark}Photos{mark}"),
        &format!("{mark}the\nphoto{mark} {other}"),
        &format!("({photos}), ({photo}), ({photo})"),
    )?;
    let domain = match database.kind {
        Engine::Postgres => {
            database.execute("CREATE DOMAIN image AS bytea; CREATE DOMAIN photo AS image")?;
            "photo"
        }
        _ => other,
    };
    // The application's tables can have the names of tables with groups.
    database.execute(&format!(
        "CREATE TABLE old_packs (photo {domain}); CREATE TABLE old_keys (hash {other}); \
         INSERT INTO old_packs VALUES ({photo}), ({photo}), ({photo}); \
         INSERT INTO old_packs SELECT body FROM customers_email_meta; \
         INSERT INTO old_packs SELECT {empty} FROM customers AS a JOIN customers_email_meta AS b ON true JOIN visits_meta AS c ON true"
    ))?;
    let keys = |entries: &str, options: &[&str], is_good: bool, expected: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
        command.arg("keys").args(options).env("OPAQUE_ID_KEYS", entries);
        let (found, stdout, stderr) = run(command.env("DATABASE_URL", &database.url), "")?;
        let printed = stdout + &stderr;
        expect(&printed, found, is_good)?;
        expected.iter().try_for_each(|expected| contains(&printed, expected))?;
        Result::Ok(printed)
    };
    let unneeded = "key id 1 is needed by no packs and no encrypted column; external ids in other columns may need it\n";
    let places = [
        "customers.sealed (1000)",
        "customers_email_meta.body (1)",
        "old_packs.photo (1)",
        "events_meta.body (1)",
        "visits_meta.body (1)",
        "events_packs.body (",
    ];
    let printed = keys(&BOTH, &["--in-use"], true, &places)?;
    for other in ["Photos", "visits_packs", "email_index"] {
        expect(&printed, printed.contains(other), false)?;
    }
    ends_with(&printed, unneeded)?;
    let needed = "key id 0 cannot be retired yet: run `opaque-id packs rekey`";
    keys(&BOTH, &["--retire", "0"], false, &[needed])?;
    keys(&BOTH, &["--retire", "1"], false, &["key id 1 seals"])?;
    keys(NEW, &["--in-use"], false, &["and the keyring has no such secret\n"])?;

    for packs in [events(database), visits, customers] {
        keys(&BOTH, &["--retire", "0"], false, &[needed])?;
        packs.under(&BOTH).ok("rekey")?;
    }
    let left = ["key id 0 is needed by old_packs.photo (1)\n"];
    keys(&BOTH, &["--retire", "0"], false, &left)?;
    // The packs with groups have the column's name.
    database.execute(&format!(
        "ALTER TABLE old_packs RENAME TO people; ALTER TABLE people RENAME COLUMN photo TO events; \
         CREATE TABLE people_events_keys (body {other}); CREATE TABLE people_events_packs (body {other})"
    ))?;
    keys(&BOTH, &["--retire", "0"], false, &["key id 0 is needed by people.events (1)\n"])?;
    database.execute("DROP TABLE people")?;
    keys(&BOTH, &["--retire", "0"], true, &[&unneeded.replace('1', "0")])?;

    let (server, name) = database.url.rsplit_once('/').ok_or("a URL")?;
    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        let (_, host) = server.rsplit_once('@').ok_or("a user")?;
        let (name, _) = name.split_once('?').unwrap_or((name, ""));
        let url = format!("mysql://{name}@{host}/{name}");
        let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
        command
            .args(["keys", "--retire", "0"])
            .env("OPAQUE_ID_KEYS", &*BOTH)
            .env("DATABASE_URL", url);
        for (on, is_good) in [("old_keys", false), ("*", true)] {
            database.execute(&format!(
                "CREATE USER IF NOT EXISTS {name}@'%'; GRANT SELECT ON {name}.{on} TO {name}@'%'"
            ))?;
            let (found, _, stderr) = run(&mut command, "")?;
            expect(on, found, is_good)?;
            expect(&stderr, stderr.contains("a user with SELECT on the whole database"), !is_good)?;
        }
        database.execute(&format!("DROP USER {name}@'%'"))?;
    }

    // The name of the database is missing or misspelled.
    let url = match database.kind {
        Engine::Postgres => format!("{server}/postgres"),
        Engine::Sqlite => "sqlite::memory:".to_owned(),
        _ => server.to_owned(),
    };
    let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
    command.args(["keys", "--retire", "0"]).env("OPAQUE_ID_KEYS", &*BOTH).env("DATABASE_URL", url);
    let (found, _, stderr) = run(&mut command, "")?;
    expect(name, found, false)?;
    contains(&stderr, "expected a database with tables, found none")
}

/// No walk by ids finds such a row.
fn columns_of_rows_without_an_id(database: &Database) -> Result {
    let customers = customers(database)?;
    let columns = format!(
        "values_id {}, email VARCHAR(9), sealed {}",
        key_type(database),
        value_type(database)
    );
    old_table(database, "leads", &columns, "(NULL, 'a@example', NULL)")?;
    database.execute("CREATE UNIQUE INDEX leads_ids ON leads (values_id)")?;
    let of = "--prefix event --key uuid7 --column leads.sealed --id values_id customers_email";
    let leads = Packs::new(database, of);
    drop(customers);
    let (_, stderr) = leads.fails("convert --plaintext email")?;
    contains(&stderr, "1 values were not converted: look for rows whose id is NULL")?;
    let (stdout, _) = leads.fails("verify --plaintext email")?;
    contains(&stdout, "a row without an id has a value in plaintext")
}

/// The resource is of the file, and the column of ids has the name `id`. It is a part of the table's key, so thirty rows have each id.
fn columns_of_integers(database: &Database) -> Result {
    let value = value_type(database);
    database.execute(&format!(
        "CREATE TABLE readings (id BIGINT NOT NULL, place {value} NOT NULL, tenant INTEGER NOT NULL, PRIMARY KEY (tenant, id))"
    ))?;
    let file = resources()?;
    let file = file.path().to_str().ok_or("UTF-8")?;
    let column = ["--column", "readings.place", "--context", "tenant 42", "readings_place"];
    let places = Packs::new(database, "--prefix reading --resources").with(&[file]).with(&column);
    places.ok("create --encoding raw")?;
    as_application!(database, OLD, |pool, keyring| {
        let name = TableName::new("readings_place").context("tenant 42");
        let place = EncryptedColumn::<Reading, Vec<u8>, Raw>::open_existing(&pool, &keyring, name);
        let place = place.await?;
        for key in [i64::MIN, -1, 0, 7, i64::MAX] {
            for tenant in 0..30 {
                let value = place.encrypt(Internal::from_repr(key)?, &b"a place".to_vec())?;
                let value = database.kind.bytes(value.as_bytes());
                database
                    .execute(&format!("INSERT INTO readings VALUES ({key}, {value}, {tenant})"))?;
            }
        }
    })?;
    if database.kind == Engine::Sqlite {
        refuses_uuids(database, &column)?;
    }
    places.under(&BOTH).prints("rekey", "150 values encrypted again\n")?;
    let verified = places.under(NEW).ok("verify")?;
    starts_with(&verified, "150 values could be read; nothing")?;
    // A page of values must not be full of one id, because nothing would tell where the next page begins.
    for tenants in [30, 60] {
        database.execute(&format!(
            "INSERT INTO readings SELECT id, place, tenant + {tenants} FROM readings WHERE id = 7"
        ))?;
    }
    let back = format!("{OLD},{NEW}");
    for (entries, command) in [(NEW, "verify"), (&back, "rekey")] {
        let problem = "expected an id of its own, found 64 values or more with it";
        places.under(entries).refuses(command, problem)?;
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
    contains(lines[0], " rows restored, as the backup has them")?;
    contains(lines[1], " rows not restored: a pack of events_packs (id 0")?;
    expect("all rows", events.ok("export")? == before, true)
}

fn back_up(database: &Database) -> Result<Database> {
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
