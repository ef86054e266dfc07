use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, InlineTable, Item, Value, table, value};

use crate::files;

type Ours = [&'static str; 2];
type Row = (&'static str, &'static str, Ours);

pub(super) const SQLX: Ours = ["opaque-id-sqlx"; 2];
/// SeaORM and diesel come before sqlx, because their projects may also name a driver.
const ORMS: [Row; 5] = [
    ("sea-orm", "2", ["opaque-id-seaorm"; 2]),
    ("sea-orm", "1", ["opaque-id-seaorm", "opaque-id-seaorm11"]),
    ("diesel", "2", ["opaque-id-diesel"; 2]),
    ("sqlx", "0.9", SQLX),
    ("sqlx", "0.8", ["opaque-id-sqlx", "opaque-id-sqlx08"]),
];
const WEB: [Row; 2] =
    [("axum", "0.8", ["opaque-id-axum"; 2]), ("actix-web", "4", ["opaque-id-actix"; 2])];
/// The versions that belong to diesel 2.3.
const ASYNC: [Row; 2] = [("diesel-async", "0.9", [""; 2]), ("diesel-async", "0.8", [""; 2])];
/// Our features, with sqlx's pools.
const DATABASES: [(&str, &str); 3] =
    [("postgres", "sqlx::PgPool"), ("mysql", "sqlx::MySqlPool"), ("sqlite", "sqlx::SqlitePool")];
/// Our features, with the crates that they write schemas for.
const SCHEMAS: [(&str, &str, &str); 5] = [
    ("schemars08", "schemars", "0.8"),
    ("schemars09", "schemars", "0.9"),
    ("schemars1", "schemars", "1"),
    ("utoipa5", "utoipa", "5"),
    ("utoipa6", "utoipa", "6"),
];

pub(super) struct Manifest {
    pub(super) document: DocumentMut,
    workspace: Option<(PathBuf, DocumentMut)>,
}

impl Manifest {
    pub(super) fn read() -> Result<Self, Box<dyn Error>> {
        let parse = |path: &Path| -> Result<DocumentMut, String> {
            files::read(path)?.parse().map_err(|error| format!("{}: {error}", path.display()))
        };
        let document = parse(Path::new("Cargo.toml"))?;
        if !document.contains_key("package") {
            return Err("expected a package in Cargo.toml, found a workspace: run it once, in the folder of the package that knows the tables".into());
        }
        let folder = std::env::current_dir()?;
        let mut above = folder
            .ancestors()
            .filter_map(|it| Some((it.to_owned(), parse(&it.join("Cargo.toml")).ok()?)));
        Ok(Self { document, workspace: above.find(|(_, it)| it.contains_key("workspace")) })
    }

    /// Returns the file in the workspace's folder, if it exists.
    pub(super) fn of_workspace(&self, file: &str) -> Option<PathBuf> {
        Some(self.workspace.as_ref()?.0.join(file)).filter(|file| file.exists())
    }

    /// Finds a file of secrets in the workspace.
    pub(super) fn find_in_workspace(&self, file: &str) -> Option<PathBuf> {
        fn find(folder: &Path, file: &str, depth: u8) -> Option<PathBuf> {
            let found = folder.join(file);
            if found.exists() {
                return Some(found);
            }
            let mut folders = fs::read_dir(folder).ok()?.flatten().filter(|entry| {
                let name = entry.file_name();
                depth > 0 && name != "target" && !name.to_string_lossy().starts_with('.')
            });
            folders.find_map(|entry| find(&entry.path(), file, depth - 1))
        }
        find(&self.workspace.as_ref()?.0, file, 3)
    }

    /// Returns a dependency that the packages of the workspace share.
    fn shared(&self, name: &str) -> Option<&Item> {
        self.workspace.as_ref()?.1.get("workspace")?.get("dependencies")?.get(name)
    }

    fn dependency(&self, name: &str) -> Option<(String, Vec<String>)> {
        let own = self.document.get("dependencies")?.get(name)?;
        let items = [Some(own), own.get("workspace").and_then(|_| self.shared(name))];
        let version = |item: &Item| Some(item.get("version").unwrap_or(item).as_str()?.to_owned());
        let version = items.into_iter().flatten().find_map(version);
        let features = items.into_iter().filter_map(|item| item?.get("features")?.as_array());
        let features = features.flatten().filter_map(|feature| Some(feature.as_str()?.to_owned()));
        Some((version.unwrap_or_default(), features.collect()))
    }

    fn has(&self, name: &str, version: &str) -> bool {
        fn numbers(version: &str) -> impl Iterator<Item = &str> {
            let numbers = version.split(|c: char| !c.is_ascii_digit());
            numbers.filter(|number| !number.is_empty())
        }
        let found = self.version(name).unwrap_or_default();
        let mut found = numbers(&found).peekable();
        found.peek().is_some() && numbers(version).zip(found).all(|(wanted, found)| wanted == found)
    }

    /// Returns the requirement, or the version in Cargo.lock if the requirement allows several, such as `0` or
    /// `>=0.8`.
    fn version(&self, name: &str) -> Option<String> {
        let (required, _) = self.dependency(name)?;
        let is_open =
            ["", "0"].contains(&required.trim()) || required.contains(['<', '>', '*', ',']);
        let locked = if is_open { self.locked(name) } else { None };
        Some(locked.unwrap_or(required))
    }

    fn locked(&self, name: &str) -> Option<String> {
        let folders = [Some(Path::new(".")), self.workspace.as_ref().map(|(folder, _)| &**folder)];
        let mut locks = folders.into_iter().flatten().map(|it| files::read(&it.join("Cargo.lock")));
        let lock: DocumentMut = locks.find_map(Result::ok)?.parse().ok()?;
        let packages = lock.get("package")?.as_array_of_tables()?;
        let find = |name| packages.iter().find(|it| it.get("name").and_then(Item::as_str) == name);
        let package = self.document.get("package")?.get("name")?.as_str();
        let all = find(package)?.get("dependencies")?.as_array()?.iter().filter_map(Value::as_str);
        let mut named =
            all.map(|dependency| dependency.split(' ')).map(|mut it| (it.next(), it.next()));
        // The entry has a version if there are several.
        match named.find(|(found, _)| *found == Some(name))? {
            (_, Some(version)) => Some(version.to_owned()),
            _ => Some(find(Some(name))?.get("version")?.as_str()?.to_owned()),
        }
    }

    fn supported(&self, table: &'static [Row], notes: &mut Vec<String>) -> Vec<&'static Row> {
        let mut supported = Vec::new();
        for rows in table.chunk_by(|row, next| row.0 == next.0) {
            let name = rows[0].0;
            let Some(found) = self.version(name) else { continue };
            match rows.iter().find(|row| self.has(name, row.1)) {
                Some(row) => supported.push(row),
                None => notes.push(format!(
                    "expected {name} {}, found `{found}`: update it, and run the command again",
                    rows.iter().map(|row| row.1).collect::<Vec<_>>().join(" or ")
                )),
            }
        }
        supported
    }

    pub(super) fn add_crates(
        &mut self,
        url: Option<&str>,
        notes: &mut Vec<String>,
    ) -> Result<(Ours, String), String> {
        let orms = self.supported(&ORMS, notes);
        if let ([], Some(unsupported)) = (&orms[..], notes.first()) {
            return Err(unsupported.clone());
        }
        let web = self.supported(&WEB, notes);
        self.supported(&ASYNC, notes);
        let core = ("", "", ["opaque-id-core"; 2]);
        let (orm, _, adapter) = orms.first().copied().copied().unwrap_or(core);
        if orms.len() > 1 {
            notes.push(format!("expected one ORM, found several: the ids are for {orm}"));
        }
        let named = [orm, "diesel-async"].map(|name| self.dependency(name).unwrap_or_default().1);
        let has = |name: &str| named.iter().flatten().any(|feature| feature.contains(name));
        let mut databases: Vec<_> = DATABASES.into_iter().filter(|(name, _)| has(name)).collect();
        if databases.is_empty() && !orm.is_empty() {
            let url = url.unwrap_or_default().replace("mariadb:", "mysql:");
            databases.extend(DATABASES.into_iter().find(|(name, _)| url.starts_with(name)));
        }
        if !orm.is_empty() && databases.is_empty() {
            notes.push(format!("found no database: add its feature to {}", adapter[0]));
        }
        let dependency = self.document.get("dependencies").and_then(|all| all.get(orm));
        if dependency.and_then(|it| it.get("optional")?.as_bool()) == Some(true) {
            notes.push(format!(
                "{orm} is optional here: make {} optional too, and put the module behind its feature",
                adapter[0]
            ));
        }
        self.add(adapter, &databases);
        web.iter().for_each(|row| self.add(row.2, &[]));
        let state = include_str!("axum_pool.txt");
        let state = match (orm, &databases[..]) {
            _ if web.iter().all(|row| row.0 != "axum") => String::new(),
            ("sqlx", [(_, pool)]) => state.replace("{pool}", pool),
            ("sea-orm", _) => state.replace("{pool}", "sea_orm::DatabaseConnection"),
            _ => include_str!("axum.txt").to_owned(),
        };
        Ok((adapter, state))
    }

    fn add(&mut self, [name, package]: Ours, databases: &[(&str, &str)]) {
        let schemas = SCHEMAS.iter().filter(|(_, name, version)| self.has(name, version));
        let schemas = schemas.map(|(feature, ..)| *feature);
        let features: Array = databases.iter().map(|(name, _)| *name).chain(schemas).collect();
        let version =
            concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
        let mut ours = InlineTable::new();
        let is_shared = self.shared(name).is_some();
        if is_shared {
            ours.insert("workspace", true.into());
        } else {
            if package != name {
                ours.insert("package", package.into());
            }
            ours.insert("version", version.into());
        }
        if !features.is_empty() {
            ours.insert("features", features.into());
        }
        ours.set_dotted(is_shared && ours.len() == 1);
        let ours = if !is_shared && ours.len() == 1 { value(version) } else { value(ours) };
        let dependencies = self.document.entry("dependencies").or_insert(table());
        if let Some(dependencies) = dependencies.as_table_like_mut() {
            dependencies.entry(name).or_insert(ours);
        }
    }

    pub(super) fn enable_sqlx_toml(&mut self) -> Option<()> {
        let has_feature = self.dependency("sqlx")?.1.iter().any(|feature| feature == "sqlx-toml");
        let sqlx = self.document.get_mut("dependencies")?.get_mut("sqlx")?.as_table_like_mut()?;
        let features = sqlx.entry("features").or_insert(value(Array::new())).as_array_mut()?;
        (!has_feature).then(|| features.push("sqlx-toml"))
    }

    /// cargo packs files that git ignores if git does not track Cargo.toml.
    pub(super) fn exclude(&mut self, file: &str) -> Option<()> {
        let package = self.document.get_mut("package")?.as_table_like_mut()?;
        let is_private = package.get("publish").and_then(Item::as_bool) == Some(false);
        if is_private || package.contains_key("include") {
            return None;
        }
        let excluded = package.entry("exclude").or_insert(value(Array::new())).as_array_mut()?;
        let is_file = |it: &Value| it.as_str().is_some_and(|it| it.trim_start_matches('/') == file);
        let has_file = excluded.iter().any(is_file);
        (!has_file).then(|| excluded.push(format!("/{file}")))
    }

    /// The file is `None` outside of `src`. The path is valid in all targets.
    pub(super) fn root(&self) -> (Option<String>, String) {
        let field = |table: &str, field| self.document.get(table)?.get(field)?.as_str();
        let library = field("lib", "path").unwrap_or("src/lib.rs");
        let (file, path) = match field("lib", "name").or(field("package", "name")) {
            Some(name) if Path::new(library).exists() => (library, name.replace('-', "_")),
            _ => ("src/main.rs", "crate".to_owned()),
        };
        let is_in_src = Path::new(file).parent() == Some(Path::new("src"));
        ((is_in_src && Path::new(file).exists()).then(|| file.to_owned()), path)
    }
}
