//! Programs of other ecosystems, for tests of what they use or read.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Result;

/// Returns the programs of a virtual environment with packages of PyPI, which is made for the first run and kept for the next.
pub fn of_pypi(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let programs = folder.join("bin");
    let install =
        || run(Command::new(programs.join("pip")).args(["install", "--quiet"]).args(packages));
    if install().is_err() {
        let made = run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder));
        made.and_then(|_| install()).map_err(|error| {
            let packages = packages.join(", ");
            format!("this test needs {packages} of PyPI, and on Debian `apt-get install python3-venv`: {error}")
        })?;
    }
    Ok(programs)
}

/// Runs a program, and returns its output, or fails with all that it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("{program}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => {
            let printed = [output.stdout, output.stderr].concat();
            Err(format!("{program}: {}\n{}", output.status, String::from_utf8_lossy(&printed))
                .into())
        }
    }
}
