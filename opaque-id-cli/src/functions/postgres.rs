//! PostgreSQL's functions. SQL functions would be inlined, and `EXPLAIN` would show their content, so they
//! are in PL/pgSQL.

use opaque_id_core::form::FormKind;
use opaque_id_core::key::KeyKind;

use super::{COLUMNS, DIGITS, FF1_FIRST, SqlResource, header, rounds, usage};

/// The schema of pgcrypto, if the database lacks it. It differs from the functions' schema, so that a dump
/// without that one contains pgcrypto.
const PGCRYPTO: &str = "opaque_id_pgcrypto";

pub(super) fn install(schema: &str, resources: &[SqlResource<'_>], only_subkeys: bool) -> String {
    let mut sql = header(
        "For psql --set ON_ERROR_STOP=1, or any other client. It changes everything or nothing.",
    );
    // The database's owner can set all of these for every session. A later snapshot shows the objects that
    // other roles have created meanwhile.
    sql += "BEGIN ISOLATION LEVEL READ COMMITTED;
SET LOCAL client_min_messages = warning;
SET LOCAL quote_all_identifiers = off;
SET LOCAL search_path = pg_catalog, pg_temp;
";
    if !only_subkeys {
        sql += &create(schema, resources);
    }
    sql += &owners(schema);
    for resource in resources {
        sql += &guard(schema, resource.prefix);
        sql += &subkeys(schema, resource);
    }
    let both = |SqlResource { prefix, .. }: &SqlResource<'_>| {
        format!("{schema}.seal_{prefix}, {schema}.open_{prefix}")
    };
    // A restored database may lack it.
    for functions in resources.iter().map(both) {
        sql += &format!("REVOKE ALL ON FUNCTION {functions} FROM PUBLIC;\n");
    }
    sql += "COMMIT;\n";
    if only_subkeys {
        return sql;
    }
    sql += &format!("\n-- Who may use them:\n-- GRANT USAGE ON SCHEMA {schema} TO analyst;\n");
    for functions in resources.iter().map(both) {
        sql += &format!("-- GRANT EXECUTE ON FUNCTION {functions} TO analyst;\n");
    }
    for resource in resources {
        sql += &usage(schema, resource.prefix);
    }
    sql
}

pub(super) fn drop(schema: &str, prefixes: &[&str]) -> String {
    let mut sql = "BEGIN;\nSET LOCAL client_min_messages = warning;\n".to_owned();
    for prefix in prefixes {
        sql += &format!(
            "DROP FUNCTION IF EXISTS {schema}.seal_{prefix}, {schema}.open_{prefix};\n\
             DROP TABLE IF EXISTS {schema}.subkeys_{prefix};\n"
        );
    }
    sql + &format!(
        "COMMIT;\n\n-- If nothing else is in it:\n-- DROP SCHEMA {schema};\n\
         -- If nothing else needs pgcrypto:\n-- DROP EXTENSION pgcrypto; DROP SCHEMA {PGCRYPTO};\n"
    )
}

/// Nothing here runs objects that other roles have put into the schemas.
fn create(schema: &str, resources: &[SqlResource<'_>]) -> String {
    let mut sql = format!(
        "CREATE SCHEMA IF NOT EXISTS {schema};
DO $pgcrypto$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'pgcrypto') THEN
        CREATE SCHEMA IF NOT EXISTS {PGCRYPTO};
        CREATE EXTENSION pgcrypto SCHEMA {PGCRYPTO};
    END IF;
END
$pgcrypto$;
"
    );
    let columns = COLUMNS.map(|(name, _)| format!("{name} bytea")).join(", ");
    for SqlResource { prefix, .. } in resources {
        sql += &format!(
            "CREATE TABLE IF NOT EXISTS {schema}.subkeys_{prefix} (
    key_id smallint NOT NULL, seals boolean NOT NULL, {columns}
);
"
        );
    }
    let functions: String = resources.iter().map(|r| functions(schema, r)).collect();
    // The functions of pgcrypto are named with their schema, so that no other function can be called instead.
    // A role that has chosen the name of that schema can put no SQL into it.
    sql += &format!(
        "DO $install$
DECLARE
    pgcrypto text;
BEGIN
    SELECT quote_ident(nspname) || '.' INTO pgcrypto FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pgcrypto';
{functions}END
$install$;
"
    );
    sql
}

/// Stops if other roles own objects that the functions use. They could replace such an object, and would get
/// subkeys and the rights of the functions' owner. An accepted owner could harm us anyway, so no other role
/// changes anything after this check. `pg_database_owner` is not accepted, because the application's role is
/// often a member of it.
fn owners(schema: &str) -> String {
    let name = schema.trim_matches('"');
    format!(
        "DO $owners$
DECLARE
    one record;
    chosen CONSTANT text := current_setting('role');
    connected name;
BEGIN
    -- The settings of the database may have changed since the session began. Its owner chooses them.
    SET LOCAL role TO DEFAULT;
    connected := current_user;
    PERFORM set_config('role', chosen, true);
    IF current_user = connected AND connected <> session_user AND NOT EXISTS (
        SELECT FROM pg_db_role_setting JOIN pg_roles ON pg_roles.oid = setrole
        WHERE rolname = session_user AND 'role=' || connected = ANY (setconfig)
            AND setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
    ) THEN
        RAISE EXCEPTION 'expected no role from the database''s settings or the connection''s options, found %: run SET ROLE NONE; ALTER DATABASE % RESET role; and connect again', connected, quote_ident(current_database());
    END IF;
    WITH ours AS (SELECT * FROM pg_namespace WHERE nspname IN ('{name}', '{PGCRYPTO}')),
    pgcrypto AS (SELECT extowner, nspowner, nspname FROM (VALUES ('pgcrypto')) AS needed (name)
        LEFT JOIN pg_extension ON extname = name LEFT JOIN pg_namespace ON pg_namespace.oid = extnamespace),
    objects AS (SELECT 'pg_class'::regclass AS class, oid, relname, relnamespace AS namespace, relowner AS owner FROM pg_class
            WHERE relkind NOT IN ('i', 'I')
        UNION ALL SELECT 'pg_proc'::regclass, oid, proname, pronamespace, proowner FROM pg_proc),
    used (what, owner, fix) AS (
        SELECT format('the schema %I', nspname), nspowner,
            format('ALTER SCHEMA %I OWNER TO %I', nspname, current_user) FROM ours
        UNION ALL SELECT 'the extension pgcrypto', extowner, 'DROP EXTENSION IF EXISTS pgcrypto' FROM pgcrypto
        UNION ALL SELECT format('the schema of pgcrypto, %I,', nspname), nspowner,
            'CREATE SCHEMA IF NOT EXISTS {PGCRYPTO}; ALTER EXTENSION pgcrypto SET SCHEMA {PGCRYPTO} /* SQL that names the old schema then fails */'
            FROM pgcrypto
        UNION ALL SELECT format('the right to create in the schema %I', nspname), grantee,
            format('CREATE SCHEMA IF NOT EXISTS %I; REVOKE CREATE ON SCHEMA %1$I FROM %s', nspname,
                CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END)
            FROM ours, aclexplode(nspacl) WHERE privilege_type = 'CREATE'
        UNION ALL SELECT format('the %s %s', type, identity), owner,
            CASE WHEN relname ~ '^(subkeys|seal|open)_' OR nspname = '{PGCRYPTO}' THEN format('DROP %s %s', type, identity) END
            FROM objects JOIN ours ON ours.oid = namespace, pg_identify_object(class, objects.oid, 0)
    )
    SELECT * INTO one FROM used
        WHERE NOT EXISTS (SELECT FROM pg_roles WHERE oid = owner AND (rolsuper OR rolname = current_user)) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'expected % to belong to % or to a superuser, found %: use the role that ran this before, or %', one.what,
            current_user, CASE one.owner WHEN 0 THEN 'PUBLIC' ELSE coalesce(pg_get_userbyid(one.owner), 'none') END,
            coalesce('run ' || one.fix || '; and then the whole script', 'another --schema');
    END IF;
    SELECT pg_proc.oid::regprocedure AS name INTO one
        FROM pg_proc, pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pgcrypto' AND pronamespace = '{schema}'::regnamespace
            AND replace(prosrc, quote_ident(nspname) || '.', '') ~ '[.](en|de)crypt[(]';
    IF FOUND THEN
        RAISE EXCEPTION 'expected % to call pgcrypto where it is now: run the whole script for its resource', one.name;
    END IF;
END
$owners$;
"
    )
}

/// Ensures that only we can read the table. Other roles lose the grants of default privileges. Row-level
/// security keeps out roles with a later grant, and members of `pg_read_all_data`. A trigger of another role
/// would see the inserted values. The table has no key, because another role's foreign key (with a grant of
/// `REFERENCES`) would run that role's casts and triggers as the table's owner. Without a key, a database
/// that publishes all tables needs a replica identity, and only one script at a time may replace the rows.
fn guard(schema: &str, prefix: &str) -> String {
    let table = format!("{schema}.subkeys_{prefix}");
    format!(
        "DO $guard$
DECLARE
    found pg_class;
    others text;
    granted text;
BEGIN
    LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE;
    SELECT * INTO found FROM pg_class WHERE oid = '{table}'::regclass;
    SELECT quote_ident(tgname) INTO others FROM pg_trigger WHERE tgrelid = found.oid AND NOT tgisinternal LIMIT 1;
    IF others IS NOT NULL THEN
        RAISE EXCEPTION 'expected no trigger on {table}, found %: run DROP TRIGGER % ON {table}; and then the whole script', others, others;
    END IF;
    SELECT format('%s DROP CONSTRAINT %I', conrelid::regclass, conname) INTO others
        FROM pg_constraint WHERE confrelid = found.oid LIMIT 1;
    IF others IS NOT NULL THEN
        RAISE EXCEPTION 'expected no foreign key to {table}, found one: run ALTER TABLE %; and then the whole script', others;
    END IF;
    SELECT quote_ident(conname) INTO others FROM pg_constraint WHERE conrelid = found.oid AND contype = 'p';
    IF others IS NOT NULL THEN
        EXECUTE 'ALTER TABLE {table} DROP CONSTRAINT ' || others;
    END IF;
    IF found.relreplident <> 'f' THEN
        ALTER TABLE {table} REPLICA IDENTITY FULL;
    END IF;
    IF NOT found.relrowsecurity THEN
        ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
    END IF;
    FOR granted IN SELECT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(grantee)) END
        FROM aclexplode(found.relacl) WHERE grantee <> found.relowner
    LOOP
        EXECUTE 'REVOKE ALL ON {table} FROM ' || granted;
    END LOOP;
END
$guard$;
"
    )
}

fn subkeys(schema: &str, resource: &SqlResource<'_>) -> String {
    let prefix = resource.prefix;
    let columns = COLUMNS.map(|(name, _)| name).join(", ");
    let rows = resource.rows(["false", "true"], |hex| format!("decode('{hex}', 'hex')"));
    format!(
        "DELETE FROM {schema}.subkeys_{prefix};
INSERT INTO {schema}.subkeys_{prefix} (key_id, seals, {columns}) VALUES
    {rows};
"
    )
}

fn functions(schema: &str, resource: &SqlResource<'_>) -> String {
    let (seal, open) = match resource.form {
        FormKind::UUID => uuid(schema, resource),
        _ => text(schema, resource),
    };
    let key = match resource.is_int() {
        true => "bigint",
        false => "uuid",
    };
    let prefix = resource.prefix;
    let function = |name: &str, from: &str, to: &str, body: String| {
        format!(
            "
    EXECUTE $create$CREATE OR REPLACE FUNCTION {schema}.{name}_{prefix}(id {from}) RETURNS {to}
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $create$
    || quote_literal(replace($body$
DECLARE
    s {schema}.subkeys_{prefix};
{body}END
$body$, 'pgcrypto.', pgcrypto));
"
        )
    };
    function("seal", key, "text", seal) + &function("open", "text", key, open)
}

fn text(schema: &str, resource: &SqlResource<'_>) -> (String, String) {
    let SqlResource { prefix, .. } = resource;
    let subkeys = format!("{schema}.subkeys_{prefix} AS subkeys");
    let (digits, hex_digits) = resource.first_group();
    let bits = 4 * hex_digits;
    let is_tagged = matches!(resource.form, FormKind::TAGGED);
    let (is_key, plain) = match resource.is_int() {
        true => ("true".to_owned(), "int8send(id) || s.tag"),
        false => (resource.is_key("encode(uuid_send(id), 'hex')"), "uuid_send(id)"),
    };
    let Short { declared, seal: seal_short, open: open_short, refused } = match resource.form {
        FormKind::SHORT => short(prefix, &subkeys),
        _ => Short::default(),
    };
    let add_tag = match is_tagged {
        true => {
            "    c := c || substr(pgcrypto.encrypt(c, s.mac, 'aes-ecb/pad:none'::text), 1, 5);\n"
        }
        false => "",
    };
    let first = encoded("a", digits);
    let (second, third) = (encoded("b", 12), encoded("c3", 12));
    let (to_second, to_third) = (hex_digits + 1, hex_digits + 16);
    let seal = format!(
        "    digits CONSTANT text := '{DIGITS}';
{declared}    c bytea;
    h text;
    a bigint;
    b bigint;
    c3 bigint;
BEGIN
{seal_short}    IF NOT ({is_key}) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO s FROM {subkeys} WHERE seals;
    c := pgcrypto.encrypt({plain}, s.block, 'aes-ecb/pad:none'::text);
{add_tag}    h := s.key_id || encode(c, 'hex');
    a := ('x' || substr(h, 1, {hex_digits}))::bit({bits})::bigint;
    b := ('x' || substr(h, {to_second}, 15))::bit(60)::bigint;
    c3 := ('x' || substr(h, {to_third}, 15))::bit(60)::bigint;
    RETURN '{prefix}_' || {first}
        || {second}
        || {third};
"
    );

    let pattern = resource.pattern();
    let start = prefix.len() + 2;
    let codes: String = (32..64u8).map(char::from).collect::<String>().replace('\'', "''");
    let (first, second, third) =
        (decoded(0, digits), decoded(digits, 12), decoded(digits + 12, 12));
    let check_tag = match is_tagged {
        true => {
            "    IF substr(c, 17) <> substr(pgcrypto.encrypt(substr(c, 1, 16), s.mac, 'aes-ecb/pad:none'::text), 1, 5) THEN
        RETURN NULL;
    END IF;
"
        }
        false => "",
    };
    let result = match resource.is_int() {
        true => format!(
            "    IF substr(h, 17) <> encode(s.tag, 'hex'){refused} THEN
        RETURN NULL;
    END IF;
    RETURN ('x' || substr(h, 1, 16))::bit(64)::bigint;
"
        ),
        false => format!(
            "    IF NOT ({}) THEN
        RETURN NULL;
    END IF;
    RETURN h::uuid;
",
            resource.is_key("h")
        ),
    };
    let declared_to_open = match declared {
        "" => String::new(),
        declared => format!("{declared}    a bigint;\n    b bigint;\n"),
    };
    let open = format!(
        "    d bytea;
    h text;
    c bytea;
{declared_to_open}BEGIN
    IF id COLLATE \"C\" !~ '{pattern}' THEN
        RETURN NULL;
    END IF;
    d := convert_to(translate(substr(id, {start}), '{DIGITS}', '{codes}'), 'UTF8');
{open_short}    h := lpad(to_hex({first}), {hex_digits}, '0')
        || lpad(to_hex({second}), 15, '0')
        || lpad(to_hex({third}), 15, '0');
    SELECT * INTO s FROM {subkeys} WHERE subkeys.key_id = substr(h, 1, 1)::int;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    c := decode(substr(h, 2), 'hex');
{check_tag}    h := encode(pgcrypto.decrypt(substr(c, 1, 16), s.block, 'aes-ecb/pad:none'::text), 'hex');
{result}"
    );
    (seal, open)
}

#[derive(Default)]
struct Short {
    declared: &'static str,
    seal: String,
    open: String,
    /// The hex digits are an integer with a shorter id.
    refused: &'static str,
}

/// `a` and `b` are FF1's halves, and `n` is the end of AES of its first block, `p`.
fn short(prefix: &str, subkeys: &str) -> Short {
    let encrypted = |block: &str| {
        format!("encode(pgcrypto.encrypt({block}, s.short, 'aes-ecb/pad:none'::text), 'hex')")
    };
    let first = encrypted(&format!("decode('{FF1_FIRST}', 'hex')"));
    let first = format!(
        "        h := {first};
        p := decode(left(h, 22), 'hex');
        n := ('x' || substr(h, 23))::bit(40)::bigint;
"
    );
    let round = |i: &str, half: &str| {
        let block = format!("p || substr(int8send(n # (({i})::bigint << 32 | {half})), 4)");
        format!("('x' || substr({}, 9, 8))::bit(32)::bigint", encrypted(&block))
    };
    let (even, odd) = (round("2 * i", "b"), round("2 * i + 1", "a"));
    let digits = encoded("b", 12);
    let seal = format!(
        "    IF id BETWEEN 0 AND 68719476735 THEN
        SELECT * INTO s FROM {subkeys} WHERE seals;
{first}        a := id >> 5;
        b := (id & 31) << 26;
        FOR i IN 0..4 LOOP
            a := (a + {even}) & 2147483647;
            b := (b + {odd}) & 2147483647;
        END LOOP;
        b := (a & 536870911) << 31 | b;
        RETURN '{prefix}_' || substr(digits, (s.key_id << 2 | (a >> 29)::int) + 1, 1)
            || {digits};
    END IF;
"
    );
    let number = decoded(1, 12);
    let open = format!(
        "    IF length(d) = 13 THEN
        SELECT * INTO s FROM {subkeys} WHERE subkeys.key_id = (get_byte(d, 0) - 32) >> 2;
        IF NOT FOUND THEN
            RETURN NULL;
        END IF;
{first}        b := {number};
        a := ((get_byte(d, 0) & 3)::bigint << 29) | (b >> 31);
        b := b & 2147483647;
        FOR i IN REVERSE 4..0 LOOP
            b := (b - {odd}) & 2147483647;
            a := (a - {even}) & 2147483647;
        END LOOP;
        IF b & 67108863 <> 0 THEN
            RETURN NULL;
        END IF;
        RETURN (a << 5) | (b >> 26);
    END IF;
"
    );
    let declared = "    p bytea;\n    n bigint;\n";
    Short { declared, seal, open, refused: " OR left(h, 7) = '0000000'" }
}

fn uuid(schema: &str, resource: &SqlResource<'_>) -> (String, String) {
    let subkeys = format!("{schema}.subkeys_{} AS subkeys", resource.prefix);
    let rounds: Vec<String> = (0..rounds(resource.key)).map(round).collect();
    let is_key = match resource.is_int() {
        true => "id BETWEEN 0 AND 1152921504606846975".to_owned(),
        false => resource.is_key("h"),
    };
    let tag = "('x' || encode(s.tag, 'hex'))::bit(64)::bigint & 1152921504606846975";
    let (hex, halves) = match resource.key {
        KeyKind::I64 => ("NULL", format!("    hi := id;\n    lo := {tag};\n")),
        KeyKind::STRUCTURED => (
            "encode(uuid_send(id), 'hex')",
            "    hi := ('x' || substr(h, 2, 15))::bit(60)::bigint;
    lo := ('x' || substr(h, 18))::bit(60)::bigint;
"
            .to_owned(),
        ),
        _ => ("encode(uuid_send(id), 'hex')", format!("{FIRST}{HALVES}")),
    };
    let seal = format!(
        "    h text := {hex};
    n bigint;
    hi bigint;
    lo bigint;
BEGIN
    IF NOT ({is_key}) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO s FROM {subkeys} WHERE seals;
{halves}{}    n := (s.key_id::bigint << 58) | (hi >> 2);
    h := lpad(to_hex(n), 15, '0');
    RETURN (left(h, 12) || '8' || right(h, 3) || to_hex(8 | (hi & 3)) || lpad(to_hex(lo), 15, '0'))::uuid::text;
",
        rounds.concat()
    );

    let pattern = resource.pattern();
    let result = match resource.key {
        KeyKind::I64 => format!(
            "    IF lo <> {tag} THEN
        RETURN NULL;
    END IF;
    RETURN hi;
"
        ),
        KeyKind::STRUCTURED => {
            "    RETURN (lpad(to_hex(hi), 16, '0') || lpad(to_hex(lo), 16, '0'))::uuid;\n".to_owned()
        }
        _ => "    h := lpad(to_hex(hi >> 2), 15, '0');
    RETURN (left(h, 12) || '7' || right(h, 3) || to_hex(8 | (hi & 3)) || lpad(to_hex(lo), 15, '0'))::uuid;
"
        .to_owned(),
    };
    let backwards: String = rounds.into_iter().rev().collect();
    let open = format!(
        "    h text := replace(id, '-', '');
    n bigint;
    hi bigint;
    lo bigint;
BEGIN
    IF id COLLATE \"C\" !~ '{pattern}' THEN
        RETURN NULL;
    END IF;
{FIRST}    SELECT * INTO s FROM {subkeys} WHERE subkeys.key_id = n >> 58;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
{HALVES}{backwards}{result}"
    );
    (seal, open)
}

/// The 60 bits before a UUID's variant without its version: two bits of the key id (or zero) and most of
/// `hi`.
const FIRST: &str = "    n := ('x' || substr(h, 1, 12) || substr(h, 14, 3))::bit(60)::bigint;\n";

const HALVES: &str =
    "    hi := ((n & 288230376151711743) << 2) | (('x' || substr(h, 17, 1))::bit(4)::int & 3);
    lo := ('x' || substr(h, 18))::bit(60)::bigint;
";

fn round(i: usize) -> String {
    let (to, from) = match i % 2 {
        0 => ("hi", "lo"),
        _ => ("lo", "hi"),
    };
    let subkey = format!("substr(s.feistel, {}, 16)", 16 * i + 1);
    format!(
        "    {to} := {to} # ('x' || substr(encode(pgcrypto.encrypt(decode(lpad(to_hex({from}), 32, '0'), 'hex'),
        {subkey}, 'aes-ecb/pad:none'::text), 'hex'), 18))::bit(60)::bigint;
"
    )
}

fn encoded(number: &str, digits: usize) -> String {
    let digits = (0..digits)
        .rev()
        .map(|i| format!("substr(digits, (({number} >> {}) & 31)::int + 1, 1)", 5 * i));
    digits.collect::<Vec<_>>().join(" || ")
}

/// All operators of the expression have the same precedence.
fn decoded(start: usize, digits: usize) -> String {
    let digits = (start..start + digits).map(|i| format!("get_byte(d, {i}) - 32"));
    let number = digits.collect::<Vec<_>>().join(" << 5 | ");
    number.replacen("get_byte", "0::bigint | get_byte", 1)
}
