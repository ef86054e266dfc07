//! Other toolchains than the pinned one, and programs of registries. The programs are installed into `target`
//! at their first use.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::{Result, cargo, root, run, target_dir};

pub(crate) fn path_with(tools: &str) -> Result<OsString> {
    let folder = target_dir().join("tools");
    let mut install = cargo("install --quiet --locked --root");
    install.arg(&folder).args(tools.split(' '));
    run(install)?;
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([folder.join("bin")].into_iter().chain(env::split_paths(&path)))?)
}

pub(crate) fn from_pypi(packages: &str) -> Result<PathBuf> {
    let environment = target_dir().join("tools/python");
    if !environment.exists() {
        let mut create = Command::new("python3");
        create.args(["-m", "venv"]).arg(&environment);
        run(create)?;
    }
    let programs = environment.join("bin");
    let mut install = Command::new(programs.join("pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check"]).args(packages.split(' '));
    run(install)?;
    Ok(programs)
}

/// The nightly cargo has its own folder.
pub(crate) fn nightly(words: &str) -> Command {
    let mut command = cargo_of("nightly", words);
    command.env("CARGO_TARGET_DIR", target_dir().join("nightly"));
    command
}

pub(crate) fn cargo_of(toolchain: &str, words: &str) -> Command {
    let mut command = rustup(&format!("run {toolchain} cargo {words}"));
    command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

pub(crate) fn rustup(words: &str) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.current_dir(root()).args(words.split_whitespace());
    rustup
}

pub(crate) fn debian(act: &str, group: &str) -> Result {
    let mut script = Command::new(root().join("xtask/install.sh"));
    script.args([act, group]);
    run(script)
}

pub(crate) fn install() -> Result {
    debian("install", "tests")?;
    run(rustup("target add wasm32-unknown-unknown"))
}
