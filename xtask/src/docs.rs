//! `cargo xtask docs`: a site of the documents that docs/SUMMARY.md lists, by mdBook. Pages are copies in `target`, at the same paths.
//! A link to a source, or to an item of rustdoc, is text there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::documents::{joined, target};
use crate::{Result, cargo, root, run, target_dir};

const SUMMARY: &str = "docs/SUMMARY.md";
const PLOTS: &str = "docs/performance";

/// The documents of the site, with their titles.
type Pages = BTreeMap<PathBuf, String>;

pub(crate) fn docs() -> Result {
    let book = target_dir().join("book");
    assemble(&book)?;
    let tool = target_dir().join("mdbook");
    let mut install = cargo(&["install", "--quiet", "--locked", "--debug", "mdbook@0.5.4"]);
    install.args(["--no-default-features", "--features", "search", "--root"]).arg(&tool);
    run(install)?;
    let mut build = Command::new(tool.join("bin/mdbook"));
    build.arg("build").arg(&book);
    run(build)?;
    println!("\nThe site: {}", book.join("book/index.html").display());
    Ok(())
}

fn assemble(book: &Path) -> Result {
    if book.exists() {
        fs::remove_dir_all(book)?;
    }
    let source = book.join("src");
    fs::create_dir_all(source.join(PLOTS))?;
    for plot in fs::read_dir(root().join(PLOTS))? {
        let plot = plot?;
        fs::copy(plot.path(), source.join(PLOTS).join(plot.file_name()))?;
    }
    for settings in ["book.toml", "book.css"] {
        fs::copy(root().join("docs").join(settings), book.join(settings))?;
    }
    let (pages, summary) = pages(&fs::read_to_string(root().join(SUMMARY))?);
    fs::write(source.join("SUMMARY.md"), summary)?;
    for (path, title) in &pages {
        let mut text = fs::read_to_string(root().join(path))?;
        if path.starts_with("examples") {
            let program = fs::read_to_string(root().join(path).with_file_name("src/main.rs"))?;
            text += &format!("\n## The program\n\n```rust\n{program}```\n");
        }
        let page = source.join(path);
        fs::create_dir_all(page.parent().unwrap_or(&source))?;
        fs::write(page, with_one_title(&with_links(&text, path, &pages), title))?;
    }
    Ok(())
}

/// The pages, and the summary with paths from the root.
fn pages(summary: &str) -> (Pages, String) {
    let mut pages = Pages::new();
    let lines = summary.lines().map(|line| {
        let Some((title, path)) = line.split_once("](") else {
            return format!("{line}\n");
        };
        let path = joined(Path::new("docs"), path.trim_end_matches(')'));
        let line = format!("{title}]({})\n", path.display());
        pages.insert(path, title.trim_start_matches("- [").to_owned());
        line
    });
    let summary = lines.collect();
    (pages, summary)
}

/// Rewrites the prose of a document between its programs.
fn with_links(text: &str, document: &Path, pages: &Pages) -> String {
    let up = "../".repeat(document.components().count() - 1);
    let resolve = |link: &str| {
        let elsewhere = || link.starts_with("https:").then(|| link.to_owned());
        let Some((mut file, anchor)) = target(document, link) else {
            return elsewhere();
        };
        if root().join(&file).is_dir() {
            file.push("README.md");
        }
        let is_shown = pages.contains_key(&file) || file.starts_with(PLOTS);
        let anchor = anchor.map(|anchor| format!("#{anchor}")).unwrap_or_default();
        let shown = is_shown.then(|| format!("{up}{}{anchor}", file.display()));
        shown.or_else(elsewhere)
    };
    let parts = text.split("```").enumerate().map(|(i, part)| {
        if i % 2 == 1 {
            return part.to_owned();
        }
        let mut prose = without_items(&rewritten(part, resolve));
        for page in pages.keys().map(|page| page.display()) {
            prose = prose.replace(&format!(" `{page}`"), &format!(" [`{page}`]({up}{page})"));
        }
        prose
    });
    parts.collect::<Vec<_>>().join("```")
}

/// Prose with the links that `resolve` returns, and the text alone of others.
fn rewritten(prose: &str, resolve: impl Fn(&str) -> Option<String>) -> String {
    let mut done = String::new();
    let mut rest = prose;
    while let Some((text, after)) = rest.split_once("](") {
        let (link, after) = after.split_once(')').unwrap_or((after, ""));
        done += text;
        match resolve(link) {
            Some(link) => done += &format!("]({link})"),
            None => {
                let opening = done.rfind('[').unwrap_or_default();
                done.remove(opening);
            }
        }
        rest = after;
    }
    done + rest
}

/// Prose with code in place of rustdoc's links to items, which are code in brackets.
fn without_items(prose: &str) -> String {
    let mut parts = prose.split("[`");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |done, part| match part.split_once("`]") {
        Some((item, after)) if !after.starts_with(['(', '[', ':']) => {
            format!("{done}`{item}`{after}")
        }
        _ => format!("{done}[`{part}"),
    })
}

/// rustdoc's pages have titles of their own, and headings of the highest level.
fn with_one_title(text: &str, title: &str) -> String {
    let (title, text) = match text.strip_prefix("# ").and_then(|text| text.split_once('\n')) {
        Some(first) => first,
        None => (title, text),
    };
    let is_flat = text.split("```").step_by(2).any(|prose| prose.contains("\n# "));
    let parts = text.split("```").enumerate().map(|(i, part)| match is_flat && i % 2 == 0 {
        true => part.replace("\n#", "\n##"),
        false => part.to_owned(),
    });
    format!("# {title}\n{}", parts.collect::<Vec<_>>().join("```"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_are_text() {
        let (pages, summary) = pages(
            "# Site\n\n- [Start](../README.md)\n- [Use](../opaque-id-sqlx/README.md)\n- [Choose](WHY.md)\n",
        );
        assert_eq!(
            summary,
            "# Site\n\n- [Start](README.md)\n- [Use](opaque-id-sqlx/README.md)\n- [Choose](docs/WHY.md)\n"
        );
        let page = |text| with_links(text, Path::new("docs/MOVING.md"), &pages);
        let shown = "see [it](../README.md#try-it), [`sqlx`](../opaque-id-sqlx/README.md), [that](https://x.y) and\n```\n[`c`](d.rs)\n```";
        assert_eq!(page(shown), shown);
        for (text, expected) in [
            ("[sqlx](../opaque-id-sqlx)", "[sqlx](../opaque-id-sqlx/README.md)"),
            ("[a](https://docs.rs/opaque-id-sqlx#b)", "[a](../opaque-id-sqlx/README.md#b)"),
            ("in `docs/WHY.md`", "in [`docs/WHY.md`](../docs/WHY.md)"),
            ("[`Id`], [a `b`](Id) and [`c`](../fuzz/d.rs)", "`Id`, a `b` and `c`"),
        ] {
            assert_eq!(page(text), expected);
        }
    }

    #[test]
    fn a_page_has_one_title() {
        for (text, expected) in [
            ("# A\n\n# B\n\n## C\n```\n# d\n```\n", "# A\n\n## B\n\n### C\n```\n# d\n```\n"),
            ("# A\n\n## B\n", "# A\n\n## B\n"),
            ("Text.\n\n# B\n", "# Title\nText.\n\n## B\n"),
        ] {
            assert_eq!(with_one_title(text, "Title"), expected);
        }
    }
}
