//! PostgreSQL's functions, in PL/pgSQL: SQL functions would be inlined, and then `EXPLAIN` shows what they contain.

use super::{COLUMNS, DIGITS, Resource, header, rounds};
use crate::args::{FormKind, KeyKind};

pub(super) fn install(schema: &str, resources: &[Resource<'_>], only_subkeys: bool) -> String {
    let mut sql = header(
        "For psql --set ON_ERROR_STOP=1, or any other client. It changes everything or nothing.",
    );
    sql += "BEGIN;\nSET LOCAL client_min_messages = warning;\n";
    if !only_subkeys {
        sql += &format!(
            "CREATE EXTENSION IF NOT EXISTS pgcrypto;\nCREATE SCHEMA IF NOT EXISTS {schema};\n"
        );
    }
    sql += "SET LOCAL search_path = pg_catalog, pg_temp;\n";
    for resource in resources {
        if !only_subkeys {
            sql += &table(schema, resource.prefix);
        }
        sql += &guard(schema, resource.prefix);
        sql += &subkeys(schema, resource);
    }
    if !only_subkeys {
        let functions: String = resources.iter().map(|r| functions(schema, r)).collect();
        // Wherever pgcrypto is: its functions are named with their schema, so that no other can be called instead.
        sql += &format!(
            "DO $install$
BEGIN
    EXECUTE replace($functions${functions}$functions$, 'pgcrypto.', (
        SELECT quote_ident(nspname) || '.' FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
        WHERE extname = 'pgcrypto'));
END
$install$;
"
        );
        for resource in resources {
            let prefix = resource.prefix;
            sql += &format!(
                "REVOKE ALL ON FUNCTION {schema}.seal_{prefix}, {schema}.open_{prefix} FROM PUBLIC;\n"
            );
        }
    }
    sql += "COMMIT;\n";
    if !only_subkeys {
        sql += &format!("\n-- Who may use them:\n-- GRANT USAGE ON SCHEMA {schema} TO analyst;\n");
        for Resource { prefix, .. } in resources {
            sql += &format!(
                "-- GRANT EXECUTE ON FUNCTION {schema}.seal_{prefix}, {schema}.open_{prefix} TO analyst;\n"
            );
        }
        for Resource { prefix, .. } in resources {
            sql += &format!(
                "\n-- A view that shows external ids only, and a filter that uses the primary key:\n\
                 -- CREATE VIEW ... AS SELECT {schema}.seal_{prefix}(id) AS id, ... FROM ...;\n\
                 -- SELECT ... FROM ... WHERE id = {schema}.open_{prefix}('...');\n"
            );
        }
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
    sql + &format!("COMMIT;\n\n-- If nothing else is in it:\n-- DROP SCHEMA {schema};\n")
}

fn table(schema: &str, prefix: &str) -> String {
    let columns = COLUMNS.map(|(name, _)| format!("{name} bytea")).join(", ");
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.subkeys_{prefix} (
    key_id smallint NOT NULL PRIMARY KEY, seals boolean NOT NULL, {columns}
);
"
    )
}

/// Ensures that only we can read the table: it may be another's, with our name. Others lose what default privileges have
/// granted. Row-level security keeps out those who get a grant later, and members of `pg_read_all_data`.
fn guard(schema: &str, prefix: &str) -> String {
    let table = format!("{schema}.subkeys_{prefix}");
    format!(
        "DO $guard$
DECLARE
    found pg_class;
    granted text;
BEGIN
    LOCK TABLE {table} IN ROW EXCLUSIVE MODE;
    SELECT * INTO found FROM pg_class WHERE oid = '{table}'::regclass;
    IF pg_get_userbyid(found.relowner) <> current_user THEN
        RAISE EXCEPTION 'expected {table} to belong to %, found %', current_user, pg_get_userbyid(found.relowner);
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

fn subkeys(schema: &str, resource: &Resource<'_>) -> String {
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

fn functions(schema: &str, resource: &Resource<'_>) -> String {
    let (seal, open) = match resource.form {
        FormKind::Uuid => uuid(schema, resource),
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
CREATE OR REPLACE FUNCTION {schema}.{name}_{prefix}(id {from}) RETURNS {to}
LANGUAGE plpgsql STABLE STRICT PARALLEL SAFE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    s {schema}.subkeys_{prefix};
{body}END
$body$;
"
        )
    };
    function("seal", key, "text", seal) + &function("open", "text", key, open)
}

/// The bodies for the text form and the tagged form.
fn text(schema: &str, resource: &Resource<'_>) -> (String, String) {
    let Resource { prefix, .. } = resource;
    let subkeys = format!("{schema}.subkeys_{prefix} AS subkeys");
    let (digits, hex_digits) = resource.first_group();
    let bits = 4 * hex_digits;
    let is_tagged = matches!(resource.form, FormKind::Tagged);
    let (is_key, plain) = match resource.is_int() {
        true => ("true".to_owned(), "int8send(id) || s.tag"),
        false => (
            resource.is_key("encode(uuid_send(id), 'hex')"),
            "uuid_send(id)",
        ),
    };
    let add_tag = match is_tagged {
        true => "    c := c || substr(pgcrypto.encrypt(c, s.mac, 'aes-ecb/pad:none'), 1, 5);\n",
        false => "",
    };
    let first = encoded("a", digits);
    let (second, third) = (encoded("b", 12), encoded("c3", 12));
    let (to_second, to_third) = (hex_digits + 1, hex_digits + 16);
    let seal = format!(
        "    digits CONSTANT text := '{DIGITS}';
    c bytea;
    h text;
    a bigint;
    b bigint;
    c3 bigint;
BEGIN
    IF NOT ({is_key}) THEN
        RETURN NULL;
    END IF;
    SELECT * INTO s FROM {subkeys} WHERE seals;
    c := pgcrypto.encrypt({plain}, s.block, 'aes-ecb/pad:none');
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
    // The digits become the 32 characters from the space on, whose codes count up.
    let codes: String = (32..64u8)
        .map(char::from)
        .collect::<String>()
        .replace('\'', "''");
    let (first, second, third) = (
        decoded(0, digits),
        decoded(digits, 12),
        decoded(digits + 12, 12),
    );
    let check_tag = match is_tagged {
        true => {
            "    IF substr(c, 17) <> substr(pgcrypto.encrypt(substr(c, 1, 16), s.mac, 'aes-ecb/pad:none'), 1, 5) THEN
        RETURN NULL;
    END IF;
"
        }
        false => "",
    };
    let result = match resource.is_int() {
        true => "    IF substr(h, 17) <> encode(s.tag, 'hex') THEN
        RETURN NULL;
    END IF;
    RETURN ('x' || substr(h, 1, 16))::bit(64)::bigint;
"
        .to_owned(),
        false => format!(
            "    IF NOT ({}) THEN
        RETURN NULL;
    END IF;
    RETURN h::uuid;
",
            resource.is_key("h")
        ),
    };
    let open = format!(
        "    d bytea;
    h text;
    c bytea;
BEGIN
    IF id COLLATE \"C\" !~ '{pattern}' THEN
        RETURN NULL;
    END IF;
    d := convert_to(translate(substr(id, {start}), '{DIGITS}', '{codes}'), 'UTF8');
    h := lpad(to_hex({first}), {hex_digits}, '0')
        || lpad(to_hex({second}), 15, '0')
        || lpad(to_hex({third}), 15, '0');
    SELECT * INTO s FROM {subkeys} WHERE subkeys.key_id = substr(h, 1, 1)::int;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    c := decode(substr(h, 2), 'hex');
{check_tag}    h := encode(pgcrypto.decrypt(substr(c, 1, 16), s.block, 'aes-ecb/pad:none'), 'hex');
{result}"
    );
    (seal, open)
}

/// The bodies for the uuid form. Its ids and UUIDv7s have the same layout.
fn uuid(schema: &str, resource: &Resource<'_>) -> (String, String) {
    let subkeys = format!("{schema}.subkeys_{} AS subkeys", resource.prefix);
    let rounds: Vec<String> = (0..rounds(resource.key)).map(round).collect();
    let is_key = match resource.is_int() {
        true => "id BETWEEN 0 AND 1152921504606846975".to_owned(),
        false => resource.is_key("h"),
    };
    let tag = "('x' || encode(s.tag, 'hex'))::bit(64)::bigint & 1152921504606846975";
    let (hex, halves) = match resource.key {
        KeyKind::Int => ("NULL", format!("    hi := id;\n    lo := {tag};\n")),
        KeyKind::Structured => (
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
        KeyKind::Int => format!(
            "    IF lo <> {tag} THEN
        RETURN NULL;
    END IF;
    RETURN hi;
"
        ),
        KeyKind::Structured => {
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

/// The 60 bits before a UUID's variant, without its version: two bits of the key id, or zero, and most of `hi`.
const FIRST: &str = "    n := ('x' || substr(h, 1, 12) || substr(h, 14, 3))::bit(60)::bigint;\n";

const HALVES: &str =
    "    hi := ((n & 288230376151711743) << 2) | (('x' || substr(h, 17, 1))::bit(4)::int & 3);
    lo := ('x' || substr(h, 18))::bit(60)::bigint;
";

/// A round of the Feistel network. Forwards and backwards it is the same.
fn round(i: usize) -> String {
    let (to, from) = match i % 2 {
        0 => ("hi", "lo"),
        _ => ("lo", "hi"),
    };
    let subkey = format!("substr(s.feistel, {}, 16)", 16 * i + 1);
    format!(
        "    {to} := {to} # ('x' || substr(encode(pgcrypto.encrypt(decode(lpad(to_hex({from}), 32, '0'), 'hex'),
        {subkey}, 'aes-ecb/pad:none'), 'hex'), 18))::bit(60)::bigint;
"
    )
}

/// The digits of a number, as an expression.
fn encoded(number: &str, digits: usize) -> String {
    let digits = (0..digits)
        .rev()
        .map(|i| format!("substr(digits, (({number} >> {}) & 31)::int + 1, 1)", 5 * i));
    digits.collect::<Vec<_>>().join(" || ")
}

/// The number of some digits in `d`, as an expression. All these operators have the same precedence.
fn decoded(start: usize, digits: usize) -> String {
    let digits = (start..start + digits).map(|i| format!("get_byte(d, {i}) - 32"));
    let number = digits.collect::<Vec<_>>().join(" << 5 | ");
    number.replacen("get_byte", "0::bigint | get_byte", 1)
}
