use crate::{Result, cargo, root, run};

/// What has to hold before the tests run.
pub(crate) fn check() -> Result {
    rust_version()?;
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
    let mut doc = cargo(&[
        "doc",
        "--workspace",
        "--all-features",
        "--no-deps",
        "--locked",
    ]);
    doc.env("RUSTDOCFLAGS", "-Dwarnings");
    run(doc)
}

/// `--workspace` unifies features and so hides missing ones: each crate alone, with each feature alone.
pub(crate) fn features_alone() -> Result {
    for (package, features) in [
        ("opaque-id-core", &["derive", "serde"] as &[&str]),
        ("opaque-id-sqlx", &["serde", "sqlite"]),
    ] {
        run(cargo(&[
            "check",
            "--package",
            package,
            "--no-default-features",
            "--locked",
        ]))?;
        for feature in features {
            run(cargo(&[
                "check",
                "--package",
                package,
                "--no-default-features",
                "--features",
                feature,
                "--locked",
            ]))?;
        }
    }
    Ok(())
}

/// The declared Rust version is the pinned toolchain's, which everything here is built with.
fn rust_version() -> Result {
    let declared = value("Cargo.toml", "rust-version")?;
    let pinned = value("rust-toolchain.toml", "channel")?;
    if pinned != declared && !pinned.starts_with(&format!("{declared}.")) {
        return Err(format!(
            "Cargo.toml declares rust-version {declared}, rust-toolchain.toml pins {pinned}: make them the same"
        )
        .into());
    }
    let metadata = cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout)?;
    let too_new: Vec<String> = metadata["packages"]
        .as_array()
        .ok_or("cargo metadata has no packages")?
        .iter()
        .filter_map(|package| {
            let needs = package["rust_version"].as_str()?;
            (numbers(needs) > numbers(&declared))
                .then(|| format!("{} needs {needs}", package["name"]))
        })
        .collect();
    if too_new.is_empty() {
        Ok(())
    } else {
        Err(format!("rust-version is {declared}, but {}", too_new.join(", ")).into())
    }
}

/// The string of `key = "…"`, which stands once in a file.
fn value(file: &str, key: &str) -> Result<String> {
    let text = std::fs::read_to_string(root().join(file))?;
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix(key)?.trim().strip_prefix('='));
    Ok(value
        .ok_or_else(|| format!("{file} has no {key}"))?
        .trim()
        .trim_matches('"')
        .to_owned())
}

fn numbers(version: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = version
        .split('.')
        .filter_map(|number| number.parse().ok())
        .collect();
    numbers.resize(3, 0);
    numbers
}
