//! The cases of dropped calls: by a time-out, by `select!`, because a client has left. All rows that a server
//! acknowledged before and after stay, and the pool remains usable. Each case is written once.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::{Duration, Instant};

use opaque_id_core::External;
use opaque_id_sql::mapping::Index;
use tokio::task::JoinHandle;

use crate::conformance::cases;
use crate::conformance::keys::{KeyShop, number};
use crate::conformance::mapping::{
    Invoices, MapShop, count, create, dialect, indexes, map, random,
};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::IdOf;
use crate::database::Database;
use crate::engine::Engine;
use crate::load::HANGS;
use crate::random::{Random, SEED};
use crate::{Result, cases};

/// The operations of every adapter on a pool.
pub trait PoolShop: MapShop + KeyShop + Send + Sync + 'static {
    /// Returns a pool of at most this number of connections. There is none if calls block, because they
    /// cannot be dropped.
    async fn pool(database: &Database, connections: u32) -> Result<Option<Self>>;

    async fn close(self) -> Result;

    /// Spawns [`Load::repeat`]. Only each adapter knows that its future is `Send`.
    fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result>;

    /// Reads a text twice in a transaction of the caller's, and calls `between` in between.
    async fn read_twice(
        &self,
        select: &str,
        between: impl FnOnce() -> Result,
    ) -> Result<[String; 2]> {
        let mut transaction = self.begin("").await?;
        let before = Self::text(&mut transaction, select).await?;
        between()?;
        let after = Self::text(&mut transaction, select).await?;
        Self::rollback(transaction).await?;
        Ok([before, after])
    }

    /// In a transaction of the caller's, gets or inserts `first`, and drops the same call with `second`.
    /// Rolls back, or drops the transaction as well. Returns whether the call was dropped.
    async fn drop_in_a_transaction(
        &self,
        map: &Invoices<Self>,
        first: &[External<Self::Invoice>],
        second: &[External<Self::Invoice>],
        moment: Moment,
        rolls_back: bool,
    ) -> Result<bool> {
        let mut transaction = self.begin("").await?;
        Self::get_or_insert_all_in(&mut transaction, map, first).await?;
        let call = Self::get_or_insert_all_in(&mut transaction, map, second);
        let done = moment.drop(call).await.transpose()?;
        if rolls_back {
            match Self::rollback(transaction).await {
                Err(error) if Self::is_broken(&error) => {}
                rolled_back => rolled_back?,
            }
        }
        Ok(done.is_none())
    }
}

/// Returns all cases by name for one adapter.
pub fn all<S: PoolShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        calls_dropped_at_every_await
        calls_dropped_at_random
        calls_dropped_in_a_transaction
        two_hundred_aborted_tasks
        a_failed_call_leaves_no_setting
        a_pool_recovers_from_lost_connections
    }
}

/// The moment at which a call is dropped.
#[derive(Clone, Copy)]
pub enum Moment {
    /// The call is dropped after this number of polls.
    Polled(usize),
    /// The call is dropped instead of a further poll, although its result is ready.
    Woken(usize),
    After(Duration),
}

impl Moment {
    /// Returns the call's result unless it is dropped.
    pub async fn drop<T>(self, call: impl Future<Output = T>) -> Option<T> {
        let (mut polls, is_at_once) = match self {
            Self::Polled(polls) => (polls, true),
            Self::Woken(polls) => (polls, false),
            Self::After(limit) => return tokio::time::timeout(limit, call).await.ok(),
        };
        let mut call = pin!(call);
        poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(None);
            }
            polls -= 1;
            match call.as_mut().poll(context) {
                Poll::Pending if polls == 0 && is_at_once => Poll::Ready(None),
                polled => polled.map(Some),
            }
        })
        .await
    }
}

#[derive(Clone, Copy)]
enum Call {
    /// The UUIDs are shared with other calls.
    GetOrInsertShared,
    GetOrInsert,
    GetOrInsertAll(usize),
    Issue,
    Find,
    Delete,
    Next,
}

const CALLS: [Call; 8] = [
    Call::GetOrInsertShared,
    Call::GetOrInsert,
    Call::GetOrInsertAll(50),
    Call::GetOrInsertAll(300),
    Call::Issue,
    Call::Find,
    Call::Delete,
    Call::Next,
];

/// The results of calls and their faults.
struct Record<S: PoolShop> {
    mapped: HashMap<External<S::Invoice>, IdOf<S::Invoice>>,
    /// The UUIDs that were deleted or rolled back.
    gone: Vec<External<S::Invoice>>,
    numbers: BTreeSet<u64>,
    completed: usize,
    dropped: usize,
    wrong: BTreeMap<String, usize>,
}

impl<S: PoolShop> Record<S> {
    fn map(&mut self, external: External<S::Invoice>, id: IdOf<S::Invoice>) {
        let earlier = self.mapped.insert(external, id);
        if earlier.is_some_and(|earlier| earlier != id) {
            self.wrong("another integer");
        }
    }

    /// Checks that another pool finds the mappings and may write.
    async fn look_up(&mut self, database: &Database, map: &Invoices<S>) -> Result {
        let other = S::connect(database).await?;
        let (externals, ids): (Vec<_>, Vec<_>) = self.mapped.clone().into_iter().unzip();
        for (id, found) in ids.iter().zip(other.find_all(map, &externals).await?) {
            match found {
                None => self.wrong("lost"),
                Some(found) if found != *id => self.wrong("another integer"),
                Some(_) => {}
            }
        }
        for _ in other.find_all(map, &self.gone).await?.iter().flatten() {
            self.wrong("there, though deleted or rolled back");
        }
        if BTreeSet::from_iter(&ids).len() < ids.len() {
            self.wrong("an integer with two UUIDs");
        }
        other.issue(map).await?;
        Ok(())
    }

    fn wrong(&mut self, what: impl Into<String>) {
        *self.wrong.entry(what.into()).or_default() += 1;
    }
}

impl<S: PoolShop> fmt::Display for Record<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} calls dropped, {} not; {} mappings, {} deletions or rollbacks and {} numbers acknowledged; wrong: {:?}",
            self.dropped,
            self.completed,
            self.mapped.len(),
            self.gone.len(),
            self.numbers.len(),
            self.wrong
        )
    }
}

/// Calls on one pool. Some of them are dropped.
pub struct Load<S: PoolShop> {
    shop: S,
    map: Invoices<S>,
    shared: Vec<External<S::Invoice>>,
    /// Each number is a block, and so a statement.
    sequence: S::Sequence,
    random: Mutex<Random>,
    record: Mutex<Record<S>>,
}

impl<S: PoolShop> Load<S> {
    fn new(shop: S, map: Invoices<S>) -> Arc<Self> {
        Arc::new(Self {
            shop,
            map,
            shared: random(100),
            sequence: S::sequence(1),
            random: Mutex::new(Random(*SEED)),
            record: Mutex::new(Record {
                mapped: HashMap::new(),
                gone: Vec::new(),
                numbers: BTreeSet::new(),
                completed: 0,
                dropped: 0,
                wrong: BTreeMap::new(),
            }),
        })
    }

    fn random(&self) -> MutexGuard<'_, Random> {
        self.random.lock().expect("nobody panics in here")
    }

    /// Makes a call and the calls that it needs, and records their results.
    async fn call(&self, call: Call) -> Result {
        let Self { shop, map, .. } = self;
        match call {
            Call::GetOrInsertShared => {
                let mut externals = self.shared.clone();
                externals.rotate_left(self.random().below(100));
                externals.truncate(10);
                self.get_or_insert_all(&externals).await?;
            }
            Call::GetOrInsert => {
                let external = External::random();
                let id = shop.get_or_insert(map, external).await?;
                self.record().map(external, id);
            }
            Call::GetOrInsertAll(count) => {
                self.get_or_insert_all(&random(count)).await?;
            }
            Call::Issue | Call::Find => {
                let (external, id) = shop.issue(map).await?;
                self.record().map(external, id);
                let finds = matches!(call, Call::Find);
                if finds && shop.find(map, external).await? != Some(id) {
                    self.wrong("not found");
                }
            }
            Call::Delete => {
                let (external, _) = shop.issue(map).await?;
                if shop.delete(map, external).await? {
                    self.record().gone.push(external);
                } else {
                    self.wrong("not found");
                }
            }
            Call::Next => {
                let number = number(shop.next(&self.sequence).await?);
                let mut record = self.record();
                if !record.numbers.insert(number) {
                    record.wrong("a number twice");
                }
            }
        }
        Ok(())
    }

    async fn get_or_insert_all(&self, externals: &[External<S::Invoice>]) -> Result {
        let ids = self.shop.get_or_insert_all(&self.map, externals).await?;
        let mut record = self.record();
        for (external, id) in externals.iter().zip(ids) {
            record.map(*external, id);
        }
        Ok(())
    }

    fn record(&self) -> MutexGuard<'_, Record<S>> {
        self.record.lock().expect("no call panics in here")
    }

    fn wrong(&self, what: impl Into<String>) {
        self.record().wrong(what);
    }

    /// Makes a call that is not dropped.
    async fn complete(&self, call: Call) -> Result {
        match within(self.call(call)).await? {
            Ok(()) => self.record().completed += 1,
            Err(error) => self.wrong(cases::message(&*error)),
        }
        Ok(())
    }

    /// Makes calls until it is aborted.
    pub async fn repeat(&self) -> Result {
        loop {
            let call = CALLS[self.random().below(CALLS.len())];
            self.complete(call).await?;
        }
    }

    /// Returns whether the call was dropped.
    async fn drop_at(&self, moment: Moment, call: Call) -> Result<bool> {
        let done = within(moment.drop(self.call(call))).await?;
        let mut record = self.record();
        match &done {
            None => record.dropped += 1,
            Some(Ok(())) => record.completed += 1,
            Some(Err(error)) => record.wrong(cases::message(&**error)),
        }
        Ok(done.is_none())
    }

    /// Makes as many concurrent calls as the larger pool has connections.
    async fn calls(&self) -> Result {
        let [issue, get_or_insert, next] =
            [Call::Issue, Call::GetOrInsert, Call::Next].map(|call| self.complete(call));
        tokio::try_join!(issue, get_or_insert, next)?;
        Ok(())
    }

    /// Checks that a transaction of the caller's has the server's own isolation level.
    async fn transaction(&self, database: &Database) -> Result {
        // No other client writes while a transaction reads, and there is only one level.
        if database.kind == Engine::Sqlite {
            return Ok(());
        }
        let update = || database.execute("UPDATE probe SET n = n + 1");
        match within(self.shop.read_twice("SELECT CONCAT(n) FROM probe", update)).await? {
            // By default only PostgreSQL's transactions see the commits of others.
            Ok([before, after]) => {
                if (before == after) == (database.kind == Engine::Postgres) {
                    self.wrong("another isolation level");
                }
            }
            Err(error) => self.wrong(cases::message(&*error)),
        }
        Ok(())
    }

    /// Checks that no connection is in a transaction or has a lock.
    async fn connections(&self, database: &Database) -> Result {
        let left: &[_] = match database.kind {
            Engine::Postgres => &[
                (
                    "a transaction left",
                    "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'",
                ),
                (
                    "a lock left",
                    "pg_locks JOIN pg_database ON oid = database \
                     WHERE datname = current_database() AND locktype = 'advisory'",
                ),
            ],
            Engine::Mysql => &[(
                "a transaction left",
                "performance_schema.events_transactions_current JOIN performance_schema.threads USING (thread_id) \
                 WHERE state = 'ACTIVE' AND processlist_db = DATABASE() AND processlist_id <> CONNECTION_ID()",
            )],
            Engine::Mariadb => &[("a transaction left", "")],
            // The check that another connection may write covers all databases.
            Engine::Sqlite => &[],
        };
        // A pool rolls back dropped transactions by itself, after the call.
        let deadline = Instant::now() + HANGS;
        for (what, left) in left {
            let left = || match database.kind {
                Engine::Mariadb => database.mariadb_transactions(),
                _ => count(database, left),
            };
            while left()? > 0 {
                if Instant::now() > deadline {
                    self.wrong(*what);
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Runs calls that are dropped. Then checks the pool and all acknowledged rows.
    async fn check(
        self: Arc<Self>,
        database: &Database,
        drop: impl AsyncFnOnce(&Arc<Self>) -> Result,
    ) -> Result<Record<S>> {
        let checked = async {
            drop(&self).await?;
            self.connections(database).await?;
            self.transaction(database).await
        };
        let checked = checked.await;
        let load = Arc::into_inner(self).ok_or("a task is left")?;
        let Self { shop, map, .. } = load;
        let mut record = load.record.into_inner()?;
        if let Err(error) = checked {
            record.wrong(cases::message(&*error));
        }
        let looked_up = async {
            within(record.look_up(database, &map)).await??;
            within(shop.close()).await??;
            match record.wrong.is_empty() {
                true => within(record.look_up(database, &map)).await?,
                false => Ok(()),
            }
        };
        if let Err(error) = looked_up.await {
            record.wrong(cases::message(&*error));
        }
        Ok(record)
    }
}

/// Returns an error if the call takes too long.
async fn within<T>(call: impl Future<Output = T>) -> Result<T> {
    let done = tokio::time::timeout(HANGS, call).await;
    Ok(done.map_err(|_| format!("a call took {HANGS:?}"))?)
}

/// Runs a case with both indexes, on a pool of each size.
async fn on_pools<S: PoolShop>(
    database: &Database,
    sizes: &[u32],
    drop: impl AsyncFn(&Arc<Load<S>>) -> Result,
) -> Verdict {
    database.execute("CREATE TABLE probe (n BIGINT PRIMARY KEY); INSERT INTO probe VALUES (0)")?;
    database.execute(&S::create_sequences_sql(dialect(database.kind)))?;
    for index in indexes() {
        let map = create::<S>(database, index)?;
        for connections in sizes {
            let Some(shop) = S::pool(database, *connections).await? else {
                return Ok(NotApplicable);
            };
            let load = Load::new(shop, map.clone());
            let record = load.check(database, &drop).await?;
            let figures = format!("{index}, {connections} connections: {record}");
            if !record.wrong.is_empty() {
                return Err(figures.into());
            }
            if seconds()?.is_some() {
                println!("{} on {}, {figures}", S::ADAPTER, database.kind);
            }
        }
    }
    Ok(Passed)
}

/// Drops a call after one poll, then after two, until it completes.
async fn at_every_await(mut drop: impl AsyncFnMut(Moment) -> Result<bool>) -> Result {
    for moment in [Moment::Polled, Moment::Woken] {
        let mut polls = 1;
        while drop(moment(polls)).await? {
            // The rows of a long answer are similar, so some polls are skipped.
            polls += 1 + polls / 4;
        }
    }
    Ok(())
}

async fn calls_dropped_at_every_await<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    let outcome = on_pools::<S>(database, &[1], async |load| {
        for call in CALLS {
            at_every_await(async |moment| {
                let is_dropped = load.drop_at(moment, call).await?;
                if matches!(moment, Moment::Woken(_)) {
                    load.transaction(database).await?;
                }
                load.calls().await?;
                Ok(is_dropped)
            })
            .await?;
        }
        Ok(())
    })
    .await?;
    // Nodes of a cluster do not wait for each other's locks.
    let is_one_server = database.container_id().is_some();
    if is_one_server && matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        gives_up_a_connection_that_waits::<S>(database)?;
    }
    Ok(outcome)
}

/// Returns whether the driver gives up a connection because it may have read a part of an answer.
fn gives_up_a_connection_that_waits<S: PoolShop>(database: &Database) -> Result {
    let index = indexes().next().ok_or("no index")?;
    let drop_one = async || -> Result {
        let Some(shop) = S::pool(database, 1).await? else {
            return Ok(());
        };
        let map = map::<S>(index);
        let call = shop.find(&map, External::random());
        let found = Moment::After(Duration::from_millis(200)).drop(call).await;
        assert!(found.is_none(), "the call did not wait");
        // Another connection is used, because this one still waits.
        shop.read_twice("SELECT CONCAT(1)", || Ok(())).await?;
        shop.close().await
    };
    database.hold(&format!("LOCK TABLES {index}_ids WRITE"), || {
        std::thread::scope(|scope| {
            let dropped = scope.spawn(|| S::block_on(drop_one()));
            dropped.join().map_err(|_| "the other panicked")?
        })
    })?
}

async fn calls_dropped_in_a_transaction<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    on_pools::<S>(database, &[1], async |load| {
        for rolls_back in [true, false] {
            at_every_await(async |moment| {
                let (first, second) = (random(5), random(50));
                let Load { shop, map, .. } = &**load;
                let call = shop.drop_in_a_transaction(map, &first, &second, moment, rolls_back);
                let is_dropped = match within(call).await? {
                    Ok(is_dropped) => is_dropped,
                    Err(error) => {
                        load.wrong(cases::message(&*error));
                        true
                    }
                };
                load.record().dropped += usize::from(is_dropped);
                load.record().gone.extend([first, second].concat());
                load.transaction(database).await?;
                load.calls().await?;
                Ok(is_dropped)
            })
            .await?;
        }
        Ok(())
    })
    .await
}

/// Each index has a hundred tasks, eight at a time on four connections, as when clients leave.
async fn two_hundred_aborted_tasks<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    on_pools::<S>(database, &[4], async |load| {
        let spawn = || S::spawn(Arc::clone(load));
        let abort = async |task: JoinHandle<Result>| {
            task.abort();
            match task.await {
                Ok(hung) => hung,
                Err(_) => {
                    load.record().dropped += 1;
                    Ok(())
                }
            }
        };
        let mut tasks: VecDeque<_> = (0..8).map(|_| spawn()).collect();
        for _ in 0..100 {
            let pause = any_below(&mut load.random(), Duration::from_millis(10));
            tokio::time::sleep(pause).await;
            tasks.push_back(spawn());
            if let Some(task) = tasks.pop_front() {
                abort(task).await?;
            }
        }
        for task in tasks {
            abort(task).await?;
        }
        load.calls().await
    })
    .await
}

/// An insert that fails before its transaction begins does not leave its isolation level to the caller's next
/// one.
async fn a_failed_call_leaves_no_setting<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    let is_hashed = indexes().any(|index| index == Index::Hashed);
    if !is_hashed || !matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
        return Ok(NotApplicable);
    }
    database.execute("CREATE TABLE probe (n BIGINT PRIMARY KEY); INSERT INTO probe VALUES (0)")?;
    let map = create::<S>(database, Index::Hashed)?;
    let shop = match S::pool(database, 1).await? {
        Some(shop) => shop,
        None => S::connect(database).await?,
    };
    database.execute("DROP TABLE opaque_id_slots")?;
    let inserted = shop.get_or_insert(&map, External::random()).await;
    assert!(inserted.is_err());
    // By default a transaction does not see the commits of others.
    let update = || database.execute("UPDATE probe SET n = n + 1");
    let [before, after] = shop.read_twice("SELECT CAST(n AS CHAR) FROM probe", update).await?;
    assert_eq!(before, after);
    Ok(Passed)
}

/// Returns how long calls are dropped at random. If it is set, all cases print their figures.
fn seconds() -> Result<Option<u64>> {
    let seconds = std::env::var("OPAQUE_ID_TEST_SECONDS").ok();
    Ok(seconds.map(|seconds| seconds.parse()).transpose()?)
}

fn any_below(random: &mut Random, limit: Duration) -> Duration {
    limit.mul_f64(random.below(1 << 16) as f64 / f64::from(1 << 16))
}

async fn calls_dropped_at_random<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    // Both sizes of the pool share the seconds. Otherwise the case of every await finds most faults.
    let duration = match seconds()? {
        Some(seconds) => Duration::from_secs(seconds) / 2,
        None => Duration::from_millis(200),
    };
    on_pools::<S>(database, &[1, 3], async |load| {
        let end = Instant::now() + duration;
        // The limits of each call adapt so that about half of the calls are dropped.
        let mut limits = CALLS.map(|_| Duration::from_millis(2));
        while Instant::now() < end {
            for (call, limit) in CALLS.into_iter().zip(&mut limits) {
                let moment = Moment::After(any_below(&mut load.random(), 2 * *limit));
                *limit = match load.drop_at(moment, call).await? {
                    true => limit.mul_f64(1.2),
                    false => limit.mul_f64(0.8),
                };
                load.calls().await?;
            }
        }
        Ok(())
    })
    .await
}

/// Each lost connection costs at most one call, even in a pool that does not test connections before it lends
/// them.
async fn a_pool_recovers_from_lost_connections<S: PoolShop>(_: &S, database: &Database) -> Verdict {
    const CONNECTIONS: u32 = 3;
    if database.kind == Engine::Sqlite {
        return Ok(NotApplicable);
    }
    let Some(shop) = S::pool(database, CONNECTIONS).await? else {
        return Ok(NotApplicable);
    };
    let index = indexes().next().ok_or("no index")?;
    let map = &create::<S>(database, index)?;
    let new = [random::<S::Invoice>(1), random(1), random(1)];
    let [a, b, c] = new.each_ref().map(|new| shop.get_or_insert_all(map, new));
    tokio::try_join!(a, b, c)?;
    database.close_connections()?;
    let (mut lost, mut served) = (0, 0);
    while served < 10 {
        match shop.get_or_insert_all(map, &random(1)).await {
            Ok(_) => served += 1,
            Err(error) => {
                lost += 1;
                assert!(lost <= CONNECTIONS, "{lost} calls: {}", cases::message(&*error));
            }
        }
    }
    shop.close().await?;
    Ok(Passed)
}
