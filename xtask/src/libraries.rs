//! The libraries and programs that tests need, by their packages in Debian.

use std::process::{Command, Stdio};

use crate::{Result, run};

/// Commands of which one succeeds if it is there, and Debian's package.
type Needed = (&'static [&'static str], &'static str);

/// The libraries that diesel's own drivers link in the tests.
const LINKED: [Needed; 2] = [
    (&["pkg-config --exists libpq"], "libpq-dev"),
    (&["pkg-config --exists mysqlclient", "pkg-config --exists libmariadb"], "libmariadb-dev"),
];

/// The programs that tests start.
const STARTED: [Needed; 6] = [
    (&["age --version"], "age"),
    (&["curl --version"], "curl"),
    (&["chromium --version"], "chromium"),
    (&["chromedriver --version"], "chromium-driver"),
    (&["node --version"], "nodejs"),
    (&["python3 -m ensurepip --version"], "python3-venv"),
];

/// The program that counts the instructions of benchmarks.
const COUNTED_BY: [Needed; 1] = [(&["valgrind --version"], "valgrind")];

/// What links and runs programs of other CPUs.
const EMULATES: [Needed; 5] = [
    (&["qemu-aarch64 --version"], "qemu-user"),
    (&["aarch64-linux-gnu-gcc --version"], "gcc-aarch64-linux-gnu"),
    (&["s390x-linux-gnu-gcc --version"], "gcc-s390x-linux-gnu"),
    (&["test -e /usr/aarch64-linux-gnu/lib/libc.so"], "libc6-dev-arm64-cross"),
    (&["test -e /usr/s390x-linux-gnu/lib/libc.so"], "libc6-dev-s390x-cross"),
];

/// The compiler that links programs statically.
const STATIC: [Needed; 1] = [(&["musl-gcc -dumpversion"], "musl-tools")];

/// Fails if what tests link is missing.
pub(crate) fn require() -> Result {
    require_all(&LINKED)
}

/// Fails if what counts instructions is missing.
pub(crate) fn require_valgrind() -> Result {
    require_all(&COUNTED_BY)
}

fn require_all(needed: &[Needed]) -> Result {
    let missing = missing(needed).join(" ");
    match missing.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "expected Debian's {missing}: install them by `cargo xtask install`, which runs `apt-get install pkg-config {missing}`, \
             or as your system does"
        )
        .into()),
    }
}

/// Installs what tests link and start and is missing, which takes root on Debian, and the target of a front end.
pub(crate) fn install() -> Result {
    install_all(&[&LINKED[..], &STARTED].concat())?;
    let mut add = Command::new("rustup");
    add.args(["target", "add", "wasm32-unknown-unknown"]);
    run(add)
}

/// Installs what runs programs of other CPUs and is missing, which takes root on Debian.
pub(crate) fn install_emulators() -> Result {
    install_all(&EMULATES)
}

/// Installs what links programs statically and is missing, which takes root on Debian.
pub(crate) fn install_musl() -> Result {
    install_all(&STATIC)
}

fn install_all(needed: &[Needed]) -> Result {
    let missing = missing(needed);
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
        format!("expected {missing}, which could not be installed ({error})").into()
    })
}

fn missing(needed: &[Needed]) -> Vec<&'static str> {
    let is_missing = |(commands, _): &&Needed| !commands.iter().any(|it| succeeds(it));
    let missing = needed.iter().filter(is_missing);
    missing.map(|(_, package)| *package).collect()
}

fn succeeds(command: &str) -> bool {
    let mut words = command.split(' ');
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
