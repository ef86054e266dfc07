//! Objects of other owners on PostgreSQL. A role that could replace an object that the functions use would
//! get subkeys, and the rights of the role that ran the script.

use opaque_id_tests::Result;
use opaque_id_tests::conformance::cases::on_threads;
use opaque_id_tests::database::Database;

use super::attacks::{drop_role, output};
use super::cases::{NEW, OLD};
use super::{Functions, contains, error, expect, rows, value};
use opaque_id_tests::trials::Case;

pub(crate) const ALL: &[Case] = cases![
    a_table_of_others_gets_no_subkey,
    the_owner_of_the_database_gets_nothing,
    what_others_own_is_refused_with_what_to_do,
    functions_that_call_another_schema_are_refused,
    no_foreign_key_runs_code_as_the_owner,
    scripts_side_by_side_leave_the_rows_of_one,
    the_settings_of_the_database_choose_no_role,
    the_name_of_the_schema_of_pgcrypto_is_no_sql,
];

const KEY: &str = "0192c1f0-7b1e-7a35-8f00-000000000001";

fn is_no_superuser(database: &Database, role: &str, said: &str) -> Result {
    let sql = format!("SELECT rolsuper::text FROM pg_roles WHERE rolname = '{role}'");
    expect(said, value(database, &sql)?.as_deref(), Some("false"))
}

/// The application's role owns the database, and so the schema `public`. A superuser has run the script.
fn the_owner_of_the_database_gets_nothing(database: &Database) -> Result {
    let name = database.name();
    let (app, analyst) = (format!("app_{name}"), format!("analyst_{name}"));
    database.execute(&format!(
        "CREATE ROLE {app} LOGIN; CREATE ROLE {analyst} LOGIN; ALTER DATABASE {name} OWNER TO {app};
         CREATE SCHEMA evil AUTHORIZATION {app}; ALTER DATABASE {name} SET search_path = evil, public"
    ))?;
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let schema = &functions.schema;
    database.execute(&format!(
        "GRANT USAGE ON SCHEMA {schema} TO {analyst}; GRANT EXECUTE ON FUNCTION {schema}.seal_user TO {analyst}"
    ))?;
    let at = "SELECT extnamespace::regnamespace::text FROM pg_extension WHERE extname = 'pgcrypto'";
    let at = value(database, at)?.ok_or("no schema")?;
    let steals = |schema: &str| {
        format!(
            "CREATE SCHEMA {schema}; GRANT USAGE ON SCHEMA {schema} TO PUBLIC; CREATE TABLE {schema}.loot (key text);
             CREATE FUNCTION {schema}.encrypt(bytea, bytea, text) RETURNS bytea LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO {schema}.loot VALUES (encode($2, 'hex')); EXECUTE 'ALTER ROLE {app} SUPERUSER'; RETURN $1; END $$;"
        )
    };
    let said = output(
        database,
        &app,
        &format!(
            "ALTER SCHEMA {at} RENAME TO old_{at}; {} ALTER SCHEMA {schema} RENAME TO old_{schema}; {}
             DROP EXTENSION pgcrypto; ALTER EXTENSION pgcrypto SET SCHEMA evil; DROP SCHEMA {schema} CASCADE;
             DROP FUNCTION {at}.encrypt; CREATE FUNCTION {at}.encrypt(bytea, bytea, varchar) RETURNS bytea RETURN $1;
             DROP TABLE {schema}.subkeys_user; CREATE VIEW {schema}.subkeys_user AS SELECT 1;",
            steals(&at),
            steals(schema),
        ),
    )?;
    let sealed = functions.sealed(OLD, KEY)?;
    let call = format!("SELECT {};", functions.seal(&functions.literal(KEY)));
    let found = output(database, &analyst, &call)?;
    contains(&found, &sealed)?;
    is_no_superuser(database, &app, &said)?;
    for denied in ["must be owner of schema", "must be owner of extension"] {
        expect(&said, said.matches(denied).count() >= 2, true)?;
    }
    database.execute(&format!("ALTER DATABASE {name} OWNER TO postgres"))?;
    drop_role(database, &app)?;
    drop_role(database, &analyst)
}

/// A role that may create a schema has already created ours.
fn a_table_of_others_gets_no_subkey(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    let (role, schema) = (format!("squatter_{}", database.name()), &functions.schema);
    database.execute(&format!(
        "CREATE ROLE {role} LOGIN; CREATE SCHEMA {schema} AUTHORIZATION {role}; SET SESSION AUTHORIZATION {role};
         CREATE TABLE {schema}.subkeys_user (key_id smallint, seals boolean, block bytea, mac bytea, feistel bytea, tag bytea, short bytea)"
    ))?;
    for options in [&[][..], &["--rotate"]] {
        let said = error(database.execute(&functions.script(OLD, options)?));
        contains(&said, "to belong to")?;
    }
    let count = format!("SELECT count(*)::text FROM {}", functions.subkeys());
    expect("rows", value(database, &count)?.as_deref(), Some("0"))?;
    drop_role(database, &role)
}

fn what_others_own_is_refused_with_what_to_do(database: &Database) -> Result {
    let name = database.name();
    let app = &format!("app_{name}");
    database.execute(&format!("CREATE ROLE {app} LOGIN"))?;
    let functions = Functions::new(database, "user", "uuid7", "text");
    let (schema, table) = (&functions.schema, &functions.subkeys());
    let as_app = format!("SET SESSION AUTHORIZATION {app};");
    let seal = "RETURNS text LANGUAGE sql AS 'SELECT ''''::text'";
    for (owned, refusal) in [
        (
            format!("DROP EXTENSION pgcrypto; {as_app} CREATE SCHEMA app; CREATE EXTENSION pgcrypto SCHEMA app"),
            "the extension pgcrypto to belong to postgres or to a superuser, found app_",
        ),
        (
            "ALTER EXTENSION pgcrypto SET SCHEMA public".to_owned(),
            "the schema of pgcrypto, public, to belong to postgres or to a superuser, found pg_database_owner",
        ),
        (
            format!("DROP SCHEMA {schema} CASCADE; {as_app} CREATE SCHEMA {schema}"),
            "the schema s_",
        ),
        (
            format!("DROP EXTENSION pgcrypto; DROP SCHEMA opaque_id_pgcrypto; {as_app} CREATE SCHEMA opaque_id_pgcrypto"),
            "the schema opaque_id_pgcrypto to belong",
        ),
        (
            format!("GRANT CREATE ON SCHEMA {schema} TO {app}"),
            "the right to create in the schema s_",
        ),
        (
            format!("GRANT CREATE ON SCHEMA {schema} TO PUBLIC"),
            "the right to create in the schema s_",
        ),
        (
            format!("ALTER TABLE {table} OWNER TO {app}"),
            "the table s_",
        ),
        (
            format!("DROP TABLE {table}; CREATE VIEW {table} AS SELECT 1 AS key_id; ALTER VIEW {table} OWNER TO {app}"),
            "the view s_",
        ),
        (
            format!("ALTER FUNCTION {schema}.seal_user(uuid) OWNER TO {app}"),
            "the function s_",
        ),
        (
            format!("CREATE FUNCTION {schema}.seal_user(text) {seal}; ALTER FUNCTION {schema}.seal_user(text) OWNER TO {app}"),
            "the function s_",
        ),
        (
            format!(
                "GRANT USAGE ON SCHEMA {schema} TO {app}; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {app}; {as_app}
                 CREATE SCHEMA app; CREATE FUNCTION app.loots(bytea) RETURNS boolean LANGUAGE sql AS 'SELECT true';
                 CREATE TRIGGER loot BEFORE INSERT ON {table} FOR EACH ROW WHEN (app.loots(NEW.block))
                 EXECUTE FUNCTION suppress_redundant_updates_trigger()"
            ),
            "no trigger on \"s_",
        ),
        (
            // Older versions of the script created a primary key.
            format!(
                "ALTER TABLE {table} ADD PRIMARY KEY (key_id); GRANT USAGE ON SCHEMA {schema} TO {app};
                 GRANT REFERENCES ON {table} TO {app}; {as_app}
                 CREATE SCHEMA app; CREATE TABLE app.loot (key_id smallint REFERENCES {table} ON DELETE CASCADE)"
            ),
            "no foreign key to \"s_",
        ),
        (
            format!("DROP SCHEMA {schema} CASCADE; ALTER DATABASE {name} SET role = {app}"),
            "no role from the database's settings or the connection's options, found app_",
        ),
    ] {
        database.execute(&format!("GRANT CREATE ON DATABASE {name} TO {app}"))?;
        functions.install(OLD)?;
        database.execute(&owned)?;
        let mut fix = String::new();
        for options in [&[][..], &["--rotate"]] {
            let said = error(database.execute(&functions.script(NEW, options)?));
            let is_refused = said.contains(&format!("expected {refusal}"));
            expect(&format!("{owned}: {said}"), is_refused, true)?;
            let (_, what_to_do) = said.split_once(" run ").ok_or("no fix")?;
            let (sql, _) = what_to_do.split_once("; and ").ok_or("no fix")?;
            fix = sql.to_owned();
        }
        // Following the message is enough.
        database
            .execute(&fix)
            .and_then(|()| functions.install(NEW))
            .map_err(|error| format!("{owned}: {fix}: {error}"))?;
        functions.seals(&owned, NEW, KEY)?;
        database.execute(&format!(
            "DROP OWNED BY {app} CASCADE; DROP SCHEMA {schema} CASCADE; DROP EXTENSION pgcrypto; DROP SCHEMA IF EXISTS opaque_id_pgcrypto"
        ))?;
    }
    // The schema does not exist until the script has succeeded.
    let grant = format!("ALTER DEFAULT PRIVILEGES GRANT ALL ON SCHEMAS TO {app}");
    database.execute(&grant)?;
    for expected in [schema.as_str(), "opaque_id_pgcrypto"] {
        let said = error(functions.install(OLD));
        let fix = format!(
            "CREATE SCHEMA IF NOT EXISTS {expected}; REVOKE CREATE ON SCHEMA {expected} FROM {app}"
        );
        expect(&said, said.contains(&format!(" run {fix}; and ")), true)?;
        database.execute(&fix)?;
    }
    functions.install(OLD)?;
    database.execute(&format!("DROP OWNED BY {app} CASCADE; DROP SCHEMA {schema} CASCADE"))?;
    // It does not advise dropping another role's objects.
    database.execute(&format!(
        "CREATE SCHEMA {schema}; CREATE TABLE {schema}.customers (); ALTER TABLE {schema}.customers OWNER TO {app}"
    ))?;
    let said = error(functions.install(OLD));
    let advice = "use the role that ran this before, or another --schema";
    contains(&said, advice)?;
    drop_role(database, app)?;
    functions.install(OLD)?;
    database.execute("DROP EXTENSION pgcrypto")?;
    let said = error(database.execute(&functions.script(NEW, &["--rotate"])?));
    let refusal =
        "expected the extension pgcrypto to belong to postgres or to a superuser, found none";
    contains(&said, refusal)
}

/// The functions belong to an older version of the script, or to a resource that was not named.
fn functions_that_call_another_schema_are_refused(database: &Database) -> Result {
    let user = Functions::new(database, "user", "uuid7", "text");
    let cart = Functions::new(database, "cart", "int", "uuid");
    user.install(OLD)?;
    cart.install(OLD)?;
    database.execute("CREATE SCHEMA elsewhere; ALTER EXTENSION pgcrypto SET SCHEMA elsewhere")?;
    for script in [user.script(NEW, &["--rotate"])?, user.script(NEW, &[])?] {
        let said = error(database.execute(&script));
        let refusal = "to call pgcrypto where it is now: run the whole script for its resource";
        contains(&said, refusal)?;
    }
    Ok(())
}

/// Code in the name could run as a superuser, and make all owners look right before they are checked.
fn the_name_of_the_schema_of_pgcrypto_is_no_sql(database: &Database) -> Result {
    let name = database.name();
    let app = &format!("app_{name}");
    let functions = Functions::new(database, "user", "uuid7", "text");
    let schema = &functions.schema;
    let evil = |quote: &str| format!(r#""{quote};SELECT e.f();SELECT {quote}""#);
    database.execute(&format!(
        "CREATE ROLE {app} LOGIN; ALTER DATABASE {name} OWNER TO {app}; SET SESSION AUTHORIZATION {app}; CREATE SCHEMA e;
         ALTER DATABASE {name} SET check_function_bodies = off;
         CREATE FUNCTION e.f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
             EXECUTE 'ALTER ROLE {app} SUPERUSER';
             UPDATE pg_extension SET extowner = 10;
             UPDATE pg_namespace SET nspowner = 10;
         END $$;
         CREATE SCHEMA here; CREATE EXTENSION pgcrypto SCHEMA here"
    ))?;
    let mut place = "here".to_owned();
    for quote in ["$body$", "$functions$", "$create$", "$install$", "'"] {
        let next = evil(quote);
        database.execute(&format!("ALTER SCHEMA {place} RENAME TO {next}"))?;
        place = next;
        let said = error(functions.install(OLD));
        let refusal = "expected the extension pgcrypto to belong to postgres";
        contains(&said, refusal)?;
        // It also seals there if a superuser has taken it over.
        database.execute(&format!(
            "ALTER SCHEMA {place} OWNER TO postgres; UPDATE pg_extension SET extowner = 10 WHERE extname = 'pgcrypto'"
        ))?;
        functions.install(OLD)?;
        functions.seals(&place, OLD, KEY)?;
        database.execute(&format!(
            "DROP SCHEMA {schema} CASCADE; ALTER SCHEMA {place} OWNER TO {app};
             UPDATE pg_extension SET extowner = '{app}'::regrole WHERE extname = 'pgcrypto'"
        ))?;
    }
    is_no_superuser(database, app, app)?;
    database.execute(&format!("ALTER DATABASE {name} OWNER TO postgres"))?;
    drop_role(database, app)
}

fn the_settings_of_the_database_choose_no_role(database: &Database) -> Result {
    let name = database.name();
    let (app, deploy) = (&format!("app_{name}"), &format!("deploy_{name}"));
    let functions = Functions::new(database, "user", "uuid7", "text");
    let script = functions.script(OLD, &[])?;
    let schema = &functions.schema;
    let owner = format!("SELECT tableowner::text FROM pg_tables WHERE schemaname = '{schema}'");
    database.execute(&format!(
        "CREATE ROLE {app} LOGIN; CREATE ROLE {deploy} LOGIN IN ROLE {app}; GRANT CREATE ON DATABASE {name} TO {app}"
    ))?;
    let reset = format!("ALTER DATABASE {name} RESET role");
    let set = format!("ALTER DATABASE {name} SET role = {app}");
    // The owner of the database reverts the setting as soon as the session has begun.
    for before in ["", &format!("SET ROLE NONE; {reset}; RESET ROLE;")] {
        database.execute(&set)?;
        let said = error(database.execute(&format!("{before} {script}")));
        let refusal = format!("found {app}: run SET ROLE NONE; {reset}");
        contains(&said, &refusal)?;
        expect("a table", rows(database, &owner)?.len(), 0)?;
        database.execute(&format!("SET ROLE NONE; {reset}"))?;
    }
    // A setting of another role or database does not explain it either.
    database.execute(&format!(
        "{set}; SET ROLE NONE; ALTER ROLE {app} SET role = {app}; ALTER ROLE postgres IN DATABASE template1 SET role = {app}"
    ))?;
    let said = error(database.execute(&script));
    database.execute("SET ROLE NONE; ALTER ROLE postgres IN DATABASE template1 RESET role")?;
    contains(&said, "expected no role from")?;
    // The session's own choice counts, and so does a setting of the connecting role.
    database.execute(&format!("SET ROLE NONE; {script}"))?;
    let owned_by =
        |what: &str, role: &str| expect(what, value(database, &owner)?.as_deref(), Some(role));
    owned_by("owner", "postgres")?;
    let drop = "DROP EXTENSION pgcrypto; DROP SCHEMA opaque_id_pgcrypto";
    database.execute(&format!("SET ROLE NONE; {reset}; DROP SCHEMA {schema} CASCADE; {drop}"))?;
    for chosen in [
        format!("ALTER ROLE {deploy} SET role = {app}"),
        format!("ALTER ROLE {deploy} IN DATABASE {name} SET role = {app}"),
    ] {
        let drop = format!("DROP SCHEMA IF EXISTS {schema} CASCADE");
        database.execute(&format!("{chosen}; {drop}"))?;
        let said = output(database, deploy, &script)?;
        owned_by(&said, app)?;
        database.execute(&format!("ALTER ROLE {deploy} RESET ALL"))?;
    }
    drop_role(database, deploy)?;
    drop_role(database, app)
}

/// A foreign key is checked by a query of the referenced table's owner, including casts of the referencing
/// column.
fn no_foreign_key_runs_code_as_the_owner(database: &Database) -> Result {
    let app = format!("app_{}", database.name());
    let functions = Functions::new(database, "user", "uuid7", "text");
    let (schema, table) = (&functions.schema, &functions.subkeys());
    functions.install(OLD)?;
    database.execute(&format!(
        "CREATE ROLE {app} LOGIN; CREATE SCHEMA app AUTHORIZATION {app}; GRANT USAGE ON SCHEMA {schema}, app TO {app};"
    ))?;
    for older in [String::new(), format!("ALTER TABLE {table} ADD PRIMARY KEY (key_id)")] {
        // This application publishes all of its tables.
        database.execute(&format!("{older}; CREATE PUBLICATION everything FOR ALL TABLES"))?;
        functions.install(NEW)?;
        database.execute(&functions.script(OLD, &["--rotate"])?)?;
        database.execute(&format!(
            "DROP PUBLICATION everything; GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {app}"
        ))?;
        let said = output(
            database,
            &app,
            &format!(
                "CREATE TYPE app.number AS (n smallint);
                 CREATE FUNCTION app.cast(app.number) RETURNS smallint LANGUAGE plpgsql AS $$
                 BEGIN RAISE NOTICE 'as %', current_user; RETURN 1; END $$;
                 CREATE CAST (app.number AS smallint) WITH FUNCTION app.cast AS IMPLICIT;
                 CREATE TABLE app.loot (key_id app.number REFERENCES {table} (key_id));
                 CREATE TABLE app.loot (key_id app.number REFERENCES {table});
                 INSERT INTO app.loot VALUES (ROW(1)::app.number);"
            ),
        )?;
        expect(&said, said.contains("as postgres"), false)?;
        let denied = ["no unique constraint matching", "no primary key for"];
        denied.iter().try_for_each(|denied| contains(&said, denied))?;
    }
    drop_role(database, &app)
}

fn scripts_side_by_side_leave_the_rows_of_one(database: &Database) -> Result {
    let functions = Functions::new(database, "user", "uuid7", "text");
    functions.install(OLD)?;
    let script = functions.script(OLD, &["--rotate"])?;
    let script = script.replace("COMMIT;", "SELECT pg_sleep(0.3); COMMIT;");
    on_threads(3, |_| database.execute(&script))?;
    let count = format!("SELECT count(*)::text FROM {}", functions.subkeys());
    expect("rows", value(database, &count)?.as_deref(), Some("1"))
}
