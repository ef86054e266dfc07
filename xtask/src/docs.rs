//! `cargo xtask docs`: a site of the documents in docs/SUMMARY.md, by mdBook. Pages are copies in `target` at
//! the same paths, with the built playground. Links to sources and to items of rustdoc become text.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::documents::regex;
use crate::{Result, cargo, packages, root, run, target_dir, tools};

const SUMMARY: &str = "docs/SUMMARY.md";
const PLOTS: &str = "docs/performance";
const PLAYGROUND: &str = "docs/playground/page.html";

static LINK: LazyLock<Regex> = LazyLock::new(|| regex(r"\[([^\]]*)\]\(([^)]*)\)"));

static ITEM: LazyLock<Regex> = LazyLock::new(|| regex(r"\[(`[^`]*`)\]([^(\[:]|$)"));

type Pages = BTreeMap<PathBuf, String>;

pub(crate) fn docs() -> Result {
    let book = packages::empty("book")?;
    assemble(&book)?;
    let folder = target_dir().join("playground");
    let mut playground = cargo("run --package=playground --locked --");
    playground.arg(&folder);
    run(playground)?;
    let page = book.join("src").join(PLAYGROUND);
    fs::create_dir_all(page.with_file_name(""))?;
    fs::copy(folder.join("playground.html"), page)?;
    let path = tools::path_with("--debug --no-default-features --features=search mdbook@0.5.4")?;
    let mut build = Command::new("mdbook");
    build.arg("build").arg(&book).env("PATH", path);
    run(build)?;
    println!("\nThe site: {}", book.join("book/index.html").display());
    Ok(())
}

fn assemble(book: &Path) -> Result {
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

fn pages(summary: &str) -> (Pages, String) {
    let mut pages = Pages::new();
    let summary = LINK.replace_all(summary, |link: &Captures| {
        let path = joined(Path::new("docs"), &link[2]);
        let line = format!("[{}]({})", &link[1], path.display());
        pages.insert(path, link[1].to_owned());
        line
    });
    let summary = summary.into_owned();
    (pages, summary)
}

fn joined(folder: &Path, path: &str) -> PathBuf {
    let mut joined = folder.to_owned();
    for component in Path::new(path).components() {
        match component {
            Component::ParentDir => _ = joined.pop(),
            component => joined.push(component),
        }
    }
    joined
}

fn target(document: &Path, link: &str) -> PathBuf {
    match link {
        "" => return document.to_owned(),
        "opaque_id_core::manual" => return "opaque-id-core/src/manual.md".into(),
        "mapping::guide" => return "opaque-id-sql/src/mapping/guide.md".into(),
        _ => {}
    }
    let Some(page) = link.strip_prefix("https://docs.rs/") else {
        return joined(&document.with_file_name(""), link);
    };
    // The path is `opaque-id-core/latest/opaque_id_core/guide/why/`, and guides are links to documents
    // elsewhere.
    let mut parts = page.split('/');
    let package = parts.next().unwrap_or_default();
    let folder = if root().join(package).exists() { "" } else { "older" };
    let package = Path::new(folder).join(package);
    let module = package.join("src").join(parts.skip(2).collect::<PathBuf>()).with_extension("md");
    match root().join(module).canonicalize() {
        Ok(document) => document.strip_prefix(root()).unwrap_or(&document).to_owned(),
        Err(_) => package.join("README.md"),
    }
}

fn with_links(text: &str, document: &Path, pages: &Pages) -> String {
    let up = "../".repeat(document.components().count() - 1);
    in_prose(text, |prose| {
        let linked = LINK.replace_all(prose, |link: &Captures| {
            let (text, to) = (&link[1], &link[2]);
            let end = to.find('#').unwrap_or(to.len());
            let file = target(document, &to[..end]);
            let files = [file.clone(), file.join("README.md")];
            let is_shown = |it: &&PathBuf| {
                pages.contains_key(*it) || it.starts_with(PLOTS) || **it == Path::new(PLAYGROUND)
            };
            let shown = files.iter().find(is_shown);
            match shown {
                Some(file) => format!("[{text}]({up}{}{})", file.display(), &to[end..]),
                None if to.starts_with("https:") => link[0].to_owned(),
                None => text.to_owned(),
            }
        });
        ITEM.replace_all(&linked, "$1$2").into_owned()
    })
}

fn in_prose(text: &str, change: impl Fn(&str) -> String) -> String {
    let mut parts: Vec<_> = text.split("```").map(ToOwned::to_owned).collect();
    for prose in parts.iter_mut().step_by(2) {
        *prose = change(prose);
    }
    parts.join("```")
}

/// rustdoc's pages have their own titles and headings of the highest level.
fn with_one_title(text: &str, title: &str) -> String {
    let (title, text) = match text.strip_prefix("# ").and_then(|text| text.split_once('\n')) {
        Some(first) => first,
        None => (title, text),
    };
    let is_flat = text.split("```").step_by(2).any(|prose| prose.contains("\n# "));
    let text = match is_flat {
        true => in_prose(text, |prose| prose.replace("\n#", "\n##")),
        false => text.to_owned(),
    };
    format!("# {title}\n{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_pages_or_are_text() {
        let (pages, summary) = pages(
            "- [Start](../README.md)\n- [Use](../opaque-id-sqlx/README.md)\n- [Choose](WHY.md)\n",
        );
        assert_eq!(
            summary,
            "- [Start](README.md)\n- [Use](opaque-id-sqlx/README.md)\n- [Choose](docs/WHY.md)\n"
        );
        let page = |text| with_links(text, Path::new("docs/MOVING.md"), &pages);
        let shown = "see [it](../README.md#try-it), [here](../docs/WHY.md#it), [that](https://x.y) and\n```\n[`c`](d.rs)\n```";
        assert_eq!(page(shown), shown);
        for (text, expected) in [
            ("[sqlx](../opaque-id-sqlx)", "[sqlx](../opaque-id-sqlx/README.md)"),
            ("[a](https://docs.rs/opaque-id-sqlx#b)", "[a](../opaque-id-sqlx/README.md#b)"),
            ("[a](playground/page.html)", "[a](../docs/playground/page.html)"),
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
