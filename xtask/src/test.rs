//! `cargo xtask test` and `cargo xtask stress`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::{Result, cargo, output, root, run, target_dir, tools};

#[derive(Clone, Copy, Default, clap::ValueEnum)]
pub(crate) enum Stress {
    #[default]
    Generators,
    Servers,
    Schedules,
    Packs,
}

pub(crate) fn cargo_test(part: &str) -> Command {
    cargo(&format!("test --workspace --all-features --locked {part}"))
}

pub(crate) fn test() -> Result {
    let mut parts = Parts::new();
    parts.begin("install what is missing");
    tools::install()?;
    // These programs start servers and a cluster while the rest is built.
    parts.begin("build the programs that start servers");
    run(cargo_test("--no-run --test=schedules"))?;
    let mut servers = Servers::start()?;
    let only = std::env::var("OPAQUE_ID_TEST_ONLY").ok();
    let has_cluster = only.as_ref().is_none_or(|only| only.contains("mariadb"));
    let cluster = has_cluster
        .then(|| thread::spawn(|| run_cluster(&[], true).map_err(|error| error.to_string())));
    let tested = build_and_test(&mut parts, &mut servers);
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
    parts.end()
}

fn build_and_test(parts: &mut Parts, servers: &mut Servers) -> Result {
    parts.begin("build the tests");
    run(cargo_test("--no-run"))?;
    let (variable, shared) = servers.variable()?;
    // The older ORMs run on two databases by default.
    let only = std::env::var("OPAQUE_ID_TEST_ONLY").unwrap_or("postgres,sqlite".to_owned());
    let mut older = Command::new(std::env::current_exe()?);
    older.args(["test", "older"]).env("OPAQUE_ID_TEST_ONLY", only);
    // All features of the core include `portable`, so its tests run again with the CPU's instructions. The
    // core's dependencies alone would have other features.
    let targets = "--test=core --test=allocation --test=fork --test=logs --test=memory";
    let core = cargo(&format!("test --workspace --locked {targets}"));
    // Documentation comes first, because cargo locks the folder while it builds the others, and the tests
    // have begun by then.
    let mut beside = [cargo_test("--doc"), older, core];
    let mut tests = cargo_test("--tests --no-fail-fast");
    for command in beside.iter_mut().chain([&mut tests]) {
        command.env(&variable, &shared);
    }
    parts.begin("test; older ORMs, documentation and the core with AES instructions meanwhile");
    let beside = thread::spawn(move || {
        beside.map(|command| output(command).map_err(|error| error.to_string()))
    });
    let tested = run(tests);
    parts.begin("wait for the other tests");
    let beside = beside.join().map_err(|_| "a thread panicked")?;
    for output in beside {
        println!("{}", output?);
    }
    tested
}

struct Parts {
    start: Instant,
    this_run: Vec<u64>,
    last_run: Vec<u64>,
}

impl Parts {
    fn file() -> PathBuf {
        target_dir().join("xtask-test.txt")
    }

    fn new() -> Self {
        let last_run = fs::read_to_string(Self::file()).unwrap_or_default();
        let last_run = last_run.lines().filter_map(|line| line.parse().ok()).collect();
        Self { start: Instant::now(), this_run: Vec::new(), last_run }
    }

    fn begin(&mut self, part: &str) {
        let now = self.start.elapsed().as_secs();
        print!("\n== {part}; {} so far", minutes(now));
        if let (Some(then), Some(end)) =
            (self.last_run.get(self.this_run.len()), self.last_run.last())
        {
            print!(", about {} left", minutes(end - then));
        }
        println!();
        self.this_run.push(now);
    }

    fn end(mut self) -> Result {
        self.this_run.push(self.start.elapsed().as_secs());
        let lines = self.this_run.iter().map(|seconds| format!("{seconds}\n"));
        Ok(fs::write(Self::file(), lines.collect::<String>())?)
    }
}

fn minutes(seconds: u64) -> String {
    format!("{}:{:02} min", seconds / 60, seconds % 60)
}

pub(crate) fn local() -> Result {
    let packages = "--package=opaque-id-core --package=opaque-id-derive --package=opaque-id-cli";
    let targets = "--lib --bins --test=core --test=allocation --test=cli";
    run(cargo(&format!("test --locked {packages} {targets}")))
}

/// A program holds the servers until its input ends.
struct Servers {
    holder: Child,
}

impl Servers {
    fn start() -> Result<Self> {
        let mut holder = Command::new(target_dir().join("debug/servers"));
        holder.stdin(Stdio::piped()).stdout(Stdio::piped());
        Ok(Self { holder: holder.spawn()? })
    }

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

pub(crate) fn cluster(parts: &[String], short: bool) -> Result {
    tools::debian("need", "linked")?;
    run(cargo_test("--no-run --test=schedules"))?;
    run_cluster(parts, short)
}

fn run_cluster(parts: &[String], short: bool) -> Result {
    let mut cluster = Command::new(target_dir().join("debug/cluster"));
    cluster.current_dir(root()).args(parts).args(short.then_some("--short"));
    run(cluster)
}

pub(crate) fn stress(what: Stress, kills: Option<u32>, seconds: u32, only: &[String]) -> Result {
    if let Stress::Servers | Stress::Packs = what {
        tools::debian("need", "linked")?;
    }
    let mut command = match what {
        Stress::Generators => {
            cargo("test --package opaque-id-core --release --test core --locked generators::")
        }
        Stress::Schedules => cargo(
            "test --package opaque-id-tests --release --test schedules --locked every_schedule",
        ),
        Stress::Servers => cargo_test("--test sqlx -- survive_a_killed_server"),
        Stress::Packs => cargo("run --package opaque-id-tests --locked --bin packs --"),
    };
    match what {
        Stress::Generators => command.env("OPAQUE_ID_TEST_STRESS", "1"),
        Stress::Schedules => command.env("OPAQUE_ID_TEST_SCHEDULES", "1000000"),
        Stress::Servers => command.env("OPAQUE_ID_TEST_KILLS", kills.unwrap_or(100).to_string()),
        Stress::Packs => {
            let numbers = [seconds, kills.unwrap_or(6)];
            command.args(numbers.map(|number| number.to_string())).args(only)
        }
    };
    run(command)
}
