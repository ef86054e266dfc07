use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use opaque_id_core::__private::is_prefix;
use proc_macro2::{Span, TokenStream, TokenTree};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, LitStr, Meta, Token, Type};
use toml_edit::DocumentMut;

use crate::args::{form_kind, key_kind};
use crate::files;

pub(crate) struct Derive {
    pub(crate) prefix: String,
    /// The derive's spelling.
    pub(crate) key: String,
    pub(crate) form: String,
    pub(crate) domain: Option<String>,
    pub(crate) table: Option<String>,
    pub(crate) name: String,
    /// The path is valid in all targets of its package if it has a library.
    pub(crate) path: String,
    /// The library, if it must name itself for this path.
    pub(crate) unnamed_library: Option<String>,
    pub(crate) place: String,
}

pub(crate) fn read(sources: &[PathBuf]) -> Result<(Vec<Derive>, Vec<String>), String> {
    let mut reader = Reader::default();
    for source in sources {
        reader.add(source)?;
    }
    let tests = reader.tests;
    let is_tested = |file: &Path| tests.iter().any(|test| file.starts_with(test));
    let (mut derives, mut problems) = (Vec::new(), Vec::new());
    for (file, found) in reader.found {
        match found {
            _ if is_tested(&file) => {}
            Ok(derive) => derives.push(derive),
            Err(problem) => problems.push(problem),
        }
    }
    Ok((derives, problems))
}

#[derive(Default)]
struct Reader {
    found: Vec<(PathBuf, Result<Derive, String>)>,
    /// Modules that are compiled only for tests.
    tests: BTreeSet<PathBuf>,
    packages: BTreeMap<PathBuf, Option<Package>>,
    read: BTreeSet<PathBuf>,
}

struct Package {
    library: String,
    names_itself: bool,
}

struct File<'f> {
    path: &'f Path,
    library: Option<&'f Package>,
    found: Vec<Result<Derive, String>>,
    tests: Vec<PathBuf>,
}

impl Reader {
    fn add(&mut self, source: &Path) -> Result<(), String> {
        let cannot_read = |error| format!("cannot read {}: {error}", source.display());
        if !fs::metadata(source).map_err(cannot_read)?.is_dir() {
            return self.add_file(source);
        }
        let entries = fs::read_dir(source).map_err(cannot_read)?;
        let entries: Result<Vec<_>, _> = entries.collect();
        let mut entries = entries.map_err(cannot_read)?;
        entries.sort_by_key(fs::DirEntry::file_name);
        let mut names = entries.iter().map(fs::DirEntry::file_name);
        let is_package = names.any(|name| name == "Cargo.toml");
        for entry in entries {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // Links are not followed because they may lead in circles.
            let kind = entry.file_type().map_err(cannot_read)?;
            let is_of_application = match &*name {
                "target" => false,
                "tests" | "examples" | "benches" => !is_package,
                name => !name.starts_with('.'),
            };
            if kind.is_dir() && is_of_application || kind.is_file() && name.ends_with(".rs") {
                self.add(&source.join(&*name))?;
            }
        }
        Ok(())
    }

    fn add_file(&mut self, path: &Path) -> Result<(), String> {
        let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if !self.read.insert(real) {
            return Ok(());
        }
        let text = files::read(path)?;
        let parsed = match syn::parse_file(&text) {
            Ok(parsed) => parsed,
            // An invalid file, such as a template, matters only if it mentions the derive.
            Err(error) if text.contains("opaque_id") => {
                let line = error.span().start().line;
                let problem = format!("{}:{line}: cannot be parsed: {error}", path.display());
                self.found.push((path.to_owned(), Err(problem)));
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        let (root, mut modules) = place(path);
        let package = self.packages.entry(root.clone()).or_insert_with(|| Package::read(&root));
        // A binary has its own modules.
        let is_of_library = !matches!(modules.first().map(String::as_str), Some("main" | "bin"));
        let library = package.as_ref().filter(|_| is_of_library);
        modules.pop_if(|last| matches!(&**last, "lib" | "main" | "mod"));
        if modules.first().is_some_and(|first| first == "bin") {
            modules.drain(..modules.len().min(2));
        }
        let mut file = File { path, library, found: Vec::new(), tests: Vec::new() };
        file.items(&parsed.items, &mut modules);
        let found = file.found.into_iter();
        self.tests.extend(file.tests);
        self.found.extend(found.map(|found| (path.to_owned(), found)));
        Ok(())
    }
}

/// Returns the package's folder, and the file's path below its `src` as modules.
fn place(path: &Path) -> (PathBuf, Vec<String>) {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = path.ancestors().skip(1);
    let root = folders.find(|folder| folder.join("Cargo.toml").is_file());
    let root = root.unwrap_or(Path::new("")).to_owned();
    let below = path.strip_prefix(root.join("src")).unwrap_or(Path::new(""));
    let modules = below.with_extension("");
    let modules = modules.iter().map(|name| name.to_string_lossy());
    let modules = modules.map(|name| name.into_owned()).collect();
    (root, modules)
}

impl Package {
    fn read(root: &Path) -> Option<Self> {
        let source = fs::read_to_string(root.join("src/lib.rs")).ok()?;
        let manifest: DocumentMut = files::read(&root.join("Cargo.toml")).ok()?.parse().ok()?;
        let name = |table: &str| manifest.get(table)?.get("name")?.as_str();
        let library = name("lib").or_else(|| name("package"))?.replace('-', "_");
        Some(Self {
            names_itself: source.contains(&format!("extern crate self as {library};")),
            library,
        })
    }
}

impl File<'_> {
    fn items(&mut self, items: &[Item], modules: &mut Vec<String>) {
        for item in items {
            match item {
                Item::Struct(item) => self.derive(&item.ident, &item.attrs, modules),
                Item::Enum(item) => self.derive(&item.ident, &item.attrs, modules),
                Item::Mod(module) => self.module(module, modules),
                Item::Macro(item) if has_attribute(item.mac.tokens.clone()) => {
                    let place = self.place(item.span());
                    self.found.push(Err(format!(
                        "{place}: what a macro writes cannot be read; add its resources to the file by hand"
                    )));
                }
                _ => {}
            }
        }
    }

    fn module(&mut self, module: &ItemMod, modules: &mut Vec<String>) {
        let name = module.ident.to_string();
        match &module.content {
            _ if is_for_tests(&module.attrs) => {
                let folder = match self.path.file_stem().unwrap_or_default() {
                    stem if ["lib", "main", "mod"].iter().any(|root| stem == *root) => {
                        self.path.parent().unwrap_or(Path::new("")).to_owned()
                    }
                    _ => self.path.with_extension(""),
                };
                if module.content.is_none() {
                    self.tests.push(folder.join(format!("{name}.rs")));
                    self.tests.push(folder.join(name));
                }
            }
            Some((_, items)) => {
                modules.push(name);
                self.items(items, modules);
                modules.pop();
            }
            None => {}
        }
    }

    fn derive(&mut self, ident: &syn::Ident, attrs: &[Attribute], modules: &[String]) {
        if is_for_tests(attrs) {
            return;
        }
        let metas = flat(attrs);
        for meta in &metas {
            if meta.path().is_ident("opaque_id") {
                let place = self.place(ident.span());
                let found = self.options(ident, meta, modules, &place);
                let found = found.map(|found| Derive { table: table(&metas), ..found });
                let found = found.map_err(|error| format!("{place}: {error}"));
                self.found.push(found);
            }
        }
    }

    fn options(
        &self,
        ident: &syn::Ident,
        meta: &Meta,
        modules: &[String],
        place: &str,
    ) -> Result<Derive, String> {
        let root = self.library.map_or("crate", |package| &package.library);
        let name = ident.to_string();
        let modules = modules.iter().map(String::as_str);
        let path: Vec<_> = [root].into_iter().chain(modules).chain([&*name]).collect();
        let path = path.join("::");
        let unnamed = self.library.filter(|package| !package.names_itself);
        let mut derive = Derive {
            prefix: String::new(),
            key: "Uuid7".to_owned(),
            form: "text".to_owned(),
            domain: None,
            table: None,
            name,
            path,
            unnamed_library: unnamed.map(|package| package.library.clone()),
            place: place.to_owned(),
        };
        derive.read(meta).map_err(|error| format!("`#[opaque_id(…)]` cannot be read: {error}"))?;
        key_kind(&derive.key)?;
        form_kind(&derive.form)?;
        let Derive { domain, prefix, .. } = &mut derive;
        domain.take_if(|domain| domain == prefix);
        Ok(derive)
    }

    fn place(&self, span: Span) -> String {
        let path = self.path.strip_prefix(".").unwrap_or(self.path);
        format!("{}:{}", path.display(), span.start().line)
    }
}

impl Derive {
    fn read(&mut self, meta: &Meta) -> syn::Result<()> {
        let text = |input: ParseStream<'_>| input.parse::<LitStr>().map(|text| text.value());
        meta.require_list()?.parse_nested_meta(|option| {
            let value = option.value()?;
            if option.path.is_ident("prefix") {
                self.prefix = text(value)?;
            } else if option.path.is_ident("form") {
                self.form = text(value)?;
            } else if option.path.is_ident("domain") {
                self.domain = Some(text(value)?);
            } else if option.path.is_ident("key") {
                if let Type::Path(key) = value.parse()?
                    && let Some(last) = key.path.segments.last()
                {
                    self.key = last.ident.to_string();
                }
            } else {
                value.parse::<Expr>()?;
            }
            Ok(())
        })?;
        match self.prefix.as_str() {
            "" => Err(syn::Error::new(meta.span(), "it has no prefix")),
            // The prefix becomes the name of a table of TOML.
            prefix if !is_prefix(prefix) => {
                Err(syn::Error::new(meta.span(), "its prefix is invalid"))
            }
            _ => Ok(()),
        }
    }
}

/// The result includes attributes inside of `cfg_attr` with any condition.
fn flat(attrs: &[Attribute]) -> Vec<Meta> {
    fn add(meta: Meta, all: &mut Vec<Meta>) {
        let inside = match &meta {
            Meta::List(list) if list.path.is_ident("cfg_attr") => {
                list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated)
            }
            _ => return all.push(meta),
        };
        for meta in inside.into_iter().flatten().skip(1) {
            add(meta, all);
        }
    }
    let mut all = Vec::new();
    for attr in attrs {
        add(attr.meta.clone(), &mut all);
    }
    all
}

fn table(metas: &[Meta]) -> Option<String> {
    let of_orm = |meta: &&Meta| ["diesel", "sea_orm"].iter().any(|orm| meta.path().is_ident(orm));
    metas.iter().filter(of_orm).find_map(|meta| {
        let options = meta.require_list().ok()?;
        let options = options.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated);
        options.ok()?.into_iter().find_map(|option| match option {
            Meta::NameValue(option) if option.path.is_ident("table_name") => match option.value {
                Expr::Lit(ExprLit { lit: Lit::Str(name), .. }) => Some(name.value()),
                // diesel's module has the table's name, unless `sql_name` renames it elsewhere.
                Expr::Path(module) => Some(module.path.segments.last()?.ident.unraw().to_string()),
                _ => None,
            },
            _ => None,
        })
    })
}

fn is_for_tests(attrs: &[Attribute]) -> bool {
    let mut cfgs = attrs.iter().filter(|attr| attr.path().is_ident("cfg"));
    cfgs.any(|cfg| {
        cfg.parse_args_with(syn::Path::parse).is_ok_and(|condition| condition.is_ident("test"))
    })
}

/// A text that mentions the attribute does not count.
fn has_attribute(tokens: TokenStream) -> bool {
    tokens.into_iter().any(|token| match token {
        TokenTree::Ident(ident) => ident == "opaque_id",
        TokenTree::Group(group) => has_attribute(group.stream()),
        _ => false,
    })
}
