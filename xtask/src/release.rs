//! `cargo xtask release`: packs the published crates, and builds the README's first example from the packages alone. `--check` has all
//! that must hold before a release, for RELEASING.md.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::tools::{cargo_of, nightly, path_with, rustup};
use crate::{
    Result, cargo, check, documents, minimal, older, packages, root, run, target_dir, targets,
    timed,
};

type Check = (&'static str, fn() -> Result);

/// The parts of `--check`, the quick ones first.
pub(crate) const CHECKS: [Check; 14] = [
    ("manifests", manifests),
    ("forge", forge),
    ("deny", deny),
    ("advisories", advisories),
    ("semver", semver),
    ("packages", packed),
    ("older", older::release),
    ("rust", lowest_rust),
    ("minimal-versions", || minimal::minimal_versions(&[])),
    ("docs", docs),
    ("api", api),
    ("mutations", mutations),
    ("external-types", check::external_types),
    ("targets", targets::targets),
];

/// Applications with each ORM, which are built from the packages as well.
const EXAMPLES: [&str; 3] = ["actix-diesel", "axum-seaorm", "axum-sqlx"];

/// What a registry shows of each crate.
const SHOWN: [&str; 5] = ["description", "license", "readme", "categories", "keywords"];

/// The files that a forge reads, by the schema that check-jsonschema has.
const FORGE: [(&str, &[&str]); 4] = [
    ("github-workflows", &["workflows/ci.yml", "workflows/release.yml"]),
    ("dependabot", &["dependabot.yml"]),
    ("github-issue-forms", &["ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/proposal.yml"]),
    ("github-issue-config", &["ISSUE_TEMPLATE/config.yml"]),
];

/// The folder of the lists of public items.
const API: &str = "docs/public-api";

/// Packs, or checks these parts, all if there are none. A part that fails does not keep the others from running.
pub(crate) fn release(parts: Option<&[String]>) -> Result {
    let Some(parts) = parts else {
        return first_example();
    };
    let chosen =
        CHECKS.iter().filter(|(name, _)| parts.is_empty() || parts.iter().any(|it| it == name));
    let failed = chosen.filter_map(|(name, part)| Some(format!("{name}: {}", part().err()?)));
    let failed: Vec<_> = failed.collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}

fn first_example() -> Result {
    let mut check = cargo(&["check", "--quiet", "--package=first"]);
    check.current_dir(pack(&["--locked", "--allow-dirty"])?).env("CARGO_TARGET_DIR", target_dir());
    run(check)
}

/// All that the packages contain compiles and passes, and the examples compile.
fn packed() -> Result {
    let mut test = cargo(&["test", "--workspace", "--all-features"]);
    test.current_dir(pack(&["--locked"])?).env("CARGO_TARGET_DIR", target_dir());
    run(test)
}

/// Packs the crates, and unpacks them into a workspace that has nothing else of this one but the versions of dependencies.
fn pack(options: &[&str]) -> Result<PathBuf> {
    let published = check::published()?;
    let names = Vec::from_iter(published.iter().map(String::as_str).chain(EXAMPLES));
    let folder = packages::empty("packed")?;
    packages::unpack(root(), &names, options, &folder)?;
    packages::first(&folder.join("first"), |dependencies| Ok(dependencies.to_owned()))?;
    packages::workspace(&folder, root(), &published)?;
    Ok(folder)
}

/// The published crates have what a registry shows, and the owner has said where the repository is.
fn manifests() -> Result {
    let mut problems = Vec::new();
    let repository = check::value("Cargo.toml", "repository")?;
    for (key, value) in
        [("homepage", check::value("Cargo.toml", "homepage")?), ("repository", repository.clone())]
    {
        if !value.starts_with("https://") {
            problems.push(format!("expected [workspace.package] with the owner's {key} = \"https://…\", found {value:?}"));
        }
    }
    for file in ["fuzz/oss-fuzz/Dockerfile", "fuzz/oss-fuzz/project.yaml"] {
        if repository.is_empty() || !fs::read_to_string(root().join(file))?.contains(&repository) {
            problems.push(format!("{file} does not name the repository"));
        }
    }
    for key in ["homepage", "repository"] {
        if check::value("Cargo.toml", key)? != check::value("older/Cargo.toml", key)? {
            problems.push(format!("older/Cargo.toml has another {key} than Cargo.toml"));
        }
    }
    let is_empty = |value: &Value| match value {
        Value::String(text) => text.is_empty(),
        Value::Array(values) => values.is_empty(),
        _ => true,
    };
    for package in published()? {
        let missing = SHOWN.iter().filter(|key| is_empty(&package[**key]));
        problems.extend(missing.map(|key| format!("{} has no {key}", package["name"])));
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ").into()),
    }
}

/// The published crates, as cargo reports their manifests.
fn published() -> Result<Vec<Value>> {
    let output = cargo(&["metadata", "--format-version=1", "--no-deps", "--locked"]).output()?;
    let mut metadata: Value = serde_json::from_slice(&output.stdout)?;
    let Value::Array(mut packages) = metadata["packages"].take() else {
        return Err("cargo metadata has no packages".into());
    };
    packages.retain(|package| package["publish"].is_null());
    Ok(packages)
}

/// The forge's files have the shape that the forge expects.
fn forge() -> Result {
    let programs = of_pypi(&["check-jsonschema==0.39.0"])?;
    for (schema, files) in FORGE {
        let mut check = Command::new(programs.join("check-jsonschema"));
        check.args(["--builtin-schema", &format!("vendor.{schema}")]).args(files);
        check.current_dir(root().join(".github"));
        run(check)?;
    }
    Ok(())
}

/// Returns the programs of an environment with packages of PyPI.
fn of_pypi(packages: &[&str]) -> Result<PathBuf> {
    let environment = target_dir().join("tools/python");
    let mut create = Command::new("python3");
    create.args(["-m", "venv"]).arg(&environment);
    run(create)?;
    let programs = environment.join("bin");
    let mut install = Command::new(programs.join("pip"));
    install.args(["install", "--quiet"]).args(packages);
    run(install)?;
    Ok(programs)
}

/// The conformance kit finds every fault of spec/mutations.
fn mutations() -> Result {
    run(cargo(&["build", "--quiet", "--locked", "--package=opaque-id-cli"]))?;
    let programs = of_pypi(&["cryptography==50.0.2", "deno==2.9.8"])?;
    let mut mutate = Command::new(programs.join("python"));
    mutate.arg("spec/mutate.py").arg(target_dir().join("debug/opaque-id")).current_dir(root());
    run(mutate)
}

/// The licenses, the sources and the versions of all dependencies, by deny.toml.
fn deny() -> Result {
    cargo_deny(&["licenses", "bans", "sources"])
}

/// The advisories on all dependencies, from a database that is fetched.
fn advisories() -> Result {
    cargo_deny(&["advisories"])
}

fn cargo_deny(checks: &[&str]) -> Result {
    let mut deny = cargo(&["deny", "--all-features", "check"]);
    deny.args(checks).env("PATH", path_with(&["cargo-deny@0.20.2"])?);
    run(deny)
}

/// No version breaks users of the version before, unless its number says so.
fn semver() -> Result {
    let mut describe = Command::new("git");
    let this = format!("v{}", check::value("Cargo.toml", "version")?);
    describe.args(["describe", "--tags", "--abbrev=0", "--match=v*", "--exclude", &this]);
    let tag = String::from_utf8(describe.current_dir(root()).output()?.stdout)?;
    if tag.is_empty() {
        println!("no tag of an earlier version: nothing to compare with");
        return Ok(());
    }
    let mut check = cargo(&["semver-checks", "--all-features", "--baseline-rev", tag.trim()]);
    for package in with_promises()? {
        check.args(["--package", &package]);
    }
    check.env("PATH", path_with(&["cargo-semver-checks@0.51.0"])?);
    run(check)
}

/// Each crate builds with the lowest Rust that it declares, and the core passes its tests with it.
fn lowest_rust() -> Result {
    let published = published()?;
    let mut versions: Vec<_> =
        published.iter().filter_map(|it| it["rust_version"].as_str()).collect();
    versions.sort_unstable();
    versions.dedup();
    for version in versions {
        run(rustup(&["toolchain", "install", version, "--profile=minimal"]))?;
        let of_version = published.iter().filter(|it| it["rust_version"] == version);
        let names: Vec<_> = of_version.filter_map(|it| it["name"].as_str()).collect();
        let mut check = cargo_of(version, &["check", "--locked", "--all-features"]);
        check.args(names.iter().flat_map(|name| ["--package", name]));
        run(check)?;
        if names.contains(&"opaque-id-core") {
            run(cargo_of(
                version,
                &["test", "--locked", "--all-features", "--package=opaque-id-core"],
            ))?;
        }
    }
    Ok(())
}

/// The documents as the documentation server builds them: features stand on items, and no link between crates is dead.
fn docs() -> Result {
    let version = check::value("Cargo.toml", "version")?;
    let published = check::published()?;
    let mut flags = "--cfg=docsrs -Dwarnings -Zunstable-options".to_owned();
    let mut doc = nightly(&["doc", "--locked", "--all-features", "--no-deps", "--lib"]);
    for name in &published {
        let library = name.replace('-', "_");
        flags += &format!(" --extern-html-root-url={library}=https://docs.rs/{name}/{version}");
        doc.args(["--package", name]);
    }
    doc.env("RUSTDOCFLAGS", flags + " --extern-html-root-takes-precedence");
    run(doc)?;
    documents::check_pages(&target_dir().join("nightly/doc"), &published)
}

/// Writes the lists of public items, and fails if they are not those that are committed.
fn api() -> Result {
    let path = path_with(&["cargo-public-api@0.52.0"])?;
    for package in with_promises()? {
        let mut list = nightly(&["public-api", "--all-features", "-sss", "--package", &package]);
        let (output, line) = timed(list.env("PATH", &path), Command::output)?;
        if !output.status.success() {
            return Err(format!("{line}:\n{}", String::from_utf8_lossy(&output.stderr)).into());
        }
        fs::write(root().join(API).join(package + ".txt"), output.stdout)?;
    }
    let mut status = Command::new("git");
    status.args(["status", "--porcelain", "--", API]).current_dir(root());
    match status.output()?.stdout.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("public items are not those of {API}: commit it if the version allows it")
                .into())
        }
    }
}

/// The libraries whose public items are promises. opaque-id-sql says that its are none.
fn with_promises() -> Result<Vec<String>> {
    let mut packages = check::with_signatures()?;
    packages.retain(|package| package != "opaque-id-sql");
    Ok(packages)
}
