//! `cargo xtask`: the tasks of this workspace.

mod bench;
mod check;
mod circles;
mod dist;
mod docs;
mod documents;
mod fuzz;
mod libraries;
mod minimal;
mod older;
mod packages;
mod release;
mod targets;
mod tools;

use std::cmp::Reverse;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
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
    /// Run all tests: the workspace's with the demo's, the shortest of a cluster, each crate's features alone, the site of the
    /// documents, and each fuzz target briefly
    #[command(args_conflicts_with_subcommands = true)]
    Test {
        #[command(subcommand)]
        other: Option<OtherTest>,
        /// How long each fuzz target runs
        #[arg(long, value_name = "SECONDS", default_value_t = 5)]
        fuzz_seconds: u32,
    },
    /// Run stress tests at their full size
    Stress {
        /// The generators, servers that are killed while sixteen writers write, a million schedules of clients of packs, or packs on
        /// servers, which are killed as well as the clients
        #[arg(value_enum, default_value_t)]
        what: Stress,
        /// How often each server is killed: 100 times, or 6 times in each campaign of packs
        #[arg(long)]
        kills: Option<u32>,
        /// How long each campaign of packs takes
        #[arg(long, default_value_t = 150)]
        seconds: u32,
        /// Databases and campaigns of packs: postgres, mysql, mariadb; tiered, through, grouped, forgetful; all if left out
        only: Vec<String>,
    },
    /// Install what the tests link and start and is missing, by Debian's packages
    Install,
    /// Check imports, paths and links in documents, format, lints, documentation and the declared Rust version
    Check,
    /// Build the site of the documents
    Docs,
    /// Check each crate alone, with each of its features alone
    Features,
    /// Check published libraries with the lowest versions of their dependencies that their manifests allow
    MinimalVersions {
        /// All published libraries if left out
        packages: Vec<String>,
    },
    /// Check the foreign types in public signatures, which each manifest lists, with a nightly compiler
    ExternalTypes,
    /// Run the core's tests under Miri and on emulated CPUs, one of them big-endian, by a nightly compiler and Debian's packages
    Targets,
    /// Pack the published crates, and build the README's first example from the packages alone
    Release {
        /// Check all that must hold before a release, or these parts of it
        #[arg(long, num_args = 0.., value_name = "PART", value_parser = release::CHECKS.map(|(name, _)| name))]
        check: Option<Vec<String>>,
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
        /// The codec, relative to an AES block; from key to text, relative to other libraries; generators, relative to a reading of
        /// the clock; views and a whole application, relative to plain UUIDs; refusals, relative to each other; whether times
        /// depend on what is secret; mapping tables on servers, relative to a plain table, or in clusters; inserts by the kind of key
        /// while a table outgrows memory; the share of inserts that go to the hottest of 64 ranges; a range of times in an object store; packs of real rows on a server, relative to rows one
        /// by one, or to the whole set
        #[arg(value_enum, default_value_t)]
        what: bench::What,
        /// Options of the benchmark. `--publish` writes its figures to benches/results and draws their plots again;
        /// `cargo xtask bench insert-rates -- --help` lists those of insert-rates, benches/packs/main.rs those of packs
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

#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Stress {
    #[default]
    Generators,
    Servers,
    Schedules,
    Packs,
}

fn main() -> ExitCode {
    let start = Instant::now();
    let done = match Args::parse().task {
        Task::Test { other: Some(OtherTest::Cluster { parts, short }), .. } => {
            cluster(&parts, short)
        }
        Task::Test { other: Some(OtherTest::Local), .. } => local(),
        Task::Test { other: Some(OtherTest::Older), .. } => older::test(),
        Task::Test { other: None, fuzz_seconds } => test(fuzz_seconds),
        Task::Stress { what, kills, seconds, only } => stress(what, kills, seconds, &only),
        Task::Install => libraries::install(),
        Task::Check => check::check(),
        Task::Docs => docs::docs(),
        Task::Features => check::features_alone(),
        Task::MinimalVersions { packages } => minimal::minimal_versions(&packages),
        Task::ExternalTypes => check::external_types(),
        Task::Targets => targets::targets(),
        Task::Release { check } => release::release(check.as_deref()),
        Task::Dist => dist::dist(),
        Task::Fuzz { target, seconds } => fuzz::fuzz(target.as_deref(), seconds),
        Task::Bench { what, options } => bench::bench(what, &options),
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

/// What runs beside the tests, before the fuzzers: the lowest versions without the ORMs, which take minutes to build.
const BESIDE_TESTS: [&str; 5] = [
    "test older",
    "features",
    "minimal-versions opaque-id-core opaque-id-derive opaque-id-sql",
    "release",
    "docs",
];

/// The arguments with which all tests are built, so that nothing is built twice.
const TESTS: [&str; 4] = ["test", "--workspace", "--all-features", "--locked"];

fn cargo_test(part: &[&str]) -> Command {
    cargo(&[&TESTS[..], part].concat())
}

fn test(fuzz_seconds: u32) -> Result {
    libraries::install()?;
    // With the programs of the tests, which start servers while the rest is built, and a cluster.
    run(cargo_test(&["--no-run", "--test=schedules"]))?;
    let mut servers = Servers::start()?;
    let only = std::env::var("OPAQUE_ID_TEST_ONLY").ok();
    let has_cluster = only.as_ref().is_none_or(|only| only.contains("mariadb"));
    let cluster = has_cluster
        .then(|| std::thread::spawn(|| run_cluster(&[], true).map_err(|error| error.to_string())));
    let tested = build_and_test(&mut servers, fuzz_seconds);
    if let Some(cluster) = cluster {
        cluster.join().map_err(|_| "a thread panicked")??;
    }
    tested?;
    drop(servers);
    match only {
        Some(only) => {
            println!("\nAll tests passed; of the databases only {only} (OPAQUE_ID_TEST_ONLY).");
        }
        None => println!("\nAll tests passed."),
    }
    Ok(())
}

fn build_and_test(servers: &mut Servers, fuzz_seconds: u32) -> Result {
    run(cargo_test(&["--no-run"]))?;
    let (variable, shared) = &servers.variable()?;
    // The older ORMs run on two databases unless somebody asks for others.
    let only = std::env::var("OPAQUE_ID_TEST_ONLY").unwrap_or("postgres,sqlite".to_owned());
    let variables = [(variable.clone(), shared.clone()), ("OPAQUE_ID_TEST_ONLY".to_owned(), only)];
    // As many tests wait for servers, and a crate is checked by one core.
    let xtask = std::env::current_exe()?;
    let beside = std::thread::spawn(move || {
        let fuzz = format!("fuzz --seconds {fuzz_seconds}");
        let tasks = BESIDE_TESTS.into_iter().chain([&*fuzz]);
        let output = |task: &str| {
            Command::new(&xtask).args(task.split(' ')).envs(variables.clone()).output()
        };
        tasks.map(output).collect::<Vec<_>>()
    });
    let tests = |part: &str| {
        let mut tests = cargo_test(&[part]);
        tests.env(variable, shared);
        run(tests)
    };
    let tested = tests("--tests").and_then(|()| tests("--doc")).and_then(|()| {
        // All features include `portable`.
        run(cargo(&["test", "--package=opaque-id-core", "--locked", "--tests"]))
    });
    let beside = beside.join().map_err(|_| "a thread panicked")?;
    for output in beside {
        let output = output?;
        print!("{}", String::from_utf8_lossy(&output.stdout));
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into());
        }
    }
    tested
}

fn local() -> Result {
    let packages = ["opaque-id-core", "opaque-id-derive", "opaque-id-cli"];
    let targets = ["--lib", "--bins", "--test=core", "--test=allocation", "--test=cli"];
    let mut test = cargo(&["test", "--locked"]);
    test.args(packages.map(|name| format!("--package={name}"))).args(targets);
    run(test)
}

/// The servers of all tests, which a program holds until its input ends.
struct Servers {
    holder: Child,
}

impl Servers {
    fn start() -> Result<Self> {
        let mut holder = Command::new(target_dir().join("debug/servers"));
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { holder: holder.spawn()? })
    }

    /// Waits for the servers, and returns the variable by which tests find them.
    fn variable(&mut self) -> Result<(String, String)> {
        let output = self.holder.stdout.take().ok_or("no output")?;
        for line in BufReader::new(output).lines() {
            if let Some((variable, value)) = line?.split_once('=') {
                return Ok((variable.to_owned(), value.to_owned()));
            }
        }
        Err("the servers did not start".into())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.holder.stdin.take());
        if let Err(error) = self.holder.wait() {
            eprintln!("the servers: {error}");
        }
    }
}

fn cluster(parts: &[String], short: bool) -> Result {
    libraries::require()?;
    run(cargo_test(&["--no-run", "--test=schedules"]))?;
    run_cluster(parts, short)
}

fn run_cluster(parts: &[String], short: bool) -> Result {
    let mut cluster = Command::new(target_dir().join("debug/cluster"));
    cluster.current_dir(root()).args(parts).args(short.then_some("--short"));
    run(cluster)
}

fn stress(what: Stress, kills: Option<u32>, seconds: u32, only: &[String]) -> Result {
    let (test, variable, value) = match what {
        Stress::Generators => (
            "test --package opaque-id-core --test core --locked generators::",
            "OPAQUE_ID_TEST_STRESS",
            1,
        ),
        Stress::Schedules => (
            "test --package opaque-id-tests --release --test schedules --locked every_schedule",
            "OPAQUE_ID_TEST_SCHEDULES",
            1_000_000,
        ),
        Stress::Servers => {
            libraries::require()?;
            (
                "test --workspace --all-features --locked --test sqlx -- survive_a_killed_server",
                "OPAQUE_ID_TEST_KILLS",
                kills.unwrap_or(100),
            )
        }
        Stress::Packs => {
            libraries::require()?;
            let run_packs = "run --package opaque-id-tests --locked --bin packs --";
            let mut packs = cargo(&run_packs.split(' ').collect::<Vec<_>>());
            packs.args([seconds, kills.unwrap_or(6)].map(|number| number.to_string())).args(only);
            return run(packs);
        }
    };
    let mut stress = cargo(&test.split(' ').collect::<Vec<_>>());
    stress.env(variable, value.to_string());
    run(stress)
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
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

/// How long each command took.
static TIMES: Mutex<Vec<(Duration, String)>> = Mutex::new(Vec::new());

/// Where the time went, the longest first.
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

/// Prints a command, runs it, and fails if it does.
fn run(mut command: Command) -> Result {
    let (status, line) = timed(&mut command, Command::status)?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{line}: {status}").into()),
    }
}

/// Prints a command, runs it by `act`, and notes the time. Returns the line that it printed, too.
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
