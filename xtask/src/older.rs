//! The workspace `older`: the adapters for sqlx 0.8 and SeaORM 1.1. They share the sources of the newer ones.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tools::{cargo_of, rustup};
use crate::{Result, cargo, manifests, packages, root, run, target_dir};

pub(crate) const CRATES: [&str; 3] =
    ["opaque-id-packs-sqlx08", "opaque-id-seaorm11", "opaque-id-sqlx08"];

const NEWER: [&str; 7] = [
    "opaque-id-axum",
    "opaque-id-core",
    "opaque-id-derive",
    "opaque-id-seaorm",
    "opaque-id-sql",
    "opaque-id-sqlx",
    "opaque-id-web",
];

const EXAMPLES: [&str; 2] = ["axum-seaorm", "axum-sqlx"];

pub(crate) fn test() -> Result {
    let mut test = cargo("test --locked --test=sqlx08 --test=seaorm11");
    test.current_dir(folder()).env("CARGO_TARGET_DIR", target_dir());
    run(test)
}

/// The crates are tested as packages in their own workspace: with all their contents, with the examples, with
/// an application on each version of sqlx, and with their lowest Rust.
pub(crate) fn release() -> Result {
    let in_folder = |folder: &Path, mut command: Command| {
        command.current_dir(folder).env("CARGO_TARGET_DIR", target_dir());
        command
    };
    let clippy = cargo("clippy --locked --workspace --all-targets -- -Dwarnings");
    run(in_folder(&folder(), clippy))?;

    let packed = pack()?;
    let on_packed = |mut command: Command, packages: &[&str]| {
        command.args(packages.iter().flat_map(|name| ["--package", name]));
        run(in_folder(&packed, command))
    };
    // The examples' documents call the command.
    run(cargo("build --quiet --locked --package=opaque-id-cli"))?;
    on_packed(cargo("test --all-features"), &[&CRATES[..], &EXAMPLES].concat())?;
    let mut doc = cargo("doc --no-deps --all-features");
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    on_packed(doc, &CRATES)?;

    let lowest = manifests::value("older/Cargo.toml", "rust-version")?;
    run(rustup(&format!("toolchain install {lowest} --profile=minimal")))?;
    on_packed(cargo_of(&lowest, "check --all-features"), &CRATES)
}

pub(crate) fn folder() -> PathBuf {
    root().join("older")
}

fn pack() -> Result<PathBuf> {
    let packed = packages::empty("packed-older")?;
    let newer = Vec::from_iter(NEWER.into_iter().chain(EXAMPLES));
    packages::unpack(root(), &newer, "--locked", &packed)?;
    packages::unpack(&folder(), &CRATES, "--exclude-lockfile", &packed)?;
    let version = manifests::value("Cargo.toml", "version")?;
    for name in EXAMPLES {
        let example = packed.join(format!("{name}-{version}"));
        let manifest = fs::read_to_string(example.join("Cargo.toml"))?;
        let readme = format!(
            "\n[dev-dependencies.example-readme]\npath = {:?}\n",
            root().join("examples/readme")
        );
        fs::write(example.join("Cargo.toml"), on_older(&manifest)? + &readme)?;
        fs::create_dir_all(example.join("tests"))?;
        for file in ["README.md", "tests/readme.rs"] {
            fs::copy(root().join("examples").join(name).join(file), example.join(file))?;
        }
    }
    let crates = NEWER.into_iter().chain(CRATES).map(str::to_owned);
    packages::workspace(&packed, &folder(), &Vec::from_iter(crates))?;
    Ok(packed)
}

fn on_older(manifest: &str) -> Result<String> {
    let mut changed = manifest.to_owned();
    let mut count = 0;
    for (adapter, older, orm, version, older_version) in [
        ("opaque-id-sqlx", "opaque-id-sqlx08", "sqlx", "0.9", "0.8"),
        ("opaque-id-seaorm", "opaque-id-seaorm11", "sea-orm", "2.0", "1.1"),
    ] {
        let of_adapter = format!("package = \"{older}\"");
        for (start, from, to) in [
            (format!("{adapter} = {{ "), "", format!("{of_adapter}, ")),
            (format!("[dependencies.{adapter}]\n"), "", format!("{of_adapter}\n")),
            (format!("{orm} = {{ version = "), version, older_version.to_owned()),
            (format!("[dependencies.{orm}]\nversion = "), version, older_version.to_owned()),
        ] {
            let (from, to) = match from {
                "" => (start.clone(), start + &to),
                _ => (format!("{start}\"{from}\""), format!("{start}\"{to}\"")),
            };
            count += changed.matches(&from).count();
            changed = changed.replace(&from, &to);
        }
    }
    match count {
        2 => Ok(changed),
        _ => Err(format!(
            "expected a line of an ORM and one of its adapter, found {count}:\n{manifest}"
        )
        .into()),
    }
}
