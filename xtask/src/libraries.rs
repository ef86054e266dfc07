use std::process::{Command, Stdio};

use crate::{Result, run};

/// What diesel's own drivers link in the tests, by the names of pkg-config, and Debian's package of each.
const LIBRARIES: [(&[&str], &str); 2] = [
    (&["libpq"], "libpq-dev"),
    (&["mysqlclient", "libmariadb"], "libmariadb-dev"),
];

/// Installs those that are missing, which takes root on Debian.
pub(crate) fn install() -> Result {
    let missing: Vec<&str> = LIBRARIES
        .iter()
        .filter(|(names, _)| !names.iter().any(|name| is_there(name)))
        .map(|(_, package)| *package)
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
        format!("the tests link {missing}, which could not be installed ({error})").into()
    })
}

fn is_there(library: &str) -> bool {
    let mut pkg_config = Command::new("pkg-config");
    let pkg_config = pkg_config.args(["--exists", library]).stderr(Stdio::null());
    pkg_config.status().is_ok_and(|status| status.success())
}
