//! `opaque-id check-schema` and `sql`.

use std::fs;
use std::process::Output;

use crate::{
    Folder, SECRET, entry, good, ok, opaque_id, output, parse, refuses, run, sqlite, stderr, stdout,
};

fn check_schema(url: &str) -> Output {
    run("", &format!("check-schema --database-url {url}"))
}

#[test]
fn check_schema_prints_sql() {
    let (_folder, url) = sqlite("CREATE TABLE users (id CHAR(36) NOT NULL PRIMARY KEY, name TEXT)");
    let output = check_schema(&url);
    assert_eq!(output.status.code(), Some(1));
    let script = stdout(&output);
    let first = "-- Stop the application, back up, and run this with `sqlite3 -bail FILE`.";
    assert!(script.starts_with(first), "{script}");
    for line in [
        "\n-- users.id is CHAR(36): text ",
        "\n; BEGIN IMMEDIATE\n",
        "\n; CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, name TEXT)\n",
        "\n; COMMIT\n",
        "\n-- DROP TABLE \"users_before_opaque_id\";\n",
    ] {
        assert!(script.contains(line), "{line}: {script}");
    }
    assert!(script.ends_with("\n-- key columns: 0 right, 1 wrong, 0 not judged\n"));

    let report = run("", &format!("check-schema --json --database-url {url}"));
    let report = parse(stdout(&report));
    assert_eq!(report["right"], 0);
    assert_eq!(report["findings"][0]["column"], "id");
    assert_eq!(report["findings"][0]["unconvertible"], 0);
}

/// A pipe gets a name with colors and line ends.
#[test]
fn check_schema_keeps_or_escapes_names() {
    let (_folder, url) = sqlite(
        "CREATE TABLE \"a\u{1b}[31m\nDROP TABLE victim; --\" (id CHAR(36) NOT NULL PRIMARY KEY);
         CREATE TABLE \"d(e [x]\" (\"b id\" CHAR(36) NOT NULL PRIMARY KEY)",
    );
    let output = check_schema(&url);
    let script = stdout(&output);
    for name in [
        "-- a\\u{1b}[31m\\nDROP TABLE victim; --.id is CHAR(36)",
        "\n; ALTER TABLE \"d(e [x]\" RENAME TO",
    ] {
        assert!(script.contains(name), "{script}");
    }
    assert!(!script.contains("\nDROP TABLE victim") && !script.starts_with("DROP TABLE victim"));
    assert!(script.chars().all(|c| c == '\n' || !c.is_control()));
}

#[test]
fn check_schema_counts_wrong_rows_of_sqlite() {
    let (_folder, url) = sqlite(
        "CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY);
         INSERT INTO users VALUES (zeroblob(15)), (zeroblob(16)), (zeroblob(17)), ('0123456789abcdef')",
    );
    let output = check_schema(&url);
    assert_eq!(output.status.code(), Some(1));
    let found = "something other than 16 bytes: 3;";
    assert!(stdout(&output).contains(found), "{}", stdout(&output));
}

#[test]
fn check_schema_finds_nothing_wrong() {
    let (folder, url) = sqlite(
        "CREATE TABLE users (id BLOB NOT NULL PRIMARY KEY, stripe_id TEXT); CREATE TABLE days (day DATE PRIMARY KEY)",
    );
    // diesel names a database by its path.
    let path = folder.path("50%25?.db");
    fs::copy(folder.path("shop.db"), &path).expect("copied");
    let check_at = |url: &str, args: &str| {
        output(opaque_id("", &format!("check-schema {args}")).env("DATABASE_URL", url))
    };
    let check = |args: &str| check_at(&url, args);
    let right = "-- key columns: 1 right, 0 wrong, 0 not judged";
    for url in [&url, &path] {
        assert_eq!(good(&check_at(url, "--exclude days,users.stripe_id")), right);
    }
    refuses(&check("--exclude days"), 1, "");
    let nothing = check("--exclude days,users");
    assert_eq!(
        (nothing.status.code(), stdout(&nothing)),
        (Some(1), "-- no key columns were found\n")
    );
}

#[test]
fn check_schema_reports_why_it_cannot_read() {
    let check = |url| {
        let output = check_schema(url);
        assert_eq!(output.status.code(), Some(2), "{url}");
        stderr(&output).to_owned()
    };
    let error = check("oracle://x");
    assert!(error.contains("the URL must start with"), "{error}");
    let error = check("sqlite:///nowhere/at/all.db");
    assert!(error.contains("cannot read the schema: "), "{error}");
    let cause = "unable to open database file";
    assert_eq!(error.matches(cause).count(), 1, "{error}");
}

/// There is one file per dialect, with each command after `-- $ opaque-id` and then its output.
#[test]
fn sql_of_the_tables() {
    for (dialect, snapshot) in [
        ("postgres", include_str!("sql/postgres.sql")),
        ("mysql", include_str!("sql/mysql.sql")),
        ("mariadb", include_str!("sql/mysql.sql")),
        ("sqlite", include_str!("sql/sqlite.sql")),
    ] {
        let mut printed = String::new();
        for args in [
            "sql mapping --table order_ids",
            "sql mapping --table shop.order_ids --shared",
            "sql mapping --table order_ids --index hashed",
            "sql mapping --table order_ids --plan hashed --shared",
            "sql sequences",
            "sql packs --table events",
            "sql packs --table shop.events --key i64",
        ] {
            let sql = ok("", &format!("{args} --dialect {dialect}"));
            printed += &format!("-- $ opaque-id {args}\n{sql}\n");
        }
        assert_eq!(printed, snapshot, "{dialect}");
    }
}

#[test]
fn sql_of_engines_is_what_they_accept() {
    for (args, expected) in [
        (
            "sql mapping --engine cockroach",
            "id INT8 NOT NULL DEFAULT unordered_unique_rowid() PRIMARY KEY,",
        ),
        ("sql mapping --engine yugabyte", "IDENTITY (CACHE 1000) PRIMARY KEY,"),
        ("sql mapping --engine dsql", "IDENTITY (CACHE 65536) PRIMARY KEY,"),
        ("sql mapping --engine dsql", "CREATE UNIQUE INDEX ASYNC external_ids_uuid"),
        ("sql mapping --engine tidb", "id BIGINT NOT NULL AUTO_RANDOM PRIMARY KEY,"),
        ("sql sequences --engine dsql", "CREATE TABLE IF NOT EXISTS opaque_id_sequences"),
        ("sql packs --table events --engine yugabyte", "PRIMARY KEY (id ASC)\n);"),
    ] {
        let sql = ok("", args);
        assert!(sql.contains(expected), "{args}: {sql}");
    }
    let packs = ok("", "sql packs --table events --engine cockroach");
    assert!(!packs.contains("STORAGE") && !packs.contains("toast"), "{packs}");
    for (args, expected) in [
        ("sql mapping --engine spanner", "use sealed ids"),
        ("sql mapping --engine tidb --index hashed", "use --index unique"),
        ("sql packs --table events --engine tidb", "use encrypted columns"),
    ] {
        refuses(&run("", args), 2, expected);
    }
    refuses(&run("", "sql mapping"), 2, "--engine");
}

#[test]
fn sql_takes_no_names_that_need_quotes() {
    let output = output(opaque_id("", "sql mapping --dialect sqlite --table").arg("ids; --"));
    refuses(&output, 2, "invalid table name \"ids; --\"");
    assert_eq!(stdout(&output), "");
}

#[test]
fn sql_functions_of_resources() {
    let long = "a".repeat(56);
    let toml = format!(
        "[resource.user]\n[resource.cart]\nkey = \"i64\"\nform = \"uuid\"\n[resource.map]\nkey = \"i64\"\n\
         form = \"mapped\"\n[resource.both]\nkey = \"i64\"\nform = \"tagged\"\n[resource.{long}]\n"
    );
    let folder = Folder::new(&[("opaque-id.toml", &toml)]);
    let functions = |entries: &str, dialect: &str, args: &str| {
        let line = format!("sql functions --dialect {dialect} {args}");
        output(&mut folder.command(entries, line.trim_end()))
    };
    for dialect in ["postgres", "mysql", "mariadb"] {
        for options in ["", "--rotate"] {
            let script = functions(&entry(), dialect, &format!("user cart {options}"));
            let script = stdout(&script);
            assert!(script.contains("subkeys_user") && script.contains("subkeys_cart"));
            assert!(!script.contains("map") && !script.contains(&SECRET[..16]), "{script}");
            assert_eq!(script.contains("\nCREATE "), options.is_empty());
        }
        let drop = functions("", dialect, "--drop");
        assert!(stdout(&drop).contains("subkeys_cart"), "{}", stderr(&drop));
        assert!(!stdout(&drop).contains("map"));
        for (args, error) in [
            ("nobody", "has no resource `nobody`"),
            ("user user", "named twice"),
            ("map", "`map`: the resource is mapped"),
            ("both", "`both`: integers have no tagged form"),
            (&*long, "at most 55 characters"),
            ("user --schema a;b", "invalid schema name \"a;b\""),
            ("user --prefix user", "cannot be used with"),
            ("--rotate --drop", "cannot be used with"),
            ("--prefix User --key ulid", "invalid prefix"),
        ] {
            let refused = functions(&entry(), dialect, args);
            refuses(&refused, 2, error);
            assert_eq!(stdout(&refused), "");
        }
    }
    folder.write("opaque-id.toml", "");
    let refused = functions(&entry(), "postgres", "");
    refuses(&refused, 2, "has no resource whose ids are sealed");
}
