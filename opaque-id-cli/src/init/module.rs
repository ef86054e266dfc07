//! The text of `src/ids.rs`.

use std::collections::BTreeSet;

use opaque_id_core::__private::is_prefix;
use opaque_id_schema::KeyColumn;

use super::manifest::Crates;

/// The names that the module uses.
const TAKEN: [&str; 8] =
    ["App", "Keyring", "KeyringError", "None", "Ok", "OpaqueId", "Result", "Self"];

#[derive(Default)]
pub(super) struct Module {
    pub(super) text: String,
    /// Tables with plain names, and their types.
    pub(super) types: Vec<(String, String)>,
    pub(super) undecided: usize,
}

impl Module {
    /// Writes a type for each table with ids, or an example if the tables are not known.
    pub(super) fn new(crates: &Crates, columns: Option<&[KeyColumn]>) -> Self {
        let (mut module, mut prepared) = (Self::default(), String::new());
        let mut taken = BTreeSet::from(TAKEN.map(str::to_owned));
        let mut types = String::new();
        if columns.is_none() {
            types += include_str!("example.txt");
            module.undecided = 1;
        }
        for KeyColumn { identifies: table, column, found, kinds, .. } in columns.unwrap_or_default()
        {
            let Some(kinds) = kinds else { continue };
            let [shown, column, found] = [table, column, found].map(|text| text.escape_debug());
            let prefix = singular(table);
            let name = camel(&prefix);
            let mut decide = Vec::new();
            let is_named = is_prefix(&prefix) && taken.insert(name.clone());
            let (prefix, name) = if is_named { (&*prefix, &*name) } else { ("…", "…") };
            if !is_named {
                decide.push(
                    "a prefix of a-z, 0-9 and _, and a name, that no other type has".to_owned(),
                );
            }
            match kinds {
                [] => decide.push(format!("how `{column}` stores keys, because {found} is not supported (`opaque-id check-schema`)")),
                [_] => {}
                _ => decide.push(format!("the key of `{column}`, because its rows do not show it: {}", kinds.join(", "))),
            }
            let key = match kinds.first() {
                Some(&"Uuid7") => String::new(),
                kind => format!(", key = {}", kind.unwrap_or(&"…")),
            };
            let item = format!(
                "/// A row of `{shown}`.\n#[derive(OpaqueId)]\n#[opaque_id(prefix = \"{prefix}\"{key})]\npub struct {name};"
            );
            if decide.is_empty() {
                types += &format!("\n{item}\n");
                prepared += &format!("    keyring.prepare::<{name}>()?;\n");
                if table.chars().all(|c| c.is_alphanumeric() || c == '_') {
                    module.types.push((table.clone(), name.to_owned()));
                }
            } else {
                let decide = decide.join(", and ");
                types += &format!("\n// Decide {decide}.\n// {}\n", item.replace('\n', "\n// "));
                module.undecided += 1;
            }
        }
        let derive = if prepared.is_empty() { "" } else { ", OpaqueId" };
        let text =
            include_str!("ids.txt").replace("{derive}", derive).replace("{prepared}", &prepared);
        // Names of tables come last, because they may contain a placeholder.
        module.text = text
            .replace("{types}", &types)
            .replace("{crate}", &crates.adapter[0].replace('-', "_"));
        if crates.web.iter().any(|(name, _)| *name == "axum") {
            let (field, from) = match crates.pool {
                Some(pool) => {
                    (format!("pub pool: {pool},"), include_str!("pool.txt").replace("{pool}", pool))
                }
                None => {
                    ("// Decide what else handlers need, such as a pool.".to_owned(), String::new())
                }
            };
            module.text += &(include_str!("axum.txt").replace("{pool}", &field) + &from);
        }
        module
    }
}

/// Returns a table's name in snake case, with its last word in the singular by the usual rule.
fn singular(table: &str) -> String {
    let mut name = String::new();
    for c in table.chars() {
        if c.is_uppercase() && name.ends_with(char::is_lowercase) {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    match name.strip_suffix("ies") {
        Some(stem) => return format!("{stem}y"),
        None if ends(&["sses", "shes", "ches", "xes"]) => name.truncate(name.len() - 2),
        None if ends(&["s"]) && !ends(&["ss", "us", "is"]) => name.truncate(name.len() - 1),
        None => {}
    }
    name
}

fn camel(name: &str) -> String {
    let words = name.split('_').filter_map(|word| Some((word.get(..1)?, word.get(1..)?)));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}
