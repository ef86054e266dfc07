//! `cargo xtask check`: rules without a build, then lints, documentation and links. It also checks that an
//! adapter alone brings no other ORM, and that declared Rust versions suffice for all dependencies.
//! cargo-deny checks only direct dependencies, and cargo uses the compiler's version instead of the declared
//! one.

use std::process::Command;

use cargo_metadata::{Metadata, Target};

use crate::manifests::{is_published, metadata, value};
use crate::{Result, cargo, circles, documents, root, run, target_dir, templates, tools};

pub(crate) fn check() -> Result {
    tools::debian("need", "linked")?;
    let metadata = metadata()?;
    rust_versions(&metadata)?;
    dependencies(&metadata)?;
    templates::check(&metadata)?;
    let ours = metadata.packages.iter().filter(|it| it.source.is_none());
    let targets = Vec::from_iter(ours.flat_map(|it| &it.targets));
    circles::check(targets.iter().map(|it| it.src_path.as_std_path()))?;
    unit_tests(&targets)?;
    documents::check()?;
    run(cargo("fmt --all --check"))?;
    run(cargo("clippy --workspace --all-targets --all-features --locked -- -Dwarnings"))?;
    run(cargo("clippy --package=opaque-id-core --no-default-features --locked -- -Dwarnings"))?;
    // The workspace has no examples to document. With `--examples`, the build has the tests'
    // dependencies, so that no dependency is built again with other features.
    let mut doc =
        cargo("doc --workspace --all-features --no-deps --locked --lib --bins --examples");
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    run(doc)?;
    documents::check_links(&target_dir().join("doc"))
}

/// A target with `test = false` has no unit tests, because they would not run.
fn unit_tests(targets: &[&Target]) -> Result {
    for target in targets.iter().filter(|it| !it.test && (it.is_lib() || it.is_bin())) {
        let file = target.src_path.as_std_path();
        let is_root = file.ends_with("src/lib.rs") || file.ends_with("main.rs");
        let sources = if is_root { file.parent().unwrap_or(file) } else { file };
        let mut grep = Command::new("git");
        grep.current_dir(root()).args(["grep", "--quiet", "--fixed-strings", "#[cfg(test)]"]);
        // Git has found a line or cannot search.
        if grep.arg(sources).status()?.code() != Some(1) {
            return Err(format!("{} has tests: remove `test = false`", file.display()).into());
        }
    }
    Ok(())
}

/// An adapter alone brings its own ORM and no other, extractors bring none, and all share one sqlx and one
/// SQLite.
fn dependencies(metadata: &Metadata) -> Result {
    for shared in ["libsqlite3-sys", "sqlx", "uuid"] {
        if metadata.packages.iter().filter(|it| *it.name == shared).count() != 1 {
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
        let found =
            others.iter().find(|other| tree.iter().any(|it| it.split(' ').next() == Some(**other)));
        if let Some(other) = found {
            return Err(format!("{adapter} alone pulls in {other}").into());
        }
    }
    Ok(())
}

/// The workspace's Rust version is the pinned toolchain's. Each published crate declares the version that its
/// dependencies need, and clippy checks its code with that version.
fn rust_versions(metadata: &Metadata) -> Result {
    let declared = value("Cargo.toml", "rust-version")?;
    let pinned = value("rust-toolchain.toml", "channel")?;
    if pinned != declared && !pinned.starts_with(&format!("{declared}.")) {
        return Err(format!(
            "Cargo.toml declares rust-version {declared}, rust-toolchain.toml pins {pinned}: make them the same"
        )
        .into());
    }
    for package in metadata.packages.iter().filter(|it| is_published(it)) {
        let tree = tree(&package.name)?;
        let of_tree = metadata
            .packages
            .iter()
            .filter(|it| tree.contains(&format!("{} v{}", it.name, it.version)));
        if let Some(other) = of_tree.into_iter().find(|it| it.rust_version > package.rust_version) {
            return Err(format!(
                "{} declares a lower rust-version than {} needs, which it depends on",
                package.name, other.name
            )
            .into());
        }
    }
    Ok(())
}

fn tree(package: &str) -> Result<Vec<String>> {
    let mut tree = cargo("tree --locked --all-features --edges normal --prefix none --package");
    let tree = String::from_utf8(tree.arg(package).output()?.stdout)?;
    let first_two = |line: &str| Vec::from_iter(line.split(' ').take(2)).join(" ");
    Ok(tree.lines().map(first_two).collect())
}
