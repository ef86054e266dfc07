//! Attacks by sessions and roles.

use opaque_id_tests::Result;
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;

use super::cases::{NEW, OLD};
use super::{Functions, contains, error, expect, on_each_kind, rows, run, value};
use opaque_id_tests::trials::Case;

pub(crate) const ALL: &[Case] = cases![
    sessions_change_nothing,
    another_block_mode_is_an_error,
    the_script_runs_in_any_session,
    who_may_only_execute_reads_no_subkey,
    grants_of_tables_show_no_subkey,
    nobody_may_execute_by_default,
    a_view_shows_external_ids_only,
];

/// Returns settings that change the meaning of SQL, or its plan.
fn sessions(kind: Engine) -> Vec<&'static str> {
    match kind {
        Engine::Postgres => vec![
            "SET standard_conforming_strings = off; SET escape_string_warning = off; SET backslash_quote = on",
            "SET bytea_output = escape; SET transform_null_equals = on; SET quote_all_identifiers = on",
            "SET plan_cache_mode = force_generic_plan; SET jit_above_cost = 0",
            "SET plan_cache_mode = force_custom_plan; SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
             SET min_parallel_table_scan_size = 0; SET max_parallel_workers_per_gather = 4",
            "SET row_security = off; SET default_transaction_read_only = on",
            "SET client_encoding = 'SJIS'",
            "SET search_path = ''",
            "SET plpgsql.extra_errors = 'all'; SET check_function_bodies = off; SET xmloption = document",
            // A role may create such objects by itself.
            "CREATE SCHEMA IF NOT EXISTS evil; SET search_path = evil, pg_catalog;
             CREATE OR REPLACE FUNCTION evil.encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT ''evil''::text';
             CREATE OR REPLACE FUNCTION evil.encrypt(bytea, bytea, text) RETURNS bytea LANGUAGE sql AS 'SELECT $1';
             CREATE OR REPLACE FUNCTION evil.translate(text, text, text) RETURNS text LANGUAGE sql AS 'SELECT $1';
             CREATE OR REPLACE FUNCTION pg_temp.encode(bytea, text) RETURNS text LANGUAGE sql AS 'SELECT ''evil''::text';
             DROP TABLE IF EXISTS pg_temp.pg_class; CREATE TEMPORARY TABLE pg_class (relname text)",
        ],
        Engine::Mysql => [SESSIONS, &["SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL'"]].concat(),
        _ => [
            SESSIONS,
            &["SET sql_mode = 'ORACLE'", "SET sql_mode = 'EMPTY_STRING_IS_NULL'"],
        ]
        .concat(),
    }
}

const SESSIONS: &[&str] = &[
    "SET sql_mode = ''",
    "SET sql_mode = 'ANSI,TRADITIONAL,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE,NO_UNSIGNED_SUBTRACTION'",
    "SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH,REAL_AS_FLOAT,IGNORE_SPACE,ONLY_FULL_GROUP_BY'",
    "SET NAMES utf8mb4 COLLATE utf8mb4_turkish_ci",
    "SET NAMES latin1 COLLATE latin1_german2_ci",
    "SET collation_connection = ucs2_turkish_ci",
    "SET optimizer_switch = 'derived_merge=off'",
    "SET autocommit = 0, sql_select_limit = 1, sql_safe_updates = 1, sql_buffer_result = 1, big_tables = 1",
    "SET group_concat_max_len = 4, div_precision_increment = 0, time_zone = '+05:00', lc_messages = 'de_DE'",
    "SET SESSION TRANSACTION READ ONLY",
    "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
];

const KEYS: [&str; 2] = ["0192c1f0-7b1e-7a35-8f00-000000000001", "42"];

/// Returns a key that fits every form of the kind.
fn key(kind: &str) -> &'static str {
    match kind {
        "int" => KEYS[1],
        "structured" => "01020304-0506-0708-090a-0b0c0d0e0f00",
        _ => KEYS[0],
    }
}

/// Seals and opens after other statements, each time on its own connection, and compares both with the
/// program.
fn seals_and_opens<'s>(
    functions: &Functions<'_>,
    sessions: impl IntoIterator<Item = &'s str>,
) -> Result {
    let key = key(functions.key);
    let id = functions.sealed(OLD, key)?;
    let seal = functions.seal(&functions.literal(key));
    let open = functions.key_text(&functions.open(&format!("'{id}'")));
    let upper = functions.key_text(&functions.open(&format!("'{}'", id.to_uppercase())));
    for before in sessions {
        let sql = format!("{before}; SELECT {seal}; SELECT {open}; SELECT {upper}");
        let mut found = rows(functions.database, &sql)?;
        let found = found.split_off(found.len() - 3);
        let expected = [Some(id.clone()), Some(key.to_owned()), None];
        expect(before, found, expected.to_vec())?;
    }
    Ok(())
}

fn sessions_change_nothing(database: &Database) -> Result {
    on_each_kind(database, |functions| seals_and_opens(functions, sessions(database.kind)))
}

fn another_block_mode_is_an_error(database: &Database) -> Result {
    on_each_kind(database, |functions| {
        if database.kind == Engine::Mariadb {
            // A call names its own mode. Before 11.2 there is no such setting.
            seals_and_opens(
                functions,
                ["SET @x = 0 /*M!110200 , block_encryption_mode = 'aes-256-ecb' */"],
            )?;
            // A server before 11.2 does not store the mode, and another one may have its data later.
            let script =
                functions.script(OLD, &[])?.replace("/*M!110200 , NULL, 'aes-128-ecb'*/", "");
            database.execute(&script)?;
            if value(database, "SHOW VARIABLES LIKE 'block_encryption_mode'").is_err() {
                return Ok(());
            }
        }
        // PostgreSQL has no such setting.
        if database.kind == Engine::Postgres {
            return Ok(());
        }
        let key = key(functions.key);
        let id = format!("'{}'", functions.sealed(OLD, key)?);
        for mode in ["aes-256-ecb", "aes-128-cbc", "aes-256-cbc"] {
            for call in [functions.seal(&functions.literal(key)), functions.open(&id)] {
                let sql = format!("SET block_encryption_mode = '{mode}'; SELECT {call}");
                let expected = "expected block_encryption_mode aes-128-ecb";
                contains(&error(value(database, &sql)), expected)?;
            }
        }
        Ok(())
    })
}

fn the_script_runs_in_any_session(database: &Database) -> Result {
    for session in sessions(database.kind) {
        if session.contains("READ ONLY") || session.contains("read_only") {
            continue;
        }
        for (kind, form) in [("uuid7", "tagged"), ("int", "text"), ("int", "uuid")] {
            let functions = Functions::new(database, "user", kind, form);
            let script = functions.script(OLD, &[])?;
            expect("ASCII", script.is_ascii(), true)?;
            rows(database, &format!("{session}; {script}"))?;
            seals_and_opens(&functions, ["SELECT 'x'"])
                .map_err(|error| format!("{session}: {error}"))?;
            functions.drop()?;
        }
    }
    Ok(())
}

/// Returns a role that may only execute the functions, and the subkeys. The owner reads them.
fn analyst(functions: &Functions<'_>) -> Result<(String, Vec<String>)> {
    let (database, schema) = (functions.database, &functions.schema);
    let name = database.name();
    let role = format!("analyst_{name}");
    database.execute(&match database.kind {
        Engine::Postgres => format!(
            "CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role};
             GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role}; GRANT CREATE ON DATABASE {name} TO {role}"
        ),
        _ => format!(
            "CREATE USER {role}@'%'; GRANT EXECUTE ON {schema}.* TO {role}@'%'; GRANT ALL ON {name}.* TO {role}@'%'"
        ),
    })?;
    let columns = ["block", "mac", "feistel", "tag"].map(|column| match database.kind {
        Engine::Postgres => format!("encode({column}, 'hex')"),
        _ => format!("LOWER(HEX({column}))"),
    });
    let sql = format!("SELECT {} FROM {}", columns.join(", "), functions.subkeys());
    Ok((role, rows(database, &sql)?.into_iter().flatten().collect()))
}

pub(crate) fn drop_role(database: &Database, role: &str) -> Result {
    database.execute(&match database.kind {
        Engine::Postgres => format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}"),
        _ => format!("DROP USER {role}@'%'"),
    })
}

/// Returns both outputs of the client if the role runs a script and continues after errors.
pub(crate) fn output(database: &Database, role: &str, script: &str) -> Result<String> {
    let mut client = database.client(false)?;
    client.arg(match database.kind {
        Engine::Postgres => format!("--username={role}"),
        _ => format!("--user={role}"),
    });
    let (_, out, error) = run(&mut client, script)?;
    Ok(out + &error)
}

/// Checks that the role's output contains this text.
fn says(database: &Database, role: &str, script: &str, expected: &str) -> Result<String> {
    let said = output(database, role, script)?;
    contains(&said, expected)?;
    Ok(said)
}

fn shows(output: &str, subkeys: &[String]) -> bool {
    let output = output.to_lowercase();
    // A part is enough, in hex or as the letters of a byte string.
    subkeys.iter().any(|subkey| output.contains(&subkey[..12]))
}

fn who_may_only_execute_reads_no_subkey(database: &Database) -> Result {
    on_each_kind(database, |functions| {
        functions.install(&format!("{OLD},{NEW}"))?;
        let (role, subkeys) = analyst(functions)?;
        let table = functions.subkeys();
        let key = key(functions.key);
        let (seal, schema) = (functions.seal(&functions.literal(key)), &functions.schema);
        let id = functions.sealed(OLD, key)?;
        let open = functions.open(&format!("'{id}'"));
        let (own, hex) = match database.kind {
            Engine::Postgres => (format!(
                "SET client_min_messages = debug5; SET debug_print_plan = on; SET debug_print_rewritten = on;
                 SET debug_print_parse = on; SET plpgsql.print_strict_params = on;
                 SELECT {seal}, {open}; EXPLAIN (VERBOSE, ANALYZE) SELECT {seal}, {open};
                 SET plan_cache_mode = force_custom_plan; SELECT {seal}, {open};
                 SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace;
                 SELECT * FROM {table}; TABLE {table}; COPY {table} TO STDOUT; SELECT {table} FROM {table};
                 UPDATE {table} SET seals = seals RETURNING *; ALTER TABLE {table} DISABLE ROW LEVEL SECURITY;
                 SELECT * FROM pg_stats WHERE tablename LIKE 'subkeys%'; SELECT * FROM pg_statistic;
                 CREATE SCHEMA evil;
                 CREATE FUNCTION evil.encrypt(bytea, bytea, text) RETURNS bytea LANGUAGE plpgsql AS
                 $$ BEGIN RAISE NOTICE 'got %', encode($2, 'hex'); RETURN $1; END $$;
                 CREATE FUNCTION evil.substr(bytea, int, int) RETURNS bytea LANGUAGE plpgsql AS
                 $$ BEGIN RAISE NOTICE 'got %', encode($1, 'hex'); RETURN $1; END $$;
                 SET search_path = evil, pg_catalog; SELECT {seal}, {open};
                 CREATE TABLE evil.t AS SELECT 1; CREATE VIEW evil.v AS SELECT * FROM {table}; SELECT * FROM evil.v;"
            ), format!("SELECT encode(coalesce(block, feistel), 'hex') FROM {table};")),
            _ => (format!(
                "SELECT {seal}, {open}; EXPLAIN SELECT {seal}, {open}; SHOW WARNINGS;
                 EXPLAIN FORMAT=JSON SELECT {seal}, {open}; EXPLAIN ANALYZE SELECT {seal}, {open};
                 ANALYZE FORMAT=JSON SELECT {seal}, {open};
                 SET optimizer_trace = 'enabled=on'; SET optimizer_trace_max_mem_size = 10000000;
                 SET optimizer_trace_limit = 100, optimizer_trace_offset = 0;
                 SELECT {seal}; SELECT * FROM information_schema.optimizer_trace;
                 SELECT {open}; SELECT * FROM information_schema.optimizer_trace;
                 SET optimizer_trace = 'enabled=off';
                 SHOW CREATE FUNCTION {schema}.seal_user; SHOW CREATE FUNCTION {schema}.open_user;
                 SHOW FUNCTION CODE {schema}.seal_user;
                 SELECT * FROM information_schema.routines WHERE routine_schema = '{schema}';
                 SELECT * FROM information_schema.column_statistics; SELECT * FROM mysql.proc;
                 SELECT HEX(block), HEX(mac), HEX(feistel), HEX(tag) FROM {table}; SELECT * FROM {table};
                 HANDLER {table} OPEN; HANDLER {table} READ FIRST; LOCK TABLES {table} READ; UNLOCK TABLES;
                 SELECT * FROM performance_schema.events_statements_history;
                 SET PROFILING = 1; SELECT {seal}; SHOW PROFILE ALL;
                 CREATE VIEW v AS SELECT HEX(block) FROM {table}; SELECT * FROM v;
                 CREATE TABLE copy AS SELECT * FROM {table}; CREATE TABLE copy LIKE {table};
                 CREATE TRIGGER {schema}.t BEFORE INSERT ON {table} FOR EACH ROW SET @stolen = HEX(NEW.block);
                 CREATE FUNCTION f() RETURNS TEXT READS SQL DATA RETURN (SELECT HEX(block) FROM {table} LIMIT 1);
                 SELECT f();"
            ), format!("SELECT HEX(COALESCE(block, feistel)) FROM {table};")),
        };
        let said = output(database, &role, &own)?;
        // The role may execute, and the search finds an existing subkey.
        contains(&said, &id)?;
        expect(&said, shows(&said, &subkeys), false)?;
        let owners = match database.kind {
            Engine::Postgres => "postgres",
            _ => "root",
        };
        let said = output(database, owners, &hex)?;
        expect(&hex, shows(&said, &subkeys), true)?;
        drop_role(database, &role)
    })
}

fn grants_of_tables_show_no_subkey(database: &Database) -> Result {
    if database.kind != Engine::Postgres {
        // A grant on the application's database does not apply to the schema of the functions.
        let functions = Functions::new(database, "user", "uuid7", "text");
        functions.install(OLD)?;
        let (role, subkeys) = analyst(&functions)?;
        let read = format!("SELECT HEX(block) FROM {};", functions.subkeys());
        let said = says(database, &role, &read, "command denied")?;
        expect(&said, shows(&said, &subkeys), false)?;
        return drop_role(database, &role);
    }
    let name = database.name();
    let (granted, reader) = (format!("granted_{name}"), format!("reader_{name}"));
    database.execute(&format!(
        "CREATE ROLE {granted} LOGIN; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO {granted};
         ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO PUBLIC;
         CREATE ROLE {reader} LOGIN; GRANT pg_read_all_data TO {reader}"
    ))?;
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let (role, subkeys) = analyst(&functions)?;
    let schema = &functions.schema;
    database.execute(&format!("GRANT USAGE ON SCHEMA {schema} TO {granted}"))?;
    let read = format!("SELECT encode(block, 'hex') FROM {};", functions.subkeys());
    let denied = "permission denied for table";
    for role in [&granted, &role] {
        says(database, role, &read, denied)?;
    }
    // The role has a later grant, and a predefined role.
    let grant = format!("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {granted}");
    database.execute(&grant)?;
    for role in [&granted, &reader] {
        let said = says(database, role, &read, "(0 rows)")?;
        expect(&said, shows(&said, &subkeys), false)?;
    }
    // The next run revokes the grant.
    functions.install(OLD)?;
    says(database, &granted, &read, denied)?;
    for role in [&granted, &reader, &role] {
        drop_role(database, role)?;
    }
    Ok(())
}

fn nobody_may_execute_by_default(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let (name, schema) = (database.name(), &functions.schema);
    let role = format!("stranger_{name}");
    let (create, denied) = match database.kind {
        Engine::Postgres => (
            format!("CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}"),
            "permission denied for function",
        ),
        _ => (
            format!("CREATE USER {role}@'%'; GRANT ALL ON {name}.* TO {role}@'%'"),
            "execute command denied",
        ),
    };
    database.execute(&create)?;
    if database.kind == Engine::Postgres {
        // A dump that was restored without privileges has this grant.
        database
            .execute(&format!("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO PUBLIC"))?;
        database.execute(&functions.script(OLD, &["--rotate"])?)?;
    }
    let seal = functions.seal(&functions.literal(KEYS[0]));
    let open = functions.open("'user_5a0s99fg5g7wv55bvr3feqp01y'");
    for call in [seal, open] {
        says(database, &role, &format!("SELECT {call};"), denied)?;
    }
    drop_role(database, &role)
}

fn a_view_shows_external_ids_only(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let key = functions.literal(KEYS[0]);
    let (name, schema) = (database.name(), &functions.schema);
    let role = format!("viewer_{name}");
    // PostgreSQL checks whether the role that queries a view may execute its functions. The others check the
    // view's definer.
    let (r#type, grant) = match database.kind {
        Engine::Postgres => (
            "uuid",
            format!(
                "CREATE ROLE {role} LOGIN; GRANT SELECT ON api TO {role};
                 GRANT EXECUTE ON FUNCTION {schema}.seal_user TO {role}"
            ),
        ),
        _ => (
            "BINARY(16)",
            format!("CREATE USER {role}@'%'; GRANT SELECT ON {name}.api TO {role}@'%'"),
        ),
    };
    database.execute(&format!(
        "CREATE TABLE users (id {type}); INSERT INTO users VALUES ({key});
         CREATE VIEW api AS SELECT {} AS id FROM users; {grant}",
        functions.seal("id"),
    ))?;
    let id = &*functions.sealed(OLD, KEYS[0])?;
    says(database, &role, "SELECT id FROM api;", id)?;
    let open = format!("SELECT {};", functions.open(&format!("'{id}'")));
    for query in [&*open, "SELECT id FROM users;"] {
        says(database, &role, query, "denied")?;
    }
    drop_role(database, &role)
}
