//! Other toolchains than the pinned one, and subcommands of cargo, which are built into `target` the first time.

use std::env;
use std::ffi::OsString;
use std::process::Command;

use crate::{Result, cargo, root, run, target_dir};

/// Installs these versions of tools, and returns the PATH that has them.
pub(crate) fn path_with(tools: &[&str]) -> Result<OsString> {
    let folder = target_dir().join("tools");
    let mut install = cargo(&["install", "--quiet", "--locked", "--root"]);
    install.arg(&folder).args(tools);
    run(install)?;
    let path = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths([folder.join("bin")].into_iter().chain(env::split_paths(&path)))?)
}

/// A command of the nightly cargo. What it builds is apart, as are its documents.
pub(crate) fn nightly(args: &[&str]) -> Command {
    let mut command = cargo_of("nightly", args);
    command.env("CARGO_TARGET_DIR", target_dir().join("nightly"));
    command
}

/// A command of another toolchain's cargo.
pub(crate) fn cargo_of(toolchain: &str, args: &[&str]) -> Command {
    let mut command = rustup(&["run", toolchain, "cargo"]);
    command.args(args).env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
    command
}

pub(crate) fn rustup(args: &[&str]) -> Command {
    let mut rustup = Command::new("rustup");
    rustup.current_dir(root()).args(args);
    rustup
}
