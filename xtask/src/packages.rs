//! Workspaces of packages, as users get them. `cargo package --workspace` builds each package, but no
//! application on them, and no packages of `older`, because their dependencies are in another workspace.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, cargo, manifests, root, run, target_dir};

pub(crate) fn empty(name: &str) -> Result<PathBuf> {
    let folder = target_dir().join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

pub(crate) fn unpack(of: &Path, packages: &[&str], option: &str, to: &Path) -> Result {
    let mut package = cargo(&format!("package --quiet --no-verify --allow-dirty {option}"));
    package.args(packages.iter().flat_map(|name| ["--package", name]));
    package.current_dir(of).env("CARGO_TARGET_DIR", target_dir());
    run(package)?;
    for name in packages {
        let packed = format!("{name}-{}", manifests::value("Cargo.toml", "version")?);
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(target_dir().join("package").join(format!("{packed}.crate")));
        unpack.arg("-C").arg(to);
        run(unpack)?;
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            if name.starts_with("opaque-id") && !to.join(&packed).join(file).exists() {
                return Err(format!("the package of {name} has no {file}").into());
            }
        }
    }
    Ok(())
}

pub(crate) fn first(folder: &Path) -> Result {
    let readme = fs::read_to_string(root().join("README.md"))?;
    let block = |fence: &str| {
        let (_, block) = readme.split_once(fence)?;
        block.split_once("```").map(|(block, _)| block)
    };
    let (Some(added), Some(program)) = (block("$ cargo add "), block("```rust\n")) else {
        return Err("README.md has no example: expected `cargo add` and ```rust".into());
    };
    let lines = added.split_whitespace().map(|name| format!("{name} = \"*\"\n"));
    let dependencies = format!("[dependencies]\n{}", lines.collect::<String>());
    let name = folder.file_name().unwrap_or_default().display();
    let package =
        format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), package + &dependencies)?;
    fs::write(folder.join("src/main.rs"), program)?;
    Ok(())
}

/// The profile and the versions of dependencies are another workspace's, so that they need not be built
/// again.
pub(crate) fn workspace(folder: &Path, of: &Path, crates: &[String]) -> Result {
    let version = manifests::value("Cargo.toml", "version")?;
    let ours = fs::read_to_string(of.join("Cargo.toml"))?;
    let profile = ours.find("[profile.").map_or("", |start| &ours[start..]);
    let patches = crates.iter().map(|name| format!("{name}.path = \"{name}-{version}\"\n"));
    let patches: String = patches.collect();
    let workspace = "[workspace]\nresolver = \"3\"\nmembers = [\"*\"]\n\n[patch.crates-io]\n";
    fs::write(folder.join("Cargo.toml"), format!("{workspace}{patches}\n{profile}"))?;
    fs::copy(of.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(())
}
