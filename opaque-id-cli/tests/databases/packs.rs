//! What `opaque-id packs` does to the tables of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use opaque_id_core::Keyring;
use opaque_id_core::resource::InternalId;
use opaque_id_sqlx::packs::{ByKey, Encoding, Json, Order, PackTable, Raw, Sealed, Settings};
use opaque_id_sqlx::{Internal, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::database::{Database, on_a_thread};
use opaque_id_tests::servers::Kind;
use serde_json::{Value, json};
use sqlx::mysql::MySqlPool;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;

use crate::Case;
use crate::functions::cases::{NEW, OLD};
use crate::functions::{expect, opaque_id, run};

pub(crate) const ALL: &[Case] = &[
    ("packs_from_day_to_day", packs_from_day_to_day),
    (
        "packs_of_integers_in_sealed_order",
        packs_of_integers_in_sealed_order,
    ),
    (
        "packs_of_processes_that_are_killed",
        packs_of_processes_that_are_killed,
    ),
    (
        "packs_that_are_not_what_was_written",
        packs_that_are_not_what_was_written,
    ),
    ("packs_that_cannot_be_opened", packs_that_cannot_be_opened),
];

#[derive(OpaqueId)]
#[opaque_id(prefix = "event")]
struct Event;

#[derive(OpaqueId)]
#[opaque_id(prefix = "reading", domain = "sensor.reading", key = i64)]
struct Reading;

/// An application's pool.
enum Pool {
    Postgres(PgPool),
    MySql(MySqlPool),
    Sqlite(SqlitePool),
}

/// Runs the same expression on any pool.
macro_rules! on {
    ($pool:expr, |$of_kind:ident| $run:expr) => {
        match $pool {
            Pool::Postgres($of_kind) => $run,
            Pool::MySql($of_kind) => $run,
            Pool::Sqlite($of_kind) => $run,
        }
    };
}

impl Pool {
    async fn connect(database: &Database) -> Result<Self> {
        let url = &database.url;
        Ok(match database.kind {
            Kind::Postgres => Self::Postgres(PgPool::connect(url).await?),
            Kind::Mysql | Kind::Mariadb => Self::MySql(MySqlPool::connect(url).await?),
            Kind::Sqlite => Self::Sqlite(SqlitePool::connect(url).await?),
        })
    }
}

/// Creates the tables as a migration does.
fn create(database: &Database, table: &str, options: &[&str]) -> Result {
    let dialect = database.kind.name();
    let sql = opaque_id(
        "",
        &[
            &["sql", "packs", "--dialect", dialect, "--table", table],
            options,
        ]
        .concat(),
        "",
    )?;
    database.execute(&sql)
}

/// Opens the table as an application does, and writes rows of which some are merged.
fn fill<T: OpaqueId<Internal = Internal<T>> + Send, V: Send + Sync, E: Encoding<V>, O: Order>(
    database: &Database,
    table: &str,
    rows: &[(Internal<T>, V)],
) -> Result {
    let keyring = Keyring::from_entries("the test", OLD)?;
    on_a_thread(async || {
        let pool = Pool::connect(database).await?;
        on!(pool, |pool| {
            let packs =
                PackTable::<T, V, E, O>::open(&pool, &keyring, table, Settings::inline()).await?;
            let (first, last) = rows.split_at(rows.len() * 2 / 3);
            packs.put_all(&pool, first).await?;
            packs.merge_all(&pool).await?;
            packs.put_all(&pool, last).await?;
        });
        Ok(())
    })
}

fn packs(
    database: &Database,
    entries: &str,
    args: &[&str],
    input: &str,
) -> Result<(bool, String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
    command
        .arg("packs")
        .args(args)
        .env("OPAQUE_ID_KEYS", entries)
        .env("DATABASE_URL", &database.url);
    run(&mut command, input)
}

/// The output of a command that succeeds.
fn ok(database: &Database, entries: &str, args: &[&str], input: &str) -> Result<String> {
    let (is_good, stdout, stderr) = packs(database, entries, args, input)?;
    match is_good && stderr.is_empty() {
        true => Ok(stdout),
        false => Err(format!("{args:?}: {stdout}{stderr}").into()),
    }
}

const EVENTS: [&str; 5] = ["--prefix", "event", "--key", "Uuid7", "events"];

/// The arguments of a command for the events.
fn events<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&[command], &EVENTS[..], more].concat()
}

fn rows(count: usize) -> Vec<(Internal<Event>, Value)> {
    let value = |i| json!({"actor": format!("user {}", i % 7), "what": "log in \u{1b}[31m\u{9b}\u{7f}\"é\"", "n": i});
    (0..count)
        .map(|i| (Internal::generate(), value(i)))
        .collect()
}

fn packs_from_day_to_day(database: &Database) -> Result {
    create(database, "events", &[])?;
    let rows = rows(1_500);
    fill::<_, _, Json, ByKey>(database, "events", &rows)?;
    let verified = ok(database, OLD, &events("verify", &[]), "")?;
    let is_whole = verified.starts_with("1000 rows in ")
        && verified
            .ends_with(" packs and 500 recent rows could be read; nothing is corrupt or missing\n");
    expect(&verified, is_whole, true)?;

    // A dictionary, and then another secret.
    let trained = ok(database, OLD, &events("train", &["--bytes", "2048"]), "")?;
    expect(
        "trained",
        trained.starts_with("a dictionary of up to 2048 bytes is used from now on"),
        true,
    )?;
    let rekeyed = ok(database, OLD, &events("rekey", &[]), "")?;
    expect(
        &rekeyed,
        rekeyed.ends_with(" packs and 500 recent rows sealed anew\n"),
        true,
    )?;
    let both = format!("{NEW},{OLD}");
    ok(database, &both, &events("rekey", &[]), "")?;
    let again = ok(database, &both, &events("rekey", &[]), "")?;
    expect(
        "all is sealed anew",
        &*again,
        "0 packs and 0 recent rows sealed anew\n",
    )?;

    // The old secret is retired. What is exported is what was written, also by another program's eyes.
    let exported = ok(database, NEW, &events("export", &[]), "")?;
    let lines = exported.lines().map(serde_json::from_str);
    let lines = lines.collect::<std::result::Result<Vec<Value>, _>>()?;
    let expected: Vec<_> = rows
        .iter()
        .map(|(id, value)| json!({"key": id.as_repr().to_string(), "value": value}))
        .collect();
    expect("rows", lines == expected, true)?;
    expect(
        "a terminal's commands",
        exported.contains(['\u{1b}', '\u{9b}', '\u{7f}']),
        false,
    )?;

    // A dictionary that nothing needs any more may break, and the current one may not.
    ok(database, NEW, &events("train", &["--bytes", "4096"]), "")?;
    ok(database, NEW, &events("rekey", &[]), "")?;
    database.execute("UPDATE events_meta SET version = version + 1 WHERE id = 1")?;
    let (is_good, stdout, _) = packs(database, NEW, &events("verify", &[]), "")?;
    let unreadable = "the dictionary 1 of events_meta cannot be read: not genuine";
    expect(
        "it says so",
        (is_good, stdout.starts_with(unreadable)),
        (false, true),
    )?;
    expect(&stdout, stdout.ends_with("; 1 problem\n"), true)?;
    let still = ok(database, NEW, &events("export", &[]), "")?;
    expect("all rows", still == exported, true)?;
    database.execute("UPDATE events_meta SET version = version + 1 WHERE id = 2")?;
    let (_, _, stderr) = packs(database, NEW, &events("verify", &[]), "")?;
    let missing = "error: the settings (id 0) of events_meta cannot be read: its dictionary 2 is not in the table, or cannot be read\n";
    expect("it says so", &*stderr, missing)?;

    // Into another table, which already has some of them, with another secret.
    create(database, "copies", &[])?;
    let old: Vec<_> = rows[..3]
        .iter()
        .map(|(id, _)| (*id, json!("an old value")))
        .collect();
    fill::<_, _, Json, ByKey>(database, "copies", &old)?;
    let copies = |command| [command, "--prefix", "event", "--key", "uuid7", "copies"];
    let written = ok(
        database,
        OLD,
        &[&copies("import")[..], &["-"]].concat(),
        &exported,
    )?;
    expect("written", &*written, "1500 rows written\n")?;
    // What stands between JSON's tokens does not change lines.
    let tabs = exported
        .lines()
        .next()
        .unwrap_or_default()
        .replace("\",\"", "\",\t\"");
    ok(
        database,
        OLD,
        &[&copies("import")[..], &["-"]].concat(),
        &tabs,
    )?;
    let copied = ok(database, OLD, &copies("export"), "")?.replace(", ", ",");
    expect("copied", copied == exported, true)?;
    let verified = ok(database, OLD, &copies("verify"), "")?;
    expect(&verified, verified.contains(" 0 rows in 1 packs"), false)
}

fn packs_of_integers_in_sealed_order(database: &Database) -> Result {
    create(database, "readings", &["--key", "i64", "--sealed-order"])?;
    let row = |i: i16| {
        let id = Internal::<Reading>::from_key(i64::from(i) * 1_000)?;
        Ok((id, [[0xff], [i.to_le_bytes()[0]]].concat()))
    };
    let rows = (-500..500).map(row).collect::<Result<Vec<_>>>()?;
    fill::<_, _, Raw, Sealed>(database, "readings", &rows)?;
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("opaque-id.toml");
    std::fs::write(
        &file,
        "[resource.reading]\nkey = \"i64\"\ndomain = \"sensor.reading\"\n",
    )?;
    let file = file.to_str().ok_or("UTF-8")?;
    let readings = |command, table| [command, "--prefix", "reading", "--resources", file, table];
    let exported = ok(database, OLD, &readings("export", "readings"), "")?;
    let mut found = BTreeMap::new();
    for line in exported.lines() {
        let line: BTreeMap<String, String> = serde_json::from_str(line)?;
        found.insert(line["key"].parse::<i64>()?, line["base64"].clone());
    }
    expect("rows", found.len(), rows.len())?;
    expect("a value", &*found[&-500_000], "/ww=")?;

    create(database, "others", &["--key", "int", "--sealed-order"])?;
    fill::<Reading, Vec<u8>, Raw, Sealed>(database, "others", &[])?;
    let import = [&readings("import", "others")[..], &["-"]].concat();
    ok(database, OLD, &import, &exported)?;
    let sorted = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let others = ok(database, OLD, &readings("export", "others"), "")?;
    expect("copied", sorted(others) == sorted(exported), true)?;

    // Lines that are no rows are named, and the others are written.
    let input = "{\"key\":\"7\",\"base64\":\"AA==\"}\n\n{\"key\":\"7\",\"value\":1}\n{\"key\":\"x\",\"base64\":\"\"}\nsecret\n{\"key\":\"7\",\"base64\":\"!\"}";
    let (is_good, stdout, stderr) = packs(database, OLD, &import, input)?;
    expect("it says so", is_good, false)?;
    expect("one is written", &*stdout, "1 rows written\n")?;
    expect(
        "problems",
        &*stderr,
        "line 3: expected `key` and `base64`: the table's values are not JSON\n\
         line 4: expected a signed 64-bit integer\n\
         line 5: expected a JSON object like those of `opaque-id packs export`, found Syntax error at column 1\n\
         line 6: expected base64 with padding (RFC 4648, section 4)\n",
    )
}

/// Whenever a process is killed, each row is there as a whole or not at all, once, and the next process goes on.
fn packs_of_processes_that_are_killed(database: &Database) -> Result {
    create(database, "events", &[])?;
    let rows = rows(4_000);
    fill::<Event, Value, Json, ByKey>(database, "events", &[])?;
    // As it prints them.
    let line = |(id, value): &(Internal<Event>, Value)| {
        let line = json!({"key": id.as_repr().to_string(), "value": value}).to_string();
        line.replace('\u{9b}', "\\u009b")
            .replace('\u{7f}', "\\u007f")
    };
    let lines: Vec<String> = rows.iter().map(line).collect();
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, lines.join("\n"))?;
    let path = file.path().to_str().ok_or("UTF-8")?;
    let both = format!("{NEW},{OLD}");
    let start = |entries: &str, args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_opaque-id"));
        let command = command.arg("packs").args(args).stdout(Stdio::null());
        let command = command.env("OPAQUE_ID_KEYS", entries);
        command.env("DATABASE_URL", &database.url).spawn()
    };
    let written: BTreeSet<_> = lines.iter().map(String::as_str).collect();
    for attempt in 0..8 {
        let mut running = [
            start(&both, &events("import", &[path]))?,
            start(&both, &events("rekey", &[]))?,
        ];
        std::thread::sleep(Duration::from_millis(25 * attempt));
        for child in &mut running {
            child.kill()?;
            child.wait()?;
        }
        let exported = ok(database, &both, &events("export", &[]), "")?;
        let mut keys = BTreeSet::new();
        for line in exported.lines() {
            expect("as it was written", written.contains(line), true)?;
            expect("once", keys.insert(line), true)?;
        }
        let verified = ok(database, &both, &events("verify", &[]), "")?;
        expect(
            &verified,
            verified.ends_with("nothing is corrupt or missing\n"),
            true,
        )?;
    }
    ok(database, &both, &events("import", &[path]), "")?;
    ok(database, &both, &events("rekey", &[]), "")?;
    let exported = ok(database, NEW, &events("export", &[]), "")?;
    expect("all rows", exported.lines().eq(&lines), true)
}

fn packs_that_are_not_what_was_written(database: &Database) -> Result {
    create(database, "events", &[])?;
    let rows = rows(3_000);
    fill::<_, _, Json, ByKey>(database, "events", &rows)?;
    // One pack claims to be newer, one is deleted, and a recent row is another one's.
    let versions = database.lines("SELECT CAST(version AS CHAR(9)) FROM events_packs")?;
    expect("packs", versions.lines().count() > 8, true)?;
    let nth = |n: u32| {
        format!(
            "(SELECT id FROM (SELECT id FROM events_packs ORDER BY id LIMIT 1 OFFSET {n}) AS nth)"
        )
    };
    database.execute(&format!(
        "UPDATE events_packs SET version = version + 1 WHERE id = {}",
        nth(2)
    ))?;
    database.execute(&format!("DELETE FROM events_packs WHERE id = {}", nth(6)))?;
    let first = "(SELECT id FROM (SELECT min(id) AS id FROM events_recent) AS first)";
    let first = match database.kind {
        // It has no smallest UUID before version 18.
        Kind::Postgres => "(SELECT id FROM events_recent ORDER BY id LIMIT 1)",
        _ => first,
    };
    database.execute(&format!(
        "UPDATE events_recent SET version = version - 1 WHERE id = {first}"
    ))?;
    let (is_good, stdout, stderr) = packs(database, OLD, &events("verify", &[]), "")?;
    expect("it says so", (is_good, &*stderr), (false, ""))?;
    let lines: Vec<_> = stdout.lines().collect();
    expect(&stdout, lines.len(), 4)?;
    let starts = ["the pack ", "expected the pack ", "the row "];
    for (line, start) in lines.iter().zip(starts) {
        expect(line, line.starts_with(start), true)?;
    }
    expect(
        &stdout,
        lines[3].ends_with(" recent rows could be read; 3 problems"),
        true,
    )?;
    // What can be read is printed.
    let (is_good, stdout, stderr) = packs(database, OLD, &events("export", &[]), "")?;
    expect("it says so", is_good, false)?;
    expect("problems", stderr.lines().count(), 3)?;
    for line in stderr.lines() {
        let problem = line.strip_prefix("error: ").unwrap_or_default();
        expect(line, lines.contains(&problem), true)?;
    }
    let printed = stdout.lines().count();
    expect(
        &printed.to_string(),
        printed < 2_999 && printed > 2_700,
        true,
    )?;

    // It seals the others anew, and says which it cannot.
    let both = format!("{NEW},{OLD}");
    let (is_good, _, stderr) = packs(database, &both, &events("rekey", &[]), "")?;
    expect("it says so", is_good, false)?;
    expect(&stderr, stderr.starts_with("error: the pack "), true)?;
    let (_, exported, _) = packs(database, NEW, &events("export", &[]), "")?;
    expect("the others", exported == stdout, true)
}

fn packs_that_cannot_be_opened(database: &Database) -> Result {
    create(database, "events", &[])?;
    let fails = |entries, args: &[&str], expected: &str| {
        let (is_good, stdout, stderr) = packs(database, entries, args, "")?;
        let is_expected = !is_good && stdout.is_empty() && stderr.starts_with(expected);
        expect(&format!("{args:?}: {stdout}{stderr}"), is_expected, true)
    };
    fails(
        OLD,
        &events("verify", &[]),
        "error: the tables events_… have no settings",
    )?;
    fill::<_, _, Json, ByKey>(database, "events", &rows(3))?;
    let unreadable = "error: the settings (id 0) of events_meta cannot be read: ";
    fails(NEW, &events("verify", &[]), unreadable)?;
    let other = ["verify", "--prefix", "evnt", "--key", "uuid7", "events"];
    fails(OLD, &other, unreadable)?;
    let other = ["verify", "--prefix", "event", "--key", "uuid7", "event"];
    fails(
        OLD,
        &other,
        "error: a statement on a table of packs failed: ",
    )?;
    let other = [
        "verify",
        "--prefix",
        "event",
        "--key",
        "uuid7",
        "events; DROP",
    ];
    fails(
        OLD,
        &other,
        "error: invalid value 'events; DROP' for '<TABLE>': ",
    )?;
    // Too few rows, and then too large a dictionary.
    fails(
        OLD,
        &events("train", &[]),
        "error: expected more rows to train a dictionary from, found 3",
    )?;
    fails(
        OLD,
        &events("train", &["--bytes", "9999999"]),
        "error: invalid value '9999999' for '--bytes <N>': ",
    )
}
