//! No file imports, by whatever way round, from a file that imports from it: every target of every package is read. These are
//! no imports: `mod`; re-exports of what is below; what a file takes from the modules around it, which say what it is part of.
//! A name that is re-exported leads to the file that defines it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::{Result, root};

/// The crate of a macro. What its body names is imported where it is used, and so ties no files.
const OF_MACRO: &str = "$crate";

/// A module's path from the root of its crate.
type Module = Vec<String>;

/// Finds the circles of targets, each of which is named by its root file.
pub(crate) fn check<'a>(targets: impl Iterator<Item = &'a Path>) -> Result {
    let mut imports = Imports::new();
    for target in targets {
        Crate::read(target)?.imports(&mut imports);
    }
    let circles = circles(&imports);
    match circles.is_empty() {
        true => Ok(()),
        false => Err(format!("files import each other in a circle:\n{circles}").into()),
    }
}

/// What each file imports from others, as it is written.
type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// The imports that are left when files that import none of the others, or that none imports, are taken away one by one.
fn circles(imports: &Imports) -> String {
    let mut left: BTreeSet<&PathBuf> = imports.keys().collect();
    loop {
        let arrows =
            || left.iter().flat_map(|file| imports[*file].keys().map(move |to| (*file, to)));
        let arrows = || arrows().filter(|(_, to)| left.contains(to));
        let from: BTreeSet<_> = arrows().map(|(file, _)| file).collect();
        let to: BTreeSet<_> = arrows().map(|(_, to)| to).collect();
        let tied: BTreeSet<&PathBuf> = from.intersection(&to).copied().collect();
        if tied.len() == left.len() {
            break;
        }
        left = tied;
    }
    let arrows = left.iter().flat_map(|file| {
        let others = imports[*file].iter().filter(|(other, _)| left.contains(other));
        others.map(move |(other, path)| (file.display(), other.display(), path))
    });
    arrows.map(|(file, other, path)| format!("  {file} → {other}: {path}\n")).collect()
}

/// The modules of a target.
#[derive(Default)]
pub(crate) struct Crate {
    modules: BTreeMap<Module, Source>,
}

struct Source {
    file: PathBuf,
    /// What its statements and expressions name, and whether that is a re-export.
    paths: Vec<(Module, bool)>,
    /// Where names that it re-exports come from.
    exports: BTreeMap<String, Module>,
}

impl Crate {
    /// Reads the files of a target by that of its root.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut krate = Self::default();
        krate.add(root, Module::new(), true)?;
        Ok(krate)
    }

    /// Reads a file and the files of the modules that it declares.
    fn add(&mut self, file: &Path, module: Module, is_mod_rs: bool) -> Result {
        let text = fs::read_to_string(file)?;
        let tokens = tokens(&text);
        let folder = file.parent().unwrap_or(root());
        let below = match is_mod_rs {
            true => folder.to_owned(),
            false => file.with_extension(""),
        };
        let mut declared = Vec::new();
        let mut source = Source {
            file: file.strip_prefix(root()).unwrap_or(file).to_owned(),
            paths: Vec::new(),
            exports: BTreeMap::new(),
        };
        // The names of the inline modules around, each with the depth of its braces.
        let mut inline: Vec<(String, usize)> = Vec::new();
        let (mut depth, mut at) = (0, 0);
        while at < tokens.len() {
            let word = tokens[at];
            let next = tokens.get(at + 1).copied().unwrap_or_default();
            match (word, tokens.get(at + 2).copied()) {
                ("mod", Some(";")) => {
                    let before = &tokens[at.saturating_sub(8)..at];
                    let before = before.rsplit(|token| *token == ";").next();
                    let mut before = before.unwrap_or_default().windows(3);
                    let path = before.find(|three| three[..2] == ["path", "="]);
                    let path = path.map(|three| three[2].trim_matches('"'));
                    let (path, is_mod_rs) = match path {
                        Some(path) => (folder.join(path), path.ends_with("mod.rs")),
                        None if below.join(next).with_extension("rs").exists() => {
                            (below.join(next).with_extension("rs"), false)
                        }
                        None => (below.join(next).join("mod.rs"), true),
                    };
                    declared.push((next.to_owned(), path, is_mod_rs));
                    at += 2;
                }
                ("mod", Some("{")) => {
                    depth += 1;
                    inline.push((next.to_owned(), depth));
                    at += 2;
                }
                ("{", _) => depth += 1,
                ("}", _) => {
                    inline.pop_if(|(_, opened)| *opened == depth);
                    depth = depth.saturating_sub(1);
                }
                ("use", _) if next != "<" => {
                    let is_public = at > 0 && [")", "pub"].contains(&tokens[at - 1]);
                    let mut used = Vec::new();
                    at = tree(&tokens, at + 1, &Vec::new(), &mut used);
                    for (path, name) in used {
                        // Of an inline module, `super` is this file.
                        let mut path = path;
                        for _ in &inline {
                            if path.first().is_some_and(|first| first == "super") {
                                path.remove(0);
                            }
                        }
                        if is_public && inline.is_empty() {
                            source.exports.insert(name, path.clone());
                        }
                        source.paths.push((path, is_public));
                    }
                }
                _ if next == "::" && (at == 0 || tokens[at - 1] != "::") => {
                    let mut path = vec![word.to_owned()];
                    while tokens.get(at + 1) == Some(&"::") {
                        let Some(segment) = tokens.get(at + 2) else {
                            break;
                        };
                        path.push((*segment).to_owned());
                        at += 2;
                    }
                    let is_macro = tokens.get(at + 1) == Some(&"!");
                    if !is_macro && (inline.is_empty() || word.ends_with("crate")) {
                        source.paths.push((path, false));
                    }
                }
                _ => {}
            }
            at += 1;
        }
        self.modules.insert(module.clone(), source);
        for (name, file, is_mod_rs) in declared {
            let mut below = module.clone();
            below.push(name);
            if file.exists() {
                self.add(&file, below, is_mod_rs)?;
            }
        }
        Ok(())
    }

    fn imports(&self, imports: &mut Imports) {
        for (module, source) in &self.modules {
            let of_file = imports.entry(source.file.clone()).or_default();
            for (path, is_export) in &source.paths {
                let Some(target) = self.target(module, path, 0) else {
                    continue;
                };
                let is_above = module.starts_with(&target);
                let is_facade = *is_export && target.starts_with(module);
                let file = &self.modules[&target].file;
                if !is_above && !is_facade && *file != source.file {
                    let written = path.join("::");
                    of_file.entry(file.clone()).or_insert(written);
                }
            }
        }
    }

    /// The module whose file defines what a path names; none if that is of another crate.
    fn target(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let (first, mut rest) = path.split_first()?;
        let mut at = from.clone();
        match &**first {
            "crate" => at.clear(),
            "self" => {}
            "super" => {
                at.pop()?;
                while rest.first().is_some_and(|next| next == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            _ => {
                let mut child = at.clone();
                child.push(first.clone());
                if !self.modules.contains_key(&child) {
                    return None;
                }
                rest = path;
            }
        }
        while let Some((name, after)) = rest.split_first() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                at = child;
            } else {
                let export = self.modules.get(&at)?.exports.get(name);
                let export = export.filter(|_| depth < 8);
                if let Some(found) = export.and_then(|path| self.target(&at, path, depth + 1)) {
                    return Some(found);
                }
                break;
            }
            rest = after;
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// Reads a `use`'s tree from a place on: the paths, each with the name that it gets. Returns where it ends.
fn tree(
    tokens: &[&str],
    mut at: usize,
    before: &Module,
    used: &mut Vec<(Module, String)>,
) -> usize {
    let mut path = before.clone();
    while let Some(&token) = tokens.get(at) {
        match token {
            "::" => {}
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| !["}", ";"].contains(token)) {
                    let end = tree(tokens, at, &path, used);
                    at = end + usize::from(tokens.get(end) == Some(&","));
                }
                return at + 1;
            }
            "as" => {
                let name = tokens.get(at + 1).copied().unwrap_or_default();
                used.push((path, name.to_owned()));
                return at + 2;
            }
            ";" | "," | "}" => break,
            "self" if !path.is_empty() => {}
            segment => path.push(segment.to_owned()),
        }
        at += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    used.push((path, name));
    at
}

/// The words, texts and signs of a program, without comments and its own tests.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c == '_' || c.is_alphanumeric();
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("#[cfg(test)]\nmod tests {") {
            rest.find("\n}\n").map_or(rest.len(), |end| end + 3)
        } else if let Some(raw) = rest.strip_prefix("r#\"") {
            raw.find("\"#").map_or(rest.len(), |end| end + 5)
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            let end = end.map_or(rest.len(), |end| end + 2);
            tokens.push(&rest[..end]);
            end
        } else if rest.starts_with("'\"'") || rest.starts_with("'{'") || rest.starts_with("'}'") {
            3
        } else if is_word(first) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(&rest[..end]);
            end
        } else if rest.starts_with(OF_MACRO) {
            tokens.push(OF_MACRO);
            OF_MACRO.len()
        } else {
            let end = if rest.starts_with("::") { 2 } else { first.len_utf8() };
            if !first.is_whitespace() {
                tokens.push(&rest[..end]);
            }
            end
        };
        rest = &rest[length..];
    }
    tokens
}
