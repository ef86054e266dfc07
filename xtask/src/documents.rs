//! Documents name files and folders of this repository, and these must exist. Neither documents nor sources contain the words
//! that CONTRIBUTING.md's table has in code font.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, root};

const CONTRIBUTING: &str = "CONTRIBUTING.md";

pub(crate) fn check() -> Result {
    let mut documents = Vec::new();
    find(root(), "md", &mut documents)?;
    let mut problems = misspelled(&documents)?;
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

/// Finds the files with this extension, except for built and hidden ones.
fn find(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> Result {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
        if is_ours && entry.file_type()?.is_dir() {
            find(&path, ending, files)?;
        } else if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
    Ok(())
}

/// Finds the words in documents and sources that CONTRIBUTING.md's table refuses.
fn misspelled(documents: &[PathBuf]) -> Result<Vec<String>> {
    let table = fs::read_to_string(root().join(CONTRIBUTING))?;
    let words = refused(&table);
    if words.is_empty() {
        return Err(format!(
            "{CONTRIBUTING} has no table `| write | not |` with words in code font"
        )
        .into());
    }
    let mut sources = Vec::new();
    find(root(), "rs", &mut sources)?;
    let mut problems = Vec::new();
    for file in documents.iter().chain(&sources) {
        let text = fs::read_to_string(file)?;
        let text = match file.extension().is_some_and(|ending| ending == "md") {
            true => without_code(&text),
            false => text,
        };
        let file = file.strip_prefix(root()).unwrap_or(file).display();
        // It quotes what was, as of then.
        if file.to_string() == "CHANGELOG.md" {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let found = words.iter().filter(|word| contains(&line, word));
            problems.extend(found.map(|word| {
                format!("{file}:{}: {CONTRIBUTING} has another word for `{word}`", number + 1)
            }));
        }
    }
    Ok(problems)
}

/// The words in code font in the last column of the table `| write | not |`.
fn refused(contributing: &str) -> Vec<String> {
    let (_, table) = contributing.split_once("| write | not |\n").unwrap_or_default();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    let words = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2));
    words.map(str::to_owned).collect()
}

/// Whether a line in lower case contains a word; one that ends with `…` may go on.
fn contains(line: &str, word: &str) -> bool {
    let is_in_word = |c: char| c == '_' || c.is_alphanumeric();
    let (word, may_go_on) = match word.strip_suffix('…') {
        Some(word) => (word, true),
        None => (word, false),
    };
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(is_in_word)
            && (may_go_on || !line[at + word.len()..].starts_with(is_in_word))
    })
}

/// A document with nothing in its code spans and between its fences, line by line.
fn without_code(document: &str) -> String {
    let mut is_program = false;
    let prose = document.lines().map(|line| {
        let is_fence = line.trim_start().starts_with("```");
        is_program ^= is_fence;
        match is_program || is_fence {
            true => String::new(),
            false => line.split('`').step_by(2).collect::<Vec<_>>().join("`"),
        }
    });
    prose.collect::<Vec<_>>().join("\n")
}

/// The paths in code spans and in links. A code span is a path if it has a slash and nothing but a path's characters.
/// Between fences is a program, whose paths are its user's.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| spans(prose).chain(links(prose)))
}

fn spans(prose: &str) -> impl Iterator<Item = &str> {
    let is_path = |span: &&str| {
        let is_of_paths = |c: char| c.is_ascii_alphanumeric() || "_.-/".contains(c);
        let (first, rest) = span.split_once('/').unwrap_or_default();
        // Built files need not exist.
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
    fn refused_words_are_found_in_prose() {
        let table = "| write | not |\n|---|---|\n| says | `gibt an` |\n| is | stands |\n| American | `farb…` |\n\n`never`";
        let words = refused(table);
        assert_eq!(words, ["gibt an", "farb…"]);
        let found = |line: &str| words.iter().any(|word| contains(line, word));
        for line in ["it gibt an, that", "zwei farben", "(farbe"] {
            assert!(found(line), "{line}");
        }
        for line in ["it gibt and", "eingibt an", "die_farbe", "stands"] {
            assert!(!found(line), "{line}");
        }
        let document = "a `farbe`\n```\nfarbe\n```\nfarbe";
        assert_eq!(without_code(document), "a `\n\n\n\nfarbe");
    }

    #[test]
    fn paths_are_found_in_prose() {
        let text = "Tested by `docs/a.md`, `x/y.rs`, `a/b`, `tests/ui/<crate>/` `target/tmp` and `cargo test -p x/y`; see [the \
                    table](docs/b.md#words), [it](#it), [them](https://x.y/z) and [`Keyring`](crate::Keyring).\n\
                    ```rust\nread(`tests/never.rs`)\n```\nThen `tests/gone`.";
        let found: Vec<_> = named(text).collect();
        assert_eq!(found, ["docs/a.md", "x/y.rs", "docs/b.md", "tests/gone"]);
    }
}
