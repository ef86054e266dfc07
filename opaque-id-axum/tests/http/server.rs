//! A server on loopback, and a client that sends what it is told and shows every byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use axum::Router;
use axum::extract::FromRef;
use opaque_id_core::Keyring;

pub(crate) struct Server {
    address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

impl Server {
    pub(crate) fn start(router: Router) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let listener =
            runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).expect("a port");
        let address = listener.local_addr().expect("an address");
        runtime.spawn(async { axum::serve(listener, router).await });
        Self { address, _runtime: runtime }
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n"))
    }

    pub(crate) fn post(&self, path: &str, kind: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    fn send(&self, request: &str) -> Answer {
        let mut stream = self.begin(request);
        Self::end(&mut stream, "")
    }

    pub(crate) fn begin(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        stream
    }

    /// Sends the rest, and reads the answer.
    pub(crate) fn end(stream: &mut TcpStream, rest: &str) -> Answer {
        stream.write_all(rest.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
        Answer {
            status: head
                .split(' ')
                .nth(1)
                .and_then(|status| status.parse().ok())
                .expect("a status"),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }
}

/// The state of an application with a table.
#[derive(Clone)]
pub(crate) struct App<T> {
    pub(crate) keyring: Keyring,
    pub(crate) table: T,
}

impl<T> FromRef<App<T>> for Keyring {
    fn from_ref(app: &App<T>) -> Self {
        app.keyring.clone()
    }
}

/// Checks that answers have the same status line, headers and body.
#[track_caller]
pub(crate) fn assert_alike(answers: impl IntoIterator<Item = Answer>) {
    let mut whole: Vec<_> = answers.into_iter().map(|answer| answer.bytes_without_date()).collect();
    assert!(!whole.is_empty());
    whole.dedup();
    assert_eq!(whole.len(), 1, "{whole:?}");
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub(crate) fn bytes_without_date(&self) -> String {
        let head = self.head.lines().filter(|line| !line.starts_with("date: "));
        head.chain([&*self.body]).collect::<Vec<_>>().join("\n")
    }
}
