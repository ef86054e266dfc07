//! The examples that are templates of `cargo generate`. A template has a second manifest, `Cargo.toml.liquid`,
//! because the example's own inherits from the workspace.

use std::fs;
use std::path::Path;

use cargo_metadata::{Dependency, DependencyKind, Metadata};

use crate::tools::path_with;
use crate::{Result, cargo, root, run};

const TEMPLATES: [&str; 3] = ["actix-diesel", "axum-seaorm", "axum-sqlx"];

pub(crate) fn check(metadata: &Metadata) -> Result {
    for package in metadata.packages.iter().filter(|it| TEMPLATES.contains(&&**it.name)) {
        let package_table =
            "name = \"{{project-name}}\"\nversion = \"0.1.0\"\nedition = \"2024\"\npublish = false";
        let normal = package.dependencies.iter().filter(|it| it.kind == DependencyKind::Normal);
        let mut lines: Vec<_> = normal.map(line).collect();
        lines.sort();
        let lines = lines.concat();
        let expected = format!("[package]\n{package_table}\n\n[dependencies]\n{lines}");
        let file = package.manifest_path.with_extension("toml.liquid");
        if fs::read_to_string(&file).unwrap_or_default() != expected {
            return Err(format!("expected this {file}:\n{expected}").into());
        }
    }
    Ok(())
}

fn line(dependency: &Dependency) -> String {
    let Dependency { name, features, .. } = dependency;
    let version = dependency.req.to_string();
    let version = version.trim_start_matches(['=', '^']);
    if dependency.uses_default_features && features.is_empty() {
        return format!("{name} = {version:?}\n");
    }
    let mut line = format!("{name} = {{ version = {version:?}");
    if !dependency.uses_default_features {
        line += ", default-features = false";
    }
    if !features.is_empty() {
        line += &format!(", features = {features:?}");
    }
    line + " }\n"
}

pub(crate) fn generate(folder: &Path) -> Result {
    let path = path_with("--debug --no-default-features cargo-generate@0.23.8")?;
    for name in TEMPLATES {
        let mut generate = cargo("generate --silent --no-workspace --vcs=none");
        generate.arg("--path").arg(root().join("examples").join(name));
        generate.args(["--name", &format!("my-{name}")]).current_dir(folder).env("PATH", &path);
        // It looks for the author, and asks no server.
        generate.env("USER", "author");
        run(generate)?;
    }
    Ok(())
}
