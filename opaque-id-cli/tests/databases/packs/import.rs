//! Tables of rows that `opaque-id packs import` moves into packs.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_sqlx::Internal;
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::random::Random;
use opaque_id_tests::trials::Case;
use serde_json::{Value, json};

use super::{Event, Packs, events, key_type, line, old_table, quotation_mark, rows};
use crate::functions::cases::OLD;
use crate::functions::{contains, expect, starts_with};

pub(super) const CASES: &[Case] = cases![
    packs_of_an_old_table,
    packs_of_old_tables_of_any_type,
    packs_of_an_old_table_with_hostile_keys,
    packs_of_an_old_table_in_use,
    packs_of_a_file_that_is_read_again,
];

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
