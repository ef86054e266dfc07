//! `opaque-id init`: opaque-id in an existing project. All changes are planned before the first is written.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use opaque_id_core::__private::is_prefix;
use opaque_id_core::MasterSecret;
use opaque_id_schema::IdTable;
use syn::spanned::Spanned;
use toml_edit::{Array, DocumentMut, InlineTable, Item, table, value};

use crate::{files, output, sqlx_toml};

/// A dependency of the project with its version, and our crate for it.
struct Supported(&'static str, &'static str, Ours);

#[derive(Clone, Copy, PartialEq)]
struct Ours {
    name: &'static str,
    package: &'static str,
}

const fn ours(name: &'static str, package: &'static str) -> Ours {
    Ours { name, package }
}

const CORE: Ours = ours("opaque-id-core", "opaque-id-core");
const SQLX: Ours = ours("opaque-id-sqlx", "opaque-id-sqlx");
const AXUM: Ours = ours("opaque-id-axum", "opaque-id-axum");
/// The ORMs. SeaORM and diesel come first because their projects may also depend on a driver.
const ORMS: [Supported; 5] = [
    Supported("sea-orm", "2", ours("opaque-id-seaorm", "opaque-id-seaorm")),
    Supported("sea-orm", "1", ours("opaque-id-seaorm", "opaque-id-seaorm11")),
    Supported("diesel", "2", ours("opaque-id-diesel", "opaque-id-diesel")),
    Supported("sqlx", "0.9", SQLX),
    Supported("sqlx", "0.8", ours("opaque-id-sqlx", "opaque-id-sqlx08")),
];
const WEB: [Supported; 2] = [
    Supported("axum", "0.8", AXUM),
    Supported("actix-web", "4", ours("opaque-id-actix", "opaque-id-actix")),
];
const SCHEMAS: [(&str, &str, &str); 3] =
    [("utoipa", "5", "utoipa5"), ("utoipa", "6", "utoipa6"), ("schemars", "1", "schemars1")];
/// The databases: our feature, the other scheme of a URL, and sqlx's pool.
const DATABASES: [(&str, &str, &str); 3] = [
    ("postgres", "postgresql", "PgPool"),
    ("mysql", "mariadb", "MySqlPool"),
    ("sqlite", "sqlite", "SqlitePool"),
];

const KEYS: &str = "opaque-id.keys";
/// The names that the module's own code needs.
const TAKEN: [&str; 8] =
    ["App", "Keyring", "KeyringError", "None", "Ok", "OpaqueId", "Result", "Self"];

struct Change {
    path: &'static str,
    old: Option<String>,
    new: String,
    /// The file's content is the user's.
    is_kept: bool,
}

#[derive(Default)]
struct Plan {
    changes: Vec<Change>,
    notes: Vec<String>,
    steps: Vec<String>,
}

/// Makes the changes, or prints them. Returns notes for the caller.
pub(crate) fn run(
    out: &mut impl Write,
    url: Option<&str>,
    is_dry: bool,
) -> Result<Vec<String>, Box<dyn Error>> {
    let Plan { changes, mut notes, steps } = Plan::new(url)?;
    let mut is_done = true;
    for Change { path, old, new, is_kept } in changes {
        if is_kept {
            notes.push(format!("{path} exists and stays as it is; --dry-run shows what differs"));
        }
        if is_dry {
            diff(out, path, old.as_deref(), &new)?;
        } else if !is_kept {
            is_done = false;
            files::write(Path::new(path), &new)?;
            writeln!(out, "{} {path}", if old.is_some() { "changed" } else { "created" })?;
        }
    }
    if !Path::new(KEYS).exists() {
        if is_dry {
            notes.push(format!("{KEYS} will have a new secret, with mode 600"));
        } else {
            is_done = false;
            write_secret().map_err(|error| format!("cannot write {KEYS}: {error}"))?;
            writeln!(out, "created {KEYS}")?;
        }
    }
    match (is_dry, is_done) {
        (true, _) => {}
        (false, true) => writeln!(out, "nothing to do")?,
        (false, false) => {
            writeln!(out, "Next:")?;
            for (i, step) in steps.iter().enumerate() {
                writeln!(out, "{}. {step}", i + 1)?;
            }
        }
    }
    Ok(notes)
}

fn write_secret() -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(KEYS)?;
    MasterSecret::generate().expose_hex(|hex| writeln!(file, "0:{hex}"))
}

impl Plan {
    fn new(url: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let mut plan = Self::default();
        let mut manifest = Manifest::read()?;
        let tables = url.map(|url| output::block_on(opaque_id_schema::id_tables(url)));
        let tables = tables.transpose()?.transpose()?;
        let orms = manifest.supported(&ORMS, &mut plan.notes);
        if let [Supported(first, ..), Supported(second, ..), ..] = orms[..] {
            plan.notes.push(format!(
                "expected one ORM, found {first} and {second}: the ids are those of {first}"
            ));
        }
        let web = manifest.supported(&WEB, &mut plan.notes);
        let orm = orms.first();
        let databases = manifest.databases(orm.map(|orm| orm.0), url);
        if orm.is_some() && databases.is_empty() {
            plan.notes.push("found no database: add the feature postgres, mysql or sqlite to the crate of the ORM".into());
        }
        let adapter = orm.map_or(CORE, |orm| orm.2);
        manifest.add(adapter, databases.iter().map(|(feature, ..)| *feature));
        web.iter().for_each(|web| manifest.add(web.2, []));
        let pool = match (orm, &databases[..]) {
            (Some(Supported("sqlx", ..)), [(.., pool)]) => Some(format!("sqlx::{pool}")),
            (Some(Supported("sea-orm", ..)), _) => Some("sea_orm::DatabaseConnection".to_owned()),
            _ => None,
        };
        let is_axum = web.iter().any(|web| web.2 == AXUM);
        let module = Module::new(adapter, tables.as_deref(), is_axum.then_some(pool.as_deref()));

        let (root, library) = manifest.root();
        let path = library.as_deref().unwrap_or("crate");
        let types = module.types.iter().map(|(table, name)| format!("{table}={path}::ids::{name}"));
        let types: Vec<_> = types.collect();
        let mut sqlx_toml = Vec::new();
        if adapter == SQLX && !types.is_empty() && uses_macros(Path::new("src")) {
            plan.notes.extend(sqlx_toml::write(&mut sqlx_toml, &types, url, &[], None)?);
            if !manifest.enable_sqlx_toml() {
                plan.notes.push("sqlx.toml needs sqlx's feature `sqlx-toml`: add it".to_owned());
            }
        }
        let ignored = files::read(Path::new(".gitignore")).unwrap_or_default();
        let is_ignored = |line: &str| line.trim_start_matches('/') == KEYS;
        if !ignored.lines().any(is_ignored) {
            let end = if ignored.is_empty() || ignored.ends_with('\n') { "" } else { "\n" };
            plan.add(".gitignore", format!("{ignored}{end}/{KEYS}\n"), false);
        }
        plan.add("Cargo.toml", manifest.document.to_string(), false);
        let is_folder = Path::new("src/ids/mod.rs").exists();
        let file = if is_folder { "src/ids/mod.rs" } else { "src/ids.rs" };
        plan.steps.push(format!(
            "read {file}: a prefix is a part of every id that clients keep, and comments say what to decide ({})",
            module.undecided
        ));
        plan.add(file, module.text, true);
        let mut declaration =
            if library.is_some() { "pub mod ids;\n" } else { "mod ids;\n" }.to_owned();
        if !sqlx_toml.is_empty() {
            plan.add("sqlx.toml", String::from_utf8(sqlx_toml)?, true);
            if let Some(library) = &library {
                declaration += &format!("\nextern crate self as {library};\n");
            }
        }
        match files::read(Path::new(root)).map(|text| declare(&text, &declaration)) {
            Ok(Declared::Already) => {}
            Ok(Declared::Now(text)) => plan.add(root, text, false),
            _ => plan.steps.push(format!("declare the module in {root}: {}", declaration.trim())),
        }
        plan.steps.extend(web.iter().map(|web| match web.2 {
            AXUM if pool.is_some() => "give the router its state: `.with_state(ids::App { pool, keyring: ids::keyring()? })`, or your own as ids.rs says".to_owned(),
            AXUM => "give the router its state: `.with_state(ids::App { keyring: ids::keyring()? })`, or your own as ids.rs says".to_owned(),
            _ => "give each App the keyring: `let keyring = ids::keyring()?;`, and `App::new().app_data(keyring.clone())`".to_owned(),
        }));
        let example = module.types.first().map_or("User", |(_, name)| name);
        plan.steps.extend([
            format!("write `Internal<ids::{example}>` for ids in rows, and `External<ids::{example}>` in responses, which `derive(View)` fills"),
            format!("write `Opened<ids::{example}>` for ids in requests, with the extractors of the web crate, where there is one"),
            format!("keep {KEYS} safe, because ids open only with its secret; `opaque-id keygen` makes the one of production"),
            "run `cargo check`; if clients have old ids, read the guide of opaque-id-core on moving a live API".to_owned(),
        ]);
        Ok(plan)
    }

    /// Adds a file with its new content, unless it has that content.
    fn add(&mut self, path: &'static str, new: String, is_theirs: bool) {
        let old = fs::read_to_string(path).ok();
        if old.as_ref() != Some(&new) {
            let is_kept = is_theirs && Path::new(path).exists();
            self.changes.push(Change { path, old, new, is_kept });
        }
    }
}

struct Manifest {
    document: DocumentMut,
    workspace: Option<DocumentMut>,
}

impl Manifest {
    fn read() -> Result<Self, Box<dyn Error>> {
        let parse = |path: &Path| -> Result<DocumentMut, String> {
            files::read(path)?.parse().map_err(|error| format!("{}: {error}", path.display()))
        };
        let document = parse(Path::new("Cargo.toml"))?;
        if !document.contains_key("package") {
            return Err("expected a package in Cargo.toml, found a workspace: run the command in the folder of the package with the API".into());
        }
        let folder = std::env::current_dir()?;
        let mut others =
            folder.ancestors().filter_map(|folder| parse(&folder.join("Cargo.toml")).ok());
        let workspace = others.find(|other| other.contains_key("workspace"));
        Ok(Self { document, workspace })
    }

    /// Returns the version and the features of a dependency.
    fn dependency(&self, name: &str) -> Option<(String, Vec<String>)> {
        let own = self.document.get("dependencies")?.get(name)?;
        let shared = || self.workspace.as_ref()?.get("workspace")?.get("dependencies")?.get(name);
        let shared = own.get("workspace").and_then(|_| shared());
        let items = || [Some(own), shared].into_iter().flatten();
        let version =
            |item: &Item| Some(item.as_str().or(item.get("version")?.as_str())?.to_owned());
        let features = items().filter_map(|item| item.get("features")?.as_array());
        let features = features.flatten().filter_map(|feature| feature.as_str().map(str::to_owned));
        Some((items().find_map(version).unwrap_or_default(), features.collect()))
    }

    fn has(&self, name: &str, version: &str) -> bool {
        let is_digit = |c: char| c.is_ascii_digit();
        self.dependency(name).is_some_and(|(found, _)| {
            let found = found.trim_start_matches(|c| !is_digit(c)).split(|c| !is_digit(c));
            version.split('.').zip(found).all(|(wanted, found)| wanted == found)
        })
    }

    fn supported<'t>(&self, table: &'t [Supported], notes: &mut Vec<String>) -> Vec<&'t Supported> {
        let found: Vec<_> = table.iter().filter(|row| self.has(row.0, row.1)).collect();
        for row in table {
            let is_last =
                table.iter().rfind(|other| other.0 == row.0).is_some_and(|last| last.1 == row.1);
            if let (Some((version, _)), true) = (self.dependency(row.0), is_last)
                && found.iter().all(|found| found.0 != row.0)
            {
                let rows = table.iter().filter(|other| other.0 == row.0);
                let wanted: Vec<_> = rows.map(|row| row.1).collect();
                notes.push(format!(
                    "expected {} {}, found {}: update it and run this command again",
                    row.0,
                    wanted.join(" or "),
                    if version.is_empty() { "no version" } else { &version }
                ));
            }
        }
        found
    }

    fn databases(
        &self,
        orm: Option<&str>,
        url: Option<&str>,
    ) -> Vec<&'static (&'static str, &'static str, &'static str)> {
        let names = [orm, orm.filter(|orm| *orm == "diesel").map(|_| "diesel-async")];
        let dependencies = names.into_iter().flatten().filter_map(|name| self.dependency(name));
        let features: Vec<_> = dependencies.flat_map(|(_, features)| features).collect();
        let by = |is: &dyn Fn(&str, &str) -> bool| -> Vec<_> {
            DATABASES.iter().filter(|(name, scheme, _)| is(name, scheme)).collect()
        };
        let found = by(&|name, _| features.iter().any(|feature| feature.contains(name)));
        let scheme = url.and_then(|url| url.split(':').next()).unwrap_or_default();
        match found.is_empty() {
            true => by(&|name, other| orm.is_some() && [name, other].contains(&scheme)),
            false => found,
        }
    }

    fn add(&mut self, ours: Ours, features: impl IntoIterator<Item = &'static str>) {
        let schemas = SCHEMAS.iter().filter(|(name, version, _)| self.has(name, version));
        let features: Array = features.into_iter().chain(schemas.map(|row| row.2)).collect();
        let version = env!("CARGO_PKG_VERSION").rsplit_once('.').map_or("", |(version, _)| version);
        let mut dependency = InlineTable::new();
        if ours.package != ours.name {
            dependency.insert("package", ours.package.into());
        }
        dependency.insert("version", version.into());
        if !features.is_empty() {
            dependency.insert("features", features.into());
        }
        let dependency = if dependency.len() == 1 { value(version) } else { value(dependency) };
        let dependencies = self.document.entry("dependencies").or_insert(table());
        if let Some(dependencies) = dependencies.as_table_like_mut() {
            dependencies.entry(ours.name).or_insert(dependency);
        }
    }

    /// Returns whether sqlx's macros will read `sqlx.toml`.
    fn enable_sqlx_toml(&mut self) -> bool {
        let (_, features) = self.dependency("sqlx").unwrap_or_default();
        if features.iter().any(|feature| feature == "sqlx-toml") {
            return true;
        }
        let sqlx = self.document["dependencies"]["sqlx"].as_table_like_mut();
        let features = sqlx.map(|sqlx| sqlx.entry("features").or_insert(value(Array::new())));
        let features = features.and_then(|features| features.as_array_mut());
        features.map(|features| features.push("sqlx-toml")).is_some()
    }

    /// Returns the file of the crate's root, and the library's name if it is one.
    fn root(&self) -> (&'static str, Option<String>) {
        if !Path::new("src/lib.rs").exists() {
            return ("src/main.rs", None);
        }
        let name = |table: &str| self.document.get(table)?.get("name")?.as_str();
        let library = name("lib").or_else(|| name("package")).unwrap_or_default();
        ("src/lib.rs", Some(library.replace('-', "_")))
    }
}

fn uses_macros(folder: &Path) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => uses_macros(&entry.path()),
        _ => fs::read_to_string(entry.path()).is_ok_and(|text| {
            ["query!(", "query_as!(", "query_scalar!("].iter().any(|name| text.contains(name))
        }),
    })
}

/// The text of `ids.rs`.
struct Module {
    text: String,
    /// Tables that need no quotes, and their types.
    types: Vec<(String, String)>,
    undecided: usize,
}

impl Module {
    /// Writes a type for each table, or an example if they are not known. With axum, `state` is the pool's type.
    fn new(adapter: Ours, tables: Option<&[IdTable]>, state: Option<Option<&str>>) -> Self {
        let mut taken: BTreeSet<String> = TAKEN.map(str::to_owned).into();
        let mut module = Self { text: String::new(), types: Vec::new(), undecided: 0 };
        let mut prepared = String::new();
        let mut types = String::new();
        if tables.is_none() {
            module.undecided = 1;
            types += "\n// Decide which tables have ids that the API shows. Each needs a type, such as\n\
                // #[derive(OpaqueId)]\n// #[opaque_id(prefix = \"user\", key = i64)] // or key = i32, u32, Uuid7, Uuid, Ulid\n\
                // pub struct User;\n";
        }
        for IdTable { table, column, found, kinds } in tables.unwrap_or_default() {
            let [shown, column, found] =
                [table, column, found].map(|name| name.escape_debug().to_string());
            let prefix = singular(table);
            let name = camel(&prefix);
            let is_named = is_prefix(&prefix) && !taken.contains(&name);
            let (prefix, name) = if is_named { (&*prefix, &*name) } else { ("…", "…") };
            let kind = kinds.first().copied().unwrap_or("…");
            let mut decide = Vec::new();
            if !is_named {
                decide.push(
                    "a prefix of a-z, 0-9 and _ and a name that no other type has".to_owned(),
                );
            }
            match kinds {
                [] => decide.push(format!("how `{column}` stores keys, because {found} is not supported; `opaque-id check-schema` helps")),
                [_] => {}
                _ => decide.push(format!("the key, because the rows do not show it: {}", kinds.join(", "))),
            }
            let key = if kind == "Uuid7" { String::new() } else { format!(", key = {kind}") };
            let item = format!(
                "/// A row of `{shown}`.\n#[derive(OpaqueId)]\n#[opaque_id(prefix = \"{prefix}\"{key})]\npub struct {name};\n"
            );
            if decide.is_empty() {
                taken.insert(name.to_owned());
                types += &format!("\n{item}");
                prepared += &format!("    keyring.prepare::<{name}>()?;\n");
                if table.chars().all(|c| c.is_alphanumeric() || c == '_') {
                    module.types.push((table.clone(), name.to_owned()));
                }
            } else {
                module.undecided += 1;
                let item = item.replace('\n', "\n// ");
                types += &format!(
                    "\n// Decide {}.\n// {}\n",
                    decide.join(", and "),
                    item.trim_end_matches("// ").trim_end()
                );
            }
        }
        let crate_name = adapter.name.replace('-', "_");
        let derive = if prepared.is_empty() { "" } else { ", OpaqueId" };
        module.text = format!(
            "//! The resources of this application. `opaque-id init` has written this file, and it is yours to change.\n\n\
             use {crate_name}::{{Keyring, KeyringError{derive}}};\n{types}\n\
             /// Reads the secrets from the variable `OPAQUE_ID_KEYS`, or else from the file `{KEYS}` of the current folder.\n\
             ///\n/// # Errors\n/// There is no secret, or two types have the same prefix.\n\
             pub fn keyring() -> Result<Keyring, KeyringError> {{\n    \
                 let keyring = match std::env::var_os(\"OPAQUE_ID_KEYS\") {{\n        \
                     Some(_) => Keyring::from_env()?,\n        \
                     None => Keyring::from_file(\"{KEYS}\")?,\n    }};\n{prepared}    Ok(keyring)\n}}\n"
        );
        if let Some(pool) = state {
            module.text += &app(pool);
        }
        module
    }
}

/// Returns the state of axum's router.
fn app(pool: Option<&str>) -> String {
    let field = pool.map_or(
        "    // Decide what else the handlers need, such as a pool.\n".to_owned(),
        |pool| format!("    pub pool: {pool},\n"),
    );
    let from = |ty: &str, name: &str| {
        format!(
            "\nimpl axum::extract::FromRef<App> for {ty} {{\n    fn from_ref(app: &App) -> Self {{\n        app.{name}.clone()\n    }}\n}}\n"
        )
    };
    format!(
        "\n/// The state of the router. If you have one, give it the field `keyring`, name it in the code below, and delete this one.\n\
         #[derive(Clone)]\npub struct App {{\n{field}    pub keyring: Keyring,\n}}\n{}{}",
        from("Keyring", "keyring"),
        pool.map_or(String::new(), |pool| from(pool, "pool"))
    )
}

/// Returns a table's name in snake case, with its last word in the singular by the usual rule.
fn singular(table: &str) -> String {
    let mut name = String::new();
    for c in table.chars() {
        if c.is_uppercase() && name.ends_with(char::is_lowercase) {
            name.push('_');
        }
        name.extend(c.to_lowercase());
    }
    let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
    match name.strip_suffix("ies") {
        Some(stem) => return format!("{stem}y"),
        None if ends(&["sses", "shes", "ches", "xes"]) => name.truncate(name.len() - 2),
        None if ends(&["s"]) && !ends(&["ss", "us", "is"]) => name.truncate(name.len() - 1),
        None => {}
    }
    name
}

fn camel(name: &str) -> String {
    let words = name.split('_').filter_map(|word| Some((word.get(..1)?, word.get(1..)?)));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}

enum Declared {
    Already,
    Now(String),
    /// The file cannot be changed safely.
    Not,
}

/// Inserts a declaration after the last module of a source, or before its first item.
fn declare(text: &str, declaration: &str) -> Declared {
    let has_ids = |text: &str| {
        let items = syn::parse_file(text).ok()?.items;
        let mut modules = items.iter().filter_map(|item| match item {
            syn::Item::Mod(module) => Some(module),
            _ => None,
        });
        Some((
            modules.clone().any(|module| module.ident == "ids"),
            modules.rfind(|module| module.content.is_none()).map(|module| module.span().end().line),
            items.first().map(|item| item.span().start().line),
        ))
    };
    let (line, blank) = match has_ids(text) {
        None => return Declared::Not,
        Some((true, ..)) => return Declared::Already,
        Some((false, Some(last), _)) => (last, ""),
        Some((false, None, Some(first))) => (first - 1, "\n"),
        Some((false, None, None)) => (text.lines().count(), ""),
    };
    let at = text.split_inclusive('\n').take(line).map(str::len).sum();
    let mut new = text.to_owned();
    new.insert_str(at, &format!("{declaration}{blank}"));
    match has_ids(&new) {
        Some((true, ..)) => Declared::Now(new),
        _ => Declared::Not,
    }
}

/// Prints a unified diff with one hunk.
fn diff(out: &mut impl Write, path: &str, old: Option<&str>, new: &str) -> io::Result<()> {
    const CONTEXT: usize = 3;
    let from = old.map_or("/dev/null".to_owned(), |_| format!("a/{path}"));
    let old: Vec<_> = old.unwrap_or_default().lines().collect();
    let new: Vec<_> = new.lines().collect();
    let start = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let after = old[start..].iter().rev().zip(new[start..].iter().rev());
    let after = after.take_while(|(old, new)| old == new).count();
    let (old_end, new_end) = (old.len() - after, new.len() - after);
    let (first, shown) = (start.saturating_sub(CONTEXT), after.min(CONTEXT));
    writeln!(out, "--- {from}\n+++ b/{path}")?;
    let line = |count: usize| first + usize::from(count > 0);
    let [old_count, new_count] = [old_end, new_end].map(|end| end + shown - first);
    writeln!(out, "@@ -{},{old_count} +{},{new_count} @@", line(old_count), line(new_count))?;
    let parts = [
        (' ', &old[first..start]),
        ('-', &old[start..old_end]),
        ('+', &new[start..new_end]),
        (' ', &old[old_end..old_end + shown]),
    ];
    for (sign, lines) in parts {
        lines.iter().try_for_each(|line| writeln!(out, "{sign}{line}"))?;
    }
    Ok(())
}
