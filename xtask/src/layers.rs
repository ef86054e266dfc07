//! Imports point one way: docs/ARCHITECTURE.md lists each crate's modules from the ground up, with what each imports,
//! and the code is held to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::circles::Crate;
use crate::{Result, root};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// The crates whose modules have a table, each below a heading that ends with the crate's name.
const CRATES: [&str; 3] = ["opaque-id-core", "opaque-id-sql", "opaque-id-packs"];

/// What macros name, which imports anything.
const FACADE: &str = "__private";

/// Modules, or what a module imports.
type Names = BTreeSet<String>;

pub(crate) fn check() -> Result {
    let document = fs::read_to_string(root().join(DOCUMENT))?;
    let mut problems = Vec::new();
    for krate in CRATES {
        let listed = table(&document, krate)?;
        compare(krate, &listed, &imports(krate)?, &mut problems);
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

/// The table's rows from the ground up: a module, and what it may import.
fn table(document: &str, krate: &str) -> Result<Vec<(String, Names)>> {
    let heading = format!("# Inside {krate}\n");
    let (_, section) = document
        .split_once(&heading)
        .ok_or_else(|| format!("{DOCUMENT} has no heading `#{heading}`"))?;
    let section = section.split("\n#").next().unwrap_or(section);
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let module: Names = quoted(cells[0]);
        let module = module.into_iter().next().unwrap_or_default();
        (module, cells.last().map(|cell| quoted(cell)).unwrap_or_default())
    });
    Ok(rows.collect())
}

/// The imports of each module of a crate; the facades are not modules.
fn imports(krate: &str) -> Result<BTreeMap<String, Names>> {
    let mut found = BTreeMap::<String, Names>::new();
    let own_name = krate.replace('-', "_");
    let krate = Crate::read(&root().join(krate).join("src/lib.rs"))?;
    for (module, words) in krate.words_of_root(&own_name) {
        let Some(module) = module.first().filter(|module| *module != FACADE) else {
            continue;
        };
        let imported = found.entry(module.clone()).or_default();
        let words = words.into_iter();
        imported.extend(words.filter(|word| word != module && word != FACADE));
    }
    Ok(found)
}

fn compare(
    krate: &str,
    listed: &[(String, Names)],
    found: &BTreeMap<String, Names>,
    problems: &mut Vec<String>,
) {
    let mut below = BTreeSet::new();
    for (module, may_import) in listed {
        for upwards in may_import.iter().filter(|name| !below.contains(*name)) {
            problems.push(format!(
                "{DOCUMENT}: {krate}'s `{module}` is listed before `{upwards}`, which it imports"
            ));
        }
        below.insert(module);
        let Some(imported) = found.get(module) else {
            problems.push(format!("{DOCUMENT}: {krate} has no module `{module}`"));
            continue;
        };
        for name in imported.difference(may_import) {
            problems.push(format!(
                "{krate}: `{module}` imports `{name}`, which {DOCUMENT} does not allow"
            ));
        }
        for name in may_import.difference(imported) {
            problems.push(format!("{DOCUMENT}: {krate}'s `{module}` does not import `{name}`"));
        }
    }
    for module in found.keys().filter(|name| !below.contains(name)) {
        problems.push(format!("{DOCUMENT}: {krate}'s `{module}` is not listed"));
    }
}
