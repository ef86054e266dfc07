//! `opaque-id packs create` and `configure`.

use std::io::Write;

use opaque_id_core::Keyring;
use opaque_id_packs::__private::RuntimePacks;
use opaque_id_packs::{ColumnName, Settings};
use serde_json::{Map, Value};

use super::database::Database;
use super::{Result, Table, layout, name};
use crate::args::{Create, PackSettings};
use crate::resource::ShownKey;

type Listed = Vec<(String, String)>;

pub(super) async fn create<K: ShownKey>(
    out: &mut impl Write,
    create: &Create,
    keyring: &Keyring,
    domain: &str,
    column: Option<&ColumnName>,
) -> Result<bool> {
    let Create { table: args, settings, encoding, .. } = create;
    let &Create { write_through, by_encrypted_key, groups: has_groups, .. } = create;
    let first = match write_through {
        true => Settings::default().write_through(),
        false => Settings::default(),
    };
    let settings = changed(&first, settings)?;
    let expected = listed(&settings, encoding, by_encrypted_key, has_groups)?;
    let (name, is_column) = (name(args), column.is_some());
    let layout = layout(is_column, by_encrypted_key);
    let call =
        RuntimePacks::<K>::create(keyring, domain, name, settings, encoding, layout, has_groups)?;
    let database = Database::connect(&args.database_url).await?;
    match column {
        // The query fails if the column's name is wrong.
        Some(column) => drop(database.count_values(column).await?),
        None => refuse_column(&database, &args.table).await?,
    }
    let sql = RuntimePacks::<K>::create_sql(database.dialect(), &args.table, layout, has_groups);
    let suffixes: &[_] = if is_column { &["meta"] } else { &["recent", "packs", "meta"] };
    let keys = has_groups.then_some("keys");
    let suffixes: Vec<_> = suffixes.iter().copied().chain(keys).collect();
    create_tables(&database, &args.table, &suffixes, &sql).await?;
    let packs = database.run(call).await?;

    let (encoding, hides_keys) = (packs.encoding()?, packs.hides_keys()?);
    let found = listed(&packs.settings(), &encoding, hides_keys, packs.has_groups()?)?;
    let differ = expected.iter().zip(&found).filter(|(expected, found)| expected != found);
    let differ: Vec<_> = differ
        .map(|((name, expected), (_, found))| format!("expected {name} {expected}, found {found}"))
        .collect();
    if !differ.is_empty() {
        return Err(format!(
            "the table {} exists with other settings: {}; `opaque-id packs configure` changes those that can be changed",
            args.table,
            differ.join(", ")
        )
        .into());
    }
    print(out, &found, &found)
}

/// A sweep of new, empty packs would find that nothing needs the dictionaries of the column.
async fn refuse_column(database: &Database, table: &str) -> Result<()> {
    let settings = database.integer(format!("SELECT count(*) FROM {table}_meta")).await;
    let packs = database.execute(format!("SELECT 1 FROM {table}_packs WHERE 1 = 0")).await;
    match settings.is_ok_and(|settings| settings > 0) && packs.is_err() {
        true => Err(format!(
            "{table}_meta has settings, and {table}_packs is missing: pass --column for an encrypted column, or restore the table from a backup"
        )
        .into()),
        false => Ok(()),
    }
}

async fn create_tables(
    database: &Database,
    table: &str,
    suffixes: &[&str],
    sql: &str,
) -> Result<()> {
    let mut are_there = true;
    for suffix in suffixes {
        let sql = format!("SELECT 1 FROM {table}_{suffix} WHERE 1 = 0");
        are_there &= database.execute(sql).await.is_ok();
    }
    if !are_there {
        database.execute(sql.replace("CREATE TABLE", "CREATE TABLE IF NOT EXISTS")).await?;
    }
    Ok(())
}

pub(super) async fn configure<K: ShownKey>(
    out: &mut impl Write,
    table: &Table<K>,
    settings: &PackSettings,
) -> Result<bool> {
    let Table { database, packs, .. } = table;
    let (encoding, hides_keys, has_groups) =
        (packs.encoding()?, packs.hides_keys()?, packs.has_groups()?);
    let before = packs.settings();
    let after = changed(&before, settings)?;
    if after != before {
        database.run(packs.configure(after)).await?;
    }
    let before = listed(&before, &encoding, hides_keys, has_groups)?;
    print(out, &before, &listed(&packs.settings(), &encoding, hides_keys, has_groups)?)
}

fn changed(settings: &Settings, given: &PackSettings) -> Result<Settings> {
    let pack_bytes = given.pack_bytes.map(Value::from);
    let given = [
        ("pack_bytes", pack_bytes),
        ("row_level", given.row_level.map(Value::from)),
        ("pack_level", given.pack_level.map(Value::from)),
        ("row_padding", given.row_padding.clone().map(Value::from)),
        ("pack_padding", given.pack_padding.clone().map(Value::from)),
        ("erase_after", given.erase_after.map(Value::from)),
    ];
    let mut changed = members(settings)?;
    for (name, value) in given {
        changed.extend(value.map(|value| (name.to_owned(), value)));
    }
    Ok(serde_json::from_value(changed.into())?)
}

fn members(settings: &Settings) -> Result<Map<String, Value>> {
    match serde_json::to_value(settings)? {
        Value::Object(members) => Ok(members),
        _ => unreachable!("settings are an object"),
    }
}

fn listed(
    settings: &Settings,
    encoding: &str,
    hides_keys: bool,
    has_groups: bool,
) -> Result<Listed> {
    let order = match hides_keys {
        true => "by encrypted key",
        false => "by key",
    };
    let mut members = members(settings)?;
    // The default is omitted.
    members.entry("erase_after").or_insert(3_600.into());
    let members = members.into_iter().map(|(name, value)| match value {
        Value::String(text) => (name, text),
        value => (name, value.to_string()),
    });
    let rows = if has_groups { "in groups" } else { "without groups" };
    let fixed = [("encoding", encoding), ("order", order), ("rows", rows)];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Ok(fixed.into_iter().chain(members).collect())
}

fn print(out: &mut impl Write, before: &Listed, after: &Listed) -> Result<bool> {
    for ((name, before), (_, after)) in before.iter().zip(after) {
        match before == after {
            true => writeln!(out, "{name:<13}  {after}")?,
            false => writeln!(out, "{name:<13}  {before} -> {after}")?,
        }
    }
    Ok(true)
}
