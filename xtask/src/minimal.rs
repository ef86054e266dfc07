//! Builds the published libraries with the lowest versions that their manifests allow, so that no manifest
//! requires more or less than its crate needs. cargo-minimal-versions resolves the tools together with the
//! libraries, and reports conflicts that no application has.

use std::fs;
use std::path::Path;

use crate::{Result, cargo, manifests, older, root, run, target_dir};

pub(crate) fn minimal_versions() -> Result {
    let mut published = manifests::published()?;
    // Tools do not share their versions with an application.
    published.retain(|package| !["opaque-id-cli", "opaque-id-schema"].contains(&package.as_str()));
    let copy = target_dir().join("minimal-versions");
    minimal(root(), &copy, &published)?;
    minimal(&older::folder(), &copy.join("older"), &older::CRATES.map(str::to_owned))
}

fn minimal(from: &Path, copy: &Path, members: &[String]) -> Result {
    fs::create_dir_all(copy)?;
    // Users do not need the dependencies of tests.
    let manifest = fs::read_to_string(from.join("Cargo.toml"))?;
    let tables = without(&manifest, &["[workspace]"]);
    let workspace =
        format!("[workspace]\nresolver = \"3\"\nmembers = {members:?}\nexclude = [\"older\"]\n");
    fs::write(copy.join("Cargo.toml"), workspace + &tables)?;
    fs::copy(root().join("rust-toolchain.toml"), copy.join("rust-toolchain.toml"))?;
    for package in members {
        let (from, to) = (from.join(package), copy.join(package));
        if to.exists() {
            fs::remove_dir_all(&to)?;
        }
        copy_sources(&from, &to)?;
        let manifest = fs::read_to_string(from.join("Cargo.toml"))?;
        let tables = ["[dev-dependencies]", "[[bench]]", "[[example]]", "[[test]]"];
        fs::write(to.join("Cargo.toml"), without(&manifest, &tables))?;
    }

    let lock = copy.join("Cargo.lock");
    if lock.exists() {
        fs::remove_file(lock)?;
    }
    let mut update = cargo("update --quiet -Z direct-minimal-versions");
    update.current_dir(copy).env("RUSTC_BOOTSTRAP", "1");
    run(update)?;
    let mut check = cargo("check --workspace --all-features --locked --quiet");
    check.current_dir(copy).env("CARGO_TARGET_DIR", target_dir().join("minimal-versions/target"));
    run(check)
}

fn copy_sources(from: &Path, to: &Path) -> Result {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.path().is_dir() {
            if !["benches", "examples", "fuzz", "target", "tests"]
                .map(Some)
                .contains(&name.to_str())
            {
                copy_sources(&entry.path(), &to.join(name))?;
            }
        } else {
            fs::copy(entry.path(), to.join(name))?;
        }
    }
    Ok(())
}

fn without(manifest: &str, tables: &[&str]) -> String {
    let mut is_kept = true;
    let lines = manifest.lines().filter(|line| {
        if line.starts_with('[') {
            is_kept = !tables.contains(line);
        }
        is_kept
    });
    lines.map(|line| format!("{line}\n")).collect()
}
