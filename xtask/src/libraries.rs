use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Result, run};

/// What diesel's own drivers link in the tests, by the names of pkg-config, and Debian's package of each.
const LIBRARIES: [(&[&str], &str); 2] = [
    (&["libpq"], "libpq-dev"),
    (&["mysqlclient", "libmariadb"], "libmariadb-dev"),
];

/// What tests run, by the program's name, and Debian's package of it.
const PROGRAMS: [(&str, &str); 1] = [("age", "age")];

/// Installs those that are missing, which takes root on Debian.
pub(crate) fn install() -> Result {
    let libraries = LIBRARIES
        .iter()
        .filter(|(names, _)| !names.iter().any(|name| is_there(name)));
    let programs = PROGRAMS.iter().filter(|(name, _)| !is_in_path(name));
    let libraries = libraries.map(|(_, package)| *package);
    let missing: Vec<&str> = libraries
        .chain(programs.map(|(_, package)| *package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut update = Command::new("apt-get");
    update.arg("update");
    let mut install = Command::new("apt-get");
    install
        .args(["install", "--yes", "--no-install-recommends", "pkg-config"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive");
    run(update).and_then(|()| run(install)).map_err(|error| {
        let missing = missing.join(" and ");
        format!("the tests need {missing}, which could not be installed ({error})").into()
    })
}

fn is_there(library: &str) -> bool {
    let mut pkg_config = Command::new("pkg-config");
    let pkg_config = pkg_config.args(["--exists", library]).stderr(Stdio::null());
    pkg_config.status().is_ok_and(|status| status.success())
}

fn is_in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| Path::new(&folder).join(program).is_file())
}
