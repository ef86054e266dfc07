//! MySQL's and MariaDB's functions. No statement contains a `;` at which clients and drivers would split it.

use opaque_id_core::form::FormKind;
use opaque_id_core::key::KeyKind;

use super::{COLUMNS, DIGITS, FF1_FIRST, SqlResource, header, rounds, usage};
use crate::args::FunctionDialect;

pub(super) fn install(
    schema: &str,
    resources: &[SqlResource<'_>],
    only_subkeys: bool,
    dialect: FunctionDialect,
) -> String {
    let mut sql = header("For the client of the server, which stops at an error, or a driver.");
    if !only_subkeys {
        sql += &format!("CREATE DATABASE IF NOT EXISTS {schema};\n");
        for SqlResource { prefix, .. } in resources {
            sql += &format!(
                "CREATE TABLE IF NOT EXISTS {schema}.subkeys_{prefix} (
    key_id TINYINT NOT NULL PRIMARY KEY,
    seals TINYINT UNIQUE,
    block BINARY(16),
    mac BINARY(16),
    feistel VARBINARY(96),
    tag BINARY(8),
    short BINARY(16)
) ENGINE = InnoDB;
"
            );
        }
        // A function keeps the mode and the collation of its creation.
        sql += "
SET @opaque_id_sql_mode = @@SESSION.sql_mode, @opaque_id_collation = @@SESSION.collation_connection;
SET SESSION sql_mode = '', SESSION collation_connection = ascii_bin;
";
        for resource in resources {
            sql += &functions(&Server { dialect, schema }, resource);
        }
        sql += "
SET SESSION sql_mode = @opaque_id_sql_mode, SESSION collation_connection = @opaque_id_collation;
";
    }
    sql += "START TRANSACTION;\n";
    for resource in resources {
        let prefix = resource.prefix;
        let columns = COLUMNS.map(|(name, _)| name).join(", ");
        // A unique index over `seals` finds the row, because NULLs differ from each other.
        let rows = resource.rows(["NULL", "1"], |hex| format!("X'{hex}'"));
        // Sessions with `sql_safe_updates` require a condition.
        sql += &format!(
            "DELETE FROM {schema}.subkeys_{prefix} WHERE key_id >= 0;
INSERT INTO {schema}.subkeys_{prefix} (key_id, seals, {columns}) VALUES
    {rows};
"
        );
    }
    sql += "COMMIT;\n";
    if only_subkeys {
        return sql;
    }
    sql += &format!("\n-- Who may use them:\n-- GRANT EXECUTE ON {schema}.* TO analyst;\n");
    for SqlResource { prefix, .. } in resources {
        sql += &usage(schema, prefix);
    }
    sql
}

pub(super) fn drop(schema: &str, prefixes: &[&str]) -> String {
    let mut sql = String::new();
    for prefix in prefixes {
        sql += &format!(
            "DROP FUNCTION IF EXISTS {schema}.seal_{prefix};\n\
             DROP FUNCTION IF EXISTS {schema}.open_{prefix};\n\
             DROP TABLE IF EXISTS {schema}.subkeys_{prefix};\n"
        );
    }
    sql + &format!("\n-- If nothing else is in it:\n-- DROP DATABASE {schema};\n")
}

struct Server<'s> {
    dialect: FunctionDialect,
    schema: &'s str,
}

impl Server<'_> {
    fn subkeys(&self, prefix: &str) -> String {
        format!("{}.subkeys_{prefix} AS s", self.schema)
    }

    /// The server adds a block of padding.
    fn encrypted(&self, block: &str, subkey: &str) -> String {
        format!("LEFT(AES_ENCRYPT({block}, {subkey}{}), 16)", self.mode())
    }

    /// The server expects padding.
    fn decrypted(&self, block: &str, subkey: &str) -> String {
        let mode = self.mode();
        format!("AES_DECRYPT(CONCAT({block}, AES_ENCRYPT('', {subkey}{mode})), {subkey}{mode})")
    }

    /// On MariaDB a session cannot change the mode if a call names it, and before 11.2 there is only one.
    fn mode(&self) -> &'static str {
        match self.dialect {
            FunctionDialect::Mariadb => "/*M!110200 , NULL, 'aes-128-ecb'*/",
            _ => "",
        }
    }

    /// Another mode of the session would silently give other ids, so this condition is true or raises an error.
    /// MariaDB from 11.2 on lacks the mode of a function that an older server has stored.
    fn guard(&self) -> String {
        let expected = "expected block_encryption_mode aes-128-ecb";
        match self.dialect {
            FunctionDialect::Mariadb => format!(
                "IF(AES_ENCRYPT('', X'000102030405060708090a0b0c0d0e0f'{}) = X'954f64f2e4e86e9eee82d20216684899', \
                 TRUE, 18446744073709551615 + LENGTH('{expected}: create the functions again'))",
                self.mode()
            ),
            _ => format!(
                "IF(@@SESSION.block_encryption_mode = 'aes-128-ecb', TRUE, \
                 UUID_TO_BIN(CONCAT('{expected}, found ', @@SESSION.block_encryption_mode)) IS NULL)"
            ),
        }
    }
}

fn functions(server: &Server<'_>, resource: &SqlResource<'_>) -> String {
    let SqlResource { prefix, .. } = resource;
    let Server { schema, dialect } = server;
    let (seal, open) = match resource.form {
        FormKind::UUID => uuid(server, resource),
        FormKind::SHORT => short(server, resource),
        _ => text(server, resource),
    };
    // Parameters of these types accept everything, so no session cuts, rounds or refuses an argument before
    // it is checked.
    let (any_text, any_bytes) = ("LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "LONGBLOB");
    let (from, to) = match resource.is_int() {
        true => (any_text, "BIGINT"),
        false => (any_bytes, "BINARY(16)"),
    };
    let is_key = match (resource.is_int(), resource.form) {
        (true, FormKind::UUID) => {
            format!("{IS_INT} AND CAST(id AS SIGNED) BETWEEN 0 AND 1152921504606846975")
        }
        (true, _) => IS_INT.to_owned(),
        (false, _) => format!("LENGTH(id) = 16 AND {}", resource.is_key("LOWER(HEX(id))")),
    };
    let length = match resource.form {
        FormKind::UUID => "= 36".to_owned(),
        FormKind::SHORT => format!("IN ({}, {})", prefix.len() + 14, prefix.len() + 27),
        _ => format!("= {}", prefix.len() + 1 + resource.digits()),
    };
    let pattern = resource.pattern();
    // In a regular expression `$` also matches before a line's end.
    let is_id = format!("LENGTH(id) {length} AND id REGEXP '{pattern}'");
    let guard = server.guard();
    let function = |name: &str, from: &str, to: &str, condition: &str, select: String| {
        let name = format!("{schema}.{name}_{prefix}");
        let create = match dialect {
            FunctionDialect::Mariadb => format!("CREATE OR REPLACE FUNCTION {name}"),
            _ => format!("DROP FUNCTION IF EXISTS {name};\nCREATE FUNCTION {name}"),
        };
        format!(
            "
{create}(id {from}) RETURNS {to}
DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
RETURN IF({guard} AND {condition}, (
{select}), NULL);
"
        )
    };
    let id = "VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin";
    function("seal", from, id, &is_key, seal) + &function("open", any_text, to, &is_id, open)
}

/// Without this end, the server would merge the query into the next one and compute its columns at each use.
/// Each round uses the two before it, so the work would double with every round.
const ONCE: &str = "LIMIT 1";

/// The whole text is one integer of 64 bits.
const IS_INT: &str = "id = CAST(CAST(id AS SIGNED) AS CHAR)";

fn text(server: &Server<'_>, resource: &SqlResource<'_>) -> (String, String) {
    let SqlResource { prefix, .. } = resource;
    let subkeys = server.subkeys(prefix);
    let (digits, hex_digits) = resource.first_group();
    let plain = match resource.is_int() {
        true => "CONCAT(UNHEX(LPAD(HEX(CAST(id AS SIGNED)), 16, '0')), s.tag)",
        false => "id",
    };
    let c = server.encrypted(plain, "s.block");
    let is_tagged = matches!(resource.form, FormKind::TAGGED);
    let tag = |c: &str| format!("LEFT({}, 5)", server.encrypted(c, "s.mac"));
    let hex = match is_tagged {
        true => format!("HEX(CONCAT({c}, {}))", tag(&c)),
        false => format!("HEX({c})"),
    };
    let after = hex_digits - 1;
    // A group is encoded at once because 60 bits fit the server's numbers.
    let seal = format!(
        "    SELECT CONCAT('{prefix}_', {})
    FROM {subkeys} WHERE s.seals = 1
",
        to_crockford(&format!(
            "LOWER(CONCAT(
        LPAD(CONV(CONCAT(s.key_id, LEFT({hex}, {after})), 16, 32), {digits}, '0'),
        LPAD(CONV(SUBSTR({hex}, {}, 15), 16, 32), 12, '0'),
        LPAD(CONV(SUBSTR({hex}, {}, 15), 16, 32), 12, '0')))",
            after + 1,
            after + 16,
        ))
    );

    // The length is bounded because MariaDB writes queries with longer texts to the disk.
    let (start, length) = (prefix.len() + 2, resource.digits());
    let body = from_crockford(&format!("CAST(SUBSTR(id, {start}) AS CHAR({length}))"));
    let decrypted = server.decrypted("c", "s.block");
    let check_tag = match is_tagged {
        true => format!(" AND sealed.tag = {}", tag("c")),
        false => String::new(),
    };
    let (result, opened_tag, is_key) = match resource.is_int() {
        true => (
            "CAST(CONV(LEFT(h, 16), 16, -10) AS SIGNED)",
            ", s.tag",
            match resource.form {
                // Other integers have a shorter id.
                FormKind::SHORT => "RIGHT(h, 16) = LOWER(HEX(tag)) AND LEFT(h, 7) <> '0000000'",
                _ => "RIGHT(h, 16) = LOWER(HEX(tag))",
            }
            .to_owned(),
        ),
        false => ("UNHEX(h)", "", resource.is_key("h")),
    };
    let open = format!(
        "    WITH digits AS (SELECT {body} AS d),
    hex AS (SELECT CONCAT(
        LPAD(CONV(LEFT(d, {digits}), 32, 16), {hex_digits}, '0'),
        LPAD(CONV(SUBSTR(d, {}, 12), 32, 16), 15, '0'),
        LPAD(CONV(SUBSTR(d, {}, 12), 32, 16), 15, '0')) AS h FROM digits),
    sealed AS (SELECT LEFT(h, 1) AS key_id, UNHEX(SUBSTR(h, 2, 32)) AS c, UNHEX(SUBSTR(h, 34)) AS tag FROM hex),
    opened AS (SELECT LOWER(HEX({decrypted})) AS h{opened_tag}
        FROM {subkeys} JOIN sealed WHERE s.key_id = sealed.key_id{check_tag})
    SELECT {result} FROM opened WHERE {is_key}
",
        digits + 1,
        digits + 13,
    );
    (seal, open)
}

fn short(server: &Server<'_>, resource: &SqlResource<'_>) -> (String, String) {
    let (seal_long, open_long) = text(server, resource);
    let subkeys = server.subkeys(resource.prefix);
    let first = server.encrypted(&format!("X'{FF1_FIRST}'"), "s.short");
    // The end of AES of the first block is a number, because rounds are combined with it.
    let start = format!(
        "round0 AS (SELECT key_id, short, LEFT(p, 11) AS p, {} AS n, a, b FROM first)",
        number("RIGHT(HEX(p), 10)")
    );
    let rounds = |rounds: &mut dyn Iterator<Item = u64>, sum: &dyn Fn(&str, &str) -> String| {
        let queries = rounds.enumerate().map(|(before, i)| {
            let f = |half: &str| {
                let end = format!("UNHEX(LPAD(HEX(n ^ ({} | {half})), 10, '0'))", i << 32);
                let block = server.encrypted(&format!("CONCAT(p, {end})"), "short");
                number(&format!("SUBSTR(HEX({block}), 9, 8)"))
            };
            let halves = match i % 2 {
                0 => format!("{} AS a, b", sum("a", &f("b"))),
                _ => format!("a, {} AS b", sum("b", &f("a"))),
            };
            let after = before + 1;
            format!(
                ",\n    round{after} AS (SELECT key_id, short, p, n, {halves} FROM round{before} {ONCE})"
            )
        });
        queries.collect::<String>()
    };
    let forwards = rounds(&mut (0..10), &|half, f| format!("({half} + {f}) & 2147483647"));
    let seal = format!(
        "    SELECT IF(CAST(id AS SIGNED) BETWEEN 0 AND 68719476735, (
    WITH first AS (SELECT s.key_id, s.short, {first} AS p, CAST(id AS UNSIGNED) >> 5 AS a, (CAST(id AS UNSIGNED) & 31) << 26 AS b
        FROM {subkeys} WHERE s.seals = 1),
    {start}{forwards}
    SELECT CONCAT('{}_', {}) FROM round10), (
{seal_long}    ))
",
        resource.prefix,
        to_crockford(
            "LOWER(CONCAT(CONV((key_id << 2) | (a >> 29), 10, 32),
        LPAD(CONV(((a & 536870911) << 31) | b, 10, 32), 12, '0')))"
        ),
    );
    let minus = |half: &str, f: &str| format!("({half} + 4294967296 - {f}) & 2147483647");
    let backwards = rounds(&mut (0..10).rev(), &minus);
    let start_of_body = resource.prefix.len() + 2;
    let body = from_crockford(&format!("CAST(SUBSTR(id, {start_of_body}) AS CHAR(13))"));
    let open = format!(
        "    SELECT IF(LENGTH(id) = {}, (
    WITH digits AS (SELECT {body} AS d),
    parts AS (SELECT {} AS top, {} AS low FROM digits),
    first AS (SELECT s.key_id, s.short, {first} AS p, ((top & 3) << 29) | (low >> 31) AS a, low & 2147483647 AS b
        FROM {subkeys} JOIN parts WHERE s.key_id = top >> 2),
    {start}{backwards}
    SELECT CAST((a << 5) | (b >> 26) AS SIGNED) FROM round10 WHERE b & 67108863 = 0), (
{open_long}    ))
",
        resource.prefix.len() + 14,
        "CAST(CONV(LEFT(d, 1), 32, 10) AS UNSIGNED)",
        "CAST(CONV(SUBSTR(d, 2), 32, 10) AS UNSIGNED)",
    );
    (seal, open)
}

/// Ids of the uuid form and UUIDv7s have the same layout.
fn uuid(server: &Server<'_>, resource: &SqlResource<'_>) -> (String, String) {
    let tag = "CAST(CONV(RIGHT(HEX(s.tag), 15), 16, 10) AS UNSIGNED)";
    let subkeys = server.subkeys(resource.prefix);
    let rounds = rounds(resource.key);
    let (hi, lo) = match resource.key {
        KeyKind::I64 => ("CAST(id AS UNSIGNED)".to_owned(), tag.to_owned()),
        KeyKind::STRUCTURED => (number("SUBSTR(HEX(id), 2, 15)"), number("SUBSTR(HEX(id), 18)")),
        _ => (hi_of(&first("HEX(id)"), "HEX(id)"), number("SUBSTR(HEX(id), 18)")),
    };
    let n = "LPAD(HEX((key_id << 58) | (hi >> 2)), 15, '0')";
    let last = "LPAD(HEX(lo), 15, '0')";
    let seal = format!(
        "    WITH round0 AS (SELECT s.key_id, s.feistel, {hi} AS hi, {lo} AS lo FROM {subkeys} WHERE s.seals = 1){}
    SELECT LOWER(CONCAT_WS('-', LEFT({n}, 8), SUBSTR({n}, 9, 4), CONCAT('8', RIGHT({n}, 3)),
        CONCAT(HEX(8 | (hi & 3)), LEFT({last}, 3)), RIGHT({last}, 12)))
    FROM round{rounds}
",
        chain(server, "key_id", 0..rounds),
    );

    let result = match resource.key {
        KeyKind::I64 => "hi".to_owned(),
        KeyKind::STRUCTURED => format!("UNHEX(CONCAT('0', LPAD(HEX(hi), 15, '0'), '0', {last}))"),
        _ => {
            let n = "LPAD(HEX(hi >> 2), 15, '0')";
            format!("UNHEX(CONCAT(LEFT({n}, 12), '7', RIGHT({n}, 3), HEX(8 | (hi & 3)), {last}))")
        }
    };
    let (tag, condition) = match resource.is_int() {
        true => (tag, " WHERE lo = tag"),
        false => ("NULL", ""),
    };
    let open = format!(
        "    WITH hex AS (SELECT REPLACE(CAST(id AS CHAR(36)), '-', '') AS h),
    first AS (SELECT h, {} AS n FROM hex),
    round0 AS (SELECT s.feistel, {tag} AS tag, {} AS hi, {} AS lo
        FROM {subkeys} JOIN first WHERE s.key_id = n >> 58){}
    SELECT {result} FROM round{rounds}{condition}
",
        first("h"),
        hi_of("n", "h"),
        number("SUBSTR(h, 18)"),
        chain(server, "tag", (0..rounds).rev()),
    );
    (seal, open)
}

/// Each round is a query over the previous one, with a column for the last query.
fn chain(server: &Server<'_>, column: &str, rounds: impl Iterator<Item = usize>) -> String {
    let queries = rounds.enumerate().map(|(before, i)| {
        let subkey = format!("SUBSTR(feistel, {}, 16)", 16 * i + 1);
        let f = |half: &str| {
            let block = format!("UNHEX(LPAD(HEX({half}), 32, '0'))");
            let encrypted = server.encrypted(&block, &subkey);
            number(&format!("RIGHT(HEX({encrypted}), 15)"))
        };
        let halves = match i % 2 {
            0 => format!("hi ^ {} AS hi, lo", f("lo")),
            _ => format!("hi, lo ^ {} AS lo", f("hi")),
        };
        let after = before + 1;
        format!(
            ",\n    round{after} AS (SELECT {column}, feistel, {halves} FROM round{before} {ONCE})"
        )
    });
    queries.collect()
}

fn number(hex: &str) -> String {
    format!("CAST(CONV({hex}, 16, 10) AS UNSIGNED)")
}

/// The 60 bits before a UUID's variant without its version: two bits of the key id (or zero) and most of
/// `hi`.
fn first(hex: &str) -> String {
    number(&format!("CONCAT(LEFT({hex}, 12), SUBSTR({hex}, 14, 3))"))
}

fn hi_of(first: &str, hex: &str) -> String {
    let last = number(&format!("SUBSTR({hex}, 17, 1)"));
    format!("(({first} & 288230376151711743) << 2) | ({last} & 3)")
}

/// Returns the digits of `CONV` and of Crockford's alphabet with the same value, if they differ.
fn different_digits() -> Vec<(char, char)> {
    let conv = ('0'..='9').chain('a'..='v');
    let pairs = conv.zip(DIGITS.chars());
    pairs.filter(|(conv, ours)| conv != ours).collect()
}

/// Replaces the last digits first, because each digit is replaced by a later one.
fn to_crockford(text: &str) -> String {
    let digits = different_digits();
    let replace = |text, (conv, ours)| format!("REPLACE({text}, '{conv}', '{ours}')");
    digits.into_iter().rev().fold(text.to_owned(), replace)
}

fn from_crockford(text: &str) -> String {
    let digits = different_digits();
    let replace = |text, (conv, ours)| format!("REPLACE({text}, '{ours}', '{conv}')");
    digits.into_iter().fold(text.to_owned(), replace)
}
