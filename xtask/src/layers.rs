//! Imports point one way: docs/ARCHITECTURE.md lists each crate's modules from the ground up, with what each imports,
//! and the code is held to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::{Result, root};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// The crates whose modules have a table, each below a heading that ends with the crate's name.
const CRATES: [&str; 2] = ["opaque-id-core", "opaque-id-sql"];

/// Modules, or what a module imports.
type Names = BTreeSet<String>;

pub(crate) fn check() -> Result {
    let document = fs::read_to_string(root().join(DOCUMENT))?;
    let mut problems = Vec::new();
    for krate in CRATES {
        let listed = table(&document, krate)?;
        let found = imports(&root().join(krate).join("src"), &mut problems)?;
        compare(krate, &listed, &found, &mut problems);
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
        let quoted = |cell: &str| {
            cell.split('`')
                .skip(1)
                .step_by(2)
                .map(str::to_owned)
                .collect()
        };
        let module: Names = quoted(cells[0]);
        let module = module.into_iter().next().unwrap_or_default();
        (
            module,
            cells.last().map(|cell| quoted(cell)).unwrap_or_default(),
        )
    });
    Ok(rows.collect())
}

/// What each module of a crate imports; the facade is not a module.
fn imports(src: &Path, problems: &mut Vec<String>) -> Result<BTreeMap<String, Names>> {
    let mut found = BTreeMap::<String, Names>::new();
    for entry in fs::read_dir(src)? {
        let path = entry?.path();
        let is_code = path.is_dir() || path.extension().is_some_and(|extension| extension == "rs");
        let module = path.file_stem().and_then(|stem| stem.to_str());
        let Some(module) =
            module.filter(|module| is_code && !matches!(*module, "lib" | "__private"))
        else {
            continue;
        };
        let imported = found.entry(module.to_owned()).or_default();
        if path.is_dir() {
            for file in fs::read_dir(&path)? {
                let file = file?.path();
                if file.extension().is_some_and(|extension| extension == "rs") {
                    read(&file, "super::super::", imported, problems)?;
                }
            }
        } else {
            read(&path, "super::", imported, problems)?;
        }
        imported.remove(module);
    }
    Ok(found)
}

/// Adds what a file imports from other modules: the word after each `crate::` outside of comments and tests.
fn read(file: &Path, way_out: &str, imported: &mut Names, problems: &mut Vec<String>) -> Result {
    let text = fs::read_to_string(file)?;
    let code = text.split("\n#[cfg(test)]\nmod tests").next();
    let lines = code.unwrap_or_default().lines().map(str::trim_start);
    for line in lines.filter(|line| !line.starts_with("//")) {
        if line.contains(way_out) {
            problems.push(format!(
                "{}: write `crate::…` for `{way_out}…`",
                file.display()
            ));
        }
        for after in line.split("crate::").skip(1) {
            let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
            let (word, rest) = after.split_at(end.unwrap_or(after.len()));
            // Macros are exported at the root, and `__private` is for them.
            if !rest.starts_with('!') && word != "__private" {
                imported.insert(word.to_owned());
            }
        }
    }
    Ok(())
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
            problems.push(format!(
                "{DOCUMENT}: {krate}'s `{module}` does not import `{name}`"
            ));
        }
    }
    for module in found.keys().filter(|name| !below.contains(name)) {
        problems.push(format!("{DOCUMENT}: {krate}'s `{module}` is not listed"));
    }
}
