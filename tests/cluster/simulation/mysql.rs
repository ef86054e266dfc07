//! A proxy of MySQL's protocol. A packet has a length of three bytes, a number, and a payload that begins
//! with the command's byte.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, BytesMut};
use opaque_id_tests::Result;
use tokio::net::TcpStream;

use super::{Simulation, is_statement, random, read, starts_with, write};

const QUERY: u8 = 0x03;
const PREPARE: u8 = 0x16;
const EXECUTE: u8 = 0x17;

const VERSION: &[u8] = b"8.0.11-TiDB-v8.5.0";
/// The removed capabilities in the lower and the upper half of the server's: TLS, and attributes before the
/// text of a query.
const WITHOUT: [u16; 2] = [1 << 11, 1 << 11];

/// The next integers of two servers of the engine. Each server has its own batch.
static BATCHES: [AtomicU64; 2] = [AtomicU64::new(5_000_001), AtomicU64::new(1)];
/// A number above the rows of any insert.
const STEP: u64 = 30_000;

pub(super) async fn proxy(simulation: Simulation, client: TcpStream, server: TcpStream) -> Result {
    let mut session = Session {
        simulation,
        client: Packets::new(client),
        server: Packets::new(server),
        is_in_transaction: false,
        statements: HashMap::new(),
        server_of_engine: (random() % 2) as usize,
    };
    session.greet().await?;
    let mut prepared = None;
    loop {
        // Any number of answers may follow each other. A command comes after the client has read them all.
        tokio::select! {
            answer = session.server.next() => {
                let answer = answer?;
                if let Some(sql) = prepared.take()
                    && let [0, a, b, c, d, ..] = answer.payload[..]
                {
                    session.statements.insert(u32::from_le_bytes([a, b, c, d]), sql);
                }
                session.client.send(&answer).await?;
            }
            command = session.client.next() => {
                let command = command?;
                if command.payload.first() == Some(&PREPARE) && command.number == 0 {
                    prepared = Some(String::from_utf8_lossy(&command.payload[1..]).into_owned());
                }
                session.run(command).await?;
            }
        }
    }
}

struct Packet {
    number: u8,
    payload: BytesMut,
}

struct Packets {
    stream: TcpStream,
    received: BytesMut,
}

impl Packets {
    fn new(stream: TcpStream) -> Self {
        Self { stream, received: BytesMut::new() }
    }

    async fn next(&mut self) -> Result<Packet> {
        loop {
            if let [a, b, c, number, ..] = self.received[..] {
                let len = u32::from_le_bytes([a, b, c, 0]) as usize;
                if self.received.len() >= 4 + len {
                    self.received.advance(4);
                    return Ok(Packet { number, payload: self.received.split_to(len) });
                }
            }
            read(&mut self.stream, &mut self.received).await?;
        }
    }

    async fn send(&mut self, packet: &Packet) -> Result {
        let len = u32::try_from(packet.payload.len())?.to_le_bytes();
        let mut bytes = vec![len[0], len[1], len[2], packet.number];
        bytes.extend_from_slice(&packet.payload);
        write(&mut self.stream, &bytes).await
    }
}

struct Session {
    simulation: Simulation,
    client: Packets,
    server: Packets,
    is_in_transaction: bool,
    statements: HashMap<u32, String>,
    /// The client's server of the engine.
    server_of_engine: usize,
}

impl Session {
    /// Forwards the server's first packet with the engine's version and without TLS.
    async fn greet(&mut self) -> Result {
        let mut greeting = self.server.next().await?;
        let version = greeting.payload.iter().skip(1).position(|byte| *byte == 0);
        let rest = greeting.payload.split_off(1 + version.ok_or("expected a version")?);
        greeting.payload.truncate(1);
        greeting.payload.extend_from_slice(VERSION);
        greeting.payload.extend_from_slice(&rest);
        // After the version come its end, a thread's number, eight bytes of a challenge and a zero.
        let lower = 1 + VERSION.len() + 1 + 4 + 8 + 1;
        // Between the halves are a charset's byte and two bytes of the status.
        for (start, without) in [lower, lower + 5].into_iter().zip(WITHOUT) {
            let half = u16::from_le_bytes([greeting.payload[start], greeting.payload[start + 1]]);
            greeting.payload[start..][..2].copy_from_slice(&(half & !without).to_le_bytes());
        }
        self.client.send(&greeting).await
    }

    /// Forwards a command, or makes it fail.
    async fn run(&mut self, mut command: Packet) -> Result {
        let sql = match *command.payload {
            // The packet belongs to a login or continues another one.
            _ if command.number != 0 => None,
            [QUERY | PREPARE, ..] => {
                Some(String::from_utf8_lossy(&command.payload[1..]).into_owned())
            }
            [EXECUTE, a, b, c, d, ..] => {
                self.statements.get(&u32::from_le_bytes([a, b, c, d])).cloned()
            }
            _ => None,
        };
        let Some(sql) = sql else {
            return self.server.send(&command).await;
        };
        if sql.contains("JSON_TABLE") {
            return self
                .fail(1064, "42000", "You have an error in your SQL syntax near 'JSON_TABLE'")
                .await;
        }
        if command.payload[0] != EXECUTE && sql.contains("SHOW GLOBAL VARIABLES") {
            // The server's own version is another one.
            command.payload.truncate(1);
            command.payload.extend_from_slice(b"SELECT 'version', '");
            command.payload.extend_from_slice(VERSION);
            command.payload.extend_from_slice(b"'");
        }
        if command.payload[0] != PREPARE {
            let ends = ["COMMIT", "ROLLBACK"].iter().any(|verb| starts_with(&sql, verb));
            let is_written = is_statement(&sql) && !starts_with(&sql, "SELECT");
            let commits = match self.is_in_transaction {
                true => starts_with(&sql, "COMMIT"),
                false => is_written,
            };
            if ["BEGIN", "START TRANSACTION"].iter().any(|verb| starts_with(&sql, verb)) {
                self.is_in_transaction = true;
            }
            if commits && self.simulation.fails(&sql, self.is_in_transaction) {
                self.is_in_transaction = false;
                self.alone("ROLLBACK").await?;
                return match random() % 3 {
                    0 => self.fail(9007, "HY000", "Write conflict, txnStartTS=1, conflictStartTS=2 [try again later]").await,
                    1 => self.fail(8022, "HY000", "Error: KV error safe to retry Txn(Mvcc(TxnNotFound)) [try again later]").await,
                    _ => self.fail(8028, "HY000", "Information schema is changed during the execution of the statement [try again later]").await,
                };
            }
            if ends {
                self.is_in_transaction = false;
            }
            if starts_with(&sql, "INSERT INTO unique_ids") {
                let next = BATCHES[self.server_of_engine].fetch_add(STEP, Ordering::Relaxed);
                self.alone(&format!("SET INSERT_ID = {next}")).await?;
            }
        }
        self.server.send(&command).await
    }

    /// Runs a statement without the client's knowledge.
    async fn alone(&mut self, sql: &str) -> Result {
        let mut payload = BytesMut::from(&[QUERY][..]);
        payload.extend_from_slice(sql.as_bytes());
        self.server.send(&Packet { number: 0, payload }).await?;
        match self.server.next().await?.payload.first() {
            Some(0) => Ok(()),
            _ => Err(format!("{sql} failed").into()),
        }
    }

    async fn fail(&mut self, number: u16, state: &str, message: &str) -> Result {
        let mut payload = BytesMut::from(&[0xff][..]);
        payload.extend_from_slice(&number.to_le_bytes());
        payload.extend_from_slice(format!("#{state}{message}").as_bytes());
        self.client.send(&Packet { number: 1, payload }).await
    }
}
