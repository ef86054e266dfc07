//! `opaque-id keys --in-use`: the secrets that the tables and encrypted columns of a database need.

use std::collections::BTreeMap;
use std::io::Write;

use opaque_id_core::Keyring;
use opaque_id_core::keyring::KeyId;
use opaque_id_sql::Dialect;

use super::Result;
use super::database::{Database, SourceRow};

/// The shortest body: a header, a nonce and a tag.
const SHORTEST: usize = 3 + 12 + 16;

/// The first bytes of bodies: the number of the format, above the two bits of the key id.
const FIRST: u8 = 1 << 2;

/// Prints which columns need which secret, and returns whether the keyring has all of them and nothing needs the one to retire.
pub(crate) async fn print(
    out: &mut impl Write,
    url: &str,
    keyring: &Keyring,
    retire: Option<u8>,
) -> Result<bool> {
    let database = Database::connect(url).await?;
    let mut needs: BTreeMap<u8, Vec<String>> = BTreeMap::new();
    let columns = columns(&database).await?;
    if columns.is_empty() && !has_tables(&database).await? {
        return Err("expected a database with tables, found none: check its name in the URL".into());
    }
    if database.dialect() == Dialect::MySql && !reads_all(&database).await? {
        return Err(
            "expected a user with SELECT on the whole database, by its name or on *.*, because the server hides other tables".into(),
        );
    }
    for Place { table, column, history } in &columns {
        // Data keys of groups encrypt these rows, and the secrets encrypt the data keys.
        let of_column = format!("{}_{}", unquoted(table), unquoted(column));
        let keys = table.trim_end_matches(['"', '`']);
        let keys = ["_recent", "_packs"].iter().find_map(|suffix| keys.strip_suffix(suffix));
        let keys = keys
            .map_or_else(|| format!("{of_column}_keys"), |name| format!("{}_keys", unquoted(name)));
        // A table of the application can have this name, but hardly this column. They can also be the keys of packs with the column's name.
        let has = |name: &str| {
            columns.iter().any(|it| unquoted(&it.table) == name && unquoted(&it.column) == "body")
        };
        if has(&keys) && !has(&format!("{of_column}_packs")) {
            continue;
        }
        for (key_id, values) in key_ids(&database, &format!("{table}{history}"), column).await? {
            let place = format!("{}.{} ({values})", unquoted(table), unquoted(column));
            needs.entry(key_id).or_default().push(place);
        }
    }
    writeln!(out)?;
    for key_id in (0..4).filter_map(KeyId::new) {
        let (has, needs) = (keyring.key_ids().any(|held| held == key_id), needs.get(&key_id.get()));
        match needs {
            Some(needs) => {
                let missing = if has { "" } else { ", and the keyring has no such secret" };
                writeln!(out, "key id {key_id} is needed by {}{missing}", needs.join(", "))?;
            }
            None if has => writeln!(
                out,
                "key id {key_id} is needed by no packs and no encrypted column; external ids in other columns may need it"
            )?,
            None => {}
        }
    }
    let has_all = needs.keys().all(|needed| keyring.key_ids().any(|held| held.get() == *needed));
    match retire {
        Some(retire) if retire == keyring.sealing_key_id().get() => Err(format!(
            "key id {retire} seals: begin with step 1 of `opaque-id keys --plan-rotation`"
        )
        .into()),
        Some(retire) if needs.contains_key(&retire) => Err(format!(
            "key id {retire} cannot be retired yet: run `opaque-id packs rekey` for the tables and columns that need it"
        )
        .into()),
        _ => Ok(has_all),
    }
}

/// Returns whether MySQL or MariaDB shows all tables of the database to the user. A pattern such as `shop%` does not count, because the
/// server ignores it if another right names the database.
async fn reads_all(database: &Database) -> Result<bool> {
    let name = database.rows("SELECT DATABASE(), '', NULL".to_owned()).await?;
    let name = name.first().map(|row| row.key.clone()).unwrap_or_default();
    let (mut of_all, mut of_this, mut is_revoked) = (false, None, false);
    for grant in database.grants().await? {
        let Some((privileges, on)) = grant.split_once(" ON ") else { continue };
        let Some((place, _)) = on.split_once(".* ") else { continue };
        let quoted = ["`", "\""].iter().find_map(|mark| {
            let name = place.strip_prefix(mark)?.strip_suffix(mark)?;
            Some(name.replace(&mark.repeat(2), mark).replace('\\', ""))
        });
        let is_here = quoted.as_deref().unwrap_or(place) == name;
        let reads = privileges.split([' ', ',']).any(|it| ["SELECT", "ALL"].contains(&it));
        match grant.starts_with("REVOKE ") {
            true => is_revoked |= is_here && reads,
            false if place == "*" => of_all |= reads,
            false if is_here => of_this = Some(of_this.unwrap_or(true) && reads),
            false => {}
        }
    }
    Ok((of_all || of_this == Some(true)) && !is_revoked)
}

/// A misspelled URL needs no secret.
async fn has_tables(database: &Database) -> Result<bool> {
    Ok(database.integer(match database.dialect() {
        Dialect::Postgres => "SELECT count(*) FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relnamespace NOT IN \
             (SELECT oid FROM pg_namespace WHERE nspname ~ '^pg_' OR nspname = 'information_schema')",
        Dialect::MySql => "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()",
        _ => "SELECT count(*) FROM sqlite_schema",
    }.to_owned()).await? > 0)
}

/// A column that can have bodies.
struct Place {
    /// The names are in quotes.
    table: String,
    column: String,
    /// Reads the earlier rows of one of MariaDB's versioned tables too.
    history: &'static str,
}

async fn columns(database: &Database) -> Result<Vec<Place>> {
    let sql = match database.dialect() {
        // A domain counts by its type. A table that the role cannot read is listed too, so that reading it is an
        // error. The subkeys of SQL functions are not bodies, and a policy hides them.
        Dialect::Postgres => {
            "WITH RECURSIVE bytes (oid) AS (SELECT CAST(CAST('bytea' AS regtype) AS oid) \
             UNION SELECT t.oid FROM pg_type AS t JOIN bytes ON bytes.oid = t.typbasetype) \
             SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), quote_ident(a.attname), CAST(NULL AS bytea) \
             FROM pg_attribute AS a JOIN pg_class AS c ON c.oid = a.attrelid JOIN pg_namespace AS n ON n.oid = c.relnamespace \
             JOIN bytes ON bytes.oid = a.atttypid \
             WHERE c.relkind IN ('r', 'm') AND c.relispopulated AND a.attnum > 0 AND NOT a.attisdropped \
             AND (SELECT count(*) FROM pg_attribute AS s WHERE s.attrelid = c.oid AND c.relname ~ '^subkeys_' \
             AND s.attname IN ('key_id', 'seals', 'block', 'mac', 'feistel', 'tag', 'short')) < 7 \
             AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' ORDER BY 1, 2"
        }
        Dialect::MySql => {
            "SELECT CONCAT('`', REPLACE(table_name, '`', '``'), '`'), CONCAT('`', REPLACE(column_name, '`', '``'), '`'), \
             CASE WHEN table_type = 'SYSTEM VERSIONED' THEN x'01' END FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name) \
             WHERE table_schema = DATABASE() AND table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') \
             AND (data_type LIKE '%blob' OR data_type LIKE '%binary') ORDER BY 1, 2"
        }
        _ => {
            "SELECT '\"' || replace(m.name, '\"', '\"\"') || '\"', '\"' || replace(p.name, '\"', '\"\"') || '\"', NULL \
             FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS p WHERE m.type = 'table' ORDER BY 1, 2"
        }
    };
    let found = database.rows(sql.to_owned()).await?;
    let place = |found: SourceRow| Place {
        table: found.key,
        column: found.literal,
        history: if found.value.is_some() { " FOR SYSTEM_TIME ALL" } else { "" },
    };
    Ok(found.into_iter().map(place).collect())
}

/// Returns the key ids of a column's bodies, each with the number of bodies. A column has bodies if at least half of its values look like
/// them, or one in a thousand and with one of the first dictionaries. One in 16,384 random values does.
async fn key_ids(database: &Database, table: &str, column: &str) -> Result<BTreeMap<u8, u64>> {
    let (text, bytes) = match database.dialect() {
        Dialect::Postgres => ("text", format!("encode(substr({column}, 1, 2), 'hex')")),
        Dialect::MySql => ("char", format!("HEX(SUBSTR({column}, 1, 2))")),
        _ => ("text", format!("hex(substr({column}, 1, 2))")),
    };
    let is_blob = match database.dialect() {
        Dialect::Sqlite => format!("typeof({column}) = 'blob'"),
        _ => format!("{column} IS NOT NULL"),
    };
    let null = if database.dialect() == Dialect::Postgres { "CAST(NULL AS bytea)" } else { "NULL" };
    let sql = format!(
        "SELECT f.first, CAST(COUNT(*) AS {text}), {null} FROM \
         (SELECT CASE WHEN LENGTH({column}) > {SHORTEST} THEN {bytes} ELSE '' END AS first FROM {table} WHERE {is_blob} AND LENGTH({column}) > 0) AS f \
         GROUP BY f.first"
    );
    let (mut ours, mut early, mut others) = (BTreeMap::new(), 0, 0);
    for SourceRow { key, literal, .. } in database.rows(sql).await? {
        let count: u64 = literal.parse()?;
        match u16::from_str_radix(&key, 16).map(u16::to_be_bytes) {
            Ok([first, dictionary]) if first & !0b11 == FIRST => {
                *ours.entry(first & 0b11).or_default() += count;
                early += if dictionary == 0 { count } else { 0 };
            }
            _ => others += count,
        }
    }
    let are_bodies = ours.values().sum::<u64>() >= others || early * 1_000 > others;
    Ok(if are_bodies { ours } else { BTreeMap::new() })
}

/// Returns a name as people write it, without a schema of the search path, and on one line.
fn unquoted(name: &str) -> String {
    let name = name.replace(['"', '`'], "").escape_debug().to_string();
    name.strip_prefix("public.").map(str::to_owned).unwrap_or(name)
}
