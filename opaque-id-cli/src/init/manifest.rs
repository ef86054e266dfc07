//! The `Cargo.toml` of a project, and the crates that it needs.

use std::error::Error;
use std::path::Path;

use toml_edit::{Array, DocumentMut, InlineTable, Item, table, value};

use crate::files;

/// A dependency of a project, its supported version, and our crate's name and package.
type Row = (&'static str, &'static str, [&'static str; 2]);

pub(super) const SQLX: [&str; 2] = ["opaque-id-sqlx", "opaque-id-sqlx"];
/// SeaORM and diesel come before sqlx, because their projects may also name a driver.
const ORMS: [Row; 5] = [
    ("sea-orm", "2", ["opaque-id-seaorm", "opaque-id-seaorm"]),
    ("sea-orm", "1", ["opaque-id-seaorm", "opaque-id-seaorm11"]),
    ("diesel", "2", ["opaque-id-diesel", "opaque-id-diesel"]),
    ("sqlx", "0.9", SQLX),
    ("sqlx", "0.8", ["opaque-id-sqlx", "opaque-id-sqlx08"]),
];
const WEB: [Row; 2] = [
    ("axum", "0.8", ["opaque-id-axum", "opaque-id-axum"]),
    ("actix-web", "4", ["opaque-id-actix", "opaque-id-actix"]),
];
const SCHEMAS: [(&str, &str, &str); 3] =
    [("utoipa", "5", "utoipa5"), ("utoipa", "6", "utoipa6"), ("schemars", "1", "schemars1")];
/// Databases by our features, with sqlx's pools.
const DATABASES: [(&str, &str); 3] =
    [("postgres", "sqlx::PgPool"), ("mysql", "sqlx::MySqlPool"), ("sqlite", "sqlx::SqlitePool")];

pub(super) struct Crates {
    pub(super) adapter: [&'static str; 2],
    /// The dependencies, each with the next step of the user.
    pub(super) web: Vec<(&'static str, &'static str)>,
    /// The type of the ORM's pool, if it is known.
    pub(super) pool: Option<&'static str>,
}

pub(super) struct Manifest {
    pub(super) document: DocumentMut,
    workspace: Option<DocumentMut>,
}

impl Manifest {
    pub(super) fn read() -> Result<Self, Box<dyn Error>> {
        let parse = |path: &Path| -> Result<DocumentMut, String> {
            files::read(path)?.parse().map_err(|error| format!("{}: {error}", path.display()))
        };
        let document = parse(Path::new("Cargo.toml"))?;
        if !document.contains_key("package") {
            return Err("expected a package in Cargo.toml, found a workspace: run it in the folder of a package".into());
        }
        let folder = std::env::current_dir()?;
        let mut above = folder.ancestors().filter_map(|it| parse(&it.join("Cargo.toml")).ok());
        Ok(Self { document, workspace: above.find(|it| it.contains_key("workspace")) })
    }

    /// Returns the version and the features of a dependency.
    fn dependency(&self, name: &str) -> Option<(String, Vec<String>)> {
        let own = self.document.get("dependencies")?.get(name)?;
        let shared = || self.workspace.as_ref()?.get("workspace")?.get("dependencies")?.get(name);
        let items = [Some(own), own.get("workspace").and_then(|_| shared())];
        let version = |item: &Item| Some(item.get("version").unwrap_or(item).as_str()?.to_owned());
        let version = items.into_iter().flatten().find_map(version);
        let features = items.into_iter().filter_map(|item| item?.get("features")?.as_array());
        let features = features.flatten().filter_map(|feature| Some(feature.as_str()?.to_owned()));
        Some((version.unwrap_or_default(), features.collect()))
    }

    fn has(&self, name: &str, version: &str) -> bool {
        let is_other = |c: char| !c.is_ascii_digit();
        self.dependency(name).is_some_and(|(found, _)| {
            let found = found.trim_start_matches(is_other).split(is_other);
            version.split('.').zip(found).all(|(wanted, found)| wanted == found)
        })
    }

    fn supported(&self, table: &'static [Row], notes: &mut Vec<String>) -> Vec<&'static Row> {
        let mut supported = Vec::new();
        for rows in table.chunk_by(|row, next| row.0 == next.0) {
            let name = rows[0].0;
            let Some((found, _)) = self.dependency(name) else { continue };
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

    /// Adds the crates that the dependencies need.
    pub(super) fn add_crates(&mut self, notes: &mut Vec<String>) -> Crates {
        let orms = self.supported(&ORMS, notes);
        let core = ("", "", ["opaque-id-core"; 2]);
        let (orm, _, adapter) = orms.first().copied().copied().unwrap_or(core);
        if orms.len() > 1 {
            notes.push(format!(
                "expected one ORM, found {}: the ids are those of {orm}",
                orms.len()
            ));
        }
        let (_, mut features) = self.dependency(orm).unwrap_or_default();
        features.extend(self.dependency("diesel-async").unwrap_or_default().1);
        let has = |name: &str| features.iter().any(|feature| feature.contains(name));
        let databases: Vec<_> = DATABASES.iter().filter(|(name, _)| has(name)).collect();
        if !orm.is_empty() && databases.is_empty() {
            notes.push(format!(
                "found no database: give {} the feature postgres, mysql or sqlite",
                adapter[0]
            ));
        }
        let pool = match (orm, &databases[..]) {
            ("sqlx", [(_, pool)]) => Some(*pool),
            ("sea-orm", _) => Some("sea_orm::DatabaseConnection"),
            _ => None,
        };
        self.add(adapter, databases.iter().map(|(feature, _)| *feature));
        let web = self.supported(&WEB, notes);
        web.iter().for_each(|row| self.add(row.2, []));
        let step = |name| match name {
            "axum" => {
                "give the router its state: `.with_state(ids::App { … keyring: ids::keyring()? })`"
            }
            _ => "give each actix App a clone of `ids::keyring()?`: `.app_data(keyring.clone())`",
        };
        let web = web.iter().map(|(name, ..)| (*name, step(*name))).collect();
        Crates { adapter, web, pool }
    }

    fn add(
        &mut self,
        [name, package]: [&'static str; 2],
        features: impl IntoIterator<Item = &'static str>,
    ) {
        let schemas = SCHEMAS.iter().filter(|(name, version, _)| self.has(name, version));
        let features: Array = features.into_iter().chain(schemas.map(|row| row.2)).collect();
        let version =
            concat!(env!("CARGO_PKG_VERSION_MAJOR"), ".", env!("CARGO_PKG_VERSION_MINOR"));
        let mut ours = InlineTable::new();
        if package != name {
            ours.insert("package", package.into());
        }
        ours.insert("version", version.into());
        if !features.is_empty() {
            ours.insert("features", features.into());
        }
        let ours = if ours.len() == 1 { value(version) } else { value(ours) };
        let dependencies = self.document.entry("dependencies").or_insert(table());
        if let Some(dependencies) = dependencies.as_table_like_mut() {
            dependencies.entry(name).or_insert(ours);
        }
    }

    /// Enables the feature with which sqlx reads `sqlx.toml`, unless there is no list of features.
    pub(super) fn enable_sqlx_toml(&mut self) -> Option<()> {
        if self.dependency("sqlx")?.1.iter().all(|feature| feature != "sqlx-toml") {
            let sqlx = self.document.get_mut("dependencies")?.get_mut("sqlx")?;
            sqlx.get_mut("features")?.as_array_mut()?.push("sqlx-toml");
        }
        Some(())
    }

    /// Returns the file of the crate's root, and the library's name if it is one.
    pub(super) fn root(&self) -> (&'static str, Option<String>) {
        if !Path::new("src/lib.rs").exists() {
            return ("src/main.rs", None);
        }
        let name = |table: &str| self.document.get(table)?.get("name")?.as_str();
        let library = name("lib").or_else(|| name("package")).unwrap_or_default();
        ("src/lib.rs", Some(library.replace('-', "_")))
    }
}
