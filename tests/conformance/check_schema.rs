//! `opaque-id check-schema`: what it finds on each database, and that what it prints mends it.

use opaque_id_sqlx::UuidMap;

use crate::database::Database;
use crate::mapping::dialect;
use crate::report::Outcome::{self, Passed};
use crate::servers::Kind;
use crate::sqlx::Invoice;
use crate::{Case, Result};

pub(crate) fn suites() -> Vec<Case> {
    Kind::ALL
        .into_iter()
        .flat_map(|kind| {
            let case = |name, run| Case {
                adapter: "check-schema",
                kind,
                name,
                run,
            };
            [
                case("right_key_columns_are_left_alone", leaves_alone as _),
                case(
                    "wrong_key_columns_are_found_and_mended",
                    finds_and_mends as _,
                ),
            ]
        })
        .collect()
}

fn check(database: &Database) -> Result<opaque_id_cli::Report> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(async { Ok(opaque_id_cli::check(&database.url).await?) })
}

fn leaves_alone(database: &Database) -> Result<Outcome> {
    database.execute(match database.kind {
        Kind::Postgres => include_str!("schema/postgres.sql"),
        Kind::Sqlite => include_str!("schema/sqlite.sql"),
        Kind::Mysql | Kind::Mariadb => include_str!("schema/mysql.sql"),
    })?;
    database.execute("CREATE TABLE countries (code CHAR(2) NOT NULL PRIMARY KEY)")?;
    for map in [
        UuidMap::<Invoice>::unique("invoice_ids"),
        UuidMap::hashed("more_invoice_ids").shared(),
    ] {
        database.execute(&map.create_sql(dialect(database.kind)))?;
    }
    let report = check(database)?;
    assert_eq!(report.to_string(), "");
    // Of countries, legacy, stored_keys, teams, users, and the reference of users; of each map, and of
    // MySQL's slots.
    let maps = match database.kind {
        Kind::Postgres | Kind::Sqlite => 2,
        Kind::Mysql | Kind::Mariadb => 3,
    };
    assert_eq!(report.checked, 6 + maps);
    Ok(Passed)
}

/// One key, in what people store keys in.
const UUID: &str = "0192c1f0-7b1e-7a35-8f00-0000000000c1";
const HEX: &str = "0192c1f07b1e7a358f000000000000c1";

fn finds_and_mends(database: &Database) -> Result<Outcome> {
    let (schema, wanted): (String, &[(&str, &str)]) = match database.kind {
        Kind::Postgres => (
            format!(
                "CREATE TABLE teams (id SERIAL PRIMARY KEY);
                 CREATE TABLE users (id CHAR(36) PRIMARY KEY, team_id INT REFERENCES teams (id) ON DELETE CASCADE);
                 CREATE TABLE pets (id BYTEA PRIMARY KEY, user_id VARCHAR(36) REFERENCES users (id));
                 CREATE TABLE cars (id BIGINT PRIMARY KEY, team_id INT REFERENCES teams (id));
                 INSERT INTO teams VALUES (DEFAULT);
                 INSERT INTO users VALUES ('{UUID}', 1);
                 INSERT INTO pets VALUES ('\\x{HEX}', '{UUID}');
                 INSERT INTO cars VALUES (1, 1)"
            ),
            &[
                ("cars.team_id", "`bigint`"),
                ("pets.id", "16 bytes"),
                ("pets.user_id", "text"),
                ("teams.id", "`bigint`"),
                ("users.id", "text"),
                ("users.team_id", "`bigint`"),
            ],
        ),
        Kind::Mysql | Kind::Mariadb => {
            let theirs = match database.kind {
                Kind::Mariadb => "UUID",
                _ => "VARBINARY(17)",
            };
            let value = match database.kind {
                Kind::Mariadb => format!("'{UUID}'"),
                _ => format!("X'{HEX}'"),
            };
            (
                format!(
                    "CREATE TABLE teams (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY);
                     CREATE TABLE users (id CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY,
                         team_id INT UNSIGNED, FOREIGN KEY (team_id) REFERENCES teams (id) ON DELETE CASCADE);
                     CREATE TABLE pets (id {theirs} NOT NULL PRIMARY KEY,
                         user_id CHAR(36) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci,
                         FOREIGN KEY (user_id) REFERENCES users (id));
                     CREATE TABLE cars (id BIGINT NOT NULL PRIMARY KEY,
                         team_id INT UNSIGNED, FOREIGN KEY (team_id) REFERENCES teams (id));
                     INSERT INTO teams VALUES (1);
                     INSERT INTO users VALUES ('{UUID}', 1);
                     INSERT INTO pets VALUES ({value}, '{UUID}');
                     INSERT INTO cars VALUES (1, 1)"
                ),
                &[
                    ("cars.team_id", "`BIGINT`"),
                    ("pets.id", "`BINARY(16)`"),
                    ("pets.user_id", "blind to case"),
                    ("teams.id", "`BIGINT`"),
                    ("users.id", "blind to case"),
                    ("users.team_id", "`BIGINT`"),
                ],
            )
        }
        Kind::Sqlite => (
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
                ("cars.id", "takes NULL"),
                ("pets.id", "numeric"),
                ("pets.user_id", "text"),
                ("users.id", "text"),
                ("users.team_id", "another type"),
            ],
        ),
    };
    database.execute(&schema)?;

    let report = check(database)?;
    let found: Vec<String> = report
        .findings
        .iter()
        .map(|finding| format!("{}.{}", finding.table, finding.column))
        .collect();
    let places: Vec<&str> = wanted.iter().map(|(place, _)| *place).collect();
    assert_eq!(found, places, "{report}");
    for (finding, (place, fault)) in report.findings.iter().zip(wanted) {
        assert!(finding.fault.contains(fault), "{place}: {}", finding.fault);
    }

    database.execute(&report.to_string())?;
    assert_eq!(check(database)?.to_string(), "");
    let hex = match database.kind {
        Kind::Postgres => "encode(uuid_send(users.id), 'hex')",
        _ => "lower(hex(users.id))",
    };
    let joined = format!(
        "SELECT {hex} FROM users JOIN teams ON teams.id = team_id JOIN pets ON user_id = users.id
         WHERE pets.id = users.id"
    );
    assert_eq!(database.text(&joined)?, HEX);
    Ok(Passed)
}
