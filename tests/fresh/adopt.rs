//! An application for each adapter on existing tables with `serial`, `INT UNSIGNED` and `CHAR(36)` keys and
//! rows.

use std::fmt::Write as _;
use std::process::Command;

use opaque_id_core::key::Uuid;
use opaque_id_core::{External, Internal, Keyring, OpaqueId};
use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::servers;

use crate::{Fresh, dependencies};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "user", key = Uuid)]
struct User;

/// The ids stay the same when the column becomes wider, so this test reads them as `i64`.
#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

const ADA: Uuid = Uuid::from_u128(0x6d17_9ed1_fd65_480b_a475_7798_3c28_dd10);
const GRACE: Uuid = Uuid::from_u128(0x0a1b_2c3d_4e5f_4a6b_8c7d_9e0f_1a2b_3c4d);

/// Returns the tables that another framework has created.
fn tables(kind: Engine) -> String {
    let (team, reference) = match kind {
        Engine::Postgres => ("id SERIAL PRIMARY KEY", "INT"),
        _ => ("id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY", "INT UNSIGNED"),
    };
    format!(
        "CREATE TABLE teams ({team}, name VARCHAR(255) NOT NULL);
         CREATE TABLE users (id CHAR(36) NOT NULL PRIMARY KEY, team_id {reference}, name VARCHAR(255) NOT NULL,
             FOREIGN KEY (team_id) REFERENCES teams (id));
         INSERT INTO teams (name) VALUES ('Analysts'), ('Admirals');
         INSERT INTO users VALUES ('{ADA}', 1, 'Ada'), ('{GRACE}', 2, 'Grace')"
    )
}

/// The template of an adapter for PostgreSQL, and its replacements for another database.
struct Adapter {
    name: &'static str,
    source: &'static str,
    mysql: &'static [(&'static str, &'static str)],
}

const ADAPTERS: [Adapter; 3] = [
    Adapter {
        name: "sqlx",
        source: include_str!("apps/sqlx.rs"),
        mysql: &[
            ("key = i32", "key = u32"),
            ("PgPool", "MySqlPool"),
            ("$1", "?"),
            ("$2", "?"),
            ("$3", "?"),
        ],
    },
    Adapter {
        name: "diesel",
        source: include_str!("apps/diesel.rs"),
        mysql: &[("key = i32", "key = u32"), ("PgConnection", "MysqlConnection")],
    },
    Adapter {
        name: "seaorm",
        source: include_str!("apps/seaorm.rs"),
        mysql: &[("key = i32", "key = u32")],
    },
];

pub(crate) fn applications_adopt_tables_with_rows() -> Result {
    let mut fresh = Fresh::new("apps")?;
    let mut packages = Vec::new();
    for Adapter { name, source, mysql } in ADAPTERS {
        let dependencies = dependencies(&format!("opaque-id-{name}/README.md"))?
            .replace("\"sqlite\"", "\"mysql\", \"postgres\"")
            .replace("\"sqlx-sqlite\"", "\"sqlx-mysql\", \"sqlx-postgres\"");
        let for_mysql =
            mysql.iter().fold(source.to_owned(), |source, (from, to)| source.replace(from, to));
        for (database, source) in [("postgres", source.to_owned()), ("mysql", for_mysql)] {
            let package = format!("{name}-on-{database}");
            fresh.add(&package, &dependencies, &source)?;
            packages.push(package);
        }
    }
    // All packages are built at once, so that each ORM is built once.
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    fresh.cargo("build", &packages)?;

    let servers = servers::start(&[Engine::Postgres, Engine::Mysql])?;
    for (kind, server) in &servers {
        for Adapter { name, .. } in ADAPTERS {
            let database = Database::create(*kind, server)?;
            let package = format!("{name}-on-{}", kind.name());
            adopt(&database, || fresh.binary(&package))
                .map_err(|error| format!("{package}: {error}"))?;
        }
    }
    Ok(())
}

fn adopt(database: &Database, binary: impl Fn() -> Command) -> Result {
    database.execute(&tables(database.kind))?;
    let report =
        tokio::runtime::Runtime::new()?.block_on(opaque_id_schema::check(&database.url, &[]))?;
    // Only the text among the keys is wrong.
    let found: Vec<&str> = report.findings.iter().map(|finding| finding.table.as_str()).collect();
    assert_eq!(found, ["users"], "{report}");
    database.execute(&report.to_string())?;

    let secret: String = (0..32).map(|byte| format!("{byte:02x}")).collect();
    let entry = format!("0:{secret}");
    let keyring = Keyring::from_entries("the test's", &entry)?;
    let run = |args: &[&str]| -> Result<String> {
        let output =
            binary().arg(&database.url).args(args).env("OPAQUE_ID_KEYS", &entry).output()?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout)?),
            false => Err(String::from_utf8_lossy(&output.stderr).into()),
        }
    };
    let user = |key: Uuid| -> Result<External<User>> {
        Ok(keyring.seal(Internal::<User>::from_key(key)?))
    };
    let team =
        |key: i64| -> Result<External<Team>> { Ok(keyring.seal(Internal::<Team>::from_key(key)?)) };

    let mut old = String::new();
    writeln!(old, "{} {} Ada", user(ADA)?, team(1)?)?;
    writeln!(old, "{} {} Grace", user(GRACE)?, team(2)?)?;
    assert_eq!(run(&["list"])?, old, "the old rows");
    let (ada, admirals) = (user(ADA)?.to_string(), team(2)?.to_string());
    assert_eq!(run(&["move", &ada, &admirals])?, "");
    let new: External<User> = run(&["add", &admirals, "Mary"])?.trim().parse()?;
    let key = keyring.open(new)?.expose_key();
    let select = match database.kind {
        Engine::Postgres => "SELECT id::text FROM users WHERE name = 'Mary' AND team_id = 2",
        _ => "SELECT LOWER(HEX(id)) FROM users WHERE name = 'Mary' AND team_id = 2",
    };
    assert_eq!(database.text(select)?.replace('-', ""), key.simple().to_string());
    let members = "SELECT CAST(COUNT(*) AS CHAR(9)) FROM users WHERE team_id = 2";
    assert_eq!(database.text(members)?.trim(), "3");
    // The database creates a team's key.
    let team: External<Team> = run(&["add-team", "Engineers"])?.trim().parse()?;
    assert_eq!(keyring.open(team)?.expose_key(), 3);
    assert!(run(&["move", &ada, &ada]).is_err(), "a user is not a team");
    Ok(())
}
