//! Sixteen writers over all nodes of a cluster or of one server. They record all acknowledged rows, and check
//! whether every node still has them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use opaque_id_sql::mapping::Index;
use opaque_id_sqlx::{
    External, Internal, MappingError, OpaqueId, Retry, Sequence, SequenceError, SupportedDatabase,
    UuidMap, retry,
};
use sqlx::Pool;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::pool::PoolOptions;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::Result;
use crate::conformance::mapping::dialect;
use crate::engine::Engine;
use crate::sql::{execute, on_a_thread, text};

pub const WRITERS: usize = 16;
/// The time of all writers' requests for the same new UUIDs, and the number of these UUIDs.
const ROUND: Duration = Duration::from_millis(20);
const UUIDS: usize = 3;
/// The UUIDs for rounds of ten minutes.
const ALL_UUIDS: usize = UUIDS * 30_000;
/// The time for retries of calls. A slow machine is not a fault of the calls.
const RETRY_FOR: Duration = Duration::from_secs(60);
/// The time that a writer waits for a node before it uses another one.
const FAILOVER: Duration = Duration::from_secs(2);
/// A time that is longer than any call. One wait for a lock may take 50 s.
pub const HANGS: Duration = Duration::from_secs(120);

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
pub struct Order;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "parcel", key = StructuredKey, form = "uuid")]
pub struct Parcel;

/// Returns the URL of our database on a server.
pub fn in_shop(url: &str) -> Result<String> {
    let (start, _) = url.rsplit_once('/').ok_or("a URL without a database")?;
    Ok(format!("{start}/shop"))
}

/// Returns the migration of all maps and of the sequence. The sequence's table comes last.
pub fn create_sql(kind: Engine, indexes: &[Index]) -> String {
    let dialect = dialect(kind);
    let maps = indexes.iter().map(|index| map(*index).create_sql(dialect));
    maps.chain([Sequence::<Parcel>::create_sql(dialect)]).collect::<Vec<_>>().join("\n")
}

/// The last table of [`create_sql`]. If it exists, all do.
pub const LAST_TABLE: &str = "opaque_id_sequences";

pub fn map(index: Index) -> UuidMap<Order> {
    match index {
        Index::Unique => UuidMap::unique("unique_ids"),
        _ => UuidMap::hashed("hashed_ids"),
    }
    .retry_for(RETRY_FOR)
}

/// Checks that a map with a hashed index refuses to insert into a server of several that write.
pub fn hashed_index_is_refused<DB: SupportedDatabase>(kind: Engine, url: &str) -> Result {
    let map = UuidMap::<Order>::hashed("hashed_ids");
    execute(kind, url, "DROP TABLE IF EXISTS hashed_ids")?;
    execute(kind, url, &map.create_sql(dialect(kind)))?;
    let refused = on_a_thread(async || {
        let pool = connect::<DB>(url);
        Ok(map.get_or_insert(&pool, External::random()).await)
    })?;
    match refused {
        Err(MappingError::Cluster { .. }) => Ok(()),
        other => Err(format!("the hashed index is not refused: {other:?}").into()),
    }
}

/// Writers that continue until they are [stopped](Self::stop).
pub struct Load {
    runtime: Runtime,
    shared: Arc<Shared>,
    writers: Vec<JoinHandle<()>>,
}

struct Shared {
    start: Instant,
    stop: AtomicBool,
    nodes: Vec<Node>,
    uuids: Vec<External<Order>>,
    /// The index of each map.
    indexes: Vec<Index>,
    seen: Mutex<LoadReport>,
}

#[derive(Default)]
struct Node {
    /// The current URL.
    url: Mutex<String>,
    is_cut_off: AtomicBool,
}

/// The answers of the servers.
#[derive(Default)]
pub struct LoadReport {
    /// The index of each map.
    indexes: Vec<Index>,
    mapped: Vec<Mapped>,
    /// The rows that calls have returned but may not have written, with the time and the map's number. A
    /// server may show a commit before it is durable.
    shown: Vec<(Instant, usize, External<Order>, Internal<Order>)>,
    numbers: HashSet<u64>,
    calls: u64,
    took: Duration,
    slowest: Duration,
    errors: BTreeMap<(Class, String), u64>,
    wrong: BTreeMap<&'static str, u64>,
}

#[derive(Default)]
struct Mapped {
    ids: HashMap<External<Order>, Internal<Order>>,
    externals: HashMap<Internal<Order>, External<Order>>,
}

/// The handler of an error.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The node is away or may not write. The caller uses another one.
    Away,
    /// The caller's transaction conflicts with another one. The caller retries it.
    Transaction,
    /// Another transaction held a lock for as long as the server allows, like a commit while a donor node is
    /// blocked. A call does not wait for longer than the session's timeout, so it does not retry.
    LockTimeout,
    /// The call should have retried.
    Surfaced,
}

enum Failure {
    Map(MappingError),
    Sequence(SequenceError),
    InTransaction(MappingError),
    /// The caller's own BEGIN or COMMIT failed.
    Transaction(sqlx::Error),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    pub fn start<DB: SupportedDatabase>(urls: Vec<String>, indexes: &[Index]) -> Result<Self> {
        let runtime = Runtime::new()?;
        let shared = Arc::new(Shared {
            start: Instant::now(),
            stop: AtomicBool::new(false),
            nodes: urls
                .into_iter()
                .map(|url| Node { url: Mutex::new(url), ..Node::default() })
                .collect(),
            uuids: (0..ALL_UUIDS).map(|_| External::random()).collect(),
            indexes: indexes.to_vec(),
            seen: Mutex::new(LoadReport {
                mapped: indexes.iter().map(|_| Mapped::default()).collect(),
                indexes: indexes.to_vec(),
                ..LoadReport::default()
            }),
        });
        let writers = (0..WRITERS)
            .map(|writer| runtime.spawn(write::<DB>(Arc::clone(&shared), writer)))
            .collect();
        Ok(Self { runtime, shared, writers })
    }

    /// Records the node's new URL after it was started again, or after another one has taken its place.
    pub fn moved(&self, node: usize, url: String) {
        *lock(&self.shared.nodes[node].url) = url;
    }

    /// Records that a server was killed that shows commits before they are durable. It may take back rows
    /// that calls have read since its last acknowledged commit.
    pub fn killed(&self) {
        // Answers may still be on their way.
        std::thread::sleep(Duration::from_secs(1));
        lock(&self.shared.seen).shown.clear();
    }

    /// Records whether a node is between [`Cluster::cut_off`](crate::servers::Cluster::cut_off) and its
    /// return.
    pub fn cut_off(&self, node: usize, is_cut_off: bool) {
        self.shared.nodes[node].is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    /// Waits until the servers have acknowledged this number of further rows.
    pub fn wait_for(&self, more: usize) -> Result {
        let acknowledged = || lock(&self.shared.seen).acknowledged();
        let (wanted, deadline) = (acknowledged() + more, Instant::now() + HANGS);
        while acknowledged() < wanted {
            if Instant::now() > deadline {
                return Err(format!("not {more} in {HANGS:?}; {}", lock(&self.shared.seen)).into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    pub fn stop(self) -> Result<LoadReport> {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.runtime.block_on(async {
            for writer in self.writers {
                tokio::time::timeout(HANGS, writer)
                    .await
                    .map_err(|_| format!("a call has not returned for {HANGS:?}"))??;
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        })?;
        let took = self.shared.start.elapsed();
        let mut seen = std::mem::take(&mut *lock(&self.shared.seen));
        seen.is_durable_until(Instant::now());
        Ok(LoadReport { took, ..seen })
    }
}

async fn write<DB: SupportedDatabase>(shared: Arc<Shared>, writer: usize) {
    let node = &shared.nodes[writer % shared.nodes.len()];
    let sequence = Sequence::new().block(10).retry_for(RETRY_FOR);
    let mut pool = connect_within::<DB>(&lock(&node.url).clone(), FAILOVER);
    for call in 0.. {
        if shared.stop.load(Ordering::Relaxed) {
            return;
        }
        let start = Instant::now();
        let done = shared.call(&pool, &sequence, writer + call).await;
        let done =
            done.map_err(|failure| failure.class_and_text(node.is_cut_off.load(Ordering::Relaxed)));
        {
            let mut seen = lock(&shared.seen);
            seen.calls += 1;
            seen.slowest = seen.slowest.max(start.elapsed());
            if let Err(error) = &done {
                *seen.errors.entry(error.clone()).or_default() += 1;
            }
        }
        if let Err((class, _)) = done {
            let pause = if class == Class::Away { 200 } else { 20 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
            if class == Class::Away {
                pool = connect_within(&lock(&node.url).clone(), FAILOVER);
            }
        }
    }
}

pub fn connect<DB: SupportedDatabase>(url: &str) -> Pool<DB> {
    connect_within(url, RETRY_FOR)
}

pub fn connect_within<DB: SupportedDatabase>(url: &str, acquire_timeout: Duration) -> Pool<DB> {
    PoolOptions::new()
        .max_connections(1)
        .acquire_timeout(acquire_timeout)
        .connect_lazy(url)
        .expect("the URL was written here")
}

impl Shared {
    async fn call<DB: SupportedDatabase>(
        &self,
        pool: &Pool<DB>,
        sequence: &Sequence<Parcel>,
        number: usize,
    ) -> std::result::Result<(), Failure> {
        let start = Instant::now();
        let which = number / 5 % self.indexes.len();
        let map = map(self.indexes[which]);
        let round = (self.start.elapsed().as_millis() / ROUND.as_millis()) as usize;
        let mut uuids = self.uuids[round * UUIDS % ALL_UUIDS..][..UUIDS].to_vec();
        // The order differs between the writers.
        uuids.rotate_left(number % UUIDS);
        match number % 5 {
            0 => {
                let id = map.get_or_insert(pool, uuids[0]).await.map_err(Failure::Map)?;
                lock(&self.seen).show(which, [(uuids[0], id)]);
            }
            1 => {
                let ids = map.get_or_insert_all(pool, &uuids).await.map_err(Failure::Map)?;
                lock(&self.seen).show(which, uuids.into_iter().zip(ids));
            }
            2 => {
                let ours = map.issue(pool).await.map_err(Failure::Map)?;
                lock(&self.seen).acknowledge(which, start, [ours]);
                let start = Instant::now();
                let ours = map.issue_all(pool, 3).await.map_err(Failure::Map)?;
                lock(&self.seen).acknowledge(which, start, ours);
            }
            3 => {
                let mut transaction = pool.begin().await.map_err(Failure::Transaction)?;
                let ids = map
                    .get_or_insert_all(&mut transaction, &uuids)
                    .await
                    .map_err(Failure::InTransaction)?;
                let ours = map.issue(&mut transaction).await.map_err(Failure::InTransaction)?;
                transaction.commit().await.map_err(Failure::Transaction)?;
                let pairs = uuids.into_iter().zip(ids).chain([ours]);
                lock(&self.seen).acknowledge(which, start, pairs);
            }
            _ => {
                let ids = sequence.next_all(pool, 7).await.map_err(Failure::Sequence)?;
                let one = sequence.next(pool).await.map_err(Failure::Sequence)?;
                let mut seen = lock(&self.seen);
                for id in ids.into_iter().chain([one]) {
                    if !seen.numbers.insert(id.expose_key().sequence()) {
                        seen.count("numbers of the sequence given twice", 1);
                    }
                }
            }
        }
        Ok(())
    }
}

impl LoadReport {
    fn count(&mut self, wrong: &'static str, count: u64) {
        if count > 0 {
            *self.wrong.entry(wrong).or_default() += count;
        }
    }

    /// Records a call's result. The call may have written nothing.
    fn show(
        &mut self,
        which: usize,
        pairs: impl IntoIterator<Item = (External<Order>, Internal<Order>)>,
    ) {
        let now = Instant::now();
        self.shown.extend(pairs.into_iter().map(|(external, id)| (now, which, external, id)));
    }

    /// Records the rows of a commit that began after `time`. Its log has all rows that were shown before.
    fn acknowledge(
        &mut self,
        which: usize,
        start: Instant,
        pairs: impl IntoIterator<Item = (External<Order>, Internal<Order>)>,
    ) {
        self.is_durable_until(start);
        for (external, id) in pairs {
            self.map(which, external, id);
        }
    }

    fn is_durable_until(&mut self, time: Instant) {
        // The rows are in the order of time, because each was pushed under the lock.
        let durable = self.shown.partition_point(|(shown, ..)| *shown <= time);
        for (_, which, external, id) in self.shown.drain(..durable).collect::<Vec<_>>() {
            self.map(which, external, id);
        }
    }

    fn map(&mut self, which: usize, external: External<Order>, id: Internal<Order>) {
        let mapped = &mut self.mapped[which];
        let before = (mapped.ids.insert(external, id), mapped.externals.insert(id, external));
        if before.0.is_some_and(|other| other != id) {
            self.count("UUIDs acknowledged with two integers", 1);
        }
        if before.1.is_some_and(|other| other != external) {
            self.count("integers acknowledged for two UUIDs", 1);
        }
    }

    fn acknowledged(&self) -> usize {
        let mapped: usize = self.mapped.iter().map(|mapped| mapped.ids.len()).sum();
        mapped + self.numbers.len()
    }

    /// Looks up all acknowledged rows on a node, and waits for the rows that are still on their way.
    pub fn look_up<DB: SupportedDatabase>(&mut self, kind: Engine, url: &str) -> Result {
        let wrong = on_a_thread(async || {
            let pool = &connect::<DB>(url);
            let mut wrong = Vec::new();
            for (&index, mapped) in self.indexes.iter().zip(&self.mapped) {
                let map = map(index);
                let (externals, ids): (Vec<_>, Vec<_>) = mapped.ids.iter().unzip();
                let deadline = Instant::now() + Duration::from_secs(30);
                let mut found = map.find_all(pool, &externals).await?;
                while found.iter().any(Option::is_none) && Instant::now() < deadline {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    found = map.find_all(pool, &externals).await?;
                }
                let back = map.to_external_all(pool, &ids).await?;
                let twice = |column| -> Result<u64> {
                    let twice = format!(
                        "SELECT CONCAT(COUNT(*) - COUNT(DISTINCT {column})) FROM {index}_ids"
                    );
                    Ok(text(kind, url, &twice)?.parse()?)
                };
                let lost = count(found.iter().map(Option::is_none));
                let others = found.iter().zip(&ids);
                let other_ids = count(others.map(|(found, id)| found.is_some_and(|it| it != *id)));
                let others = back.iter().zip(&externals);
                let other_uuids = count(others.map(|(back, id)| back.is_some_and(|it| it != *id)));
                wrong.extend([
                    ("acknowledged mappings lost", lost),
                    ("acknowledged UUIDs with another integer", other_ids),
                    ("acknowledged integers with another UUID", other_uuids),
                    ("UUIDs with two integers", twice("uuid")?),
                    ("integers with two UUIDs", twice("id")?),
                ]);
            }
            Ok(wrong)
        })?;
        for (what, count) in wrong {
            self.count(what, count);
        }
        Ok(())
    }

    /// Checks that there were no errors. It is for tests without a node that is away.
    pub fn no_errors(&self) -> Result {
        match self.errors.is_empty() {
            true => Ok(()),
            false => Err(format!("{} kinds of errors", self.errors.len()).into()),
        }
    }

    /// Returns an error if a promise was broken.
    pub fn verdict(&self) -> Result {
        let surfaced = self.errors.iter().filter(|((class, _), _)| *class == Class::Surfaced);
        let surfaced: u64 = surfaced.map(|(_, count)| count).sum();
        let mut wrong: Vec<String> =
            self.wrong.iter().map(|(what, count)| format!("{count} {what}")).collect();
        if surfaced > 0 {
            wrong.push(format!("{surfaced} errors that the call should have retried"));
        }
        if self.mapped.iter().any(|mapped| mapped.ids.is_empty()) || self.numbers.is_empty() {
            wrong.push("nothing was acknowledged".to_owned());
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join(", ").into()),
        }
    }
}

impl fmt::Display for LoadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "  {} calls in {:.1} s, the slowest {:.1} s; acknowledged: {} numbers of the sequence",
            self.calls,
            self.took.as_secs_f64(),
            self.slowest.as_secs_f64(),
            self.numbers.len(),
        )?;
        for (index, mapped) in self.indexes.iter().zip(&self.mapped) {
            write!(f, ", {} mappings ({index})", mapped.ids.len())?;
        }
        for ((class, text), count) in &self.errors {
            let class = match class {
                Class::Away => "node away",
                Class::Transaction => "caller retries its transaction",
                Class::LockTimeout => "the server's lock timeout",
                Class::Surfaced => "NOT RETRIED",
            };
            write!(f, "\n  {count:>6} × {class}: {text}")?;
        }
        Ok(())
    }
}

fn count(are: impl Iterator<Item = bool>) -> u64 {
    are.map(u64::from).sum()
}

/// Returns whether it is error 1205 of MySQL and MariaDB.
fn is_lock_timeout(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| error.number() == 1205)
}

impl Failure {
    fn class_and_text(&self, is_cut_off: bool) -> (Class, String) {
        let (who, error): (_, &dyn Error) = match self {
            Self::Map(error @ MappingError::Conflict(_)) => ("map, its time was up", error),
            Self::Map(error) => ("map", error),
            Self::Sequence(error @ SequenceError::Conflict(_)) => {
                ("sequence, its time was up", error)
            }
            Self::Sequence(error) => ("sequence", error),
            Self::InTransaction(error) => ("map, in a transaction", error),
            Self::Transaction(error) => ("the transaction itself", error),
        };
        let chain = std::iter::successors(Some(error), |&error| error.source());
        let sqlx = chain.clone().find_map(|error| error.downcast_ref::<sqlx::Error>());
        let class = match (self, sqlx.and_then(retry)) {
            (_, Some(Retry::Elsewhere)) => Class::Away,
            // The call waited for the others until its time was up.
            (
                Self::Map(MappingError::Conflict(_)) | Self::Sequence(SequenceError::Conflict(_)),
                _,
            ) if is_cut_off => Class::Away,
            (Self::Map(MappingError::Conflict(_)), _) if sqlx.is_some_and(is_lock_timeout) => {
                Class::LockTimeout
            }
            (Self::InTransaction(MappingError::Conflict(_)), _)
            | (Self::Transaction(_), Some(Retry::Again)) => Class::Transaction,
            _ => Class::Surfaced,
        };
        let last = chain.last().map(ToString::to_string).unwrap_or_default();
        // The individual values are omitted.
        let text: String =
            last.split('\'').next().into_iter().flat_map(str::chars).take(80).collect();
        (class, format!("{who}: {text}"))
    }
}
