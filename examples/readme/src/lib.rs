//! Runs the commands in the `console` blocks of an example's README, and compares their output.
//!
//! In the expected output, `…` is any text. An id stands for any id with the same prefix, and afterwards for
//! the printed one, because each run has other secrets.

use std::collections::HashMap;
use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use regex::{Captures, Regex};

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

/// A run has its own port.
const ADDRESS: &str = "localhost:3000";

const PROGRAMS: &str = r#"
cargo() { shift; [ "$1" != -p ] || shift 2; [ "$1" != -- ] || shift; exec "$EXAMPLE" "$@"; }
opaque-id() { "${EXAMPLE%/*}/opaque-id" "$@"; }
"#;

/// Runs the README's commands with the example's program in an empty folder.
///
/// # Errors
///
/// Fails if the output of a command differs from the README.
pub fn run(program: &str, readme: &str) -> Result {
    let cli = Path::new(program).with_file_name("opaque-id");
    if readme.contains("opaque-id ") && !cli.exists() {
        return Err(format!("{} is missing: cargo build -p opaque-id-cli", cli.display()).into());
    }
    let folder = tempfile::tempdir()?;
    let mut shell = Shell {
        program,
        folder: folder.path(),
        address: TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string(),
        variables: HashMap::new(),
        ids: HashMap::new(),
        servers: Vec::new(),
    };
    let ids = Regex::new(r"\b([a-z]+(?:_cursor)?)_[0-9a-hjkmnp-tv-z]{13,}\b")?;
    let mut commands = 0;
    for block in readme.split("```console\n").skip(1) {
        let (block, _) = block.split_once("```").ok_or("an open block")?;
        for part in format!("\n{block}").split("\n$ ").skip(1) {
            let (command, mut printed) = part.split_once('\n').unwrap_or((part, ""));
            let mut command = command.to_owned();
            while command.ends_with('\\') || command.matches('\'').count() % 2 == 1 {
                let (next, rest) = printed.split_once('\n').unwrap_or((printed, ""));
                (command, printed) = (format!("{command}\n{next}"), rest);
            }
            shell.command(&command, printed.trim_end(), &ids)?;
            commands += 1;
        }
    }
    match commands {
        0 => Err("the README has no commands".into()),
        _ => Ok(()),
    }
}

struct Shell<'a> {
    program: &'a str,
    folder: &'a Path,
    address: String,
    variables: HashMap<String, String>,
    ids: HashMap<String, String>,
    servers: Vec<Child>,
}

impl Shell<'_> {
    fn command(&mut self, command: &str, expected: &str, ids: &Regex) -> Result {
        let ours = ids.replace_all(command, |id: &Captures<'_>| {
            self.ids.get(&id[0]).cloned().unwrap_or_else(|| id[0].to_owned())
        });
        let ours = ours.replace(ADDRESS, &self.address);
        if ours == "kill %1"
            && let Some(mut server) = self.servers.pop()
        {
            server.kill()?;
            server.wait()?;
            return Ok(());
        }
        if let Some(server) = ours.strip_suffix(" &") {
            let server = self.bash(server).spawn()?;
            self.servers.push(server);
            return self.wait();
        }
        if let Some((name, value)) = ours.strip_prefix("export ").and_then(|it| it.split_once('='))
        {
            let value = self.output(&format!("echo {value}"))?;
            self.variables.insert(name.to_owned(), value.trim_end().to_owned());
            return Ok(());
        }
        let printed = self.output(&ours)?.replace(&self.address, ADDRESS);
        let printed = printed.trim_end();
        let mut pattern = regex::escape(expected).replace('…', "(?s:.*)");
        let mut unknown = Vec::new();
        for id in ids.captures_iter(expected) {
            let known = match self.ids.get(&id[0]) {
                Some(known) => known.clone(),
                None if unknown.contains(&id[0].to_owned()) => continue,
                None => {
                    unknown.push(id[0].to_owned());
                    format!("({}_[0-9a-z]+)", &id[1])
                }
            };
            pattern = pattern.replacen(&id[0], &known, 1);
        }
        let found = Regex::new(&format!("^{pattern}$"))?.captures(printed).ok_or_else(|| {
            format!("{command}\nexpected:\n{expected}\nfound:\n{printed}\n(pattern {pattern})")
        })?;
        for (id, found) in unknown.into_iter().zip(found.iter().skip(1).flatten()) {
            self.ids.insert(id, found.as_str().to_owned());
        }
        Ok(())
    }

    fn bash(&self, command: &str) -> Command {
        let mut bash = Command::new("bash");
        bash.args(["-c", &format!("{PROGRAMS}{command}")])
            .envs(&self.variables)
            .env("ADDRESS", &self.address)
            .env("EXAMPLE", self.program)
            .current_dir(self.folder);
        bash
    }

    fn output(&self, command: &str) -> Result<String> {
        let output = self.bash(command).stderr(Stdio::inherit()).output()?;
        Ok(String::from_utf8(output.stdout)?)
    }

    fn wait(&mut self) -> Result {
        let start = Instant::now();
        while TcpStream::connect(&self.address).is_err() {
            if let Some(server) = self.servers.last_mut()
                && let Some(status) = server.try_wait()?
            {
                return Err(format!("the server has ended: {status}").into());
            }
            if start.elapsed() > Duration::from_secs(60) {
                return Err(format!("nothing listens at {}", self.address).into());
            }
            thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Shell<'_> {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill().and_then(|()| server.wait());
        }
    }
}
