//! Imports point one way: docs/ARCHITECTURE.md lists each crate's modules from the ground up, with what each imports,
//! and the code is held to it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, root};

const DOCUMENT: &str = "docs/ARCHITECTURE.md";

/// The crates whose modules have a table, each below a heading that ends with the crate's name.
const CRATES: [&str; 3] = ["opaque-id-core", "opaque-id-sql", "opaque-id-packs"];

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

/// The imports of each module of a crate; the facade is not a module.
fn imports(src: &Path, problems: &mut Vec<String>) -> Result<BTreeMap<String, Names>> {
    let own_name = src.parent().and_then(Path::file_name).unwrap_or_default();
    let own_name = own_name.to_string_lossy().replace('-', "_");
    let mut found = BTreeMap::<String, Names>::new();
    for file in files(src)? {
        let below = file.strip_prefix(src)?.with_extension("");
        let below: Vec<_> = below.iter().collect();
        let module = below[0].to_string_lossy().into_owned();
        if matches!(&*module, "lib" | "__private") {
            continue;
        }
        let is_in_mod_rs = below.last().is_some_and(|last| *last == "mod");
        let depth = below.len() - usize::from(is_in_mod_rs);
        let reader = Reader {
            file: &file,
            way_out: "super::".repeat(depth),
            own_name: &own_name,
        };
        let imported = found.entry(module.clone()).or_default();
        reader.read(imported, problems)?;
        imported.remove(&module);
    }
    Ok(found)
}

/// The `.rs` files of a folder and of those in it.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            all.extend(files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    Ok(all)
}

struct Reader<'a> {
    file: &'a Path,
    /// The path from the file's module to the root.
    way_out: String,
    /// By which a crate that names itself could import from its facade.
    own_name: &'a str,
}

impl Reader<'_> {
    /// Adds what a file imports from other modules: the word after each `crate::` outside of comments and tests.
    fn read(&self, imported: &mut Names, problems: &mut Vec<String>) -> Result {
        const TESTS: &str = "\n#[cfg(test)]\nmod tests {";

        let mut code = fs::read_to_string(self.file)?;
        while let Some(start) = code.find(TESTS) {
            let end = code[start..]
                .find("\n}\n")
                .map_or(code.len(), |end| start + end + 2);
            code.replace_range(start..end, "");
        }
        let mut problem = |text: String| problems.push(format!("{}: {text}", self.file.display()));
        for line in code.lines().map(str::trim_start) {
            let line = line.split_once(" //").map_or(line, |(code, _)| code);
            if line.starts_with("//") {
                continue;
            }
            if line.contains(&self.way_out) {
                problem(format!("write `crate::…` for `{}…`", self.way_out));
            }
            if line.contains(&format!("{}::", self.own_name)) {
                problem(format!("write `crate::…` for `{}::…`", self.own_name));
            }
            if line.contains("crate as ") {
                problem("the crate has one name".to_owned());
            }
            for (before, after) in line
                .match_indices("crate::")
                .map(|(at, found)| line.split_at(at + found.len()))
            {
                let end = after.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
                let (word, rest) = after.split_at(end.unwrap_or(after.len()));
                let is_in_macro = before.ends_with("$crate::");
                if word.is_empty() {
                    problem("write one `use crate::module::…` per module".to_owned());
                } else if !(is_in_macro && (rest.starts_with('!') || word == "__private")) {
                    imported.insert(word.to_owned());
                }
            }
        }
        Ok(())
    }
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
