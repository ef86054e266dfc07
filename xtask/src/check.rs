//! `cargo xtask check`: rules that compile nothing, then lints, documentation and features. An adapter alone brings no other ORM, and
//! declared Rust versions suffice for all dependencies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde::Deserialize;

use crate::{Result, cargo, circles, documents, libraries, root, run, target_dir, timed, tools};

/// The rules that have to hold before the tests run.
pub(crate) fn check() -> Result {
    libraries::require()?;
    rust_version()?;
    dependencies()?;
    circles()?;
    documents::check()?;
    run(cargo(&["fmt", "--all", "--check"]))?;
    run(cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--locked",
        "--",
        "-Dwarnings",
    ]))?;
    let mut doc = cargo(&["doc", "--workspace", "--all-features", "--no-deps", "--locked"]);
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    run(doc)?;
    documents::check_pages(&target_dir().join("doc"), &published()?)
}

/// `--workspace` unifies features and so hides missing ones, and items that only some features use: each crate alone, with
/// each feature alone, but for those that only pass one of the core's on. Warnings fail.
pub(crate) fn features_alone() -> Result {
    for package in &metadata()?.packages {
        let Some(name) = package.published_name() else {
            continue;
        };
        let check = |feature: &str| {
            let mut check = cargo(&["check", "--locked", "--no-default-features", "--package"]);
            check.args([name, "--features", feature]);
            without_warnings(check)
        };
        check("")?;
        for (feature, enables) in &package.features {
            let is_passed_on = |enabled: &String| enabled.starts_with("opaque-id-");
            let is_own = enables.is_empty() || !enables.iter().all(is_passed_on);
            if feature != "default" && is_own {
                check(feature)?;
            }
        }
    }
    Ok(())
}

/// Runs a build and fails if a crate of this workspace has warnings. `-Dwarnings` would build the other crates again.
pub(crate) fn without_warnings(mut build: Command) -> Result {
    let (output, line) = timed(&mut build, Command::output)?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() || stderr.contains("warning: `opaque-id-") {
        return Err(format!("{line}: expected no error and no warning, found:\n{stderr}").into());
    }
    Ok(())
}

/// No file of this workspace imports from one that imports from it.
fn circles() -> Result {
    let metadata = metadata()?;
    let ours = metadata.packages.iter().filter(|it| it.source.is_none());
    let targets = ours.flat_map(|package| &package.targets);
    circles::check(targets.map(|target| &*target.src_path))
}

/// An adapter alone brings its own ORM and no other, and extractors bring none; all share one sqlx and one SQLite.
fn dependencies() -> Result {
    let metadata = metadata()?;
    for shared in ["libsqlite3-sys", "sqlx", "uuid"] {
        let versions = metadata.packages.iter().filter(|package| package.name == shared);
        if versions.count() != 1 {
            return Err(
                format!("Cargo.lock has not one {shared}: see `cargo tree -i {shared}`").into()
            );
        }
    }
    for (adapter, others) in [
        ("opaque-id-actix", ["opaque-id-sql", "axum-core"]),
        ("opaque-id-axum", ["opaque-id-sql", "tokio"]),
        ("opaque-id-sqlx", ["diesel", "sea-orm"]),
        ("opaque-id-diesel", ["sqlx-core", "sea-orm"]),
        ("opaque-id-seaorm", ["diesel", "sea-orm-migration"]),
        ("opaque-id-schema", ["clap", "toml_edit"]),
    ] {
        let tree = tree(adapter)?;
        for other in others {
            if tree.iter().any(|line| line.split(' ').next() == Some(other)) {
                return Err(format!("{adapter} alone pulls in {other}").into());
            }
        }
    }
    Ok(())
}

/// The workspace's Rust version is the pinned toolchain's. Each published crate declares what its dependencies need, and
/// clippy holds its code to that.
fn rust_version() -> Result {
    let declared = value("Cargo.toml", "rust-version")?;
    let pinned = value("rust-toolchain.toml", "channel")?;
    if pinned != declared && !pinned.starts_with(&format!("{declared}.")) {
        return Err(format!(
            "Cargo.toml declares rust-version {declared}, rust-toolchain.toml pins {pinned}: make them the same"
        )
        .into());
    }
    let metadata = metadata()?;
    for package in &metadata.packages {
        let Some(name) = package.published_name() else {
            continue;
        };
        let declared = package.rust_version.as_deref().unwrap_or_default();
        for dependency in tree(name)? {
            let found =
                metadata.packages.iter().find(|package| package.name_and_version() == dependency);
            let needs = found.and_then(|package| package.rust_version.as_deref());
            if let Some(needs) = needs.filter(|needs| numbers(needs) > numbers(declared)) {
                return Err(format!(
                    "{name} declares rust-version {declared}, but {dependency} needs {needs}"
                )
                .into());
            }
        }
    }
    Ok(())
}

/// A package's dependencies, as `name vVERSION`.
fn tree(package: &str) -> Result<Vec<String>> {
    let mut tree = cargo(&["tree", "--locked", "--all-features", "--edges", "normal"]);
    tree.args(["--prefix", "none", "--package", package]);
    let tree = String::from_utf8(tree.output()?.stdout)?;
    let first_two = |line: &str| {
        let mut words = line.split(' ');
        Some(format!("{} {}", words.next()?, words.next()?))
    };
    Ok(tree.lines().filter_map(first_two).collect())
}

/// Checks the foreign types in public signatures against the list in each published library's manifest.
pub(crate) fn external_types() -> Result {
    let path = tools::path_with(&["cargo-check-external-types@0.5.0"])?;
    for package in with_signatures()? {
        let mut check = tools::nightly(&["check-external-types", "--all-features"]);
        check.env("PATH", &path).current_dir(root().join(package));
        run(check)?;
    }
    Ok(())
}

/// The published libraries. A command, and macros, have no signatures.
pub(crate) fn with_signatures() -> Result<Vec<String>> {
    let mut packages = published()?;
    packages.retain(|package| !["opaque-id-cli", "opaque-id-derive"].contains(&&**package));
    Ok(packages)
}

/// The names of the crates that users can depend on, which are those of their folders.
pub(crate) fn published() -> Result<Vec<String>> {
    let metadata = metadata()?;
    let names = metadata.packages.iter().filter_map(Package::published_name);
    Ok(names.map(ToOwned::to_owned).collect())
}

/// The report of `cargo metadata` on all packages in Cargo.lock.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    rust_version: Option<String>,
    /// None for what comes with this workspace.
    source: Option<String>,
    /// Some([]) for what is never published.
    publish: Option<Vec<String>>,
    features: BTreeMap<String, Vec<String>>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    src_path: PathBuf,
}

impl Package {
    /// The name of a crate of this workspace that users can depend on.
    fn published_name(&self) -> Option<&str> {
        (self.source.is_none() && self.publish.is_none()).then_some(&*self.name)
    }

    /// As `cargo tree` writes them.
    fn name_and_version(&self) -> String {
        format!("{} v{}", self.name, self.version)
    }
}

fn metadata() -> Result<Metadata> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    Ok(serde_json::from_slice(&metadata.stdout)?)
}

/// The string of `key = "…"`, which stands once in a file.
pub(crate) fn value(file: &str, key: &str) -> Result<String> {
    let text = std::fs::read_to_string(root().join(file))?;
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
    Ok(value.ok_or_else(|| format!("{file} has no {key}"))?.trim().trim_matches('"').to_owned())
}

fn numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        version.split('.').filter_map(|number| number.parse().ok()).collect();
    numbers.resize(3, 0);
    numbers
}
