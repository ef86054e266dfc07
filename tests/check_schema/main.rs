//! `opaque-id check-schema` on each database: its findings, and its script. The script fixes them or leaves
//! everything as it is, by each server's own client.
//!
//! `cargo test -p opaque-id-tests --test check_schema`

use std::process::ExitCode;

use opaque_id_packs::Json;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_schema::{CheckError, Finding};
use opaque_id_sqlx::{Dialect, OpaqueId, Sequence, UuidMap};
use sqlx::{
    AssertSqlSafe, Column, ColumnOrigin, Connection, Executor, MySqlConnection, PgConnection,
    SqlSafeStr, SqliteConnection,
};

use opaque_id_tests::Result;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::conformance::report::Outcome::{NotApplicable, Passed};
use opaque_id_tests::conformance::report::{Case, Cases, Verdict};
use opaque_id_tests::conformance::{self, shop};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::on_a_thread;
use opaque_id_tests::tools::with_input;

#[derive(OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
struct Invoice;

#[derive(OpaqueId)]
#[opaque_id(prefix = "event", key = StructuredKey)]
struct Event;

fn main() -> ExitCode {
    let cases: Cases = vec![
        ("right_key_columns_are_left_alone", leaves_alone),
        ("wrong_key_columns_are_found_and_fixed", finds_and_fixes),
        ("values_that_cannot_be_converted_are_listed", lists_bad_values),
        ("nothing_is_lost_if_they_come_later", survives_bad_values),
        ("hostile_names_stay_names", survives_hostile_names),
        ("what_a_script_could_break_is_left_alone", leaves_complicated_tables_alone),
        ("key_columns_have_the_names_that_macros_find", names_as_macros_do),
        ("kinds_of_keys_match_columns_and_rows", names_kinds),
        ("columns_that_are_not_judged_are_named", names_what_it_does_not_judge),
        ("tables_of_maps_are_checked", checks_maps),
        ("no_code_of_other_roles_runs", runs_no_code_of_others),
        ("a_script_sees_what_the_check_did_not", sees_more_than_the_check),
        ("a_connection_without_a_schema_is_an_error", needs_a_schema),
    ];
    let on = |kind| {
        cases.iter().map(move |&(name, run)| Case { adapter: "check-schema", kind, name, run })
    };
    conformance::main(Engine::ALL.into_iter().flat_map(on).collect(), &Engine::ALL)
}

fn check(database: &Database) -> Result<opaque_id_schema::Report> {
    check_without(&database.url, &[])
}

fn check_without(url: &str, exclude: &[&str]) -> Result<opaque_id_schema::Report> {
    let exclude: Vec<_> = exclude.iter().map(|&name| name.to_owned()).collect();
    on_a_thread(async || Ok(opaque_id_schema::check(url, &exclude).await?))
}

fn places(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|finding| format!("{}.{}", finding.table, finding.column)).collect()
}

/// Without key columns, all would be correct.
fn needs_a_schema(database: &Database) -> Verdict {
    let url = match database.kind {
        Engine::Postgres => {
            format!("{}&options[search_path]=none,pg_catalog,information_schema", database.url)
        }
        Engine::Mysql | Engine::Mariadb => {
            database.url.rsplit_once('/').ok_or("a URL without a database")?.0.to_owned()
        }
        Engine::Sqlite => return Ok(NotApplicable),
    };
    let none = on_a_thread(async || {
        let check = opaque_id_schema::check(&url, &[]).await;
        let key_columns = opaque_id_schema::key_columns(&url).await;
        Ok((check.err(), key_columns.err()))
    })?;
    assert!(matches!(none, (Some(CheckError::NoSchema), Some(CheckError::NoSchema))), "{none:?}");
    Ok(Passed)
}

/// Names that need quotes in SQL, as sqlx's macros describe them. A primary key in a foreign key of several
/// columns is an id only if the other column refers back to it. One reference to a table's rows is enough.
fn names_as_macros_do(database: &Database) -> Verdict {
    let (mark, key) = match database.kind {
        Engine::Postgres => ('"', "uuid"),
        Engine::Sqlite => ('"', "BLOB"),
        Engine::Mysql | Engine::Mariadb => ('`', "BINARY(16)"),
    };
    let quote = |name: &str| format!("{mark}{name}{mark}");
    let [user, order, of] = ["user", "LineItem", "order"].map(quote);
    let newest = "FOREIGN KEY (id, newest) REFERENCES versions (document, id)";
    let (inside, after) = match database.kind {
        Engine::Sqlite => (format!(", {newest}"), String::new()),
        _ => (String::new(), format!("; ALTER TABLE documents ADD {newest}")),
    };
    database.execute(&format!(
        "CREATE TABLE {user} (id {key} NOT NULL PRIMARY KEY, a {key} NOT NULL UNIQUE, b {key} NOT NULL UNIQUE);
         CREATE TABLE {order} (
             code CHAR(2) NOT NULL PRIMARY KEY, {of} {key} NOT NULL,
             CONSTRAINT a_key FOREIGN KEY ({of}) REFERENCES {user} (a),
             CONSTRAINT key_of FOREIGN KEY ({of}) REFERENCES {user} (id),
             CONSTRAINT z_key FOREIGN KEY ({of}) REFERENCES {user} (b)
         );
         CREATE TABLE members (org {key} NOT NULL, id {key} NOT NULL, PRIMARY KEY (org, id));
         CREATE TABLE profiles (
             id {key} NOT NULL PRIMARY KEY, org {key} NOT NULL, FOREIGN KEY (org, id) REFERENCES members (org, id)
         );
         CREATE TABLE avatars (id {key} NOT NULL PRIMARY KEY, FOREIGN KEY (id) REFERENCES profiles (id));
         CREATE TABLE documents (id {key} NOT NULL PRIMARY KEY, newest {key}{inside});
         CREATE TABLE versions (
             id {key} NOT NULL PRIMARY KEY, document {key} NOT NULL, UNIQUE (document, id),
             FOREIGN KEY (document) REFERENCES documents (id)
         ){after}"
    ))?;
    on_a_thread(async || {
        let columns = opaque_id_schema::key_columns(&database.url).await?;
        let identifies: Vec<_> = columns.iter().map(|column| &*column.identifies).collect();
        assert_eq!(identifies, ["user", "documents", "user", "documents", "versions"]);
        let columns = columns.into_iter().filter(|column| column.identifies == "user");
        let mut found = Vec::new();
        for (table, column) in [(&order, &of), (&user, &quote("id"))] {
            let select = format!("SELECT {column} FROM {table}");
            found.push(described(database, select).await?);
        }
        let columns = columns.map(|column| (column.table, column.column));
        assert_eq!(columns.collect::<Vec<_>>(), found);
        Ok(Passed)
    })
}

fn names_kinds(database: &Database) -> Verdict {
    let (key, quote, of_integer) = match database.kind {
        Engine::Postgres => ("uuid", "'", "i32"),
        Engine::Sqlite => ("BLOB", "x'", "i64"),
        Engine::Mysql | Engine::Mariadb => ("BINARY(16)", "x'", "i32"),
    };
    for (table, version) in [("a", 7), ("b", 4), ("c", 1)] {
        let uuid = format!("{quote}0c86bb1a4ddf{version}bdf8c0a000000000001'");
        database.execute(&format!("CREATE TABLE {table} (id {key} NOT NULL PRIMARY KEY)"))?;
        database.execute(&format!("INSERT INTO {table} VALUES ({uuid})"))?;
    }
    // The default has changed, and most rows have one version.
    for (table, newer) in [("bb", 1_100), ("bc", 2)] {
        let row = |i| {
            let (time, version) = if i < newer { ("0c86bb1a4ddf", 7) } else { ("f86bb1a4ddfc", 4) };
            format!("({quote}{time}{version}{i:03x}8df8c0a000000000')")
        };
        let rows = (0..1_102).map(row).collect::<Vec<_>>().join(", ");
        database.execute(&format!(
            "CREATE TABLE {table} (id {key} NOT NULL PRIMARY KEY); INSERT INTO {table} VALUES {rows}"
        ))?;
    }
    database.execute(&format!(
        "CREATE TABLE d (id INT NOT NULL PRIMARY KEY);
         CREATE TABLE d_meta (id INT NOT NULL PRIMARY KEY, version BIGINT NOT NULL, body INT NOT NULL);
         CREATE TABLE d_ids (id INT NOT NULL PRIMARY KEY, uuid {key} NOT NULL)"
    ))?;
    let columns = async || Ok(opaque_id_schema::read_keys(&database.url, true).await?);
    let kinds = on_a_thread(columns)?.into_iter().filter_map(|column| column.kinds);
    let any = ["Uuid7", "Uuid", "Ulid", "StructuredKey"];
    let expected: [&[&str]; 6] = [&["Uuid7"], &["Uuid"], &any, &any, &any, &[of_integer]];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
    Ok(Passed)
}

/// Returns the table and the column of a query's only column, as its database reports them.
async fn described(database: &Database, select: String) -> Result<(String, String)> {
    async fn describe<C>(url: &str, select: String) -> Result<(String, String)>
    where
        C: Connection,
        for<'c> &'c mut C: Executor<'c, Database = C::Database>,
    {
        let mut connection = C::connect(url).await?;
        let described = connection.describe(AssertSqlSafe(select).into_sql_str()).await?;
        match described.columns()[0].origin() {
            ColumnOrigin::Table(origin) => Ok((origin.table.to_string(), origin.name.to_string())),
            _ => Err("not a table's column".into()),
        }
    }
    match database.kind {
        Engine::Postgres => describe::<PgConnection>(&database.url, select).await,
        Engine::Sqlite => describe::<SqliteConnection>(&database.url, select).await,
        Engine::Mysql | Engine::Mariadb => describe::<MySqlConnection>(&database.url, select).await,
    }
}

fn leaves_alone(database: &Database) -> Verdict {
    database.execute(shop::schema(database.kind))?;
    let key = match database.kind {
        Engine::Postgres => "uuid",
        Engine::Sqlite => "BLOB",
        Engine::Mysql | Engine::Mariadb => "BINARY(16)",
    };
    database.execute(&format!(
        "CREATE TABLE countries (code CHAR(2) NOT NULL PRIMARY KEY);
         CREATE TABLE guests (invited_by {key}, FOREIGN KEY (invited_by) REFERENCES users (id))"
    ))?;
    for map in
        [UuidMap::<Invoice>::unique("invoice_ids"), UuidMap::hashed("more_invoice_ids").shared()]
    {
        database.execute(&map.create_sql(dialect(database.kind)))?;
    }
    let dialect = dialect(database.kind);
    database.execute(&Sequence::<Event>::create_sql(dialect))?;
    database.execute(&PackTable::<Event, String, Json>::create_sql(dialect, "events"))?;
    let report = check(database)?;
    assert_eq!(report.to_string(), "");
    assert!(report.is_good());
    // The shop has four keys and four references, guests have one, each map has a key, and MySQL has slots.
    let slots = usize::from(dialect == Dialect::MySql);
    assert_eq!(report.right, 4 + 4 + 1 + 2 + slots);
    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        let packs = ["events_meta", "events_packs", "events_recent"];
        let maps = ["invoice_ids", "more_invoice_ids"];
        let ours = [&packs[..], &maps, &["opaque_id_sequences", "opaque_id_slots"]].concat();
        for table in ours.iter().chain(&["countries"]) {
            database.execute(&format!("ALTER TABLE {table} ENGINE=MyISAM"))?;
        }
        let report = check(database)?;
        let found = report.findings.iter().map(|finding| (&*finding.table, &*finding.found));
        let expected = ours.iter().map(|table| (*table, "stored by MyISAM"));
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
        for finding in &report.findings {
            let advice = finding.left_alone.as_deref().and_then(|it| it.split_once(" run "));
            database.execute(advice.ok_or("no advice")?.1)?;
        }
        assert_eq!(check(database)?.to_string(), "");
    }
    if database.kind == Engine::Sqlite {
        let tags = "CREATE TABLE tags (id uuid_text NOT NULL PRIMARY KEY)";
        database.execute(tags)?;
        assert_eq!(check(database)?.to_string(), "");
        database.execute("INSERT INTO tags VALUES ('no bytes')")?;
        let report = check(database)?.to_string();
        assert!(report.contains("something other than 16 bytes: 1"), "{report}");
    }
    Ok(Passed)
}

/// A key in the usual types of stored keys.
const UUID: &str = "0192c1f0-7b1e-7a35-8f00-0000000000c1";
const HEX: &str = "0192c1f07b1e7a358f000000000000c1";

/// Creates wrong columns with good values. Returns the columns and their faults.
fn wrong_schema(kind: Engine) -> (String, &'static [(&'static str, &'static str)]) {
    match kind {
        Engine::Postgres => (
            format!(
                "CREATE TABLE teams (id SERIAL PRIMARY KEY);
                 CREATE TABLE users (id CHAR(36) PRIMARY KEY, team_id INT REFERENCES teams (id) ON DELETE CASCADE);
                 CREATE TABLE pets (id BYTEA PRIMARY KEY, user_id VARCHAR(36) REFERENCES users (id));
                 CREATE TABLE cars (id BIGINT PRIMARY KEY, team_id BIGINT REFERENCES teams (id));
                 INSERT INTO teams VALUES (DEFAULT);
                 INSERT INTO users VALUES ('{UUID}', 1);
                 INSERT INTO pets VALUES ('\\x{HEX}', '{UUID}');
                 INSERT INTO cars VALUES (1, 1)"
            ),
            &[
                ("pets.id", "16 bytes"),
                ("pets.user_id", "text"),
                ("teams.id", "64 bits"),
                ("users.id", "text"),
                ("users.team_id", "a different type"),
            ],
        ),
        Engine::Mysql | Engine::Mariadb => {
            let theirs = match kind {
                Engine::Mariadb => "UUID",
                _ => "VARBINARY(17)",
            };
            let value = match kind {
                Engine::Mariadb => format!("'{UUID}'"),
                _ => format!("X'{HEX}'"),
            };
            (
                format!(
                    "CREATE TABLE teams (id MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY);
                     CREATE TABLE users (id CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY,
                         team_id MEDIUMINT UNSIGNED, FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE);
                     CREATE TABLE pets (id {theirs} NOT NULL PRIMARY KEY,
                         user_id CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
                         FOREIGN KEY (user_id) REFERENCES users (id));
                     CREATE TABLE cars (id BIGINT NOT NULL PRIMARY KEY,
                         team_id MEDIUMINT UNSIGNED, FOREIGN KEY (team_id) REFERENCES teams (id));
                     CREATE TABLE bags (id BINARY(255) NOT NULL PRIMARY KEY,
                         team_id MEDIUMINT UNSIGNED, FOREIGN KEY (team_id) REFERENCES teams (id));
                     INSERT INTO teams VALUES (1);
                     INSERT INTO bags VALUES (X'{HEX}', 1);
                     INSERT INTO users VALUES ('{UUID}', 1);
                     INSERT INTO pets VALUES ({value}, '{UUID}');
                     INSERT INTO cars VALUES (1, 1)"
                ),
                &[
                    ("bags.id", "`BINARY(16)`"),
                    ("bags.team_id", "`BIGINT`"),
                    ("cars.team_id", "`BIGINT`"),
                    ("pets.id", "`BINARY(16)`"),
                    ("pets.user_id", "ignores case"),
                    ("teams.id", "`BIGINT`"),
                    ("users.id", "ignores case"),
                    ("users.team_id", "`BIGINT`"),
                ],
            )
        }
        Engine::Sqlite => (
            format!(
                "CREATE TABLE teams (id INTEGER PRIMARY KEY);
                 CREATE TABLE users (id CHAR(36) NOT NULL PRIMARY KEY, team_id TEXT REFERENCES teams (id));
                 CREATE INDEX users_by_team ON users (team_id);
                 CREATE TABLE pets (id UUID NOT NULL PRIMARY KEY, user_id TEXT REFERENCES users);
                 CREATE TABLE cars (id BLOB PRIMARY KEY);
                 INSERT INTO teams VALUES (1);
                 INSERT INTO users VALUES ('{UUID}', 1);
                 INSERT INTO pets VALUES (X'{HEX}', '{UUID}');
                 INSERT INTO cars VALUES (X'{HEX}')"
            ),
            &[
                ("cars.id", "accepts NULL"),
                ("pets.id", "numeric"),
                ("pets.user_id", "text"),
                ("users.id", "text"),
                ("users.team_id", "a different type"),
            ],
        ),
    }
}

/// The runner of a script: our driver, or the server's own client. A client may continue after an error or stop.
#[derive(Clone, Copy, Debug)]
enum Runner {
    Driver,
    Client { stops: bool },
}

const RUNNERS: [Runner; 3] =
    [Runner::Driver, Runner::Client { stops: false }, Runner::Client { stops: true }];

/// Returns the output, whether or not there was an error.
fn run(database: &Database, runner: Runner, script: &str) -> Result<String> {
    let Runner::Client { stops } = runner else {
        return Ok(match database.execute(script) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        });
    };
    let output = with_input(&mut database.client(stops)?, script)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok(text(&output.stdout) + &text(&output.stderr))
}

/// Returns all rows of the tables of `wrong_schema`, and all tables, indexes and foreign keys.
fn everything(database: &Database) -> Result<String> {
    let selects: &[&str] = match database.kind {
        Engine::Postgres => &[
            "SELECT concat_ws('|', id, team_id) FROM users ORDER BY 1",
            "SELECT concat_ws('|', id, user_id) FROM pets ORDER BY 1",
            "SELECT concat_ws('|', id, team_id) FROM cars ORDER BY 1",
            "SELECT id::text FROM teams ORDER BY 1",
            "SELECT concat_ws('|', table_name, column_name, data_type) FROM information_schema.columns
             WHERE table_schema = 'public' ORDER BY 1",
            "SELECT concat_ws('|', conrelid::regclass, conname, pg_get_constraintdef(oid)) FROM pg_constraint
             WHERE connamespace = 'public'::regnamespace AND contype = 'f' ORDER BY 1",
        ],
        Engine::Mysql | Engine::Mariadb => &[
            "SELECT CAST(CONCAT_WS('|', HEX(id), team_id) AS CHAR) FROM users ORDER BY 1",
            "SELECT CAST(CONCAT_WS('|', HEX(id), HEX(user_id)) AS CHAR) FROM pets ORDER BY 1",
            "SELECT CAST(CONCAT_WS('|', id, team_id) AS CHAR) FROM cars ORDER BY 1",
            "SELECT CAST(id AS CHAR) FROM teams ORDER BY 1",
            "SELECT HEX(id) FROM bags ORDER BY 1",
            "SELECT CAST(CONCAT_WS('|', table_name, column_name, column_type) AS CHAR) FROM information_schema.columns
             WHERE table_schema = DATABASE() ORDER BY 1",
            "SELECT CAST(CONCAT_WS('|', table_name, constraint_name, referenced_table_name) AS CHAR)
             FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY 1",
        ],
        Engine::Sqlite => &[
            "SELECT quote(id) || '|' || quote(team_id) FROM users ORDER BY 1",
            "SELECT quote(id) || '|' || quote(user_id) FROM pets ORDER BY 1",
            "SELECT quote(id) FROM cars ORDER BY 1",
            "SELECT quote(id) FROM teams ORDER BY 1",
            "SELECT quote(name) || '|' || quote(sql) FROM sqlite_schema ORDER BY 1",
        ],
    };
    let all = selects.iter().map(|select| database.lines(select));
    Ok(all.collect::<Result<Vec<_>>>()?.join("\n---\n"))
}

fn clear(database: &Database) -> Result {
    for end in ["_before_opaque_id", ""] {
        for table in ["bags", "pets", "cars", "users", "teams"] {
            database.execute(&format!("DROP TABLE IF EXISTS {table}{end}"))?;
        }
    }
    Ok(())
}

fn finds_and_fixes(database: &Database) -> Verdict {
    for runner in RUNNERS {
        let (schema, wanted) = wrong_schema(database.kind);
        database.execute(&schema)?;

        let report = check(database)?;
        assert_eq!(report.findings.len(), wanted.len(), "{report}");
        for (finding, (place, problem)) in report.findings.iter().zip(wanted) {
            assert_eq!(format!("{}.{}", finding.table, finding.column), *place, "{report}");
            assert!(finding.problem.contains(problem), "{place}: {}", finding.problem);
            assert_eq!(finding.left_alone, None, "{place}");
        }

        let printed = run(database, runner, &report.to_string())?;
        assert_eq!(check(database)?.to_string(), "", "{runner:?}: {printed}");
        let (hex, bags) = match database.kind {
            Engine::Postgres => ("encode(uuid_send(users.id), 'hex')", ""),
            Engine::Mysql | Engine::Mariadb => {
                ("lower(hex(users.id))", "JOIN bags ON bags.id = pets.id")
            }
            Engine::Sqlite => ("lower(hex(users.id))", ""),
        };
        let joined = format!(
            "SELECT {hex} FROM users JOIN teams ON teams.id = team_id JOIN pets ON user_id = users.id {bags}
             WHERE pets.id = users.id"
        );
        assert_eq!(database.text(&joined)?, HEX, "{runner:?}: {printed}");
        // The old rows stay until the commented statement is run.
        let kept = "SELECT CAST(id AS CHAR(36)) FROM users_before_opaque_id";
        assert_eq!(database.text(kept)?, UUID, "{runner:?}");
        assert!(report.to_string().contains("\n-- DROP TABLE "));

        // The variables of a lost connection are NULL.
        let is_client = matches!(runner, Runner::Client { .. });
        if is_client && matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
            let script = report.to_string();
            let end = script.rfind("SELECT CASE ").ok_or("no last statement")?;
            let printed = run(database, runner, &script[end..])?;
            assert!(printed.contains("UNKNOWN"), "{printed}");
        }

        // A second run changes nothing.
        let fixed = everything(database)?;
        run(database, runner, &report.to_string())?;
        assert_eq!(everything(database)?, fixed, "{runner:?}");
        clear(database)?;
    }
    Ok(Passed)
}

/// Values that `wrong_schema` accepts besides its good ones.
const BAD: &str = "INSERT INTO users VALUES ('legacy-7', 1);
    UPDATE pets SET user_id = 'legacy-7'";

fn lists_bad_values(database: &Database) -> Verdict {
    for runner in RUNNERS {
        database.execute(&wrong_schema(database.kind).0)?;
        database.execute(BAD)?;
        if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
            database.execute(&format!("INSERT INTO bags VALUES (X'{HEX}01', 1)"))?;
        }
        let before = everything(database)?;

        let report = check(database)?;
        let of = |table: &str, column: &str| {
            let mut findings = report.findings.iter();
            findings.find(|finding| finding.column == column && finding.table == table)
        };
        let user_id = of("pets", "user_id").ok_or("a finding")?;
        assert_eq!(user_id.unconvertible, 1);
        let query = user_id.query.as_deref().ok_or("a query")?;
        let select = query.find("SELECT ").ok_or("a SELECT")?;
        assert_eq!(database.text(query[select..].trim_end_matches(';'))?, "legacy-7");
        assert_eq!(of("users", "id").map(|finding| finding.unconvertible), Some(1));
        if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
            assert_eq!(of("bags", "id").map(|finding| finding.unconvertible), Some(1));
        }
        // Tables on the other side of a foreign key also stay as they are.
        let reason = of("users", "team_id").and_then(|finding| finding.left_alone.clone());
        assert!(reason.is_some_and(|reason| reason.contains("must be fixed first")));

        let printed = run(database, runner, &report.to_string())?;
        let converted = everything(database)?;
        if database.kind == Engine::Sqlite {
            // Its cars have no foreign key, and are fixed.
            let (users, _) = before.split_once("---").ok_or("parts")?;
            assert!(converted.starts_with(users), "{runner:?}: {printed}");
        } else {
            assert_eq!(converted, before, "{runner:?}: {printed}");
        }
        if matches!(runner, Runner::Client { .. }) {
            assert!(printed.contains("legacy-7"), "{runner:?}: {printed}");
        }
        clear(database)?;
    }
    Ok(Passed)
}

/// The bad values are inserted between the printing of the script and its run.
fn survives_bad_values(database: &Database) -> Verdict {
    let other = match database.kind {
        // The column accepts NULL, so a value that does not fit could become NULL.
        Engine::Sqlite => "PRAGMA foreign_keys = OFF; UPDATE users SET team_id = 'x'",
        // The same key exists twice.
        _ => "INSERT INTO users SELECT REPLACE(id, '-', ''), team_id FROM users",
    };
    for (runner, bad) in RUNNERS.into_iter().flat_map(|runner| [(runner, BAD), (runner, other)]) {
        database.execute(&wrong_schema(database.kind).0)?;
        let script = check(database)?.to_string();
        database.execute(bad)?;
        let before = everything(database)?;
        let printed = run(database, runner, &script)?;
        assert_eq!(everything(database)?, before, "{runner:?}: {printed}");
        let is_said = printed.contains("nothing was changed");
        assert!(
            is_said || bad == other || matches!(runner, Runner::Driver),
            "{runner:?}: {printed}"
        );
        clear(database)?;
    }
    Ok(Passed)
}

/// A role that may create a table must not get its SQL run by the role that runs the script.
fn survives_hostile_names(database: &Database) -> Verdict {
    let quote = |name: &str| match database.kind {
        Engine::Mysql | Engine::Mariadb => format!("`{}`", name.replace('`', "``")),
        Engine::Postgres | Engine::Sqlite => {
            format!("\"{}\"", name.replace('"', "\"\""))
        }
    };
    let hostile = [
        "a\nDROP TABLE victim; --",
        "b\r\nDROP TABLE victim; --",
        "c\u{1b}[2Jid",
        "e\u{2028}DROP TABLE victim; --",
    ];
    // These names are strange but valid, and are converted.
    let strange = [
        "d(e",
        "f\"`'; DROP TABLE victim; --",
        "g\\'); DROP TABLE victim; -- ",
        "h$opaque_id$ END; DROP TABLE victim",
        "i /* x",
        "Ünï-çødé [x]",
    ];
    database.execute("CREATE TABLE victim (a INT); INSERT INTO victim VALUES (42)")?;
    // MySQL has no names that end with a space.
    let names =
        hostile.map(|name| (name, true)).into_iter().chain(strange.map(|name| (name, false)));
    let tables: Vec<(&str, String, bool)> = names
        .map(|(name, is_hostile)| (name.trim_end(), is_hostile))
        .map(|(name, is_hostile)| (name, quote(&format!("{name} id")), is_hostile))
        .collect();
    for runner in RUNNERS {
        for (name, column, _) in &tables {
            let table = quote(name);
            database.execute(&format!(
                "CREATE TABLE {table} ({column} CHAR(36) NOT NULL PRIMARY KEY, text VARCHAR(99) DEFAULT '(\"`;--');
                 INSERT INTO {table} ({column}) VALUES ('{UUID}')"
            ))?;
        }
        let report = check(database)?;
        let printed = report.to_string();
        assert_eq!(report.findings.len(), tables.len(), "{printed}");
        let left_alone = report.findings.iter().filter(|finding| {
            let reason = finding.left_alone.as_deref();
            reason.is_some_and(|reason| reason.contains("invisible characters"))
        });
        assert_eq!(left_alone.count(), hostile.len(), "{printed}");
        assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
        let printed = run(database, runner, &printed)?;
        assert_eq!(database.integer("a", "victim")?, 42, "{runner:?}: {printed}");
        for (name, column, is_hostile) in &tables {
            let table = quote(name);
            let hex = match database.kind {
                Engine::Postgres => format!("lower({column}::text)"),
                _ if *is_hostile => column.clone(),
                _ => format!("lower(hex({column}))"),
            };
            let hex = format!("SELECT replace({hex}, '-', '') FROM {table}");
            assert_eq!(database.text(&hex)?, HEX, "{runner:?}: {name}: {printed}");
            let kept = quote(&format!("{name}_before_opaque_id"));
            database.execute(&format!("DROP TABLE {table}; DROP TABLE IF EXISTS {kept}"))?;
        }
    }
    Ok(Passed)
}

/// Features of a table that a change of a column's type would break or lose.
fn leaves_complicated_tables_alone(database: &Database) -> Verdict {
    let tables: &[&str] = match database.kind {
        Engine::Postgres => &[
            "CREATE TABLE p (n BIGINT PRIMARY KEY, public_id CHAR(36) UNIQUE);
             CREATE TABLE t (n BIGINT PRIMARY KEY, p_id CHAR(36) REFERENCES p (public_id))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY) PARTITION BY HASH (id);
             CREATE TABLE u PARTITION OF t FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE TABLE u (PRIMARY KEY (id)) INHERITS (t)",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY DEFAULT gen_random_uuid())",
            "CREATE TABLE t (id SMALLINT PRIMARY KEY, m INT GENERATED ALWAYS AS (id + 1) STORED)",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, CHECK (id <> ''))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE INDEX ON t (lower(id))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE INDEX ON t (id bpchar_pattern_ops)",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE INDEX ON t (id COLLATE \"C\")",
            "CREATE TYPE ty AS (id SMALLINT); CREATE TABLE t OF ty (PRIMARY KEY (id))",
            "CREATE TABLE t (id SMALLINT PRIMARY KEY); CREATE SCHEMA other; CREATE TABLE other.u (x SMALLINT REFERENCES t)",
            "CREATE TABLE t (id SMALLINT PRIMARY KEY); CREATE VIEW u AS SELECT id FROM t",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); ALTER TABLE t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE TABLE p (n BIGINT PRIMARY KEY, x t)",
            "CREATE TABLE t (id VARCHAR(36) PRIMARY KEY); CREATE INDEX ON t USING spgist (id)",
            "CREATE DOMAIN d AS CHAR(36) NOT NULL; CREATE TABLE t (id d PRIMARY KEY)",
            "CREATE TABLE p (id CHAR(36) PRIMARY KEY, x INT, UNIQUE (id, x));
             CREATE TABLE t (n BIGINT PRIMARY KEY, a CHAR(36), x INT, FOREIGN KEY (a, x) REFERENCES p (id, x))",
        ],
        Engine::Mysql | Engine::Mariadb => &[
            "CREATE TABLE p (n BIGINT PRIMARY KEY, public_id CHAR(36) UNIQUE);
             CREATE TABLE t (n BIGINT PRIMARY KEY, p_id CHAR(36), FOREIGN KEY (p_id) REFERENCES p (public_id))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, CHECK (id <> ''))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY DEFAULT 'x')",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, n INT, m INT GENERATED ALWAYS AS (n + 1) STORED)",
            "CREATE TABLE t (id CHAR(36) CHARACTER SET utf16 PRIMARY KEY)",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, FULLTEXT KEY (id))",
            "CREATE TABLE p (id BIGINT, x INT, PRIMARY KEY (id, x));
             CREATE TABLE t (id CHAR(36) PRIMARY KEY, a BIGINT, b INT, FOREIGN KEY (a, b) REFERENCES p (id, x))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY) PARTITION BY KEY (id) PARTITIONS 2",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, n INT);
             CREATE TRIGGER g BEFORE UPDATE ON t FOR EACH ROW SET NEW.n = 1",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY);
             CREATE TRIGGER g BEFORE INSERT ON t FOR EACH ROW SET NEW.id = COALESCE(NEW.id, UUID())",
            // MariaDB does not read the comment.
            "SET SESSION foreign_key_checks = 1 /*!80400 , SESSION restrict_fk_on_non_standard_key = 0 */;
             CREATE TABLE p (id CHAR(36) PRIMARY KEY, x CHAR(36), KEY (x), FOREIGN KEY (x) REFERENCES p (id));
             CREATE TABLE t (n BIGINT PRIMARY KEY, x CHAR(36), FOREIGN KEY (x) REFERENCES p (x))",
        ],
        Engine::Sqlite => &[
            "CREATE TABLE p (n INTEGER PRIMARY KEY, public_id TEXT UNIQUE);
             CREATE TABLE t (n INTEGER PRIMARY KEY, p_id TEXT REFERENCES p (public_id))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY CHECK (length(id) = 36))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY DEFAULT (lower(hex(randomblob(16)))))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, short TEXT GENERATED ALWAYS AS (substr(id, 1, 8)))",
            "CREATE TABLE p (id CHAR(36) PRIMARY KEY, x INT, UNIQUE (id, x));
             CREATE TABLE t (id CHAR(36) PRIMARY KEY, x INT, FOREIGN KEY (id, x) REFERENCES p (id, x))",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, n INT); CREATE UNIQUE INDEX i ON t (n) WHERE id < 'f'",
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY); CREATE UNIQUE INDEX i ON t (lower(id))",
            // The shell takes each line for a statement or a command.
            "CREATE TABLE t (id CHAR(36) PRIMARY KEY, \"shell\" INT);
             CREATE INDEX i ON t (id) WHERE shell\n/\nshell\n> 'f;touch x'",
        ],
    };
    for create in tables {
        database.execute(create)?;
        let report = check(database)?;
        assert!(!report.is_good(), "{create}");
        for finding in &report.findings {
            assert!(finding.left_alone.is_some(), "{create}: {report}");
        }
        assert!(report.script.is_empty(), "{create}: {report}");
        let cascade = if database.kind == Engine::Postgres { " CASCADE" } else { "" };
        for table in ["t", "p"] {
            database.execute(&format!("DROP TABLE IF EXISTS {table}{cascade}"))?;
        }
    }
    if database.kind == Engine::Sqlite {
        keeps_what_hangs_on_a_table(database)?;
    }
    Ok(Passed)
}

/// Triggers, indexes, counters and the numbers of rows survive, whichever client runs the script.
fn keeps_what_hangs_on_a_table(database: &Database) -> Result {
    for runner in RUNNERS {
        database.execute(&format!(
            "CREATE TABLE log (what TEXT);
             CREATE TABLE Users (id TEXT PRIMARY KEY, n INT);
             INSERT INTO users VALUES ('{UUID}', 1), (replace('{UUID}', 'c1', 'c2'), 2);
             DELETE FROM users WHERE n = 1;
             CREATE TRIGGER g AFTER INSERT ON USERS BEGIN INSERT INTO log VALUES (NEW.n); END;
             CREATE UNIQUE INDEX i ON users (n) WHERE n > 0;
             CREATE VIEW v AS SELECT n FROM users;
             CREATE TABLE pets (n INTEGER PRIMARY KEY AUTOINCREMENT, user_id TEXT REFERENCES users (id));
             INSERT INTO pets VALUES (5, replace('{UUID}', 'c1', 'c2')), (9, NULL);
             DELETE FROM pets WHERE n = 9"
        ))?;
        let script = check(database)?.to_string();
        let printed = run(database, runner, &script)?;
        assert_eq!(check(database)?.to_string(), "", "{printed}");
        database.execute(&format!(
            "INSERT INTO users VALUES (X'{HEX}', 3); INSERT INTO pets (user_id) VALUES (X'{HEX}')"
        ))?;
        assert_eq!(database.text("SELECT what FROM log")?, "3", "{printed}");
        assert_eq!(database.text("SELECT CAST(max(n) AS TEXT) FROM pets")?, "10");
        assert_eq!(database.text("SELECT CAST(rowid AS TEXT) FROM users WHERE n = 2")?, "2");
        assert_eq!(database.text("SELECT CAST(count(*) AS TEXT) FROM v")?, "2");
        assert!(database.execute("UPDATE users SET n = 3").is_err());

        // A schema that has changed since is not changed.
        database.execute(
            "DROP TABLE pets; DROP TABLE pets_before_opaque_id;
             DROP VIEW v; DROP TABLE users; DROP TABLE users_before_opaque_id; DROP TABLE log;
             CREATE TABLE users (id CHAR(36) PRIMARY KEY)",
        )?;
        let script = check(database)?.to_string();
        database.execute("ALTER TABLE users ADD COLUMN email TEXT DEFAULT 'x'")?;
        run(database, runner, &script)?;
        let sql =
            |name| database.text(&format!("SELECT sql FROM sqlite_schema WHERE name = '{name}'"));
        assert!(sql("users")?.contains("email"));
        assert!(sql("users_before_opaque_id").is_err());
        database.execute("DROP TABLE users")?;
    }
    Ok(())
}

/// The report lists keys of other types, references without a foreign key, and other columns that it cannot
/// judge.
fn names_what_it_does_not_judge(database: &Database) -> Verdict {
    database.execute("CREATE TABLE log (line VARCHAR(9))")?;
    assert!(!check(database)?.is_good(), "nothing was found");
    database.execute("CREATE TABLE undeclared (id BIGINT, x VARCHAR(9))")?;
    assert!(!check(database)?.is_good(), "no key was found");
    let [decimal, mixed] = match database.kind {
        Engine::Sqlite => {
            ["NUMERIC", "INT PRIMARY KEY); INSERT INTO mixed VALUES ('abc'), (NULL), (1.5"]
        }
        _ => ["DECIMAL(20)", "SMALLINT PRIMARY KEY"],
    };
    database.execute(&format!(
        "CREATE TABLE mixed (id {mixed});
         CREATE TABLE numbers (id {decimal} NOT NULL PRIMARY KEY);
         CREATE TABLE users (id CHAR(36) NOT NULL PRIMARY KEY);
         CREATE TABLE posts (id INTEGER NOT NULL PRIMARY KEY, user_id CHAR(36) NOT NULL, paid VARCHAR(36));
         CREATE TABLE items (order_id CHAR(36) NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (order_id, n));
         CREATE TABLE uids (uid VARCHAR(64) NOT NULL PRIMARY KEY);
         CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL PRIMARY KEY);
         CREATE TABLE _prisma_migrations (id VARCHAR(36) NOT NULL PRIMARY KEY);
         CREATE TABLE notes (author VARCHAR(255), line VARCHAR(36), unused CHAR(36));
         INSERT INTO notes VALUES ('{UUID}', '{UUID}', NULL), (NULL, 'x', NULL);
         CREATE TABLE currencies (currency_id CHAR(3) NOT NULL PRIMARY KEY);
         CREATE TABLE customers (stripe_id VARCHAR(40) NOT NULL PRIMARY KEY, old_id VARCHAR(40));
         INSERT INTO users VALUES ('{UUID}'); INSERT INTO posts VALUES (1, '{UUID}', NULL);
         INSERT INTO customers VALUES ('cus_NffrFeUfNV2Hib', NULL)"
    ))?;
    // Text may be in columns of other types, or in tables that are not read.
    let owner = match database.kind {
        Engine::Postgres => "CHAR(36)) PARTITION BY HASH (owner",
        Engine::Mysql | Engine::Mariadb => "BINARY(36)",
        Engine::Sqlite => "UUID",
    };
    database.execute(&format!("CREATE TABLE files (owner {owner})"))?;
    if database.kind != Engine::Postgres {
        database.execute(&format!("INSERT INTO files VALUES ('{UUID}')"))?;
    }
    if database.kind == Engine::Postgres {
        database.execute(
            "CREATE DOMAIN text_id AS CHAR(36); CREATE DOMAIN sub_id AS text_id; CREATE DOMAIN good_id AS UUID;
             CREATE TABLE shops (id sub_id PRIMARY KEY); CREATE TABLE bags (id good_id PRIMARY KEY)",
        )?;
    }
    let report = check(database)?;
    let unknown = [
        "customers.old_id",
        "files.owner",
        "items.order_id",
        "notes.author",
        "numbers.id",
        "posts.user_id",
    ];
    assert_eq!(places(&report.not_judged), unknown, "{report}");
    let domains = if database.kind == Engine::Postgres { &["shops.id"][..] } else { &[] };
    assert_eq!(
        places(&report.findings),
        [&["mixed.id"], domains, &["users.id"]].concat(),
        "{report}"
    );
    // One is the key of posts, and the others are the right domains.
    assert_eq!(report.right, 1 + domains.len());
    let joined = "SELECT CAST(count(*) AS CHAR(1)) FROM posts JOIN users ON users.id = user_id";
    let converted = |exclude: &[&str]| {
        let script = check_without(&database.url, exclude)?.to_string();
        run(database, Runner::Driver, &script)?;
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>((script, database.text(joined)))
    };
    let (script, rows) = converted(&[])?;
    assert!(script.contains("may refer to it"), "{script}");
    assert_eq!(rows?, "1", "{script}");
    // Excluding them declares that none of them refers to users.
    let exclude =
        ["customers", "files", "items", "notes", "numbers.id", "posts.user_id", "mixed", "shops"];
    let (script, rows) = converted(&exclude)?;
    assert!(rows.is_ok_and(|rows| rows == "0") || database.kind == Engine::Postgres, "{script}");
    assert!(check_without(&database.url, &exclude)?.is_good());
    Ok(Passed)
}

fn checks_maps(database: &Database) -> Verdict {
    let create = |sql: &str| database.execute(sql);
    let (uuid, prefix) = match database.kind {
        Engine::Postgres => ("UUID", ""),
        Engine::Mysql | Engine::Mariadb => ("BINARY(16)", "(8)"),
        Engine::Sqlite => ("BLOB", ""),
    };
    create(&format!(
        "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, public_id {uuid} NOT NULL);
         CREATE INDEX orders_public_id ON orders (public_id);
         CREATE TABLE one_ids (id BIGINT NOT NULL PRIMARY KEY, uuid {uuid} NOT NULL);
         CREATE INDEX one_ids_uuid ON one_ids (uuid);
         CREATE TABLE two_ids (id BIGINT NOT NULL PRIMARY KEY, uuid {uuid} NOT NULL, resource VARCHAR(63) NOT NULL);
         CREATE UNIQUE INDEX two_ids_uuid ON two_ids (uuid{prefix}, resource, id);
         CREATE TABLE six_ids (id BIGINT NOT NULL, uuid {uuid} NOT NULL);
         CREATE UNIQUE INDEX six_ids_uuid ON six_ids (uuid);
         CREATE TABLE opaque_id_sequences (name VARCHAR(63) NOT NULL, used INT NOT NULL)"
    ))?;
    if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        create("CREATE TABLE ONE_ids (id BIGINT PRIMARY KEY, uuid BINARY(16) NOT NULL UNIQUE)")?;
    }
    let mut expected = vec![
        "one_ids.uuid",
        "opaque_id_sequences.name",
        "opaque_id_sequences.used",
        "orders.public_id",
        "six_ids.id",
        "two_ids.uuid",
    ];
    if database.kind == Engine::Sqlite {
        expected.splice(0..0, ["one_ids.id"]);
        expected.insert(6, "two_ids.id");
    }
    let report = check(database)?;
    assert_eq!(places(&report.findings), expected, "{report}");
    create(
        "CREATE UNIQUE INDEX one ON one_ids (uuid); CREATE UNIQUE INDEX two ON two_ids (resource, uuid);
         CREATE UNIQUE INDEX six ON six_ids (id); DROP TABLE opaque_id_sequences",
    )?;
    create("CREATE UNIQUE INDEX three ON orders (public_id)")?;
    let report = check(database)?;
    assert!(report.findings.iter().all(|finding| finding.column == "id"), "{report}");
    let incomplete = match database.kind {
        Engine::Postgres => {
            "DROP INDEX one; ALTER TABLE one_ids ADD UNIQUE (uuid) DEFERRABLE; ALTER TABLE two_ids ADD hash BIGINT NOT NULL;
             CREATE INDEX hashed ON two_ids (hash) WHERE id > 9"
        }
        Engine::Sqlite => "DROP INDEX one; CREATE UNIQUE INDEX one ON one_ids (uuid) WHERE id > 9",
        Engine::Mysql | Engine::Mariadb => return Ok(Passed),
    };
    create(incomplete)?;
    let report = check(database)?;
    assert!(places(&report.findings).contains(&"one_ids.uuid".to_owned()), "{report}");
    let finds_hashed = places(&report.findings).contains(&"two_ids.uuid".to_owned());
    assert_eq!(finds_hashed, database.kind == Engine::Postgres, "{report}");
    Ok(Passed)
}

/// On MySQL and MariaDB, a role sees few triggers, constraints and rules.
fn sees_more_than_the_check(database: &Database) -> Verdict {
    if !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(NotApplicable);
    }
    let (reader, name) = (format!("reader_{}", database.name()), database.name());
    database
        .execute(&format!("CREATE USER {reader}@'%'; GRANT SELECT ON {name}.* TO {reader}@'%'"))?;
    let (_, server) = database.url.split_once('@').ok_or("a URL without a user")?;
    let as_reader = format!("mysql://{reader}@{server}");
    for obstacle in [
        "CREATE TRIGGER g BEFORE UPDATE ON users FOR EACH ROW SET NEW.n = 5",
        "ALTER TABLE users ADD CHECK (CHAR_LENGTH(id) > 20)",
        "CREATE TABLE pets (id BIGINT PRIMARY KEY, user_id CHAR(36),
             FOREIGN KEY (user_id) REFERENCES users (id) ON DELETE CASCADE)",
    ] {
        database.execute(&format!(
            "CREATE TABLE users (id CHAR(36) PRIMARY KEY, n INT); INSERT INTO users VALUES ('{UUID}', 1); {obstacle}"
        ))?;
        let script = check_without(&as_reader, &[])?.to_string();
        let printed = run(database, Runner::Client { stops: false }, &script)?;
        let rule = "SELECT CAST(COALESCE(MAX(delete_rule), 'CASCADE') AS CHAR)
            FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE()";
        assert_eq!(database.text(rule)?, "CASCADE", "{script}");
        assert_eq!(database.text("SELECT CAST(n AS CHAR) FROM users")?, "1", "{script}");
        let is_text = database.text("SELECT CAST(id AS CHAR) FROM users");
        let sees_rules = obstacle.contains("CASCADE") && printed.contains("done");
        assert!(sees_rules || is_text.is_ok_and(|id| id == UUID), "{script}{printed}");
        database.execute(
            "DROP TABLE IF EXISTS pets, users, pets_before_opaque_id, users_before_opaque_id",
        )?;
    }
    database.execute(&format!("DROP USER {reader}@'%'"))?;
    Ok(Passed)
}

/// Objects by which a role could attack a superuser who checks or converts its database.
fn runs_no_code_of_others(database: &Database) -> Verdict {
    if database.kind != Engine::Postgres {
        return Ok(NotApplicable);
    }
    let app = format!("app_{}", database.name());
    let hit = |name: &str, ty: &str, to: &str, result: &str| {
        format!(
            "CREATE FUNCTION evil.{name}({ty}) RETURNS {to} LANGUAGE plpgsql IMMUTABLE AS
             $$ BEGIN PERFORM evil.hit(); RETURN {result}; END $$;"
        )
    };
    let operator = |ty: &str| {
        let operator = "CREATE OPERATOR evil.= (FUNCTION = evil.equal, LEFTARG";
        hit("equal", &format!("{ty}, {ty}"), "boolean", "false")
            + &format!("{operator} = {ty}, RIGHTARG = {ty});")
    };
    let functions = hit("take", "text", "text", "$1")
        + &hit("of_citext", "evil.citext", "text", "$1.v")
        + &hit("cardinality", "int2[]", "integer", "1")
        + &hit("current_schema", "", "name", "'evil'")
        + &["name", "oid", "text", "\"char\"", "int2"].map(operator).concat();
    database.execute(&format!(
        "CREATE ROLE {app}; ALTER DATABASE {0} OWNER TO {app}; SET ROLE {app};
         CREATE SCHEMA evil; CREATE TYPE evil.citext AS (v text);
         CREATE FUNCTION evil.hit() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             IF current_user <> '{app}' THEN EXECUTE 'ALTER ROLE {app} SUPERUSER'; END IF; END $$;
         {functions}
         CREATE CAST (evil.citext AS text) WITH FUNCTION evil.of_citext(evil.citext);
         CREATE TABLE evil.pets (id evil.citext PRIMARY KEY);
         CREATE TABLE evil.users (id CHAR(36) PRIMARY KEY, name TEXT CHECK (evil.take(name) <> ''));
         CREATE INDEX users_name ON evil.users (name) WHERE evil.take('x') <> '';
         INSERT INTO evil.pets VALUES (ROW('{UUID}')); INSERT INTO evil.users VALUES ('{UUID}', 'x');
         ALTER DATABASE {0} SET search_path = evil, pg_catalog; RESET ROLE;
         CREATE TABLE public.ours (id SMALLINT PRIMARY KEY); GRANT REFERENCES ON public.ours TO {app}",
        database.name()
    ))?;
    let public = format!("{}&options[search_path]=public", database.url);
    // The role could drop the table or rename its schema, and create its own in its place.
    let report = check_without(&public, &[])?;
    assert!(!report.findings.is_empty() && report.script.is_empty(), "{report}");
    let owner =
        |role: &str| format!("SET search_path = pg_catalog; ALTER SCHEMA public OWNER TO {role}");
    database.execute(&owner("CURRENT_USER"))?;
    let ours = check_without(&public, &[])?.to_string();
    database.execute(&owner(&app))?;
    let printed = run(database, Runner::Driver, &ours)?;
    assert!(printed.contains("run this as the owner of the tables, of their schema"), "{printed}");
    database.execute(&owner("CURRENT_USER"))?;
    database.execute(&format!(
        "SET search_path = pg_catalog; SET ROLE {app};
         CREATE TABLE evil.t (x SMALLINT REFERENCES public.ours);
         CREATE INDEX t_x ON evil.t (x) WHERE evil.take('x') <> ''"
    ))?;
    assert!(check_without(&public, &[])?.script.is_empty());
    let is_super = format!(
        "SELECT CAST(rolsuper AS text) FROM pg_catalog.pg_roles
        WHERE rolname OPERATOR(pg_catalog.=) '{app}'"
    );
    let report = check(database)?;
    on_a_thread(async || {
        opaque_id_schema::key_columns(&database.url).await?;
        Ok(opaque_id_schema::uuid_columns(&database.url).await?)
    })?;
    assert_eq!(database.text(&is_super)?, "false", "the check ran it");
    let last = report.findings.last();
    let why = last.and_then(|finding| finding.left_alone.as_deref()).unwrap_or_default();
    assert!(why.contains(&app), "{report}");
    assert!(report.script.is_empty(), "{report}");

    // The script that the owner gets is for the owner.
    let as_app = format!("{}&options[role]={app}", database.url);
    let script = check_without(&as_app, &[])?.to_string();
    for (runner, script) in RUNNERS.into_iter().flat_map(|it| [(it, &script), (it, &ours)]) {
        let printed = run(database, runner, script)?;
        assert_eq!(database.text(&is_super)?, "false", "the script ran it");
        assert!(printed.contains("run this as the owner of the tables"), "{printed}");
    }
    let printed =
        run(database, Runner::Driver, &format!("BEGIN ISOLATION LEVEL REPEATABLE READ; {ours}"))?;
    assert!(printed.contains("READ COMMITTED"), "{printed}");
    run(database, Runner::Driver, &format!("SET ROLE {app}; {script}"))?;
    assert_eq!(database.text("SELECT CAST(id AS text) FROM evil.users")?, UUID, "{script}");
    let ty = "SELECT CAST(pg_catalog.pg_typeof(id) AS text) FROM evil.users";
    assert_eq!(database.text(ty)?, "uuid", "{script}");
    let hides = "SELECT CAST(relrowsecurity AS text) FROM pg_catalog.pg_class WHERE oid OPERATOR(pg_catalog.=)
        CAST('evil.users_before_opaque_id' AS pg_catalog.regclass)";
    assert_eq!(database.text(hides)?, "true", "{script}");
    let reset = "SET search_path = pg_catalog; SET ROLE NONE; ALTER DATABASE";
    database.execute(&format!(
        "{reset} {} OWNER TO CURRENT_USER; DROP OWNED BY {app} CASCADE; DROP ROLE {app}",
        database.name()
    ))?;
    Ok(Passed)
}
