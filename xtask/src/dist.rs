//! `cargo xtask dist`: the command `opaque-id` as a static program that contains the list of its
//! dependencies, in an archive and in a Debian package with manual pages and completions.

use std::fs;
use std::process::Command;

use crate::tools::{self, path_with, rustup};
use crate::{Result, cargo, manifests, packages, root, run, target_dir};

const TARGET: &str = "x86_64-unknown-linux-musl";

pub(crate) fn dist() -> Result {
    tools::debian("install", "dist")?;
    run(rustup(&format!("target add {TARGET}")))?;
    let path = path_with("cargo-auditable@0.7.7 cargo-deb@3.8.0")?;
    let package = format!("--locked --profile=dist --package=opaque-id-cli --target {TARGET}");
    let mut build = cargo(&format!("auditable build {package}"));
    build.env("PATH", &path);
    run(build)?;

    let dist = packages::empty("shipped")?;
    let folder = dist.join("opaque-id");
    let (man, completions) = (folder.join("man"), folder.join("completions"));
    fs::create_dir_all(&man)?;
    fs::create_dir_all(&completions)?;
    let program = folder.join("opaque-id");
    fs::copy(target_dir().join(TARGET).join("dist/opaque-id"), &program)?;
    for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
        fs::copy(root().join(license), folder.join(license))?;
    }
    let mut pages = Command::new(&program);
    pages.args(["man", "--dir"]).arg(man);
    run(pages)?;
    for shell in ["bash", "fish", "zsh"] {
        let script = Command::new(&program).args(["completions", shell]).output()?;
        fs::write(completions.join(shell), script.stdout)?;
    }

    let version = manifests::value("Cargo.toml", "version")?;
    let mut archive = Command::new("tar");
    archive.arg("-czf").arg(dist.join(format!("opaque-id-{version}-{TARGET}.tar.gz")));
    archive.arg("-C").arg(&dist).arg("opaque-id");
    run(archive)?;
    let mut debian = cargo(&format!("deb --no-build --no-strip {package} --output"));
    debian.arg(&dist).env("PATH", &path);
    run(debian)?;

    println!();
    for file in fs::read_dir(&dist)?.chain(fs::read_dir(&folder)?) {
        let file = file?;
        let metadata = file.metadata()?;
        if metadata.is_file() {
            println!("{:>10} bytes  {}", metadata.len(), file.path().display());
        }
    }
    Ok(())
}
