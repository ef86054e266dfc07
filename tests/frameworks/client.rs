//! A client that sends given requests to a server on loopback, and shows every byte.

use std::any::Any;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A server on loopback.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    _running: Box<dyn Any>,
}

/// The answer to a client.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Server {
    /// Creates a server. Dropping `running` stops it.
    pub fn new(address: SocketAddr, running: impl Any) -> Self {
        Self { address, _running: Box::new(running) }
    }

    pub fn get(&self, path: &str) -> Answer {
        self.send(&format!("GET {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\n\r\n"))
    }

    pub fn post(&self, path: &str, kind: &str, body: &str) -> Answer {
        let length = body.len();
        self.send(&format!(
            "POST {path} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
    }

    fn send(&self, request: &str) -> Answer {
        let mut stream = self.begin(request);
        Self::end(&mut stream, "")
    }

    pub fn begin(&self, request: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        stream
    }

    /// Sends the rest and reads the answer.
    pub fn end(stream: &mut TcpStream, rest: &str) -> Answer {
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

/// Checks that answers have the same status line, headers and body.
#[track_caller]
pub fn assert_alike(answers: impl IntoIterator<Item = Answer>) {
    let mut whole: Vec<_> = answers.into_iter().map(|answer| answer.bytes_without_date()).collect();
    assert!(!whole.is_empty());
    whole.dedup();
    assert_eq!(whole.len(), 1, "{whole:?}");
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| *found == name).map(|(_, value)| value)
    }

    pub fn bytes_without_date(&self) -> String {
        let head = self.head.lines().filter(|line| !line.starts_with("date: "));
        head.chain([&*self.body]).collect::<Vec<_>>().join("\n")
    }
}
