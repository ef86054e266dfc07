//! Cases of a benchmark that take turns, so that other load of the machine affects all of them alike.
//!
//! `cargo test` runs each case once. `cargo bench` measures: in each round every case runs for a moment. The
//! result is the median, over all rounds, of a case's ratio to its baseline in the same round.
//!
//! criterion measures one case for seconds and then the next. On a shared machine, the ratio of two such
//! cases depends on other load.
#![allow(
    missing_debug_implementations,
    missing_docs,
    clippy::missing_errors_doc,
    reason = "nobody depends on it but benchmarks"
)]

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

pub type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TURN: Duration = Duration::from_micros(100);
const RUN: Duration = Duration::from_secs(60);

/// Returns whether the benchmark only has to show that it still runs, as under `cargo test`.
#[must_use]
pub fn is_smoke() -> bool {
    !has("--bench")
}

fn has(flag: &str) -> bool {
    std::env::args().any(|arg| arg == flag)
}

/// The cases of a benchmark, in the order of their turns.
pub struct Bench {
    name: &'static str,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    steps: usize,
    baseline: usize,
    run: Box<dyn FnMut()>,
}

struct Figures {
    nanoseconds: f64,
    ratios: [f64; 3],
}

impl Bench {
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        let cases = Vec::new();
        Self { name, cases }
    }

    /// Adds a case that is the baseline of the following cases.
    pub fn baseline(&mut self, name: &str, steps: usize, run: impl FnMut() + 'static) {
        self.add(name, steps, self.cases.len(), run);
    }

    /// Adds a case.
    ///
    /// # Panics
    /// If there is no baseline yet.
    pub fn case(&mut self, name: &str, steps: usize, run: impl FnMut() + 'static) {
        let last = self.cases.last().expect("the baseline is the first case");
        self.add(name, steps, last.baseline, run);
    }

    fn add(&mut self, name: &str, steps: usize, baseline: usize, run: impl FnMut() + 'static) {
        self.cases.push(Case { name: name.to_owned(), steps, baseline, run: Box::new(run) });
    }

    /// Measures times.
    pub fn run(self) -> Result {
        self.run_with(false)
    }

    /// Measures times, and counts instructions.
    pub fn run_counting_instructions(self) -> Result {
        self.run_with(true)
    }

    fn run_with(mut self, counts: bool) -> Result {
        if is_smoke() {
            let runs = self.cases.iter_mut().map(|case| &mut case.run);
            runs.for_each(|run| counted(run));
            return Ok(());
        }
        let figures = self.measure();
        let instructions = if counts { self.count_instructions()? } else { Vec::new() };
        self.report(&figures, &instructions)
    }

    fn report(&self, figures: &[Figures], instructions: &[f64]) -> Result {
        let names = self.cases.iter().map(|case| case.name.len());
        let width = names.max().unwrap_or_default();
        println!("{:width$} {:>12} {:>9} {:>13}", "", "ns", "ratio", "instructions");
        let mut csv = String::from(
            "case,baseline,nanoseconds,ratio,lower_quartile,upper_quartile,instructions\n",
        );
        for (i, (case, figures)) in self.cases.iter().zip(figures).enumerate() {
            let (name, baseline) = (&case.name, &self.cases[case.baseline].name);
            let nanoseconds = figures.nanoseconds;
            let [lower, ratio, upper] = figures.ratios;
            let count = instructions.get(i).map(|count| format!("{count:.1}"));
            let count = count.unwrap_or_default();
            println!("{name:width$} {nanoseconds:>12.2} {ratio:>9.3} {count:>13}");
            writeln!(
                csv,
                "{name},{baseline},{nanoseconds:.3},{ratio:.4},{lower:.4},{upper:.4},{count}"
            )?;
        }
        publish(self.name, &csv)
    }

    fn measure(&mut self) -> Vec<Figures> {
        let runs: Vec<u32> = self.cases.iter_mut().map(Case::runs_per_turn).collect();
        let turn = |(case, runs): (&mut Case, &u32)| case.time(*runs);
        let round =
            |cases: &mut [Case]| -> Vec<f64> { cases.iter_mut().zip(&runs).map(turn).collect() };
        let (start, mut rounds) = (Instant::now(), Vec::new());
        while start.elapsed() < RUN {
            rounds.push(round(&mut self.cases));
        }
        let figures = |(i, case): (usize, &Case)| {
            let [_, nanoseconds, _] = quartiles(rounds.iter().map(|round| round[i]));
            let ratios = quartiles(rounds.iter().map(|round| round[i] / round[case.baseline]));
            Figures { nanoseconds, ratios }
        };
        self.cases.iter().enumerate().map(figures).collect()
    }

    /// Callgrind runs this program like `cargo test`, and counts within [`counted`].
    fn count_instructions(&self) -> Result<Vec<f64>> {
        let folder = tempfile::tempdir()?;
        let out = folder.path().join("out");
        let status = Command::new("valgrind")
            .args(["--tool=callgrind", "--quiet", "--collect-atstart=no"])
            .args(["--toggle-collect=*counted", "--dump-before=*counted"])
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(std::env::current_exe()?)
            .status()
            .map_err(|error| format!("valgrind must be installed: {error}"))?;
        if !status.success() {
            return Err(format!("valgrind: {status}").into());
        }
        let count = |(i, case): (usize, &Case)| {
            // A dump has the counts since the previous one, and the program's end is the last one.
            let dump = match i + 1 == self.cases.len() {
                true => out.clone(),
                false => out.with_extension((i + 2).to_string()),
            };
            let dump = fs::read_to_string(dump)?;
            let total = dump.lines().find_map(|line| line.strip_prefix("summary: "));
            let total: f64 = total.ok_or("callgrind wrote no summary")?.parse()?;
            Ok(total / case.steps as f64)
        };
        self.cases.iter().enumerate().map(count).collect()
    }
}

impl Case {
    fn runs_per_turn(&mut self) -> u32 {
        let mut runs = 1;
        loop {
            let start = Instant::now();
            (0..runs).for_each(|_| (self.run)());
            if start.elapsed() >= TURN {
                return runs;
            }
            runs *= 2;
        }
    }

    fn time(&mut self, runs: u32) -> f64 {
        let start = Instant::now();
        (0..runs).for_each(|_| (self.run)());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(runs) / self.steps as f64
    }
}

/// Callgrind finds this function by its name.
#[inline(never)]
fn counted(run: &mut dyn FnMut()) {
    run();
}

/// Writes the figures of a run to `benches/results`, if the command asks for it.
///
/// # Errors
/// If the file cannot be written.
pub fn publish(run: &str, csv: &str) -> Result {
    if has("--publish") {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/results");
        fs::write(format!("{folder}/{run}.csv"), csv)?;
    }
    Ok(())
}

#[must_use]
pub fn quartiles(values: impl Iterator<Item = f64>) -> [f64; 3] {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values[values.len() * quarter / 4])
}

/// A client that repeats a request on one connection.
pub struct Client {
    stream: TcpStream,
    request: String,
    status: u16,
    answer: Vec<u8>,
}

impl Client {
    pub fn connect(address: SocketAddr, route: &str, status: u16) -> Result<Self> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        let request = format!("GET /{route} HTTP/1.1\r\nhost: shop\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        let end = loop {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            answer.push(byte[0]);
            if answer.ends_with(b"\r\n\r\n") {
                break answer.len();
            }
        };
        let head = str::from_utf8(&answer)?.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length: usize = length.ok_or("expected a length")?.parse()?;
        answer.resize(end + length, 0);
        stream.read_exact(&mut answer[end..])?;
        Ok(Self { stream, request, status, answer })
    }

    pub fn ask(&mut self) -> Result {
        self.stream.write_all(self.request.as_bytes())?;
        self.stream.read_exact(&mut self.answer)?;
        match self.answer.starts_with(format!("HTTP/1.1 {}", self.status).as_bytes()) {
            true => Ok(()),
            false => Err(format!("expected status {}", self.status).into()),
        }
    }
}
