//! The cases of mapping tables with both indexes.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use opaque_id_core::key::Uuid;
use opaque_id_core::resource::{InternalId, MappedResource};
use opaque_id_core::{External, IntoView, Keyring, MasterSecret};
use opaque_id_sql::dialect::{Dialect, Retry};
use opaque_id_sql::mapping::{Index, uuid_hash};

use crate::conformance::cases::{error, message, on_threads};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

/// The calls on a map with a connection, as calls of a macro: the arguments and the result of each.
#[macro_export]
macro_rules! map_methods {
    ($write:ident $($with:tt)*) => {
        $crate::$write! {
            $($with)* [T: MappedResource] Self::Map<T>;
            issue() -> (External<T>, IdOf<T>);
            issue_all(count: usize) -> Vec<(External<T>, IdOf<T>)>;
            get_or_insert(id: External<T>) -> IdOf<T>;
            get_or_insert_all(ids: &[External<T>]) -> Vec<IdOf<T>>;
            find(id: External<T>) -> Option<IdOf<T>>;
            find_all(ids: &[External<T>]) -> Vec<Option<IdOf<T>>>;
            to_external(id: IdOf<T>) -> Option<External<T>>;
            to_external_all(ids: &[IdOf<T>]) -> Vec<Option<External<T>>>;
            delete(id: External<T>) -> bool;
            delete_all(ids: &[External<T>]) -> u64;
        }
    };
}

/// Every adapter's calls on its map, each in its ORM's own way.
pub trait MapShop: Shop {
    /// A resource in the form `mapped`.
    type Invoice: MappedResource;
    /// A resource in the form `mapped_uuid`.
    type Receipt: MappedResource;
    type Map<T: MappedResource>: Clone + Send + Sync;

    fn open<T: MappedResource>(index: Index, table: &'static str) -> Self::Map<T>;
    fn shared<T: MappedResource>(map: Self::Map<T>) -> Self::Map<T>;
    fn cached<T: MappedResource>(map: Self::Map<T>, capacity: usize) -> Self::Map<T>;
    fn retry_for<T: MappedResource>(map: Self::Map<T>, duration: Duration) -> Self::Map<T>;
    fn create_sql<T: MappedResource>(map: &Self::Map<T>, dialect: Dialect) -> String;

    map_methods!(declare_calls);

    async fn view_all<T: MappedResource>(
        &self,
        map: &Self::Map<T>,
        rows: Vec<Row<T>>,
    ) -> Result<Vec<RowView<T>>>;

    /// Searches two columns of a table of rows, for each of the ids alone and for all at once.
    async fn in_rows<T: MappedResource>(
        &self,
        names: [&'static str; 3],
        externals: &[External<T>],
        ids: &[IdOf<T>],
    ) -> Result<InRows<T>>;

    async fn get_or_insert_all_in<T: MappedResource>(
        transaction: &mut Self::Transaction<'_>,
        map: &Self::Map<T>,
        externals: &[External<T>],
    ) -> Result<Vec<IdOf<T>>>;

    /// Gets or inserts `first`, calls `hold`, does the same with `second`, and commits or rolls back. All of this is in a transaction of
    /// the caller. `prepare` runs on the connection before.
    async fn in_a_transaction<T: MappedResource>(
        &self,
        map: &Self::Map<T>,
        prepare: &str,
        first: &[External<T>],
        hold: impl FnOnce(),
        second: &[External<T>],
        commits: bool,
    ) -> Result<Vec<IdOf<T>>> {
        let mut transaction = self.begin(prepare).await?;
        let inserted = Self::get_or_insert_all_in(&mut transaction, map, first).await;
        hold();
        let inserted = match inserted {
            Ok(ids) => {
                let more = Self::get_or_insert_all_in(&mut transaction, map, second).await;
                more.map(|more| [ids, more].concat())
            }
            Err(error) => Err(error),
        };
        Self::end(transaction, commits && inserted.is_ok()).await?;
        inserted
    }

    /// Runs a statement, calls `hold`, and fails to commit, in a transaction of the caller. Returns the adapter's `retry` of that error.
    /// `prepare` runs on the connection before.
    async fn retry_at_commit(
        &self,
        prepare: &str,
        statement: &str,
        hold: impl FnOnce() -> Result,
    ) -> Result<Option<Retry>> {
        let mut transaction = self.begin(prepare).await?;
        Self::execute(&mut transaction, statement).await?;
        hold()?;
        match Self::commit(transaction).await {
            Ok(()) => Err("committed".into()),
            Err((_, retry)) => Ok(retry),
        }
    }
}

/// The results for external ids and for integers.
pub type InRows<T> = (Vec<Option<IdOf<T>>>, Vec<Option<External<T>>>);

/// Returns a keyring, because rows may have ids of other resources.
pub fn keyring() -> Result<Keyring> {
    Ok(Keyring::builder().sealing(0, MasterSecret::generate()).build()?)
}

/// A row of a mapped resource.
pub struct Row<T: MappedResource> {
    pub id: IdOf<T>,
}

/// The API's view of a row. The derive writes this for a resource that is not generic.
pub struct RowView<T: MappedResource>(External<T>);

impl<T: MappedResource> IntoView<RowView<T>> for (Row<T>, External<T>) {
    fn into_view(self, _: &Keyring) -> RowView<T> {
        RowView(self.1)
    }
}

/// Writes the calls that are the same in every adapter. The expressions are the map's connection outside and inside of a transaction. The
/// path makes a future of a call.
#[macro_export]
macro_rules! map_calls {
    ($map:ident, $column:ident, $self:ident, $on:expr, |$transaction:ident| $in:expr, $done:path) => {
        type Invoice = Invoice;
        type Receipt = Receipt;
        type Map<T: MappedResource> = $map<T>;

        fn open<T: MappedResource>(index: ::opaque_id_sql::mapping::Index, table: &'static str) -> $map<T> {
            match index {
                ::opaque_id_sql::mapping::Index::Unique => $map::unique(table),
                _ => $map::hashed(table),
            }
        }

        fn shared<T: MappedResource>(map: $map<T>) -> $map<T> {
            map.shared()
        }

        fn cached<T: MappedResource>(map: $map<T>, capacity: usize) -> $map<T> {
            map.cached(capacity)
        }

        fn retry_for<T: MappedResource>(map: $map<T>, duration: ::std::time::Duration) -> $map<T> {
            map.retry_for(duration)
        }

        fn create_sql<T: MappedResource>(map: &$map<T>, dialect: Dialect) -> String {
            map.create_sql(dialect)
        }

        $crate::map_methods!(delegate_calls [$self, $on, $done];);

        async fn get_or_insert_all_in<T: MappedResource>(
            $transaction: &mut Self::Transaction<'_>,
            map: &$map<T>,
            externals: &[External<T>],
        ) -> Result<Vec<IdOf<T>>> {
            Ok($done(map.get_or_insert_all($in, externals)).await?)
        }

        async fn view_all<T: MappedResource>(
            &$self,
            map: &$map<T>,
            rows: Vec<$crate::conformance::mapping::Row<T>>,
        ) -> Result<Vec<$crate::conformance::mapping::RowView<T>>> {
            let keyring = $crate::conformance::mapping::keyring()?;
            Ok($done(map.view_all($on, &keyring, rows, |row| row.id)).await?)
        }

        async fn in_rows<T: MappedResource>(
            &$self,
            [table, id, uuid]: [&'static str; 3],
            externals: &[External<T>],
            ids: &[IdOf<T>],
        ) -> Result<$crate::conformance::mapping::InRows<T>> {
            let column = $column::<T>::new(table, id, uuid);
            let found = $done(column.find_all($on, externals)).await?;
            let back = $done(column.to_external_all($on, ids)).await?;
            for (external, id) in externals.iter().zip(&found).take(3) {
                assert_eq!($done(column.find($on, *external)).await?, *id);
            }
            Ok((found, back))
        }
    };
}

/// Returns all cases by name, for one adapter.
pub fn all<S: MapShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        mapped_ids_one_by_one
        mapped_ids_in_bulk
        mapped_ids_of_two_resources_in_one_table
        mapped_ids_of_the_same_hash
        mapped_ids_in_a_transaction
        mapped_ids_that_a_transaction_does_not_see
        mapped_ids_wait_for_a_transaction
        mapped_ids_in_a_cache
        mapped_ids_in_a_column_of_their_rows
        mapped_ids_need_their_index
        sixteen_tasks_map_the_same_thousand
    }
}

pub const INDEXES: [Index; 2] = [Index::Unique, Index::Hashed];

/// Returns both indexes, or the one that `OPAQUE_ID_TEST_INDEX` names.
pub fn indexes() -> impl Iterator<Item = Index> {
    let only = std::env::var("OPAQUE_ID_TEST_INDEX").ok();
    let is_wanted =
        move |index: &Index| only.as_ref().is_none_or(|only| *only == index.to_string());
    INDEXES.into_iter().filter(is_wanted)
}

pub type Invoices<S> = <S as MapShop>::Map<<S as MapShop>::Invoice>;

pub fn dialect(kind: Engine) -> Dialect {
    match kind {
        Engine::Postgres => Dialect::Postgres,
        Engine::Mysql | Engine::Mariadb => Dialect::MySql,
        Engine::Sqlite => Dialect::Sqlite,
    }
}

/// Returns the map with an index. Its table is named after the index.
pub fn map<S: MapShop>(index: Index) -> Invoices<S> {
    S::open(index, if index == Index::Unique { "unique_ids" } else { "hashed_ids" })
}

/// Creates the map with an index, and its table.
pub fn create<S: MapShop>(database: &Database, index: Index) -> Result<Invoices<S>> {
    let map = map::<S>(index);
    database.execute(&S::create_sql(&map, dialect(database.kind)))?;
    Ok(map)
}

/// Returns the number of rows of an expression after FROM.
pub fn count(database: &Database, from: &str) -> Result<usize> {
    Ok(usize::try_from(database.integer("COUNT(*)", from)?)?)
}

/// Runs a call on a thread and a connection of its own, while the caller's are busy.
pub fn on_another_connection<S: MapShop, T: Send>(
    database: &Database,
    act: impl AsyncFnOnce(S) -> Result<T> + Send,
) -> Result<T> {
    std::thread::scope(|scope| {
        let other = || S::block_on(async { act(S::connect(database).await?).await });
        scope.spawn(other).join().map_err(|_| "the other panicked")?
    })
}

pub fn random<T: MappedResource>(count: usize) -> Vec<External<T>> {
    (0..count).map(|_| External::random()).collect()
}

async fn mapped_ids_one_by_one<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    for index in indexes() {
        let map = &create::<S>(database, index)?;
        let (ours, id) = shop.issue(map).await?;
        assert_eq!(ours.to_uuid().get_version_num(), 4);
        assert_eq!(shop.find(map, ours).await?, Some(id));
        assert_eq!(shop.to_external(map, id).await?, Some(ours));

        let mut seen = BTreeSet::from([id]);
        for theirs in [Uuid::nil(), Uuid::max(), Uuid::from_u128(1 << 127)] {
            let theirs = External::from(theirs);
            assert_eq!(shop.find(map, theirs).await?, None);
            let id = shop.get_or_insert(map, theirs).await?;
            assert!(seen.insert(id), "an integer with two UUIDs");
            assert_eq!(shop.get_or_insert(map, theirs).await?, id);
            assert_eq!(shop.find(map, theirs).await?, Some(id));
            assert_eq!(shop.to_external(map, id).await?, Some(theirs));
        }

        let newest = *seen.last().ok_or("none")?;
        let theirs = shop.to_external(map, newest).await?.ok_or("no such id")?;
        assert!(shop.delete(map, theirs).await?);
        assert!(!shop.delete(map, theirs).await?);
        assert_eq!(shop.find(map, theirs).await?, None);
        assert_eq!(shop.to_external(map, newest).await?, None);
        let again = shop.get_or_insert(map, theirs).await?;
        assert!(seen.insert(again), "the integer of a deleted UUID was given away");

        // Clusters have their own increments.
        if database.kind == Engine::Sqlite || database.kind.is_contained() {
            let (_, before) = shop.issue(map).await?;
            shop.get_or_insert(map, ours).await?;
            shop.get_or_insert_all(map, &[ours, theirs]).await?;
            let (_, after) = shop.issue(map).await?;
            assert_eq!(after.as_repr() - before.as_repr(), 1, "known UUIDs use integers");
        }

        if matches!(database.kind, Engine::Mysql | Engine::Mariadb) {
            database.execute("DELETE FROM opaque_id_slots WHERE slot < 16000")?;
            let theirs = random(100);
            let inserted = match index {
                // The unique index needs no lock outside of a transaction.
                Index::Unique => {
                    shop.get_or_insert_all(map, &random(100)).await?;
                    shop.in_a_transaction(map, "", &theirs, || {}, &[], true).await
                }
                _ => shop.get_or_insert_all(map, &theirs).await,
            };
            let error = error(inserted);
            assert!(error.contains("opaque_id_slots"), "{error}");
        }
    }
    Ok(Passed)
}

async fn mapped_ids_in_bulk<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    for index in indexes() {
        let table = &format!("{index}_ids");
        let map = &create::<S>(database, index)?;
        let mut theirs = random(10_000);
        let ids = shop.get_or_insert_all(map, &theirs).await?;
        assert_eq!(BTreeSet::from_iter(&ids).len(), 10_000);
        assert_eq!(count(database, table)?, 10_000);

        // The ids are in any order, with repetitions, known and unknown.
        let by_external: HashMap<_, _> = theirs.iter().copied().zip(ids).collect();
        theirs.reverse();
        theirs.push(theirs[0]);
        let ids = shop.get_or_insert_all(map, &theirs).await?;
        assert!(theirs.iter().zip(&ids).all(|(external, id)| by_external[external] == *id));
        assert_eq!(count(database, table)?, 10_000);
        let unknown = External::random();
        let found = shop.find_all(map, &[theirs[7], unknown, theirs[5], theirs[7]]).await?;
        assert_eq!(found, [Some(ids[7]), None, Some(ids[5]), Some(ids[7])]);
        let back = shop.to_external_all(map, &ids).await?;
        assert!(back.iter().zip(&theirs).all(|(back, theirs)| *back == Some(*theirs)));

        let ours = shop.issue_all(map, 1_000).await?;
        assert_eq!(ours.len(), 1_000);
        let (externals, issued): (Vec<_>, Vec<_>) = ours.into_iter().unzip();
        let found: Option<Vec<_>> = shop.find_all(map, &externals).await?.into_iter().collect();
        assert_eq!(found.as_ref(), Some(&issued));

        let rows = |ids: &[_]| ids.iter().map(|id| Row { id: *id }).collect();
        let views = shop.view_all(map, rows(&ids)).await?;
        assert!(views.iter().map(|view| view.0).eq(theirs.iter().copied()));
        assert!(shop.view_all(map, Vec::new()).await?.is_empty());

        assert_eq!(shop.delete_all(map, &externals).await?, 1_000);
        let gone = found.unwrap_or_default();
        let error = error(shop.view_all(map, rows(&gone)).await);
        assert!(error.starts_with("a row has no external id"), "{error}");
        assert_eq!(shop.delete_all(map, &externals).await?, 0);
        assert!(shop.find_all(map, &externals).await?.iter().all(Option::is_none));
        assert_eq!(count(database, table)?, 10_000);

        assert_eq!(shop.get_or_insert_all(map, &[]).await?, []);
        assert_eq!(shop.find_all(map, &[]).await?, []);
        assert_eq!(shop.to_external_all(map, &[]).await?, []);
        assert_eq!(shop.issue_all(map, 0).await?, []);
        assert_eq!(shop.delete_all(map, &[]).await?, 0);
    }
    Ok(Passed)
}

async fn mapped_ids_of_two_resources_in_one_table<S: MapShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    for index in indexes() {
        let table = if index == Index::Unique { "ids" } else { "more_ids" };
        let invoices = &S::shared(S::open::<S::Invoice>(index, table));
        let receipts = &S::shared(S::open::<S::Receipt>(index, table));
        database.execute(&S::create_sql(invoices, dialect(database.kind)))?;

        let uuid = Uuid::from_u128(0x6d17_9ed1_fd65_480b_a475_7798_3c28_dd10);
        let invoice = shop.get_or_insert(invoices, uuid.into()).await?;
        assert_eq!(shop.find(receipts, uuid.into()).await?, None);
        let receipt = shop.get_or_insert(receipts, uuid.into()).await?;
        assert_eq!(shop.find(invoices, uuid.into()).await?, Some(invoice));
        assert_eq!(shop.find(receipts, uuid.into()).await?, Some(receipt));
        let (_, newer) = shop.issue(invoices).await?;
        assert!(newer > invoice);
        assert!(shop.delete(invoices, uuid.into()).await?);
        assert_eq!(shop.find(receipts, uuid.into()).await?, Some(receipt));
        let shown = shop.to_external(receipts, receipt).await?.ok_or("no such id")?;
        assert_eq!(shown.to_string(), "6d179ed1-fd65-480b-a475-77983c28dd10");
    }
    Ok(Passed)
}

/// Two UUIDs with the same hash, found by search.
static COLLISION: LazyLock<[Uuid; 2]> = LazyLock::new(|| {
    let mut seen = HashMap::new();
    for number in 0.. {
        let uuid = Uuid::from_u128(number);
        if let Some(earlier) = seen.insert(uuid_hash(uuid), uuid) {
            return [earlier, uuid];
        }
    }
    unreachable!("there are more UUIDs than hashes")
});

async fn mapped_ids_of_the_same_hash<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    if !indexes().any(|index| index == Index::Hashed) {
        return Ok(NotApplicable);
    }
    let map = &create::<S>(database, Index::Hashed)?;
    let [one, other] = COLLISION.map(External::from);
    let ids = shop.get_or_insert_all(map, &[one, other]).await?;
    assert_ne!(ids[0], ids[1]);
    assert_eq!(shop.get_or_insert(map, one).await?, ids[0]);
    assert_eq!(shop.get_or_insert(map, other).await?, ids[1]);
    assert_eq!(shop.find_all(map, &[other, one]).await?, [Some(ids[1]), Some(ids[0])]);
    assert!(shop.delete(map, one).await?);
    assert_eq!(shop.find_all(map, &[other, one]).await?, [Some(ids[1]), None]);
    let again = shop.get_or_insert(map, one).await?;
    assert!(again > ids[1]);

    // The documented expressions return the stored hashes.
    let computed = match database.kind {
        Engine::Postgres => {
            "('x' || left(encode(sha256(uuid_send(uuid)), 'hex'), 8))::bit(32)::int4"
        }
        Engine::Mysql | Engine::Mariadb => {
            "CONV(LEFT(SHA2(uuid, 256), 8), 16, 10) - 4294967296 * (LEFT(SHA2(uuid, 256), 1) >= '8')"
        }
        Engine::Sqlite => return Ok(Passed),
    };
    shop.issue_all(map, 100).await?;
    let others = format!("hashed_ids WHERE hash <> {computed}");
    assert_eq!(count(database, &others)?, 0);
    Ok(Passed)
}

async fn mapped_ids_in_a_transaction<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    for index in indexes() {
        let table = &format!("{index}_ids");
        let map = &create::<S>(database, index)?;
        let theirs = random(200);
        let (first, second) = theirs.split_at(100);
        shop.in_a_transaction(map, "", first, || {}, second, false).await?;
        assert_eq!(count(database, table)?, 0);
        assert!(shop.find_all(map, &theirs).await?.iter().all(Option::is_none));

        let ids = shop.in_a_transaction(map, "", first, || {}, second, true).await?;
        assert_eq!(count(database, table)?, 200);
        assert_eq!(shop.get_or_insert_all(map, &theirs).await?, ids);
        let ids_again = shop.in_a_transaction(map, "", second, || {}, first, false).await?;
        assert_eq!(ids_again, [&ids[100..], &ids[..100]].concat());
    }
    Ok(Passed)
}

/// Others commit rows after the transaction has read for the first time.
async fn mapped_ids_that_a_transaction_does_not_see<S: MapShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const READ_COMMITTED: &str =
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED";
    const REPEATABLE_READ: &str =
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    // SQLite has one writer at a time.
    if database.kind == Engine::Sqlite {
        return Ok(NotApplicable);
    }
    for index in indexes() {
        let map = &create::<S>(database, index)?;
        let theirs = random::<S::Invoice>(3);
        let [before, while_open, unknown] = theirs[..] else {
            return Err("three were wanted".into());
        };
        let known = shop.get_or_insert(map, before).await?;
        let default = match database.kind {
            Engine::Postgres => READ_COMMITTED,
            _ => "",
        };
        let mut committed = None;
        let commit_another = || {
            committed = Some(on_another_connection(database, async |shop: S| {
                shop.get_or_insert(map, while_open).await
            }));
        };
        let found = shop
            .in_a_transaction(map, default, &[before], commit_another, &[while_open], true)
            .await;
        let committed = committed.ok_or("not called")??;
        match found {
            Ok(found) => assert_eq!(found, [known, committed]),
            // MariaDB's snapshots do not let a transaction read newer rows.
            Err(error) if database.kind == Engine::Mariadb => {
                assert!(message(&*error).contains("retry the whole transaction"), "{error}");
            }
            Err(error) => return Err(error),
        }
        assert_eq!(shop.get_or_insert(map, while_open).await?, committed);

        if database.kind == Engine::Postgres {
            let found = shop
                .in_a_transaction(map, REPEATABLE_READ, &[before], || {}, &[while_open], true)
                .await?;
            assert_eq!(found, [known, committed]);
            let insert_another = || {
                on_another_connection(database, async |shop: S| {
                    shop.get_or_insert(map, unknown).await
                })
                .expect("inserted");
            };
            let result = shop
                .in_a_transaction(map, REPEATABLE_READ, &[before], insert_another, &[unknown], true)
                .await;
            let wanted = match index {
                Index::Unique => "retry the whole transaction",
                _ => "above READ COMMITTED",
            };
            let message = error(result);
            assert!(message.contains(wanted), "{message}");
        }
    }
    Ok(Passed)
}

/// Others ask for ids that a transaction has inserted and not committed. Then it is rolled back or committed.
async fn mapped_ids_wait_for_a_transaction<S: MapShop>(_: &S, database: &Database) -> Verdict {
    for index in indexes() {
        let table = &format!("{index}_ids");
        let prepare = match (index, database.kind) {
            // Above it InnoDB locks gaps of an index that is not unique, and MariaDB's transactions do not write rows that they do not see.
            (Index::Hashed, Engine::Mysql) | (_, Engine::Mariadb) => {
                "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"
            }
            _ => "",
        };
        let map = &create::<S>(database, index)?;
        for commit in [false, true] {
            let theirs = random::<S::Invoice>(20);
            let theirs = &theirs;
            // The result of one task. All ids are in one call, in a transaction of its own on request.
            let task =
                |theirs: Vec<External<S::Invoice>>, own, hold: Box<dyn FnOnce() + Send>, commit| {
                    S::block_on(async {
                        let shop = S::connect(database).await?;
                        let ids = if own {
                            shop.in_a_transaction(map, prepare, &theirs, hold, &[], commit).await?
                        } else {
                            shop.get_or_insert_all(map, &theirs).await?
                        };
                        Ok(theirs.into_iter().zip(ids).collect::<HashMap<_, _>>())
                    })
                };
            let results = std::thread::scope(|scope| -> Result<Vec<_>> {
                let (has_inserted, inserted) = mpsc::channel();
                let (end, ended) = mpsc::channel();
                let holder = scope.spawn(move || {
                    let hold = Box::new(move || {
                        has_inserted.send(()).expect("the case waits");
                        ended.recv().expect("the case says when");
                    });
                    task(theirs.clone(), true, hold, commit)
                });
                inserted.recv()?;
                let others: Vec<_> = (0..6)
                    .map(|number| {
                        let mut theirs = theirs.clone();
                        theirs.rotate_left(3 * number);
                        // SQLite's transactions begin as readers and then cannot wait.
                        let own = number % 2 == 0 && database.kind != Engine::Sqlite;
                        scope.spawn(move || task(theirs, own, Box::new(|| {}), true))
                    })
                    .collect();
                // No task gets an integer before the holder's transaction ends, and one waits for that.
                let is_finished = || others.iter().any(|other| other.is_finished());
                // Citus waits on another server that this test does not inspect.
                let begin = Instant::now();
                let is_early = || begin.elapsed() < Duration::from_secs(10);
                while database.lock_waits()? == Some(0) && !is_finished() && is_early() {
                    std::thread::yield_now();
                }
                assert!(!is_finished(), "a task did not wait for the transaction");
                end.send(())?;
                let held = holder.join().map_err(|_| "the holder panicked")??;
                let mut results = Vec::new();
                for other in others {
                    results.push(other.join().map_err(|_| "a task panicked")??);
                }
                if commit {
                    results.push(held);
                }
                Ok(results)
            })?;
            assert!(results.iter().all(|ids| *ids == results[0]));
            assert_eq!(BTreeSet::from_iter(results[0].values()).len(), 20);
        }
        assert_eq!(count(database, table)?, 40);
    }
    Ok(Passed)
}

fn some_if<I: Copy>(are_some: bool, ids: &[I]) -> Vec<Option<I>> {
    ids.iter().map(|id| are_some.then_some(*id)).collect()
}

async fn mapped_ids_in_a_cache<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    for index in indexes() {
        // A server's hashed index inserts them by a batch without a number of inserted rows. So these are kept later.
        let is_kept = index == Index::Unique || database.kind == Engine::Sqlite;
        let map = &S::cached(create::<S>(database, index)?, 1_000);
        let delete_all = format!("DELETE FROM {index}_ids");

        // Rolled back mappings are not kept, although they were read.
        let theirs = random(10);
        shop.in_a_transaction(map, "", &theirs, || {}, &theirs, false).await?;
        assert!(shop.find_all(map, &theirs).await?.iter().all(Option::is_none));

        // Committed mappings are kept. A deletion without the map proves it.
        let ids = shop.get_or_insert_all(map, &theirs).await?;
        database.execute(&delete_all)?;
        assert_eq!(shop.find_all(map, &theirs).await?, some_if(is_kept, &ids));
        assert_eq!(shop.to_external_all(map, &ids).await?, some_if(is_kept, &theirs));
        assert_eq!(shop.find(&map.clone(), theirs[0]).await?, is_kept.then_some(ids[0]));

        // Deleted mappings are neither served nor kept again.
        let gone = &*random(4);
        let gone_ids = shop.get_or_insert_all(map, gone).await?;
        assert_eq!(shop.delete_all(map, gone).await?, 4);
        assert_eq!(shop.find_all(map, gone).await?, [None; 4]);
        assert_eq!(shop.to_external_all(map, &gone_ids).await?, [None; 4]);
        assert_eq!(shop.find_all(map, &theirs).await?, some_if(is_kept, &ids));
        let again = shop.get_or_insert_all(map, gone).await?;
        assert_eq!(shop.find_all(map, gone).await?, some_if(true, &again));
        database.execute(&delete_all)?;
        assert_eq!(shop.find_all(map, gone).await?, [None; 4]);

        // Made-up ids have no effect, and rows that have left the table leave the cache.
        let made_up = &*random(4);
        let (first, kept) = theirs.split_at(4);
        let asked = [made_up, first].concat();
        assert_eq!(shop.delete_all(map, &asked).await?, 0);
        assert_eq!(shop.find_all(map, first).await?, [None; 4]);
        assert_eq!(shop.find_all(map, kept).await?, some_if(is_kept, &ids[4..]));
        let later = shop.get_or_insert_all(map, made_up).await?;
        database.execute(&delete_all)?;
        assert_eq!(shop.find_all(map, made_up).await?, some_if(is_kept, &later));
    }
    Ok(Passed)
}

/// The names are reserved words, the integers have 32 bits, and one row has no UUID.
async fn mapped_ids_in_a_column_of_their_rows<S: MapShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const NAMES: [&str; 3] = ["order", "group", "key"];
    let (quote, int, uuid) = match database.kind {
        Engine::Postgres => ('"', "INT", "UUID"),
        Engine::Mysql | Engine::Mariadb => ('`', "INT UNSIGNED", "BINARY(16)"),
        Engine::Sqlite => ('"', "INT", "BLOB"),
    };
    let [table, id, column] = NAMES.map(|name| format!("{quote}{name}{quote}"));
    database
        .execute(&format!("CREATE TABLE {table} ({id} {int} UNIQUE, {column} {uuid} UNIQUE)"))?;
    let externals = random::<S::Invoice>(1_500);
    let row = |(i, external): (_, &External<_>)| {
        format!("({i}, {})", database.kind.uuid(external.to_uuid()))
    };
    let rows: Vec<_> = externals.iter().enumerate().map(row).collect();
    let without_id = External::random();
    database.execute(&format!(
        "INSERT INTO {table} VALUES {}, (1500, NULL), (NULL, {})",
        rows.join(", "),
        database.kind.uuid(without_id.to_uuid())
    ))?;

    let ids = (0..1_502).map(IdOf::<S::Invoice>::from_repr);
    let ids = ids.collect::<std::result::Result<Vec<_>, _>>()?;
    let mut asked = externals.clone();
    asked.splice(0..0, [External::random(), without_id]);
    let (found, back) = shop.in_rows(NAMES, &asked, &ids).await?;
    assert_eq!(found[..2], [None, None]);
    assert!(found[2..].iter().zip(&ids).all(|(found, id)| *found == Some(*id)));
    assert!(back.iter().zip(&externals).all(|(back, external)| *back == Some(*external)));
    assert_eq!(back[1_500..], [None, None]);

    // A search in a column of text would find nothing.
    database.execute(&format!("DELETE FROM {table}"))?;
    let text = match database.kind {
        Engine::Postgres => return Ok(Passed),
        Engine::Mysql | Engine::Mariadb => {
            format!("ALTER TABLE {table} MODIFY {column} VARCHAR(36)")
        }
        Engine::Sqlite => {
            format!("INSERT INTO {table} VALUES (0, '{}')", externals[0].to_uuid())
        }
    };
    database.execute(&text)?;
    let refused = error(shop.in_rows(NAMES, &asked, &ids).await);
    assert!(refused.contains(" in the column key of the table order:"), "{refused}");
    if database.kind == Engine::Sqlite {
        return Ok(Passed);
    }
    database.execute(&format!("ALTER TABLE {table} MODIFY {column} VARBINARY(36)"))?;
    let refused = error(shop.in_rows(NAMES, &asked, &ids).await);
    assert!(refused.contains("found varbinary(36) in the column key of"), "{refused}");
    // The text columns would yield the integer 0, and text without a number equals 0.
    database.execute(&format!(
        "ALTER TABLE {table} MODIFY {column} BINARY(16), MODIFY {id} VARCHAR(36)"
    ))?;
    let refused = error(shop.in_rows(NAMES, &asked, &ids).await);
    assert!(refused.contains("found varchar(36) in the column group of"), "{refused}");
    Ok(Passed)
}

/// Without unique indexes, a UUID could get two integers, or two UUIDs could get one.
async fn mapped_ids_need_their_index<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    let is_mysql = matches!(database.kind, Engine::Mysql | Engine::Mariadb);
    for index in indexes() {
        let table = format!("{index}_ids");
        create::<S>(database, index)?;
        let (column, mut wrong) = match index {
            Index::Unique => ("uuid", vec![("", "(uuid)"), ("UNIQUE", "(uuid, id)")]),
            _ => ("hash", vec![("", "(uuid, hash)")]),
        };
        if index == Index::Unique {
            wrong.extend(match database.kind {
                Engine::Postgres => {
                    vec![("UNIQUE", "(uuid) WHERE id > 0"), ("UNIQUE", "(id) INCLUDE (uuid)")]
                }
                Engine::Mysql | Engine::Mariadb => vec![("UNIQUE", "(uuid(8))")],
                Engine::Sqlite => vec![("UNIQUE", "(uuid) WHERE id > 0")],
            });
        }
        let on = if is_mysql { format!(" ON {table}") } else { String::new() };
        let replace = |unique: &str, columns: &str| {
            database.execute(&format!(
                "DROP INDEX {table}_{column}{on}; CREATE {unique} INDEX {table}_{column} ON {table} {columns}"
            ))
        };
        let refuses = async |over: &str| -> Result {
            let map = map::<S>(index);
            database.execute(&format!("ALTER TABLE {table} RENAME TO elsewhere"))?;
            error(shop.issue(&map).await);
            database.execute(&format!("ALTER TABLE elsewhere RENAME TO {table}"))?;
            let calls = [
                error(shop.issue(&map).await),
                error(shop.find(&map, random(1)[0]).await),
                error(shop.get_or_insert(&map, random(1)[0]).await),
            ];
            for refused in calls {
                assert!(refused.contains(&format!("index over {over}")), "{refused}");
                assert!(refused.contains(&format!(" of the table {table},")), "{refused}");
            }
            assert_eq!(count(database, &table)?, 0);
            Ok(())
        };
        for (unique, columns) in wrong {
            replace(unique, columns)?;
            refuses(column).await?;
        }
        let unique = if index == Index::Unique { "UNIQUE" } else { "" };
        replace(unique, &format!("({column})"))?;
        assert!(shop.find(&map::<S>(index), random(1)[0]).await?.is_none());
        if is_mysql {
            // Statements name the index.
            database.execute(&format!(
                "ALTER TABLE {table} RENAME INDEX {table}_{column} TO renamed"
            ))?;
            refuses(&format!("{column} named {table}_{column}")).await?;
            database.execute(&format!(
                "ALTER TABLE {table} RENAME INDEX renamed TO {table}_{column}"
            ))?;
        }
        database.execute(&match database.kind {
            Engine::Postgres => format!("ALTER TABLE {table} DROP CONSTRAINT {table}_pkey"),
            Engine::Mysql | Engine::Mariadb => {
                format!("ALTER TABLE {table} ADD KEY (id), DROP PRIMARY KEY")
            }
            Engine::Sqlite => format!(
                "CREATE TABLE copied (id BIGINT PRIMARY KEY, uuid BLOB, hash INT); DROP TABLE {table}; ALTER TABLE copied RENAME TO {table};
                 CREATE {unique} INDEX {table}_{column} ON {table} ({column})"
            ),
        })?;
        refuses("id").await?;
    }
    Ok(Passed)
}

async fn sixteen_tasks_map_the_same_thousand<S: MapShop>(shop: &S, database: &Database) -> Verdict {
    for index in indexes() {
        let table = &format!("{index}_ids");
        let map = &create::<S>(database, index)?;
        let theirs = &random::<S::Invoice>(1_000);
        let task = |number: usize| -> Result<HashMap<_, _>> {
            let mut theirs = theirs.clone();
            // Each task has a different order.
            theirs.rotate_left(number * 61);
            if number.is_multiple_of(2) {
                theirs.reverse();
            }
            S::block_on(async {
                let shop = S::connect(database).await?;
                let mut ids = HashMap::new();
                for (i, some) in theirs.chunks(100).enumerate() {
                    let (one_by_one, at_once) = some.split_at(if i == 0 { 20 } else { 0 });
                    for external in one_by_one {
                        ids.insert(*external, shop.get_or_insert(map, *external).await?);
                    }
                    let found = shop.get_or_insert_all(map, at_once).await?;
                    ids.extend(at_once.iter().copied().zip(found));
                }
                Ok(ids)
            })
        };
        let results = on_threads(16, task)?;
        assert!(results.iter().all(|ids| *ids == results[0]));
        assert_eq!(BTreeSet::from_iter(results[0].values()).len(), 1_000);
        assert_eq!(count(database, table)?, 1_000);
        assert_eq!(shop.get_or_insert(map, theirs[0]).await?, results[0][&theirs[0]]);
    }
    Ok(Passed)
}
