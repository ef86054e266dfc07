//! The cases of calls that are dropped: by a time-out, by `select!`, because a client has left. What a server has
//! acknowledged before and after stays, and the pool is as sound as before. Each is written once.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use opaque_id_core::External;

use crate::database::Database;
use crate::keys::{KeyShop, number};
use crate::mapping::{INDEXES, Invoices, MapShop, count, create, dialect, random};
use crate::report::Outcome::{self, NotApplicable, Passed};
use crate::servers::Kind;
use crate::shop::IdOf;
use crate::{Cases, Result, cases};

/// What every adapter does on a pool.
pub(crate) trait PoolShop: MapShop + KeyShop {
    /// On a pool of at most so many connections; none where calls block, and so can't be dropped.
    async fn pool(database: &Database, connections: u32) -> Result<Option<Self>>;

    async fn close(self) -> Result;

    /// In a transaction of the caller's: reads a text twice, and calls `between` in between.
    async fn read_twice(
        &self,
        select: &str,
        between: impl FnOnce() -> Result,
    ) -> Result<[String; 2]>;
}

/// All of them, by name, for one adapter.
pub(crate) fn all<S: PoolShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        calls_dropped_at_every_await
        calls_dropped_at_random
    }
}

/// No call takes as long, unless it hangs.
const LIMIT: Duration = Duration::from_secs(20);

/// When a call is dropped.
#[derive(Clone, Copy)]
pub(crate) enum Moment {
    /// As soon as it has been polled so many times.
    Polled(usize),
    /// Instead of being polled once more: what it waits for is there.
    Woken(usize),
    After(Duration),
}

impl Moment {
    /// What the call returns, unless it is dropped.
    pub(crate) async fn drop<T>(self, call: impl Future<Output = T>) -> Option<T> {
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
    GetOrInsert,
    GetOrInsertAll(usize),
    Issue,
    Find,
    Delete,
    Next,
}

const CALLS: [Call; 7] = [
    Call::GetOrInsert,
    Call::GetOrInsertAll(50),
    Call::GetOrInsertAll(1_000),
    Call::Issue,
    Call::Find,
    Call::Delete,
    Call::Next,
];

/// What calls have said, and what was wrong about it.
struct Record<S: PoolShop> {
    mapped: HashMap<External<S::Invoice>, IdOf<S::Invoice>>,
    deleted: Vec<External<S::Invoice>>,
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

    /// What another pool finds, and may write.
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
        for _ in other.find_all(map, &self.deleted).await?.iter().flatten() {
            self.wrong("a deletion lost");
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
            "{} calls dropped, {} not; {} mappings, {} deletions and {} numbers acknowledged; wrong: {:?}",
            self.dropped,
            self.completed,
            self.mapped.len(),
            self.deleted.len(),
            self.numbers.len(),
            self.wrong
        )
    }
}

/// Calls on one pool, of which some are dropped.
struct Load<'d, S: PoolShop> {
    database: &'d Database,
    shop: S,
    map: &'d Invoices<S>,
    /// Each number is a block, and so a statement.
    sequence: S::Sequence,
    record: RefCell<Record<S>>,
}

impl<'d, S: PoolShop> Load<'d, S> {
    async fn open(
        database: &'d Database,
        map: &'d Invoices<S>,
        connections: u32,
    ) -> Result<Option<Self>> {
        Ok(S::pool(database, connections).await?.map(|shop| Self {
            database,
            shop,
            map,
            sequence: S::sequence(1),
            record: RefCell::new(Record {
                mapped: HashMap::new(),
                deleted: Vec::new(),
                numbers: BTreeSet::new(),
                completed: 0,
                dropped: 0,
                wrong: BTreeMap::new(),
            }),
        }))
    }

    /// Makes a call, and those that it needs, and records what they say.
    async fn call(&self, call: Call) -> Result {
        let Self { shop, map, .. } = self;
        match call {
            Call::GetOrInsert => {
                let external = External::random();
                let id = shop.get_or_insert(map, external).await?;
                self.record.borrow_mut().map(external, id);
            }
            Call::GetOrInsertAll(count) => {
                let externals = random(count);
                let ids = shop.get_or_insert_all(map, &externals).await?;
                let mut record = self.record.borrow_mut();
                for (external, id) in externals.into_iter().zip(ids) {
                    record.map(external, id);
                }
            }
            Call::Issue => {
                let (external, id) = shop.issue(map).await?;
                self.record.borrow_mut().map(external, id);
            }
            Call::Find => {
                let (external, id) = shop.issue(map).await?;
                self.record.borrow_mut().map(external, id);
                if shop.find(map, external).await? != Some(id) {
                    self.record.borrow_mut().wrong("not found");
                }
            }
            Call::Delete => {
                let (external, _) = shop.issue(map).await?;
                if shop.delete(map, external).await? {
                    self.record.borrow_mut().deleted.push(external);
                } else {
                    self.record.borrow_mut().wrong("not found");
                }
            }
            Call::Next => {
                let number = number(shop.next(&self.sequence).await?);
                let mut record = self.record.borrow_mut();
                if !record.numbers.insert(number) {
                    record.wrong("a number twice");
                }
            }
        }
        Ok(())
    }

    /// Returns whether the call was dropped.
    async fn drop(&self, moment: Moment, call: Call) -> Result<bool> {
        let done = within(moment.drop(self.call(call))).await?;
        let mut record = self.record.borrow_mut();
        match &done {
            None => record.dropped += 1,
            Some(Ok(())) => record.completed += 1,
            Some(Err(error)) => record.wrong(cases::message(&**error)),
        }
        Ok(done.is_none())
    }

    /// Makes calls that nobody drops.
    async fn calls(&self) -> Result {
        let call = async |call| {
            if let Err(error) = within(self.call(call)).await? {
                self.record.borrow_mut().wrong(cases::message(&*error));
            }
            Ok(())
        };
        // As many as the larger pool has connections.
        tokio::try_join!(call(Call::Issue), call(Call::GetOrInsert), call(Call::Next)).map(drop)
    }

    /// A transaction of the caller's is at the server's own isolation level.
    async fn transaction(&self) -> Result {
        // Nobody writes there while a transaction reads, and there is but one level.
        if self.database.kind == Kind::Sqlite {
            return Ok(());
        }
        let update = || self.database.execute("UPDATE probe SET n = n + 1");
        let text = match self.database.kind {
            Kind::Postgres => "TEXT",
            _ => "CHAR",
        };
        let select = format!("SELECT CAST(n AS {text}) FROM probe");
        match within(self.shop.read_twice(&select, update)).await? {
            // By default PostgreSQL's transactions see what others commit, and those of the others don't.
            Ok([before, after]) => {
                if (before == after) == (self.database.kind == Kind::Postgres) {
                    self.record.borrow_mut().wrong("another isolation level");
                }
            }
            Err(error) => self.record.borrow_mut().wrong(cases::message(&*error)),
        }
        Ok(())
    }

    /// No connection is in a transaction, or has a lock.
    async fn connections(&self) -> Result {
        let left: &[&str] = match self.database.kind {
            Kind::Postgres => &[
                "pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in %'",
                "pg_locks JOIN pg_database ON oid = database \
                 WHERE datname = current_database() AND locktype = 'advisory'",
            ],
            Kind::Mysql | Kind::Mariadb => &[
                "information_schema.innodb_trx JOIN information_schema.processlist ON id = trx_mysql_thread_id \
                 WHERE db = DATABASE()",
            ],
            // Another one may write: that is looked at for all databases.
            Kind::Sqlite => &[],
        };
        // A pool rolls back by itself what was dropped, after the call.
        let deadline = Instant::now() + Duration::from_secs(5);
        for left in left {
            while count(self.database, left)? > 0 {
                if Instant::now() > deadline {
                    self.record.borrow_mut().wrong(*left);
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        Ok(())
    }

    /// Runs what drops calls; then looks at the pool, and at all that was acknowledged.
    async fn check(self, drop: impl AsyncFnOnce(&Self) -> Result) -> Result {
        let checked = async {
            drop(&self).await?;
            self.connections().await?;
            self.transaction().await
        };
        let checked = checked.await;
        let Self {
            database,
            shop,
            map,
            record,
            ..
        } = self;
        let mut record = record.into_inner();
        let looked_up = async {
            checked?;
            within(record.look_up(database, map)).await??;
            within(shop.close()).await??;
            match record.wrong.is_empty() {
                true => within(record.look_up(database, map)).await?,
                false => Ok(()),
            }
        };
        if let Err(error) = looked_up.await {
            record.wrong(cases::message(&*error));
        }
        match record.wrong.is_empty() {
            true => Ok(()),
            false => Err(record.to_string().into()),
        }
    }
}

/// An error if it takes too long.
async fn within<T>(call: impl Future<Output = T>) -> Result<T> {
    let done = tokio::time::timeout(LIMIT, call).await;
    Ok(done.map_err(|_| format!("a call took {LIMIT:?}"))?)
}

/// With both indexes, on a pool of one connection and of more.
async fn on_pools<S: PoolShop>(
    database: &Database,
    drop: impl AsyncFn(&Load<'_, S>) -> Result,
) -> Result<Outcome> {
    database.execute("CREATE TABLE probe (n BIGINT); INSERT INTO probe VALUES (0)")?;
    database.execute(&S::create_sequences_sql(dialect(database.kind)))?;
    for index in INDEXES {
        let map = &create::<S>(database, index)?;
        for connections in [1, 3] {
            let Some(load) = Load::open(database, map, connections).await? else {
                return Ok(NotApplicable);
            };
            let checked = load.check(&drop).await;
            checked.map_err(|wrong| format!("{index}, {connections} connections: {wrong}"))?;
        }
    }
    Ok(Passed)
}

async fn calls_dropped_at_every_await<S: PoolShop>(_: &S, database: &Database) -> Result<Outcome> {
    on_pools::<S>(database, async |load| {
        for call in CALLS {
            for moment in [Moment::Polled, Moment::Woken] {
                for polls in 1.. {
                    let is_dropped = load.drop(moment(polls), call).await?;
                    load.calls().await?;
                    load.drop(moment(polls), call).await?;
                    load.transaction().await?;
                    if !is_dropped {
                        break;
                    }
                }
            }
        }
        Ok(())
    })
    .await
}

/// How long each case drops calls at random, by `OPAQUE_ID_TEST_SECONDS`.
fn duration() -> Result<Duration> {
    let seconds = std::env::var("OPAQUE_ID_TEST_SECONDS").unwrap_or("1".into());
    Ok(Duration::from_secs(seconds.parse()?))
}

fn random_part(duration: Duration) -> Duration {
    let random = RandomState::new().hash_one(());
    duration.mul_f64(random as f64 / u64::MAX as f64)
}

async fn calls_dropped_at_random<S: PoolShop>(_: &S, database: &Database) -> Result<Outcome> {
    let duration = duration()? / 2;
    on_pools::<S>(database, async |load| {
        let end = Instant::now() + duration;
        // For each call, so that about half of them are dropped.
        let mut limits = CALLS.map(|_| Duration::from_millis(2));
        while Instant::now() < end {
            for (call, limit) in CALLS.into_iter().zip(&mut limits) {
                let moment = Moment::After(random_part(2 * *limit));
                *limit = match load.drop(moment, call).await? {
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
