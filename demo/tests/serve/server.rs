//! The server as a process, and clients of it.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use opaque_id_tests::tools::ChildGuard;
use serde_json::Value;
use ureq::Agent;

use crate::Result;

pub(crate) struct Server {
    pub(crate) process: ChildGuard,
    /// The URL, such as `http://127.0.0.1:…`.
    pub(crate) url: String,
    agent: Agent,
}

#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) link: String,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Value> {
        Ok(serde_json::from_str(&self.text).map_err(|error| format!("{error}: {self:?}"))?)
    }
}

/// Returns the program without environment variables for databases.
pub(crate) fn demo(args: &[&str]) -> Command {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_demo"));
    demo.args(args).env_remove("DATABASE_URL");
    demo
}

impl Server {
    /// Starts the server on SQLite with its own file.
    pub(crate) fn start() -> Result<Self> {
        Self::start_by(demo(&["serve", "--port", "0"]))
    }

    pub(crate) fn start_by(command: Command) -> Result<Self> {
        let (process, url) = ChildGuard::start(command, |line| {
            let (address, end) = line.split_once(" http://")?.1.split_once('/')?;
            let names = ["SQLite", "PostgreSQL", "MySQL"];
            assert!(names.iter().any(|name| end.starts_with(&format!(" on {name}. "))), "{line}");
            Some(format!("http://{address}"))
        })?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            // A server that answers before it has read a request's body then closes the connection.
            .max_idle_connections(0)
            .build();
        Ok(Self { process, url, agent: agent.into() })
    }

    pub(crate) fn get(&self, path: &str) -> Result<Answer> {
        answer(self.agent.get(format!("{}{path}", self.url)).call()?)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Answer> {
        answer(self.agent.post(format!("{}{path}", self.url)).send_json(body)?)
    }

    /// Sends bytes, and returns the status of the answer.
    pub(crate) fn send(&self, request: &str) -> Result<u16> {
        let mut stream = TcpStream::connect(self.url.trim_start_matches("http://"))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer.split(' ').nth(1).ok_or("no status")?;
        Ok(status.parse()?)
    }
}

fn answer(mut response: ureq::http::Response<ureq::Body>) -> Result<Answer> {
    let header = |name: &str| {
        let value = response.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
    };
    Ok(Answer {
        status: response.status().as_u16(),
        kind: header("content-type"),
        link: header("link"),
        text: response.body_mut().read_to_string()?,
    })
}
