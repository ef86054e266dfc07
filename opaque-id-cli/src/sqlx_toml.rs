//! `sqlx.toml`: the Rust types of columns in sqlx's macros.

use std::error::Error;
use std::io::Write;
use std::path::Path;

use opaque_id_core::MasterSecret;
use toml_edit::{DocumentMut, Item, Table, value};

use crate::lines;

/// `users.id=crate::User`.
struct Override<'a> {
    table: &'a str,
    column: &'a str,
    resource: &'a str,
}

/// Prints the overrides, or writes them into a file and keeps the rest of it.
pub(crate) fn write(
    out: &mut impl Write,
    columns: &[String],
    file: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    let mut document = match file {
        Some(file) if file.exists() => std::fs::read_to_string(file)?.parse()?,
        _ => DocumentMut::new(),
    };
    let mut first_error = None;
    lines::for_each(columns, |place, text| {
        let set = text
            .map_err(str::to_owned)
            .and_then(Override::parse)
            .and_then(|column| set(&mut document, &column));
        if let Err(error) = set {
            first_error.get_or_insert(format!("{place}: {error}"));
        }
        Ok(())
    })?;
    if let Some(error) = first_error {
        return Err(error.into());
    }
    match file {
        Some(file) => std::fs::write(file, document.to_string())
            .map_err(|error| format!("{}: {error}", file.display()))?,
        None => write!(out, "{document}")?,
    }
    Ok(())
}

impl<'a> Override<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let parts = text.split_once('=').and_then(|(column, resource)| {
            let (table, column) = column.trim().rsplit_once('.')?;
            Some((table, column, resource.trim()))
        });
        match parts {
            Some((table, column, resource))
                if !table.is_empty()
                    && !column.is_empty()
                    && is_path(resource)
                    && MasterSecret::redact(text) == text =>
            {
                Ok(Self {
                    table,
                    column,
                    resource,
                })
            }
            _ if MasterSecret::redact(text) != text => {
                Err("too many hex digits; is it a secret?".to_owned())
            }
            _ => Err("expected TABLE.COLUMN=RESOURCE, such as users.id=crate::User".to_owned()),
        }
    }
}

/// A Rust path, which may have generic arguments.
fn is_path(path: &str) -> bool {
    let starts = path.starts_with(|c: char| c.is_alphabetic() || c == '_' || c == ':');
    starts
        && path
            .chars()
            .all(|c| c.is_alphanumeric() || "_:<>, ".contains(c))
}

fn set(document: &mut DocumentMut, column: &Override<'_>) -> Result<(), String> {
    let mut table = document.as_table_mut();
    for name in ["macros", "table-overrides", column.table] {
        table = table
            .entry(name)
            .or_insert_with(|| {
                let mut new = Table::new();
                new.set_implicit(true);
                Item::Table(new)
            })
            .as_table_mut()
            .ok_or_else(|| format!("`{name}` in the file is not a table"))?;
    }
    let ty = format!("opaque_id_sqlx::Internal<{}>", column.resource);
    table.insert(column.column, value(ty));
    Ok(())
}
