use std::collections::BTreeSet;
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};

use opaque_id_core::MasterSecret;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::source::{self, Derive};
use crate::{files, lines, output};

/// `users.id=my_app::User` for a column, or `users=my_app::User` for all columns that identify a table's
/// rows.
struct Given {
    table: String,
    column: Option<String>,
    ty: String,
}

struct Override {
    table: String,
    column: String,
    ty: String,
    is_given: bool,
}

/// Returns notes for the caller.
pub(crate) fn write(
    out: &mut impl Write,
    columns: &[String],
    database_url: Option<&str>,
    sources: &[PathBuf],
    file: Option<&Path>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let given = given(columns)?;
    let mut notes = Vec::new();
    let mut overrides = Vec::new();
    let mut uuids = Vec::new();
    if given.is_empty() || given.iter().any(|given| given.column.is_none()) {
        let url = database_url.ok_or(
            "which columns there are is read from a database: name it by --database-url or DATABASE_URL, or name each \
             column, such as users.id=my_app::User",
        )?;
        overrides = schema_overrides(url, &given, sources, &mut notes)?;
        uuids = uuid_columns(url)?;
    }
    // A column takes precedence over its table, so it comes after the schema's columns.
    for Given { table, column, ty } in given {
        if let Some(column) = column {
            // Without a database, it may be PostgreSQL or not. The others find no such table.
            let tables = [quoted(&table), Some(table)];
            for table in tables.into_iter().flatten() {
                let (column, ty) = (column.clone(), internal(&ty));
                overrides.push(Override { table, column, ty, is_given: true });
            }
        }
    }
    let mut document = match file {
        Some(file) if file.exists() => {
            files::read(file)?.parse().map_err(|error| format!("{}: {error}", file.display()))?
        }
        _ => DocumentMut::new(),
    };
    let is_id = |uuid: &Override| {
        overrides.iter().any(|id| (&id.table, &id.column) == (&uuid.table, &uuid.column))
    };
    // If no id is a UUID, or the file already declares UUIDs, the other columns stay as they are.
    let mut are_ids = false;
    if uuids.iter().any(is_id) {
        let types = section(&mut document, &["macros", "type-overrides"])?;
        let id = internal("_");
        are_ids = types.entry("UUID").or_insert(value(&id)).as_str() == Some(&id);
        types.entry("UUID[]").or_insert(value(format!("&[{id}]")));
    }
    uuids.retain(|uuid| are_ids && !is_id(uuid));
    // The schema does not replace types that this command never writes.
    let is_by_hand = |ty: &str| !ty.contains("Internal<") && !ty.contains("sqlx::types::Uuid");
    for Override { table, column, ty, is_given } in overrides {
        let columns = section(&mut document, &["macros", "table-overrides", &table])?;
        let before = columns.get(&column).and_then(Item::as_str);
        if is_given || !before.is_some_and(is_by_hand) {
            columns.insert(&column, value(ty));
        }
    }
    let mut plain = Vec::new();
    for Override { table, column, ty, .. } in uuids {
        let columns = section(&mut document, &["macros", "table-overrides", &table])?;
        if !columns.contains_key(&column) {
            columns.insert(&column, value(ty));
            plain.push(format!("{table}.{column}"));
        }
    }
    if !plain.is_empty() {
        notes.push(format!(
            "UUIDs that are no ids, written as such: {}; if one is an id, add it, such as TABLE.COLUMN=my_app::User",
            plain.join(", ")
        ));
    }
    match file {
        Some(file) => files::write(file, &document.to_string())?,
        None => write!(out, "{document}")?,
    }
    Ok(notes)
}

fn schema_overrides(
    url: &str,
    given: &[Given],
    sources: &[PathBuf],
    notes: &mut Vec<String>,
) -> Result<Vec<Override>, Box<dyn Error>> {
    let columns = output::block_on(opaque_id_schema::key_columns(url))??;
    if let Some(unread) = output::block_on(opaque_id_schema::unread_schemas(url))?? {
        notes.push(format!("{unread}: add their columns, such as iam.users.id=my_app::User"));
    }
    let (derives, problems) = source::read(sources)?;
    notes.extend(problems);
    let tables: BTreeSet<&str> = columns.iter().map(|column| &*column.identifies).collect();
    let mut of_tables = given.iter().filter(|given| given.column.is_none());
    if let Some(unknown) = of_tables.find(|given| !tables.contains(&*given.table)) {
        let tables: Vec<_> = tables.into_iter().collect();
        let message = "no table with ids has the name";
        return Err(
            format!("{message} `{}`; there are {}", unknown.table, tables.join(", ")).into()
        );
    }
    let mut unnamed = BTreeSet::new();
    let mut overrides = Vec::new();
    for &table in &tables {
        let mut of_table = given.iter();
        let ty = match of_table.find(|given| given.column.is_none() && given.table == table) {
            Some(given) => given.ty.clone(),
            None => match &candidates(&derives, &tables, table)[..] {
                [derive] => {
                    if !is_of(derive, table) {
                        notes.push(format!(
                            "`{table}`: {}, by the end of the name; if that is wrong, add the right one, such as \
                             {table}=my_app::User",
                            derive.path
                        ));
                    }
                    unnamed.extend(derive.unnamed_library.clone());
                    derive.path.clone()
                }
                [] => {
                    notes.push(format!(
                        "`{table}`: no type found; add it, such as {table}=my_app::User"
                    ));
                    continue;
                }
                [one, other, ..] => {
                    notes.push(format!(
                        "`{table}`: {} or {}? add the right one, such as {table}={}",
                        one.path, other.path, one.path
                    ));
                    continue;
                }
            },
        };
        let columns = columns.iter().filter(|column| column.identifies == table);
        overrides.extend(columns.map(|column| Override {
            table: column.table.clone(),
            column: column.column.clone(),
            ty: internal(&ty),
            is_given: false,
        }));
    }
    notes.extend(unnamed.into_iter().map(|library| {
        format!("`{library}::…` needs `extern crate self as {library};` in lib.rs, so that the library finds it too")
    }));
    overrides.sort_by(|a, b| (&a.table, &a.column).cmp(&(&b.table, &b.column)));
    Ok(overrides)
}

/// Returns the columns of UUIDs that are not ids, with their types, by PostgreSQL's own name of the table.
/// Other databases check no parameters, and their drivers name no type `UUID`.
fn uuid_columns(url: &str) -> Result<Vec<Override>, Box<dyn Error>> {
    if !url.starts_with("postgres") {
        return Ok(Vec::new());
    }
    let columns = output::block_on(opaque_id_schema::uuid_columns(url))??.into_iter();
    let columns = columns.map(|(table, column, is_array)| {
        let ty = if is_array { "Vec<sqlx::types::Uuid>" } else { "sqlx::types::Uuid" };
        Override { table, column, ty: ty.to_owned(), is_given: false }
    });
    Ok(columns.collect())
}

/// Returns the derives with the table's name, or else the derives with a name at its end, such as `Comment` for
/// `article_comment`, if no other table ends with it.
fn candidates<'d>(derives: &'d [Derive], tables: &BTreeSet<&str>, table: &str) -> Vec<&'d Derive> {
    fn ends(table: &str) -> impl Iterator<Item = &str> {
        [table].into_iter().chain(table.match_indices('_').map(|(at, _)| &table[at + 1..]))
    }
    let is_only = |derive: &Derive| {
        let is_like = |table: &&&str| ends(table).any(|end| is_of(derive, end));
        tables.iter().filter(is_like).count() == 1
    };
    let found = ends(table).map(|end| {
        let found = derives.iter().filter(|derive| is_of(derive, end));
        found.filter(|derive| end == table || is_only(derive)).collect::<Vec<_>>()
    });
    found.into_iter().find(|found| !found.is_empty()).unwrap_or_default()
}

/// The name may be in the singular or the plural.
fn is_of(derive: &Derive, table: &str) -> bool {
    let letters = |name: &str| name.replace('_', "").to_lowercase();
    let table = letters(table);
    [&derive.name, &derive.prefix].into_iter().any(|name| {
        let name = letters(name);
        let plural_of_y = name.strip_suffix('y').map(|stem| format!("{stem}ies"));
        [name.clone(), format!("{name}s"), format!("{name}es")].contains(&table)
            || plural_of_y.is_some_and(|plural| plural == table)
    })
}

fn given(columns: &[String]) -> Result<Vec<Given>, Box<dyn Error>> {
    let mut given = Vec::new();
    let mut first_error = None;
    lines::for_each(columns, |place, text| {
        match text.map_err(str::to_owned).and_then(Given::parse) {
            Ok(column) => given.push(column),
            Err(error) => {
                first_error.get_or_insert(format!("{place}: {error}"));
            }
        }
        Ok(())
    })?;
    match first_error {
        Some(error) => Err(error.into()),
        None => Ok(given),
    }
}

impl Given {
    fn parse(text: &str) -> Result<Self, String> {
        if MasterSecret::redact(text) != text {
            return Err("too many hex digits; is it a secret?".to_owned());
        }
        let parsed = text.split_once('=').map(|(columns, ty)| {
            let (table, column) = match columns.trim().rsplit_once('.') {
                Some((table, column)) => (table, Some(column.to_owned())),
                None => (columns.trim(), None),
            };
            Self { table: table.to_owned(), column, ty: ty.trim().to_owned() }
        });
        parsed
            .filter(|given| {
                !given.table.is_empty() && given.column.as_deref() != Some("") && is_path(&given.ty)
            })
            .ok_or_else(|| {
                "expected TABLE.COLUMN=TYPE, such as users.id=my_app::User, or TABLE=TYPE"
                    .to_owned()
            })
    }
}

/// A path may have generic arguments.
fn is_path(path: &str) -> bool {
    let starts = path.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':');
    starts && path.chars().all(|c| c.is_alphanumeric() || "_:<>, ".contains(c))
}

fn internal(ty: &str) -> String {
    format!("opaque_id_sqlx::Internal<{ty}>")
}

fn section<'d>(document: &'d mut DocumentMut, path: &[&str]) -> Result<&'d mut Table, String> {
    path.iter().try_fold(document.as_table_mut(), |table, name| {
        let section = table.entry(name).or_insert_with(|| {
            let mut new = Table::new();
            new.set_implicit(true);
            Item::Table(new)
        });
        section.as_table_mut().ok_or_else(|| format!("`{name}` in the file is not a table"))
    })
}

/// Returns the name in quotes, like `quote_ident`, if SQL needs them. Existing quotes are kept. The name may
/// have a schema.
fn quoted(table: &str) -> Option<String> {
    let parts = table.split('.');
    let is_quoted = table.contains('"') || parts.clone().all(is_plain);
    let parts = parts.map(|part| match is_plain(part) {
        true => part.to_owned(),
        false => format!("\"{part}\""),
    });
    (!is_quoted).then(|| parts.collect::<Vec<_>>().join("."))
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    let is_start = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
    bytes.next().is_some_and(is_start)
        && bytes.all(|byte| is_start(byte) || byte.is_ascii_digit())
        && !KEYWORDS.split(' ').any(|keyword| keyword == name)
}

/// PostgreSQL 18 or an earlier version quotes these words: `SELECT word FROM pg_get_keywords() WHERE catcode
/// <> 'U'`.
const KEYWORDS: &str = "\
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both \
    case cast char character check coalesce collate collation column concurrently constraint create cross \
    current_catalog current_date current_role current_schema current_time current_timestamp current_user dec \
    decimal default deferrable desc distinct do else end except exists extract false fetch float for foreign \
    freeze from full grant greatest group grouping having ilike in initially inner inout int integer intersect \
    interval into is isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query \
    json_scalar json_serialize json_table json_value lateral leading least left like limit localtime \
    localtimestamp merge_action national natural nchar none normalize not notnull null nullif numeric offset on \
    only or order out outer overlaps overlay placing position precision primary real references returning right \
    row select session_user setof similar smallint some substring symmetric system_user table tablesample then \
    time timestamp to trailing treat trim true union unique user using values varchar variadic verbose when \
    where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi \
    xmlroot xmlserialize xmltable";

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn names_that_need_quotes_get_them() {
        for (table, expected) in [
            ("users", None),
            ("v2_users", None),
            ("shop.users", None),
            ("\"user\"", None),
            ("user", Some("\"user\"")),
            ("order", Some("\"order\"")),
            ("shop.user", Some("shop.\"user\"")),
            ("Users", Some("\"Users\"")),
            ("2fa", Some("\"2fa\"")),
            ("line-item", Some("\"line-item\"")),
        ] {
            assert_eq!(quoted(table).as_deref(), expected, "{table}");
        }
    }
}
