//! Packs under accidents, by `cargo xtask stress packs`. Each client is a process. Clients write, read, merge, rotate, train and
//! erase, and drop calls half-way. Clients and the server are killed. The history of each row must be linearizable, nothing
//! acknowledged may be lost, and each refusal must end by itself.

mod client;
mod history;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Job, Role, now};
use history::History;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_packs::{Grouped, Json};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::mapping::dialect;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::load::in_shop;
use opaque_id_tests::random::{Random, SEED};
use opaque_id_tests::servers::{Container, Limits};
use opaque_id_tests::sql::execute;
use serde::{Deserialize, Serialize};

/// The kind of table and server.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Campaign {
    Tiered,
    Through,
    Grouped,
    /// The server loses recently acknowledged writes when it is killed.
    Forgetful,
}

impl Campaign {
    const ALL: [(&str, Self); 4] = [
        ("tiered", Self::Tiered),
        ("through", Self::Through),
        ("grouped", Self::Grouped),
        ("forgetful", Self::Forgetful),
    ];
}

/// The roles of the processes that run at once.
const ROLES: [Role; 9] = [
    Role::Writer,
    Role::Writer,
    Role::Writer,
    Role::Writer,
    Role::Reader,
    Role::Reader,
    Role::Merger,
    Role::Merger,
    Role::Keeper,
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match &arguments[..] {
        [word, job] if word == "client" => serde_json::from_str(job).map_err(Into::into).and_then(|job| client::main(&job)),
        [seconds, kills, words @ ..] => run(seconds, kills, words),
        _ => Err("expected the seconds of a campaign, how often the server is killed meanwhile, and names of databases and campaigns".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(seconds: &str, kills: &str, words: &[String]) -> Result {
    let (seconds, kills) = (Duration::from_secs(seconds.parse()?), kills.parse()?);
    let is_chosen = |name: &str, all: &[&str]| {
        words.iter().any(|word| word == name) || !words.iter().any(|word| all.contains(&&**word))
    };
    let kinds = Vec::from_iter(Engine::ALL.into_iter().filter(|kind| kind.is_contained()));
    let kind_names = Vec::from_iter(kinds.iter().map(|kind| kind.name()));
    let campaign_names = Campaign::ALL.map(|(name, _)| name);
    let mut wrong = 0;
    for kind in kinds.iter().filter(|kind| is_chosen(kind.name(), &kind_names)) {
        for (name, campaign) in Campaign::ALL {
            if is_chosen(name, &campaign_names) {
                let history = accidents(*kind, campaign, seconds, kills)?;
                println!("{kind} {name}: {history}");
                wrong += history.wrong();
            }
        }
    }
    match wrong {
        0 => Ok(()),
        wrong => Err(format!("{wrong} promises were broken").into()),
    }
}

fn lock(history: &Mutex<History>) -> MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accidents(kind: Engine, campaign: Campaign, time: Duration, kills: u32) -> Result<History> {
    let mut server = Container::start_limited(
        kind,
        &Limits { options: options(kind, campaign), ..Limits::default() },
    )?;
    execute(kind, &server.url, "CREATE DATABASE shop")?;
    let create = match campaign {
        Campaign::Grouped => PackTable::<client::Entry, client::Row, Grouped<Json>>::create_sql,
        _ => PackTable::<client::Entry, client::Row, Json>::create_sql,
    };
    execute(kind, &in_shop(&server.url)?, &create(dialect(kind), "entries"))?;

    let history = Arc::new(Mutex::new(History::new(kind, campaign)));
    let mut random = Random(*SEED);
    let mut processes = Processes {
        kind,
        campaign,
        url: in_shop(&server.url)?,
        started: 0,
        running: BTreeMap::new(),
        history: Arc::clone(&history),
    };
    // The first one writes the settings.
    processes.start(Role::First)?.end()?;
    for (place, role) in ROLES.into_iter().enumerate() {
        let process = processes.start(role)?;
        processes.running.insert(place, process);
    }
    for kill in 0..=kills {
        let end = Instant::now() + time / (kills + 1);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(random.below(1_000) as u64));
            let place = random.below(ROLES.len());
            if let Some(process) = processes.running.remove(&place) {
                process.kill()?;
            }
            lock(&history).count("killed clients");
            let process = processes.start(ROLES[place])?;
            processes.running.insert(place, process);
        }
        if kill < kills {
            let began = now();
            server.kill()?;
            lock(&history).kill(began, now());
            server.start_again()?;
            processes.moved(in_shop(&server.url)?)?;
        }
    }
    for (_, process) in std::mem::take(&mut processes.running) {
        process.end()?;
    }
    processes.start(Role::Last)?.end()?;
    drop(processes);
    let history = Arc::into_inner(history).ok_or("a client's notes are still being read")?;
    let mut history = history.into_inner()?;
    history.judge()?;
    Ok(history)
}

/// Returns the server's options. It is durable unless the campaign says otherwise. It has no TLS, because TLS takes most of a
/// client's time to connect.
fn options(kind: Engine, campaign: Campaign) -> Vec<String> {
    let (options, forgetful): (&[&str], &[&str]) = match kind {
        Engine::Postgres => (&[], &["-c", "synchronous_commit=off"]),
        Engine::Mysql => (
            &["--tls-version=", "--max-connect-errors=1000000"],
            &["--innodb-flush-log-at-trx-commit=0", "--skip-log-bin"],
        ),
        _ => (
            &["--skip-ssl", "--max-connect-errors=1000000"],
            &["--innodb-flush-log-at-trx-commit=0"],
        ),
    };
    let forgetful = if campaign == Campaign::Forgetful { forgetful } else { &[] };
    options.iter().chain(forgetful).map(ToString::to_string).collect()
}

/// The clients.
struct Processes {
    kind: Engine,
    campaign: Campaign,
    url: String,
    started: u64,
    running: BTreeMap<usize, Process>,
    history: Arc<Mutex<History>>,
}

struct Process {
    child: Child,
    input: ChildStdin,
    notes: JoinHandle<Result>,
}

impl Processes {
    fn start(&mut self, role: Role) -> Result<Process> {
        self.started += 1;
        let job = Job {
            kind: self.kind.name().to_owned(),
            campaign: self.campaign,
            role,
            process: self.started,
            seed: *SEED,
        };
        let mut child = Command::new(std::env::current_exe()?)
            .args(["client", &serde_json::to_string(&job)?])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("no input")?;
        writeln!(input, "{}", self.url)?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (history, process) = (Arc::clone(&self.history), self.started);
        let notes = std::thread::spawn(move || {
            let mut line = String::new();
            // The last line of a killed client may be incomplete.
            while output.read_line(&mut line)? > 0 && line.ends_with('\n') {
                lock(&history).note(process, serde_json::from_str(&line)?);
                line.clear();
            }
            Ok(())
        });
        Ok(Process { child, input, notes })
    }

    fn moved(&mut self, url: String) -> Result {
        self.url = url;
        for process in self.running.values_mut() {
            writeln!(process.input, "{}", self.url)?;
        }
        Ok(())
    }
}

impl Process {
    /// Kills the process by SIGKILL at any moment.
    fn kill(mut self) -> Result {
        if let Some(status) = self.child.try_wait()? {
            return Err(format!("a client has ended by itself: {status}").into());
        }
        self.child.kill()?;
        self.child.wait()?;
        self.notes.join().map_err(|_| "a thread panicked")?
    }

    /// Lets the process finish its work and end.
    fn end(mut self) -> Result {
        drop(self.input);
        let status = self.child.wait()?;
        self.notes.join().map_err(|_| "a thread panicked")??;
        match status.success() {
            true => Ok(()),
            false => Err(format!("a client: {status}").into()),
        }
    }
}
