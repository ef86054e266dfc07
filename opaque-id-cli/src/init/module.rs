//! The text of `src/ids.rs`.

use std::collections::BTreeSet;

use opaque_id_core::__private::is_prefix;
use opaque_id_schema::KeyColumn;

use crate::source::Derive;

#[derive(Default)]
pub(super) struct Module {
    pub(super) text: String,
    pub(super) types: Vec<(String, String)>,
}

impl Module {
    /// Tables whose prefixes the application's own derives already have get no type.
    pub(super) fn new(adapter: &str, columns: Option<&[KeyColumn]>, derived: &[Derive]) -> Self {
        let (mut module, mut prepared) = (Self::default(), String::new());
        let taken = "App Keyring KeyringError None Ok OpaqueId Result Self Some".split(' ');
        let mut taken: BTreeSet<_> = taken.map(str::to_owned).collect();
        let krate = adapter.replace('-', "_");
        let example = include_str!("example.txt").replace("{crate}", &krate);
        let mut types = columns.map_or(example, |_| String::new());
        for KeyColumn { identifies: table, column, found, kinds, .. } in columns.unwrap_or_default()
        {
            let Some(kinds) = kinds else { continue };
            let [shown, column, found] = [table, column, found].map(|text| text.escape_debug());
            let prefix = singular(&table.to_lowercase());
            if derived.iter().any(|derive| derive.prefix == prefix) {
                continue;
            }
            let name = camel(&prefix);
            let mut decide = Vec::new();
            let is_named = is_prefix(&prefix) && taken.insert(name.clone());
            let (prefix, name) = if is_named { (&*prefix, &*name) } else { ("…", "…") };
            if !is_named {
                decide.push("a prefix and a name that no other type has".to_owned());
            }
            match kinds {
                [] => decide.push(format!("how `{column}` stores keys, because {found} does not fit: `opaque-id check-schema` has the remedy, except for texts other than UUIDs and ULIDs")),
                [_] => {}
                _ => decide.push(format!("the key of `{column}`, because its rows do not show it: {}", kinds.join(", "))),
            }
            let key = if let [key] = kinds { key } else { "…" };
            let item = format!(
                "/// A row of `{shown}`.\n#[derive(OpaqueId)]\n#[opaque_id(prefix = \"{prefix}\", key = {key})]\npub struct {name};"
            );
            if decide.is_empty() {
                types += &format!("\n{item}\n");
                prepared += &format!("    keyring.prepare::<{name}>()?;\n");
                if table.chars().all(|c| c.is_alphanumeric() || c == '_') {
                    module.types.push((table.clone(), name.to_owned()));
                }
            } else {
                let decide = decide.join(", and ");
                let item = item
                    .replace("(OpaqueId)", &format!("({krate}::OpaqueId)"))
                    .replace('\n', "\n// ");
                types += &format!("\n// Decide {decide}.\n// {item}\n");
            }
        }
        let derive = if prepared.is_empty() { "" } else { ", OpaqueId" };
        let text = include_str!("ids.txt").replace("{crate}", &krate);
        let text = text.replace("{derive}", derive).replace("{prepared}", &prepared);
        // Names of tables come last, because they may contain a placeholder.
        module.text = text.replace("{types}", &types);
        module
    }
}

/// Returns a name with its last word in the singular, by the usual rules.
fn singular(name: &str) -> String {
    let ends = "aliases:alias alias:alias statuses:status ies:y sses:ss shes:sh ches:ch xes:x ss:ss us:us is:is s:".split(' ');
    let mut ends = ends.filter_map(|end| end.split_once(':'));
    let single = ends.find_map(|(plural, end)| Some(name.strip_suffix(plural)?.to_owned() + end));
    single.unwrap_or(name.to_owned())
}

fn camel(name: &str) -> String {
    let words = name.split('_').filter_map(|word| Some((word.get(..1)?, word.get(1..)?)));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}
