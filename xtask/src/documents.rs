//! Documents name files and folders of this repository, and these must exist.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, root};

pub(crate) fn check() -> Result {
    let mut documents = Vec::new();
    find(root(), &mut documents)?;
    let mut problems = Vec::new();
    for document in &documents {
        let text = fs::read_to_string(document)?;
        let folder = document.parent().unwrap_or(root());
        let named = named(&text);
        let missing =
            named.filter(|path| ![folder, root()].iter().any(|base| base.join(path).exists()));
        let document = document.strip_prefix(root()).unwrap_or(document).display();
        problems
            .extend(missing.map(|path| format!("{document} names {path}, which does not exist")));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

/// Finds the documents, but for those of what is built or hidden.
fn find(folder: &Path, documents: &mut Vec<PathBuf>) -> Result {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
        if is_ours && entry.file_type()?.is_dir() {
            find(&path, documents)?;
        } else if path.extension().is_some_and(|extension| extension == "md") {
            documents.push(path);
        }
    }
    Ok(())
}

/// The paths in code spans and in links. A code span is a path if it has a slash and nothing but a path's characters; what
/// is between fences is a program, whose paths are its user's.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| spans(prose).chain(links(prose)))
}

fn spans(prose: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        let is_of_paths = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let (first, rest) = span.split_once('/').unwrap_or_default();
        // What is built is not there before.
        !first.is_empty()
            && first != "target"
            && span.chars().all(is_of_paths)
            && (rest.contains('.') || root().join(first).exists())
    };
    prose.split('`').skip(1).step_by(2).filter(is_path)
}

/// Links to files, without their anchors. Those of rustdoc have colons, or no dot.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let targets = prose.split("](").skip(1);
    let targets = targets.filter_map(|rest| rest.split([')', '#']).next());
    targets.filter(|target| target.contains('.') && !target.contains(':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_prose() {
        let text = "Tested by `docs/a.md`, `x/y.rs`, `a/b`, `tests/ui/<crate>/` `target/tmp` and `cargo test -p x/y`; see [the \
                    table](docs/b.md#words), [it](#it), [them](https://x.y/z) and [`Keyring`](crate::Keyring).\n\
                    ```rust\nread(`tests/never.rs`)\n```\nThen `tests/gone`.";
        let found: Vec<_> = named(text).collect();
        assert_eq!(found, ["docs/a.md", "x/y.rs", "docs/b.md", "tests/gone"]);
    }
}
