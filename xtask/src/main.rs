//! `cargo xtask`: the tasks of this workspace.

mod bench;
mod check;
mod circles;
mod dist;
mod docs;
mod documents;
mod fuzz;
mod manifests;
mod minimal;
mod older;
mod packages;
mod release;
mod targets;
mod templates;
mod test;
mod tools;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The tasks of this workspace: tests, checks, fuzzing, benchmarks.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests: the workspace's with the demo's, the older ORMs', and the shortest of a cluster
    Test {
        #[command(subcommand)]
        other: Option<OtherTest>,
    },
    /// Run stress tests at their full size
    Stress {
        /// The generators, servers that are killed while sixteen writers write, a million schedules of
        /// clients of packs, or packs on servers while servers and clients are killed
        #[arg(value_enum, default_value_t)]
        what: test::Stress,
        /// How often each server is killed: 100 times, or 6 times in each campaign of packs
        #[arg(long)]
        kills: Option<u32>,
        /// How long each campaign of packs takes
        #[arg(long, default_value_t = 150)]
        seconds: u32,
        /// Databases and campaigns of packs: postgres, mysql, mariadb; tiered, through, grouped, forgetful; all if left out
        only: Vec<String>,
    },
    /// Install the missing Debian packages that the tests link and start
    Install,
    /// Check imports, paths and links in documents, format, lints, documentation and the declared Rust version
    Check,
    /// Build the site of the documents
    Docs,
    /// Run the checks before a release that take too long for each change
    Release {
        /// The parts to check; all if left out
        #[arg(long, required = true, num_args = 0.., value_name = "PART", value_parser = release::CHECKS.map(|(name, _)| name))]
        check: Vec<String>,
    },
    /// Build the command as a static program, in an archive and in a Debian package
    Dist,
    /// Fuzz one parser, or all
    Fuzz {
        /// A file's name in fuzz/fuzz_targets, without its ending; all if left out
        target: Option<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Run a benchmark: docs/PERFORMANCE.md has the figures
    Bench {
        /// The subject
        #[arg(value_parser = bench::names(), default_value = "codec")]
        name: String,
        /// Options of the benchmark. `--publish` writes its figures to benches/results and draws their plots again;
        /// `cargo xtask bench insert-rates -- --help` and benches/packs/main.rs list them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

#[derive(Subcommand)]
enum OtherTest {
    /// Test the core, the derives and the command without servers, as on Windows and macOS
    Local,
    /// Run the conformance cases on sqlx 0.8 and SeaORM 1.1, on the databases that OPAQUE_ID_TEST_ONLY names, or on all
    Older,
    /// Test mapping tables and sequences in clusters, behind a pooler and before simulated engines, under load and under faults
    Cluster {
        /// galera, group-replication, single-primary, postgres, patroni, myrocks, like-cockroach, like-dsql, like-tidb, libsql; all if left out
        parts: Vec<String>,
        /// Only Galera, with one fault, in less than a minute
        #[arg(long)]
        short: bool,
    },
}

fn main() -> ExitCode {
    let start = Instant::now();
    let done = match Args::parse().task {
        Task::Test { other: Some(OtherTest::Cluster { parts, short }) } => {
            test::cluster(&parts, short)
        }
        Task::Test { other: Some(OtherTest::Local) } => test::local(),
        Task::Test { other: Some(OtherTest::Older) } => older::test(),
        Task::Test { other: None } => test::test(),
        Task::Stress { what, kills, seconds, only } => test::stress(what, kills, seconds, &only),
        Task::Install => tools::install(),
        Task::Check => check::check(),
        Task::Docs => docs::docs(),
        Task::Release { check } => release::release(&check),
        Task::Dist => dist::dist(),
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
        Task::Bench { name, options } => bench::bench(&name, &options),
    };
    print_times(start.elapsed());
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Removes the variables that `cargo run` has set for this package. Otherwise build scripts that read them would run again after each
/// command of cargo itself.
fn cargo(words: &str) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root()).args(words.split_whitespace());
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

fn print_times(all: Duration) {
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    if times.len() < 2 {
        return;
    }
    times.sort_by_key(|(time, _)| Reverse(*time));
    println!("\n{:>7.1} s in all", all.as_secs_f64());
    for (time, line) in times.iter() {
        println!("{:>7.1} s  {line}", time.as_secs_f64());
    }
}

fn run(mut command: Command) -> Result {
    let (status, line) = timed(&mut command, Command::status)?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {status}").into()),
    }
}

fn output(mut command: Command) -> Result<String> {
    let (output, line) = timed(&mut command, Command::output)?;
    let printed = String::from_utf8_lossy(&output.stdout);
    match output.status.success() {
        true => Ok(printed.into()),
        false => {
            let errors = String::from_utf8_lossy(&output.stderr);
            Err(format!("{line}: {}\n{printed}\n{errors}", output.status).into())
        }
    }
}

fn timed<T>(
    command: &mut Command,
    act: impl FnOnce(&mut Command) -> std::io::Result<T>,
) -> Result<(T, String)> {
    let line: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| Path::new(word).file_name().unwrap_or(word).to_string_lossy())
        .collect();
    let line = line.join(" ");
    println!("\n> {line}");
    let start = Instant::now();
    let done = act(command).map_err(|error| format!("{line}: {error}"))?;
    let mut times = TIMES.lock().unwrap_or_else(PoisonError::into_inner);
    times.push((start.elapsed(), line.clone()));
    Ok((done, line))
}
