//! What `opaque-id packs` does to the tables of an application.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::Duration;

use opaque_id_core::Keyring;
use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{ByEncryptedKey, ByKey, Encoding, Json, Order, Raw, Settings};
use opaque_id_sqlx::{Internal, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::sql::on_a_thread;
use serde_json::{Value, json};
use sqlx::mysql::MySqlPool;
use sqlx::postgres::PgPool;
use sqlx::sqlite::SqlitePool;

use crate::functions::cases::{NEW, OLD};
use crate::functions::{expect, opaque_id, run};
use opaque_id_tests::trials::Case;

pub(crate) const ALL: &[Case] = &[
    ("packs_from_day_to_day", packs_from_day_to_day),
    (
        "packs_of_integers_by_encrypted_key",
        packs_of_integers_by_encrypted_key,
    ),
    (
        "packs_of_processes_that_are_killed",
        packs_of_processes_that_are_killed,
    ),
    ("packs_of_a_backup", packs_of_a_backup),
    (
        "packs_of_a_secret_that_is_not_there",
        packs_of_a_secret_that_is_not_there,
    ),
    (
        "packs_that_are_not_what_was_written",
        packs_that_are_not_what_was_written,
    ),
    ("packs_that_cannot_be_opened", packs_that_cannot_be_opened),
    ("packs_without_one_bad_row", packs_without_one_bad_row),
    (
        "packs_of_values_that_are_null",
        packs_of_values_that_are_null,
    ),
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
        rekeyed.ends_with(" packs and 500 recent rows encrypted again\n"),
        true,
    )?;
    let both = format!("{NEW},{OLD}");
    ok(database, &both, &events("rekey", &[]), "")?;
    let again = ok(database, &both, &events("rekey", &[]), "")?;
    expect(
        "all is encrypted again",
        &*again,
        "0 packs and 0 recent rows encrypted again\n",
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

fn packs_of_integers_by_encrypted_key(database: &Database) -> Result {
    create(
        database,
        "readings",
        &["--key", "i64", "--by-encrypted-key"],
    )?;
    let row = |i: i16| {
        let id = Internal::<Reading>::from_key(i64::from(i) * 1_000)?;
        Ok((id, [[0xff], [i.to_le_bytes()[0]]].concat()))
    };
    let rows = (-500..500).map(row).collect::<Result<Vec<_>>>()?;
    fill::<_, _, Raw, ByEncryptedKey>(database, "readings", &rows)?;
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

    create(database, "others", &["--key", "int", "--by-encrypted-key"])?;
    fill::<Reading, Vec<u8>, Raw, ByEncryptedKey>(database, "others", &[])?;
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
    let starts = [
        "a pack of events_packs cannot be read",
        "expected a pack of events_packs to continue",
        "a row of events_recent cannot be read",
    ];
    for (line, start) in lines.iter().zip(starts) {
        let is_named = line.starts_with(start) && line.contains(" (id 0");
        expect(line, is_named, true)?;
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

    // It encrypts the others again, and says which it cannot.
    let both = format!("{NEW},{OLD}");
    let (is_good, _, stderr) = packs(database, &both, &events("rekey", &[]), "")?;
    expect("it says so", is_good, false)?;
    expect(
        &stderr,
        stderr.starts_with("error: a pack of events_packs "),
        true,
    )?;
    let (_, exported, _) = packs(database, NEW, &events("export", &[]), "")?;
    expect("the others", exported == stdout, true)
}

/// Writes bytes into a table whose values are JSON, as another program may.
enum AnyBytes {}

impl Encoding<Vec<u8>> for AnyBytes {
    const NAME: &'static str = <Json as Encoding<Value>>::NAME;

    fn encode(value: &Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Ok(value.clone())
    }

    fn decode(bytes: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        Ok(bytes)
    }
}

/// A value that does not fit, or is not JSON, is named, and the others are written or printed.
fn packs_without_one_bad_row(database: &Database) -> Result {
    create(database, "events", &[])?;
    let values = ["1", "\"secret", "3"];
    let rows = values.map(|value| (Internal::<Event>::generate(), value.as_bytes().to_vec()));
    fill::<_, _, AnyBytes, ByKey>(database, "events", &rows)?;
    let (is_good, stdout, stderr) = packs(database, OLD, &events("export", &[]), "")?;
    let keys = rows.map(|(id, _)| id.as_repr().to_string());
    let line = |i: usize| format!("{{\"key\":\"{}\",\"value\":{}}}\n", keys[i], values[i]);
    expect(&stderr, is_good, false)?;
    expect("the others", stdout, line(0) + &line(2))?;
    let problem = format!(
        "error: the row {}: expected JSON, found other bytes\n",
        keys[1]
    );
    expect("the problem", stderr, problem)?;

    let long = |bytes| format!("\"{}\"", "a".repeat(bytes));
    // Which cannot be compressed to what a row may have.
    let mut state = 1_u64;
    let random = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        format!("{:08x}", state >> 32)
    });
    let random = format!("\"{}\"", random.take(1 << 20).collect::<String>());
    let values = [
        "1".to_owned(),
        long(65 << 20),
        random,
        long(129 << 20),
        "5".to_owned(),
    ];
    let lines = values.iter().map(|value| {
        format!(
            "{{\"key\":\"{}\",\"value\":{value}}}\n",
            Internal::<Event>::generate().as_repr()
        )
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(&file, lines.collect::<String>())?;
    let path = file.path().to_str().ok_or("UTF-8")?;
    for _ in 0..2 {
        let (is_good, stdout, stderr) = packs(database, OLD, &events("import", &[path]), "")?;
        expect(&stderr, is_good, false)?;
        expect("the others", &*stdout, "2 rows written\n")?;
        let problems: Vec<_> = stderr.lines().collect();
        expect(&stderr, problems.len(), 3)?;
        // In the order in which it learns of them: a batch is checked when it is written.
        let named = |line: &str| problems.iter().any(|problem| problem.starts_with(line));
        for line in [
            "line 2: ",
            "line 3: ",
            "line 4: expected at most 134217728 bytes",
        ] {
            expect(&stderr, named(line), true)?;
        }
    }
    Ok(())
}

fn packs_of_values_that_are_null(database: &Database) -> Result {
    create(database, "events", &[])?;
    let mut rows = rows(3);
    rows[1].1 = Value::Null;
    fill::<_, _, Json, ByKey>(database, "events", &rows)?;
    let exported = ok(database, OLD, &events("export", &[]), "")?;
    expect(&exported, exported.contains("\"value\":null}\n"), true)?;
    let import = [&events("import", &[])[..], &["-"]].concat();
    let said = ok(database, OLD, &import, &exported)?;
    expect("written", &*said, "3 rows written\n")?;
    let (is_good, _, stderr) = packs(
        database,
        OLD,
        &import,
        r#"{"key":"0192c1f0-7b1e-7a35-8f00-000000000001"}"#,
    )?;
    expect(&stderr, is_good, false)?;
    expect(
        &stderr,
        stderr.contains("line 1: expected `key` and `value`"),
        true,
    )
}

/// A backup is restored into another database. Since it was made, packs were split, and rows written and deleted. Then one pack
/// breaks, one is deleted, and somebody puts one back as it was in the backup.
fn packs_of_a_backup(database: &Database) -> Result {
    create(database, "events", &[])?;
    let rows = rows(1_200);
    fill::<_, _, Json, ByKey>(database, "events", &rows)?;
    let backup = database.another()?;
    create(&backup, "events", &[])?;
    for table in ["events_recent", "events_packs", "events_meta"] {
        copy(database, &backup, table, table)?;
    }
    let of_backup = ok(&backup, OLD, &events("export", &[]), "")?;

    // Every fourth row is written again, between those of the packs and so into all of them; every ninth is deleted.
    let later = |i: usize| i.is_multiple_of(4);
    let keyring = Keyring::from_entries("the test", OLD)?;
    on_a_thread(async || {
        let pool = Pool::connect(database).await?;
        on!(pool, |pool| {
            let packs = PackTable::<Event, Value>::open_existing(&pool, &keyring, "events").await?;
            for (i, (id, _)) in rows.iter().enumerate() {
                match (later(i), i.is_multiple_of(9)) {
                    (true, _) => packs.put(&pool, *id, &long(i)).await?,
                    (_, true) => packs.delete(&pool, *id).await?,
                    _ => {}
                }
            }
            packs.merge_all(&pool).await?;
        });
        Ok(())
    })?;
    let before = ok(database, OLD, &events("export", &[]), "")?;
    let kept: BTreeSet<_> = before.lines().collect();

    // The fifth pack of the backup, as it was.
    let fifth = "(SELECT * FROM events_packs ORDER BY id LIMIT 1 OFFSET 4) AS fifth";
    let id = backup.text(&format!("SELECT {} FROM {fifth}", literal(&backup, "id")))?;
    database.execute(&format!("DELETE FROM events_packs WHERE id = {id}"))?;
    copy(&backup, database, fifth, "events_packs")?;
    let nth = |n: u32| {
        format!(
            "(SELECT id FROM (SELECT id FROM events_packs ORDER BY id LIMIT 1 OFFSET {n}) AS nth)"
        )
    };
    database.execute(&format!("DELETE FROM events_packs WHERE id = {}", nth(12)))?;
    database.execute(&format!(
        "UPDATE events_packs SET version = version + 1 WHERE id = {}",
        nth(20)
    ))?;
    database.execute(&format!("DELETE FROM events_packs WHERE id = {}", nth(0)))?;
    let (is_good, stdout, _) = packs(database, OLD, &events("verify", &[]), "")?;
    expect("it says so", is_good, false)?;
    for problem in [
        "reaches into it",
        "a gap",
        "not genuine",
        "events_packs to continue",
    ] {
        expect(&stdout, stdout.contains(problem), true)?;
    }
    expect(&stdout, stdout.contains("; 4 problems"), true)?;

    let restore = events("restore", &["--backup-url", &backup.url]);
    let restored = ok(database, OLD, &restore, "")?;
    expect(&restored, restored.lines().count(), 5)?;
    expect(
        &restored,
        restored.ends_with("nothing is corrupt or missing\n"),
        true,
    )?;
    // Each row is as it was, or as the backup has it, and only those of four places are.
    let after = ok(database, OLD, &events("export", &[]), "")?;
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
    expect(
        &format!("{same}, {older}"),
        same > 800 && (4..100).contains(&older),
        true,
    )?;
    // Mergers go on, and nothing is left to do.
    ok(
        database,
        OLD,
        &[&events("import", &[])[..], &["-"]].concat(),
        &after,
    )?;
    let again = ok(database, OLD, &restore, "")?;
    expect(&again, again.lines().count(), 1)?;
    expect(
        "all rows",
        ok(database, OLD, &events("export", &[]), "")? == after,
        true,
    )
}

/// The operator who restores has the secret of the settings, but not the right one of the packs.
fn packs_of_a_secret_that_is_not_there(database: &Database) -> Result {
    create(database, "events", &[])?;
    fill::<_, _, Json, ByKey>(database, "events", &rows(300))?;
    let backup = database.another()?;
    create(&backup, "events", &[])?;
    for table in ["events_recent", "events_packs", "events_meta"] {
        copy(database, &backup, table, table)?;
    }
    let both = format!("{NEW},{OLD}");
    ok(database, &both, &events("rekey", &[]), "")?;
    database.execute("DELETE FROM events_meta")?;
    copy(&backup, database, "events_meta", "events_meta")?;
    database.execute("DELETE FROM events_recent")?;
    let exported = ok(database, &both, &events("export", &[]), "")?;

    let restore = events("restore", &["--backup-url", &backup.url]);
    let other = format!("1:{},{OLD}", "5a".repeat(31) + "00");
    for entries in [&other, OLD] {
        let (is_good, stdout, _) = packs(database, entries, &restore, "")?;
        expect(
            &stdout,
            (is_good, stdout.contains("restored")),
            (false, false),
        )?;
    }
    expect(
        "they stay",
        ok(database, &both, &events("export", &[]), "")? == exported,
        true,
    )?;
    let force = [&restore[..], &["--force"]].concat();
    ok(database, OLD, &force, "")?;
    expect(
        "its rows",
        ok(database, OLD, &events("export", &[]), "")?
            .lines()
            .count(),
        300,
    )
}

/// Longer than the value of a row, so that packs are split.
fn long(i: usize) -> Value {
    let noise: String = (0..20)
        .map(|n| format!("{:x}", (i + 1) * (n + 7) * 7_919))
        .collect();
    json!({"later": noise, "n": i})
}

/// Copies rows of packs from one database to another.
fn copy(from: &Database, to: &Database, rows: &str, into: &str) -> Result {
    let id = match into {
        "events_meta" => "id".to_owned(),
        _ => literal(from, "id"),
    };
    let body = literal(from, "body");
    let insert = match from.kind {
        Kind::Mysql | Kind::Mariadb => {
            format!("CONCAT('INSERT INTO {into} VALUES (', {id}, ',', version, ',', {body}, ')')")
        }
        _ => format!(
            "'INSERT INTO {into} VALUES (' || {id} || ',' || version || ',' || {body} || ')'"
        ),
    };
    let inserts = from.lines(&format!("SELECT {insert} FROM {rows}"))?;
    to.execute(&inserts.replace('\n', ";\n"))
}

/// The literal of an id of 16 bytes, or of bytes.
fn literal(database: &Database, column: &str) -> String {
    match (database.kind, column) {
        (Kind::Postgres, "id") => "quote_literal(id)".to_owned(),
        (Kind::Postgres, _) => format!("quote_literal(concat('\\x', encode({column}, 'hex')))"),
        (Kind::Sqlite, _) => format!("'x' || quote(hex({column}))"),
        _ => format!("CONCAT('0x', HEX({column}))"),
    }
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
