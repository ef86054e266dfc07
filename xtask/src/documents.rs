//! Documents name files, folders and headings of this repository, and these must exist. A block has a language, and CI runs the commands of
//! those in `console`. Neither documents nor sources contain the words that CONTRIBUTING.md's table has in code font.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::{Result, root};

const CONTRIBUTING: &str = "CONTRIBUTING.md";

pub(crate) fn check() -> Result {
    let mut documents = Vec::new();
    find(root(), "md", &mut documents)?;
    let mut problems = misspelled(&documents)?;
    let ci = Ci::read()?;
    for document in &documents {
        let text = fs::read_to_string(document)?;
        let folder = document.parent().unwrap_or(root());
        let spans = prose(&text).flat_map(spans);
        let missing =
            spans.filter(|path| ![folder, root()].iter().any(|base| base.join(path).exists()));
        let document = document.strip_prefix(root()).unwrap_or(document);
        let dead = prose(&text).flat_map(links).filter(|link| is_dead(document, link));
        let names = missing.chain(dead).map(|name| format!("names {name}, which does not exist"));
        let found = names.chain(in_blocks(&text, |command| ci.runs(document, command)));
        problems.extend(found.map(|problem| format!("{} {problem}", document.display())));
    }
    none(&problems)
}

/// What CI runs.
struct Ci {
    script: String,
    /// The sources of tests, by their paths.
    tests: Vec<(PathBuf, String)>,
}

impl Ci {
    fn read() -> Result<Self> {
        let mut sources = Vec::new();
        find(root(), "rs", &mut sources)?;
        let mut tests = Vec::new();
        for source in sources {
            let path = source.strip_prefix(root())?.to_owned();
            if path.iter().any(|part| part == "tests") {
                tests.push((path, fs::read_to_string(source)?));
            }
        }
        Ok(Self { script: fs::read_to_string(root().join(".ci/run"))?, tests })
    }

    /// Whether a command is a line of `.ci/run` or a test's title, or a test runs all commands of the document.
    fn runs(&self, document: &Path, command: &str) -> bool {
        self.script.lines().any(|line| line == command)
            || self.tests.iter().any(|(path, source)| {
                let folder = path.parent().unwrap_or(path);
                let includes = source.split("include_str!(\"").skip(1);
                let mut included = includes.filter_map(|rest| rest.split('"').next());
                let is_run =
                    source.contains("```console") || source.contains("example_readme::run");
                source.starts_with(&format!("//! `{command}`"))
                    || is_run && included.any(|file| joined(folder, file) == document)
            })
    }
}

/// Blocks without a language, and commands in a block of another one than theirs.
fn in_blocks(document: &str, is_run: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    let mut block = None;
    for (number, line) in (1..).zip(document.lines().map(str::trim)) {
        let command = line.strip_prefix("$ ").and_then(|line| line.split(" #").next());
        match (block, line.strip_prefix("```"), command.map(str::trim_end)) {
            (None, language, _) => {
                if let Some("" | "bash" | "shell") = language {
                    problems.push(format!("has a block of no language, or not called `console` or `sh`, in line {number}"));
                }
                block = language;
            }
            (Some(_), Some(_), _) => block = None,
            (Some("console"), None, Some(command)) if !is_run(command) => problems.push(format!(
                "has `{command}` in a block `console`, and CI does not run it: write `sh`"
            )),
            (Some(language), None, Some(_)) if !["console", "sh"].contains(&language) => problems
                .push(format!("has a command in line {number}, in no block `console` or `sh`")),
            _ => {}
        }
    }
    problems
}

fn none(problems: &[String]) -> Result {
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    }
}

/// Checks rustdoc's pages in this folder. Crates include documents, and none of their links leads to a document, which is no page
/// there; a link to a page of another crate, here or on the documentation server, finds it in this folder.
pub(crate) fn check_pages(folder: &Path, packages: &[String]) -> Result {
    let mut pages = Vec::new();
    let folders = packages.iter().map(|package| folder.join(package.replace('-', "_")));
    // A command has none.
    for folder in folders.filter(|folder| folder.exists()) {
        find(&folder, "html", &mut pages)?;
    }
    let is_dead = |page: &Path, link: &str| {
        let link = link.split('#').next().unwrap_or_default();
        match link.strip_prefix("https://docs.rs/opaque-id-") {
            Some(path) => {
                !path.split('/').skip(2).fold(folder.to_owned(), |to, part| to.join(part)).exists()
            }
            None if link.contains(':') => false,
            None if link.contains("/opaque_id_") => !page.with_file_name(link).exists(),
            None => link.contains(".md"),
        }
    };
    let mut problems = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page)?;
        let links = text.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next());
        problems.extend(links.filter(|link| is_dead(page, link)).map(|link| {
            format!("{} has a link to {link}: its module must define it", page.display())
        }));
    }
    none(&problems)
}

/// Finds the files with this extension, except for built and hidden ones, and for links to others.
fn find(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> Result {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_ours = name != "target" && !name.to_string_lossy().starts_with('.');
        if is_ours && entry.file_type()?.is_dir() {
            find(&path, ending, files)?;
        } else if path.extension().is_some_and(|extension| extension == ending)
            && !entry.file_type()?.is_symlink()
        {
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

/// What is not between fences, where programs have the paths of their users.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    text.split("```").step_by(2)
}

/// Paths in code font: with a slash and nothing but a path's characters.
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

/// Links, in prose and below it.
fn links(prose: &str) -> impl Iterator<Item = &str> {
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let below = prose.lines().filter(|line| line.starts_with('['));
    inline.chain(below.filter_map(|line| Some(line.split_once("]: ")?.1)))
}

/// The file or folder that a document's link leads to, with the anchor, or None if it leads to an item of rustdoc or elsewhere.
pub(crate) fn target<'a>(document: &Path, link: &'a str) -> Option<(PathBuf, Option<&'a str>)> {
    let (path, anchor) = match link.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link, None),
    };
    let file = if path.is_empty() {
        document.to_owned()
    } else if path == "opaque_id_core::manual" {
        "opaque-id-core/src/manual.md".into()
    } else if path == "mapping::guide" {
        "opaque-id-sql/src/mapping/guide.md".into()
    } else if let Some(page) = path.strip_prefix("https://docs.rs/opaque-id-") {
        of_page(page)
    } else if path.contains(':') || !path.contains(['.', '-', '/']) {
        return None;
    } else {
        joined(document.parent()?, path)
    };
    Some((file, anchor))
}

/// The document that a page of the documentation server shows, `core/latest/opaque_id_core/manual/`: a module's, or the README.
fn of_page(page: &str) -> PathBuf {
    let mut parts = page.split('/');
    let package = format!("opaque-id-{}", parts.next().unwrap_or_default());
    let folder = if root().join(&package).exists() { "" } else { "older" };
    let package = Path::new(folder).join(package);
    let module: PathBuf = parts.skip(2).collect();
    let document = root().join(&package).join("src").join(module).with_extension("md");
    // Guides are links to documents elsewhere.
    match (document.canonicalize(), root().canonicalize()) {
        (Ok(document), Ok(root)) => document.strip_prefix(root).unwrap_or(&document).to_owned(),
        _ => package.join("README.md"),
    }
}

/// A path without `..`.
pub(crate) fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = folder.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => _ = joined.pop(),
            component => joined.push(component),
        }
    }
    joined
}

fn is_dead(document: &Path, link: &str) -> bool {
    let Some((file, anchor)) = target(document, link) else {
        return false;
    };
    let file = root().join(file);
    match anchor {
        Some(anchor) => {
            let text = fs::read_to_string(file).unwrap_or_default();
            let mut headings =
                prose(&text).flat_map(str::lines).filter(|line| line.starts_with('#'));
            !headings.any(|heading| slug(heading) == anchor)
        }
        None => !file.exists(),
    }
}

/// The anchor of a heading.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
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
    fn commands_that_nothing_runs_are_found() {
        let document = "```sh\n$ a\n```\n```console\n$ make it    # soon\n$ b\n```\n```\n```\n1.\n   ```text\n   $ c\n";
        let problems = in_blocks(document, |command| command == "make it");
        let [b, language, c] = &problems[..] else { panic!("{problems:?}") };
        assert!(
            b.contains("`b`") && language.contains("line 8") && c.contains("line 12"),
            "{problems:?}"
        );
    }

    #[test]
    fn commands_are_run_by_the_script_by_a_test_or_with_their_document() {
        let test = |path: &str, source: &str| (path.into(), source.to_owned());
        let tests = vec![
            test("demo/tests/demo.rs", "//! `cargo run`, as it says.\ninclude_str!(\"../b.md\")"),
            test("a/tests/it.rs", "example_readme::run(include_str!(\"../README.md\"))"),
        ];
        let ci = Ci { script: "set -e\ncargo test\n".into(), tests };
        let runs = |document: &str, command| ci.runs(Path::new(document), command);
        assert!(
            runs("b.md", "cargo test") && runs("b.md", "cargo run") && runs("a/README.md", "x")
        );
        assert!(!runs("b.md", "cargo") && !runs("demo/b.md", "x") && !runs("README.md", "x"));
    }

    #[test]
    fn paths_are_found_in_prose() {
        let text = "# The Table of `words`, a-b\nTested by `docs/a.md`, `x/y.rs`, `a/b`, `tests/ui/<crate>/` `target/tmp` and `cargo test -p x/y`; see [the \
                    table](../b.md#words), [it](#it), [them](https://x.y/z) and [`Keyring`](crate::Keyring).\n\
                    ```rust\nread(`tests/never.rs`)\n```\nThen `tests/gone`, [this].\n\n[this]: that.rs\n";
        let found: Vec<_> = prose(text).flat_map(spans).collect();
        assert_eq!(found, ["docs/a.md", "x/y.rs", "tests/gone"]);
        let found = prose(text).flat_map(links).map(|link| target(Path::new("docs/c.md"), link));
        let found: Vec<_> = found.flatten().collect();
        let expected = [("b.md", Some("words")), ("docs/c.md", Some("it")), ("docs/that.rs", None)];
        assert_eq!(found, expected.map(|(file, anchor)| (file.into(), anchor)));
        let heading = text.lines().next().map(slug);
        assert_eq!(heading.as_deref(), Some("the-table-of-words-a-b"));
    }
}
