//! **Simulations** of engines that cannot run here. A proxy before a real server behaves as the engine's
//! documents say, at random and more often than the engine.
//!
//! | like | before | refuses | fails |
//! |---|---|---|---|
//! | CockroachDB | PostgreSQL, SERIALIZABLE | advisory locks | any statement and COMMIT, by 40001 |
//! | Aurora DSQL | PostgreSQL, REPEATABLE READ | advisory locks, DDL in a transaction | COMMIT and a statement's own commit, by OC000 and OC001 |
//! | TiDB | MySQL | `JSON_TABLE` | COMMIT and a statement's own commit, by 9007, 8022 and 8028; integers are neither consecutive nor ordered |

mod mysql;
mod postgres;

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};

use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// The simulated engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Like {
    Cockroach,
    Dsql,
    Tidb,
}

/// The faults of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    /// All faults of the engine.
    All,
    /// Only faults of statements of maps and sequences outside of transactions. Calls retry these.
    OfCalls,
}

/// A simulation for its connections.
#[derive(Clone, Copy)]
struct Simulation {
    like: Like,
    faults: Faults,
}

/// One in this number of statements and commits that may fail does fail.
const FAILS: u64 = 8;

impl Like {
    pub(crate) fn kind(self) -> Engine {
        match self {
            Self::Cockroach | Self::Dsql => Engine::Postgres,
            Self::Tidb => Engine::Mysql,
        }
    }
}

impl Simulation {
    fn fails(self, sql: &str, is_in_transaction: bool) -> bool {
        let may = match self.faults {
            Faults::All => true,
            Faults::OfCalls => {
                // The cases query the same tables with other words.
                let searches = sql.contains("ids AS m") || sql.contains("\"order\" AS m");
                let inserts = starts_with(sql, "INSERT")
                    && (sql.contains("ids (") || sql.contains("opaque_id_sequences"));
                !is_in_transaction && (searches || inserts)
            }
        };
        may && random().is_multiple_of(FAILS)
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(())
}

/// Starts the proxy of a simulation before the server of this URL. Returns its own URL. It runs until the
/// process ends.
pub(crate) fn start(like: Like, faults: Faults, server: &str) -> Result<String> {
    let (credentials, rest) = server.split_once('@').ok_or("expected a URL with a user")?;
    let (address, rest) = rest.split_once('/').ok_or("expected a URL with a database")?;
    let address: SocketAddr = address.parse()?;
    let runtime = tokio::runtime::Runtime::new()?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))?;
    let url = format!("{credentials}@{}/{rest}", listener.local_addr()?);
    std::thread::spawn(move || {
        runtime.block_on(serve(Simulation { like, faults }, listener, address))
    });
    Ok(url)
}

async fn serve(simulation: Simulation, listener: TcpListener, address: SocketAddr) -> Result {
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(async move {
            let server = TcpStream::connect(address).await?;
            for stream in [&client, &server] {
                stream.set_nodelay(true)?;
            }
            // The end of either side ends the connection.
            let _ = match simulation.like {
                Like::Cockroach | Like::Dsql => postgres::proxy(simulation, client, server).await,
                Like::Tidb => mysql::proxy(simulation, client, server).await,
            };
            Result::Ok(())
        });
    }
}

/// Returns whether a statement comes from an application instead of its session's setup.
fn is_statement(sql: &str) -> bool {
    const VERBS: [&str; 5] = ["SELECT", "INSERT", "UPDATE", "DELETE", "WITH"];
    VERBS.iter().any(|verb| starts_with(sql, verb))
}

fn starts_with(sql: &str, verb: &str) -> bool {
    let sql = sql.trim_start().as_bytes();
    sql.len() >= verb.len() && sql[..verb.len()].eq_ignore_ascii_case(verb.as_bytes())
}

async fn write(stream: &mut TcpStream, bytes: &[u8]) -> Result {
    Ok(stream.write_all(bytes).await?)
}

async fn read(stream: &mut TcpStream, buffer: &mut bytes::BytesMut) -> Result {
    match stream.read_buf(buffer).await? {
        0 => Err("the connection was closed".into()),
        _ => Ok(()),
    }
}
