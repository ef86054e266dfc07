//! Checks that the imports of files have no circles. It reads every target of every package. Three things are
//! not imports: `mod`, re-exports of modules below, and items from the modules around a file. A re-exported
//! name leads to the file that defines it.
//!
//! `cargo modules` works with modules instead of files, and counts these three as imports.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Attribute, Expr, ExprLit, ItemMod, ItemUse, Lit, Macro, Token, UseTree, Visibility};

use crate::{Result, root};

type Module = Vec<String>;

type Imports = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

/// The root file of a target names it.
pub(crate) fn check<'a>(targets: impl Iterator<Item = &'a Path>) -> Result {
    let mut imports = Imports::new();
    for target in targets {
        let mut krate = Crate::default();
        krate.read(target, Module::new(), true)?;
        krate.imports(&mut imports);
    }
    let circles = circles(&imports);
    match circles.is_empty() {
        true => Ok(()),
        false => Err(format!("files import each other in a circle:\n{circles}").into()),
    }
}

/// The files without imports, or without importers, are removed one by one.
fn circles(imports: &Imports) -> String {
    let arrows = imports.iter().flat_map(|(file, to)| to.iter().map(move |to| (file, to)));
    let mut arrows: Vec<_> = arrows.map(|(file, (to, path))| (file, to, path)).collect();
    loop {
        let from: BTreeSet<_> = arrows.iter().map(|(file, _, _)| *file).collect();
        let to: BTreeSet<_> = arrows.iter().map(|(_, to, _)| *to).collect();
        let before = arrows.len();
        arrows.retain(|(file, other, _)| to.contains(file) && from.contains(other));
        if arrows.len() == before {
            break;
        }
    }
    let lines = arrows
        .iter()
        .map(|(file, other, path)| format!("  {} → {}: {path}\n", file.display(), other.display()));
    lines.collect()
}

#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Source>,
}

#[derive(Default)]
struct Source {
    file: PathBuf,
    paths: Vec<(Module, bool)>,
    exports: BTreeMap<String, Module>,
    declared: Vec<(String, Option<String>)>,
    inline: usize,
}

impl Crate {
    fn read(&mut self, file: &Path, module: Module, is_mod_rs: bool) -> Result {
        let items = syn::parse_file(&fs::read_to_string(file)?)?;
        let mut source =
            Source { file: file.strip_prefix(root())?.to_owned(), ..Source::default() };
        source.visit_file(&items);
        let folder = file.with_file_name("");
        let below = if is_mod_rs { folder.clone() } else { file.with_extension("") };
        for (name, path) in &source.declared {
            let (file, is_mod_rs) = match path {
                Some(path) => (folder.join(path), path.ends_with("mod.rs")),
                None => match below.join(name).with_extension("rs") {
                    file if file.exists() => (file, false),
                    _ => (below.join(name).join("mod.rs"), true),
                },
            };
            if file.exists() {
                self.read(&file, [&module[..], std::slice::from_ref(name)].concat(), is_mod_rs)?;
            }
        }
        self.modules.insert(module, source);
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
                    of_file.entry(file.clone()).or_insert(path.join("::"));
                }
            }
        }
    }

    /// `None` is another crate.
    fn target(&self, from: &Module, path: &[String], depth: usize) -> Option<Module> {
        let child = |of: &Module, name: &String| {
            let child = [&of[..], std::slice::from_ref(name)].concat();
            self.modules.contains_key(&child).then_some(child)
        };
        let mut at = from.clone();
        let mut rest = path;
        match &**path.first()? {
            "crate" => at.clear(),
            "self" | "super" => {}
            _ => _ = child(&at, &path[0])?,
        }
        while let Some((name, after)) = rest.split_first() {
            match &**name {
                "crate" | "self" => {}
                "super" => _ = at.pop()?,
                _ => match child(&at, name) {
                    Some(child) => at = child,
                    None => {
                        let export = self.modules.get(&at)?.exports.get(name);
                        let export = export.filter(|_| depth < 8);
                        let found = export.and_then(|path| self.target(&at, path, depth + 1));
                        return found.or(Some(at));
                    }
                },
            }
            rest = after;
        }
        self.modules.contains_key(&at).then_some(at)
    }
}

/// The body of a macro is imported at its uses, so it connects no files.
impl Visit<'_> for Source {
    fn visit_item_mod(&mut self, module: &ItemMod) {
        let name = module.ident.to_string();
        if module.content.is_none() {
            self.declared.push((name, module.attrs.iter().find_map(path_attribute)));
        } else if name != "tests" {
            self.inline += 1;
            visit::visit_item_mod(self, module);
            self.inline -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &ItemUse) {
        let is_public = !matches!(item.vis, Visibility::Inherited);
        let mut used = Vec::new();
        use_tree(&item.tree, Module::new(), &mut used);
        for (mut path, name) in used {
            // In an inline module, `super` is this file.
            let supers = path.iter().take(self.inline).take_while(|it| *it == "super").count();
            path.drain(..supers);
            if is_public && self.inline == 0 {
                self.exports.insert(name, path.clone());
            }
            self.paths.push((path, is_public));
        }
    }

    fn visit_path(&mut self, path: &syn::Path) {
        let names = Module::from_iter(path.segments.iter().map(|it| it.ident.to_string()));
        let is_of_file = self.inline == 0 || names[0] == "crate";
        if names.len() > 1 && path.leading_colon.is_none() && is_of_file {
            self.paths.push((names, false));
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &Macro) {
        let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        for argument in arguments.iter().flatten() {
            self.visit_expr(argument);
        }
    }
}

fn use_tree(tree: &UseTree, mut path: Module, used: &mut Vec<(Module, String)>) {
    let (name, renamed) = match tree {
        UseTree::Path(tree) => {
            path.push(tree.ident.to_string());
            return use_tree(&tree.tree, path, used);
        }
        UseTree::Group(group) => {
            return group.items.iter().for_each(|tree| use_tree(tree, path.clone(), used));
        }
        UseTree::Glob(_) => ("*".to_owned(), "*".to_owned()),
        UseTree::Name(tree) => (tree.ident.to_string(), tree.ident.to_string()),
        UseTree::Rename(tree) => (tree.ident.to_string(), tree.rename.to_string()),
    };
    match &*name {
        "self" => {
            let renamed = if renamed == name { path.last().cloned() } else { Some(renamed) };
            used.push((path, renamed.unwrap_or_default()));
        }
        _ => {
            path.push(name);
            used.push((path, renamed));
        }
    }
}

fn path_attribute(attribute: &Attribute) -> Option<String> {
    match &attribute.meta.require_name_value().ok()?.value {
        Expr::Lit(ExprLit { lit: Lit::Str(path), .. }) if attribute.path().is_ident("path") => {
            Some(path.value())
        }
        _ => None,
    }
}
