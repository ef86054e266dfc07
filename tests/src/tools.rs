//! Programs of other ecosystems, for tests of their inputs and outputs.

use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use crate::Result;

/// Returns the programs of a virtual environment with packages of PyPI. The first run creates it, and later
/// runs reuse it.
pub fn from_pypi(folder: &Path, packages: &[&str]) -> Result<PathBuf> {
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

/// Runs a program. Returns its output, or an error with all of its output.
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

/// Runs a program with a text as its standard input. The program need not read all of it.
pub fn with_input(command: &mut Command, input: &str) -> Result<Output> {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().ok_or("no standard input")?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(move || stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output()?;
        match writer.join().map_err(|_| "a thread panicked")? {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(output),
        }
    })
}

/// A program that is killed at the end.
pub struct ChildGuard(pub Child);

impl ChildGuard {
    /// Starts a program, and waits until `found` finds something in a line of its standard output.
    pub fn start<T>(mut command: Command, found: impl Fn(&str) -> Option<T>) -> Result<(Self, T)> {
        let program = command.get_program().to_string_lossy().into_owned();
        let mut running = Self(command.stdout(Stdio::piped()).spawn()?);
        let stdout = running.0.stdout.take().ok_or("no standard output")?;
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        loop {
            line.clear();
            if stdout.read_line(&mut line)? == 0 {
                return Err(format!("{program}: {}", running.0.wait()?).into());
            }
            if let Some(found) = found(&line) {
                // Later output must be read, because the pipe would fill up.
                std::thread::spawn(move || std::io::copy(&mut stdout, &mut std::io::sink()));
                return Ok((running, found));
            }
        }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts Chromium's driver, and returns its port. A killed driver leaves its files in the folder.
pub fn chromedriver(folder: &Path) -> Result<(ChildGuard, u16)> {
    let mut driver = Command::new("chromedriver");
    driver.arg("--port=0").env("TMPDIR", folder);
    let started = ChildGuard::start(driver, |line| {
        let (_, port) = line.split_once("started successfully on port ")?;
        port.trim_end().trim_end_matches('.').parse().ok()
    });
    started.map_err(|error| {
        format!("this test needs Chromium and its driver, on Debian `apt-get install chromium chromium-driver`: {error}").into()
    })
}
