//! `cargo xtask release --check`: the checks of RELEASING.md that take too long for each change.

use std::collections::BTreeSet;
use std::fs;

use std::process::Command;

use crate::test::cargo_test;
use crate::tools::{cargo_of, from_pypi, nightly, path_with, rustup};
use crate::{
    Result, cargo, docs, fuzz, manifests, minimal, older, output, packages, root, run, target_dir,
    targets, templates,
};

type Check = (&'static str, fn() -> Result);

/// Quick checks come first.
pub(crate) const CHECKS: [Check; 21] = [
    ("manifests", manifests),
    ("forge", forge),
    ("deny", || cargo_deny("licenses bans sources")),
    ("advisories", || cargo_deny("advisories")),
    ("semver", semver),
    ("site", docs::docs),
    ("features", features),
    ("packages", packed),
    ("fresh", || run(cargo("run --package=opaque-id-tests --all-features --locked --bin=fresh"))),
    ("loco", loco),
    ("adapters", adapters),
    ("ports", || run(cargo_test("--test=ports -- --include-ignored"))),
    ("older", older::release),
    ("rust", lowest_rust),
    ("minimal-versions", minimal::minimal_versions),
    ("docs", docs),
    ("api", api),
    ("mutations", mutations),
    ("external-types", external_types),
    ("targets", targets::targets),
    ("fuzz", || fuzz::fuzz(None, 300)),
];

const FORGE: [(&str, &[&str]); 4] = [
    ("github-workflows", &["workflows/ci.yml", "workflows/release.yml"]),
    ("dependabot", &["dependabot.yml"]),
    ("github-issue-forms", &["ISSUE_TEMPLATE/bug.yml", "ISSUE_TEMPLATE/proposal.yml"]),
    ("github-issue-config", &["ISSUE_TEMPLATE/config.yml"]),
];

const API: &str = "docs/public-api";

/// A failed part does not stop the others.
pub(crate) fn release(parts: &[String]) -> Result {
    let chosen =
        CHECKS.iter().filter(|(name, _)| parts.is_empty() || parts.iter().any(|it| it == name));
    let failed = chosen.filter_map(|(name, part)| Some(format!("{name}: {}", part().err()?)));
    let failed: Vec<_> = failed.collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join("\n").into()),
    }
}

/// In the workspace, other crates hide a missing feature and items that only some features use.
fn features() -> Result {
    let mut hack = cargo("hack check --workspace --ignore-private --each-feature --locked");
    hack.env("RUSTFLAGS", "-Dwarnings").env("PATH", path_with("cargo-hack@0.6.46")?);
    run(hack)?;
    run(cargo("test --package=opaque-id-core --locked --tests"))
}

/// The example has its own workspace because it has many dependencies.
fn loco() -> Result {
    run(cargo("test --manifest-path=examples/loco/Cargo.toml --target-dir=target/loco"))
}

fn adapters() -> Result {
    let mut test = cargo_test("--test=diesel --test=seaorm");
    test.env("OPAQUE_ID_TEST_ONLY", "postgres,mysql,mariadb,sqlite");
    run(test)?;
    older::test()
}

fn packed() -> Result {
    let published = manifests::published()?;
    let names = Vec::from_iter(published.iter().map(String::as_str));
    let folder = packages::empty("packed")?;
    packages::unpack(root(), &names, "--locked", &folder)?;
    packages::first(&folder.join("first"))?;
    templates::generate(&folder)?;
    packages::workspace(&folder, root(), &published)?;
    let mut test = cargo("test --workspace --all-features");
    test.current_dir(folder).env("CARGO_TARGET_DIR", target_dir());
    run(test)
}

fn manifests() -> Result {
    let mut problems = Vec::new();
    let homepage = manifests::value("Cargo.toml", "homepage")?;
    let repository = manifests::value("Cargo.toml", "repository")?;
    if ![&homepage, &repository].iter().all(|url| url.starts_with("https://")) {
        problems.push("expected the owner's homepage and repository in Cargo.toml".to_owned());
    }
    let mut published = manifests::published_of(root())?;
    published.extend(manifests::published_of(&older::folder())?);
    for package in published {
        for (key, is_there) in [
            ("homepage of Cargo.toml", package.homepage.as_ref() == Some(&homepage)),
            ("repository of Cargo.toml", package.repository.as_ref() == Some(&repository)),
            ("description", package.description.is_some()),
            ("license", package.license.is_some()),
            ("readme", package.readme.is_some()),
            ("categories", !package.categories.is_empty()),
            ("keywords", !package.keywords.is_empty()),
        ] {
            if !is_there {
                problems.push(format!("{} has no {key}", package.name));
            }
        }
    }
    for file in ["fuzz/oss-fuzz/Dockerfile", "fuzz/oss-fuzz/project.yaml"] {
        if repository.is_empty() || !fs::read_to_string(root().join(file))?.contains(&repository) {
            problems.push(format!("{file} does not name the repository"));
        }
    }
    match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("; ").into()),
    }
}

fn forge() -> Result {
    let programs = from_pypi("check-jsonschema==0.39.0")?;
    for (schema, files) in FORGE {
        let mut check = Command::new(programs.join("check-jsonschema"));
        check.args(["--builtin-schema", &format!("vendor.{schema}")]).args(files);
        check.current_dir(root().join(".github"));
        run(check)?;
    }
    Ok(())
}

fn mutations() -> Result {
    run(cargo("build --quiet --locked --package=opaque-id-cli"))?;
    let programs = from_pypi("cryptography==50.0.2 deno==2.9.8")?;
    let mut mutate = Command::new(programs.join("python"));
    mutate.arg("spec/mutate.py").arg(target_dir().join("debug/opaque-id")).current_dir(root());
    run(mutate)
}

fn cargo_deny(checks: &str) -> Result {
    let mut deny = cargo(&format!("deny --all-features check {checks}"));
    deny.env("PATH", path_with("cargo-deny@0.20.2")?);
    run(deny)
}

fn semver() -> Result {
    let mut describe = Command::new("git");
    let this = format!("v{}", manifests::value("Cargo.toml", "version")?);
    describe.args(["describe", "--tags", "--abbrev=0", "--match=v*", "--exclude", &this]);
    let tag = String::from_utf8(describe.current_dir(root()).output()?.stdout)?;
    if tag.is_empty() {
        println!("no tag of an earlier version: nothing to compare with");
        return Ok(());
    }
    let mut check = cargo(&format!("semver-checks --all-features --baseline-rev {}", tag.trim()));
    for package in with_promises()? {
        check.args(["--package", &package]);
    }
    check.env("PATH", path_with("cargo-semver-checks@0.51.0")?);
    run(check)
}

fn lowest_rust() -> Result {
    let published = manifests::published_of(root())?;
    let versions = published.iter().filter_map(|it| it.rust_version.as_ref());
    for version in BTreeSet::from_iter(versions) {
        let toolchain = version.to_string();
        run(rustup(&format!("toolchain install {toolchain} --profile=minimal")))?;
        let mut check = cargo_of(&toolchain, "check --locked --all-features");
        for package in published.iter().filter(|it| it.rust_version.as_ref() == Some(version)) {
            check.args(["--package", &package.name]);
            if *package.name == "opaque-id-core" {
                let test = "test --locked --all-features --package=opaque-id-core";
                run(cargo_of(&toolchain, test))?;
            }
        }
        run(check)?;
    }
    Ok(())
}

/// No link between crates may be dead.
fn docs() -> Result {
    let version = manifests::value("Cargo.toml", "version")?;
    let published = manifests::published()?;
    let mut flags = "--cfg=docsrs -Dwarnings -Zunstable-options".to_owned();
    let mut doc = nightly("doc --locked --all-features --no-deps --lib");
    for name in &published {
        let library = name.replace('-', "_");
        flags += &format!(" --extern-html-root-url={library}=https://docs.rs/{name}/{version}");
        doc.args(["--package", name]);
    }
    doc.env("RUSTDOCFLAGS", flags + " --extern-html-root-takes-precedence");
    run(doc)?;
    crate::documents::check_links(&target_dir().join("nightly/doc"))
}

fn api() -> Result {
    let path = path_with("cargo-public-api@0.52.0")?;
    for package in with_promises()? {
        let mut list =
            json_nightly(&format!("public-api --all-features -sss --package {package}"))?;
        list.env("PATH", &path);
        fs::write(root().join(API).join(package + ".txt"), output(list)?)?;
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

/// The tools read the JSON of this nightly's rustdoc, and other nightlies show the standard library's items under other paths.
fn json_nightly(words: &str) -> Result<Command> {
    const NIGHTLY: &str = "nightly-2026-03-20";
    run(rustup(&format!("toolchain install {NIGHTLY} --profile=minimal")))?;
    let mut command = cargo_of(NIGHTLY, words);
    command.env("CARGO_TARGET_DIR", target_dir().join(NIGHTLY));
    Ok(command)
}

fn external_types() -> Result {
    let path = path_with("cargo-check-external-types@0.5.0")?;
    let mut failed = manifests::with_signatures()?;
    failed.retain(|package| {
        let check = json_nightly("check-external-types --all-features").and_then(|mut check| {
            check.env("PATH", &path).current_dir(root().join(package));
            run(check)
        });
        check.is_err()
    });
    match failed.is_empty() {
        true => Ok(()),
        false => Err(failed.join(", ").into()),
    }
}

/// opaque-id-sql makes no promises.
fn with_promises() -> Result<Vec<String>> {
    let mut packages = manifests::with_signatures()?;
    packages.retain(|package| package != "opaque-id-sql");
    Ok(packages)
}
