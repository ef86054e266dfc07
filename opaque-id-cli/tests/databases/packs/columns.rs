//! Encrypted columns, and the secrets that they need.

use std::process::Command;

use opaque_id_core::Keyring;
use opaque_id_core::resource::InternalId;
use opaque_id_packs::sqlx::{EncryptedColumn, PackTable};
use opaque_id_packs::{Normalizer, Raw, Settings, TableName, Text};
use opaque_id_sqlx::{Dialect, Internal};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::message;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::sql::on_a_thread;
use opaque_id_tests::trials::Case;
use serde_json::Value;
use sqlx::postgres::PgPool;
use sqlx::query;

use super::{
    Event, Packs, Reading, create_events, events, key_type, old_table, quotation_mark,
    refuses_uuids, resources, rows,
};
use crate::functions::attacks::drop_role;
use crate::functions::cases::{BOTH, NEW, OLD};
use crate::functions::{contains, ends_with, expect, run, starts_with};

pub(super) const CASES: &[Case] = cases![
    columns_on_a_replica,
    columns_from_day_to_day,
    columns_of_integers,
    columns_that_had_plaintext,
    columns_that_an_old_release_writes,
    columns_that_a_table_refuses,
    secrets_that_are_in_use,
    columns_of_rows_without_an_id,
];

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
    table.refuses("sweep", "(for columns, `--column`)")?;
    table.refuses("create", "pass --column for an encrypted column")?;

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
    let rest = "299 values could be read; 1 problem\n";
    ends_with(&stdout, rest)?;

    // A sweep of packs beside the column's settings leaves its dictionaries.
    as_application!(database, NEW, |pool, keyring| {
        let notes = EncryptedColumn::<Event, Value>::open_existing(&pool, &keyring, "logins_notes");
        notes.await?.train(&pool, rows.iter().map(|(_, value)| value), 2_048).await?;
    })?;
    let packs = PackTable::<Event, Value>::create_sql(dialect(database.kind), "logins_notes");
    database.execute(&packs.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS"))?;
    table.under(NEW).fails("sweep --unused-for 0")?;
    ends_with(&notes.under(NEW).fails("verify")?.0, rest)
}

/// A replica does not have the last dictionary yet, or a failover has lost it.
fn columns_on_a_replica(database: &Database) -> Result {
    if database.kind != Engine::Postgres {
        return Ok(());
    }
    let meta = EncryptedColumn::<Event, Value>::create_sql(Dialect::Postgres, "logins_notes");
    database.execute(&meta)?;
    on_a_thread(async || {
        let keyring = Keyring::from_entries("the test", OLD)?;
        let pool = PgPool::connect(&database.url).await?;
        let settings = Settings::default();
        let notes =
            EncryptedColumn::<Event, Value>::open(&pool, &keyring, "logins_notes", settings)
                .await?;
        database.execute("CREATE TABLE before AS SELECT * FROM logins_notes_meta")?;
        let rows = rows(300);
        notes.train(&pool, rows.iter().map(|(_, value)| value), 2_048).await?;
        notes.encrypt(rows[0].0, &rows[0].1)?;
        database.execute("DELETE FROM logins_notes_meta")?;
        database.execute("INSERT INTO logins_notes_meta SELECT * FROM before")?;
        let mut replica = pool.acquire().await?;
        query("SET default_transaction_read_only = on").execute(&mut *replica).await?;
        let older = notes.refresh(&mut *replica).await.map_err(|error| message(&error));
        contains(&older.err().unwrap_or_default(), "the settings (id 0) of logins_notes_meta")?;
        Ok(())
    })
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
    // The earlier rows of a versioned table need secrets too. Subkeys of SQL functions need none.
    let history = database.kind == Engine::Mariadb;
    match database.kind {
        Engine::Mariadb => database.execute(&format!(
            "CREATE TABLE history (body {other}) WITH SYSTEM VERSIONING; \
             INSERT INTO history SELECT body FROM customers_email_meta; DELETE FROM history"
        ))?,
        Engine::Postgres => database.execute(&format!(
            "CREATE TABLE subkeys_cart (key_id int, seals bool, block bytea, mac bytea, feistel bytea, tag bytea, short bytea); \
             INSERT INTO subkeys_cart (block, feistel) VALUES ({photos}, {photos})"
        ))?,
        _ => {}
    }
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
    for other in ["Photos", "visits_packs", "email_index", "subkeys"] {
        expect(&printed, printed.contains(other), false)?;
    }
    expect(&printed, printed.contains("history.body (1)"), history)?;
    if history {
        database.execute("DROP TABLE history")?;
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
        let (user, role) = (format!("{name}@'%'"), format!("{name}_r"));
        let to = if database.kind == Engine::Mysql { "TO" } else { "FOR" };
        for grantee in [&user, &role] {
            database.execute(&format!("CREATE USER {user}"))?;
            if grantee == &role {
                database.execute(&format!(
                    "CREATE ROLE {role}; GRANT {role} TO {user}; SET DEFAULT ROLE {role} {to} {user}"
                ))?;
            }
            for (on, is_good) in [("old_keys", false), ("*", true)] {
                database.execute(&format!("GRANT SELECT ON {name}.{on} TO {grantee}"))?;
                let (found, _, stderr) = run(&mut command, "")?;
                expect(on, found, is_good)?;
                let refused = stderr.contains("a user with SELECT on the whole database");
                expect(&stderr, refused, !is_good)?;
            }
            database.execute(&format!("DROP USER {user}"))?;
        }
        database.execute(&format!("DROP ROLE {role}"))?;
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
