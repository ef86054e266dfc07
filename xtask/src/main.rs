//! `cargo xtask`: what this workspace does with itself.

mod bench;
mod check;
mod fuzz;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// What this workspace does with itself.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run all tests: the workspace's, each crate's features alone, the demo, and each fuzz target briefly
    Test {
        /// How long each fuzz target runs
        #[arg(long, value_name = "SECONDS", default_value_t = 5)]
        fuzz_seconds: u32,
    },
    /// Check format, lints, documentation and the declared Rust version
    Check,
    /// Fuzz one parser, or all
    Fuzz {
        /// A file's name in opaque-id-core/fuzz/fuzz_targets, without its ending; all if left out
        target: Option<String>,
        /// How long each target runs
        #[arg(long, default_value_t = 60)]
        seconds: u32,
    },
    /// Run a benchmark, whose figures are ratios to a case of the same run
    Bench {
        /// The codec to a bare AES block, keys to a reading of the clock, or mapping tables on servers to
        /// a plain table
        #[arg(value_enum, default_value_t)]
        what: bench::What,
    },
}

fn main() -> ExitCode {
    let done = match Args::parse().task {
        Task::Test { fuzz_seconds } => test(fuzz_seconds),
        Task::Check => check::check(),
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
        Task::Bench { what } => bench::bench(what),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn test(fuzz_seconds: u32) -> Result {
    run(cargo(&[
        "test",
        "--workspace",
        "--all-features",
        "--locked",
    ]))?;
    check::features_alone()?;
    run(cargo(&["run", "--package", "demo", "--locked"]))?;
    run(cargo(&[
        "run",
        "--package",
        "demo",
        "--example",
        "offline_clients",
        "--locked",
    ]))?;
    fuzz::fuzz(None, fuzz_seconds)?;
    match std::env::var("OPAQUE_ID_TEST_ONLY") {
        Ok(only) => {
            println!("\nAll tests passed; of the databases only {only} (OPAQUE_ID_TEST_ONLY).")
        }
        Err(_) => println!("\nAll tests passed."),
    }
    Ok(())
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap_or(Path::new("."))
}

/// Where cargo builds.
fn target_dir() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.current_dir(root()).args(args);
    command
}

/// Prints a command, runs it, and fails if it does.
fn run(mut command: Command) -> Result {
    let told: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| {
            Path::new(word)
                .file_name()
                .unwrap_or(word)
                .to_string_lossy()
        })
        .collect();
    let told = told.join(" ");
    println!("\n> {told}");
    let status = command
        .status()
        .map_err(|error| format!("{told}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{told}: {status}").into())
    }
}
