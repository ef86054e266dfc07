//! The cases of packs.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::linearizable::{Event, Op, is_linearizable};
use crate::random::Random;
use opaque_id_core::key::{Key, Uuid};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::InternalId;
use opaque_id_core::{IdRange, Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::{
    ByEncryptedKey, ByKey, CacheStats, Encoding, Group, Json, Location, Order, Settings,
    TableError, Update,
};
use opaque_id_sql::dialect::Dialect;

use crate::conformance::cases::{error, message, rotate_while_clients_write};
use crate::conformance::dropped::{Moment, PoolShop};
use crate::conformance::mapping::{count, dialect};
use crate::conformance::report::Outcome::{NotApplicable, Passed};
use crate::conformance::report::{Cases, Verdict};
use crate::conformance::shop::{IdOf, Shop, from_key, generate};
use crate::database::Database;
use crate::engine::Engine;
use crate::{Result, cases};

pub type RowOf<T> = (IdOf<T>, String);

/// The calls on a table with a connection, as calls of a macro: the arguments and the result of each.
#[macro_export]
macro_rules! pack_methods {
    ($write:ident $($with:tt)*) => {
        $crate::$write! {
            $($with)* [T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>] Self::Packs<T, O, E>;
            configure(settings: ::opaque_id_packs::Settings) -> ();
            train(bytes: usize) -> ();
            train_from_public(samples: &[String], bytes: usize) -> ();
            put(id: $crate::conformance::shop::IdOf<T>, value: &String) -> ();
            put_all(rows: &[$crate::conformance::packs::RowOf<T>]) -> ();
            get(id: $crate::conformance::shop::IdOf<T>) -> Option<String>;
            get_all(ids: &[$crate::conformance::shop::IdOf<T>]) -> Vec<Option<String>>;
            update(
                id: $crate::conformance::shop::IdOf<T>,
                change: impl FnMut(Option<String>) -> ::opaque_id_packs::Update<String> + Send + 'static
            ) -> ();
            erase(group: ::opaque_id_packs::Group) -> ();
            delete_all(ids: &[$crate::conformance::shop::IdOf<T>]) -> ();
            merge() -> ::opaque_id_packs::Merged;
            merge_all() -> ::opaque_id_packs::Merged;
            rekey(progress: impl FnMut(u64) + Send + 'static) -> ::opaque_id_packs::Rekeyed;
            sweep(unused_for: std::time::Duration, progress: impl FnMut(u64) + Send + 'static) -> ::opaque_id_packs::Rekeyed;
            verify(progress: impl FnMut(u64) + Send + 'static) -> ::opaque_id_packs::Verified;
        }
    };
}

/// Every adapter's calls on a table of packs of strings, each in its ORM's own way. The table is called `entries`.
#[expect(clippy::ptr_arg, reason = "a table's values are of any type")]
pub trait PackShop: Shop {
    type Packs<T: OpaqueId, O: Order, E: Encoding<String>>: Clone + Send + Sync;

    fn create_packs<T: OpaqueId, O: Order, E: Encoding<String>>(dialect: Dialect) -> String;

    async fn open_packs<T: OpaqueId, O: Order, E: Encoding<String>>(
        &self,
        keyring: &SharedKeyring,
        settings: Settings,
    ) -> Result<Self::Packs<T, O, E>>;
    fn cache_packs<T: OpaqueId, O: Order, E: Encoding<String>>(
        packs: Self::Packs<T, O, E>,
        bytes: u64,
    ) -> Self::Packs<T, O, E>;

    fn cache_stats<T: OpaqueId, O: Order, E: Encoding<String>>(
        packs: &Self::Packs<T, O, E>,
    ) -> CacheStats;

    pack_methods!(declare_calls);

    /// Appends to the value, or inserts it. Returns the old value.
    async fn append<T: OpaqueId, O: Order, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, O, E>,
        id: IdOf<T>,
        text: String,
    ) -> Result<Option<String>> {
        let (append, before) = append(text);
        self.update(packs, id, append).await?;
        Ok(before())
    }
    async fn scan<T: OpaqueId, O: Order, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, O, E>,
    ) -> Result<Vec<RowOf<T>>>;
    async fn range<T: OpaqueId, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, ByKey, E>,
        range: IdRange<IdOf<T>>,
        is_descending: bool,
    ) -> Result<Vec<RowOf<T>>>;

    /// Writes rows, deletes one, appends to another, reads all of them back, and commits or rolls back. All of this is in one
    /// transaction of the caller.
    async fn packs_in_a_transaction<T: OpaqueId, E: Encoding<String>>(
        &self,
        packs: &Self::Packs<T, ByKey, E>,
        rows: &[RowOf<T>],
        deleted: IdOf<T>,
        appended: IdOf<T>,
        commits: bool,
    ) -> Result<Vec<Option<String>>>;
}

/// Writes the calls that are the same in every adapter. The expressions are the table's connection outside and inside of a
/// transaction. The path makes a future of a call.
#[macro_export]
macro_rules! pack_calls {
    ($table:ident, $self:ident, $on:expr, |$transaction:ident| $in:expr, $done:path) => {
        type Packs<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>> =
            $table<T, String, E, O>;

        fn create_packs<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>>(
            dialect: ::opaque_id_sql::Dialect,
        ) -> String {
            Self::Packs::<T, O, E>::create_sql(dialect, "entries")
        }

        async fn open_packs<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            keyring: &::opaque_id_core::keyring::SharedKeyring,
            settings: ::opaque_id_packs::Settings,
        ) -> Result<Self::Packs<T, O, E>> {
            Ok($done($table::open($on, keyring, "entries", settings)).await?)
        }

        fn cache_packs<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>>(
            packs: Self::Packs<T, O, E>,
            bytes: u64,
        ) -> Self::Packs<T, O, E> {
            packs.cached(bytes)
        }

        fn cache_stats<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>>(
            packs: &Self::Packs<T, O, E>,
        ) -> ::opaque_id_packs::CacheStats {
            packs.cache_stats()
        }

        $crate::pack_methods!(delegate_calls [$self, $on, $done];);

        async fn scan<T: ::opaque_id_core::OpaqueId, O: ::opaque_id_packs::Order, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            packs: &Self::Packs<T, O, E>,
        ) -> Result<Vec<$crate::conformance::packs::RowOf<T>>> {
            let (mut rows, mut pages) = (Vec::new(), packs.scan());
            while let Some(page) = $done(packs.next_page($on, &mut pages)).await? {
                rows.extend(page);
            }
            Ok(rows)
        }

        async fn range<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            packs: &Self::Packs<T, ::opaque_id_packs::ByKey, E>,
            range: ::opaque_id_core::IdRange<$crate::conformance::shop::IdOf<T>>,
            is_descending: bool,
        ) -> Result<Vec<$crate::conformance::packs::RowOf<T>>> {
            let (mut rows, mut pages) = (Vec::new(), match is_descending {
                true => packs.pages_descending(range),
                false => packs.pages(range),
            });
            while let Some(page) = $done(packs.next_page($on, &mut pages)).await? {
                rows.extend(page);
            }
            Ok(rows)
        }

        async fn packs_in_a_transaction<T: ::opaque_id_core::OpaqueId, E: ::opaque_id_packs::Encoding<String>>(
            &$self,
            packs: &Self::Packs<T, ::opaque_id_packs::ByKey, E>,
            rows: &[$crate::conformance::packs::RowOf<T>],
            deleted: $crate::conformance::shop::IdOf<T>,
            appended: $crate::conformance::shop::IdOf<T>,
            commits: bool,
        ) -> Result<Vec<Option<String>>> {
            let mut transaction = $self.begin("").await?;
            let $transaction = &mut transaction;
            let (append, _) = $crate::conformance::packs::append("!".to_owned());
            $done(packs.put_all($in, rows)).await?;
            $done(packs.delete($in, deleted)).await?;
            $done(packs.update($in, appended, append)).await?;
            let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
            let seen = $done(packs.get_all($in, &ids)).await?;
            Self::end(transaction, commits).await?;
            Ok(seen)
        }
    };
}

/// Returns a closure that appends a text to a value, and a function that returns the old value.
pub fn append(
    text: String,
) -> (impl FnMut(Option<String>) -> Update<String> + Send + 'static, impl FnOnce() -> Option<String>)
{
    let before = std::sync::Arc::new(Mutex::new(None));
    let seen = std::sync::Arc::clone(&before);
    let append = move |value: Option<String>| {
        seen.lock().expect("nobody panics in here").clone_from(&value);
        Update::Put(value.unwrap_or_default() + &text)
    };
    (append, move || before.lock().expect("nobody panics in here").take())
}

/// Returns all cases by name, for one adapter.
pub fn all<S: PackShop + PoolShop>() -> Cases {
    cases! {
        S, |shop, database, case| case(&shop, database).await;
        packs_behave_like_a_map
        packs_of_integers_have_their_order
        packs_by_encrypted_key
        packs_in_groups
        packs_that_are_written_through
        packs_in_the_callers_transaction
        packs_are_rekeyed_and_trained
        packs_follow_a_rotation
        packs_that_were_altered
        packs_that_are_put_back
        packs_in_a_cache
        packs_that_are_many
        packs_beside_an_idle_transaction
        packs_with_dropped_calls
        sixteen_clients_and_mergers_of_packs
    }
}

/// Strings in groups by their first byte.
pub enum Initials {}

impl Encoding<String> for Initials {
    const NAME: &'static str = "json";
    const IS_GROUPED: bool = true;

    fn encode(value: &String) -> std::result::Result<Vec<u8>, String> {
        Json::encode(value)
    }

    fn decode(bytes: &[u8]) -> std::result::Result<String, String> {
        Json::decode(bytes)
    }

    fn group(value: &String) -> Option<Group> {
        Some(initial(value))
    }
}

pub fn initial(value: &str) -> Group {
    Group::new(value.bytes().next().unwrap_or(0).into())
}

/// Returns a keyring with two secrets. One of them seals.
pub fn keyring(sealing: u8) -> Result<SharedKeyring> {
    Ok(SharedKeyring::new(secrets(sealing, Some(1 - sealing))?))
}

pub fn secrets(sealing: u8, opening: Option<u8>) -> Result<Keyring> {
    const SECRETS: [&str; 2] = [
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "f0f1f2f3f4f5f6f7f8f9fafbfcfdfeff101112131415161718191a1b1c1d1e1f",
    ];
    let secret = |id: u8| MasterSecret::from_hex(SECRETS[usize::from(id)]);
    let mut keyring = Keyring::builder().sealing(sealing, secret(sealing)?);
    if let Some(opening) = opening {
        keyring = keyring.opening(opening, secret(opening)?);
    }
    Ok(keyring.build()?)
}

/// An erased group leaves no trace, even in a backup of rows and packs, and nothing else is lost.
async fn packs_in_groups<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(3_000);
    let packs = create::<S, S::Team, ByKey, Initials>(shop, database, settings.clone()).await?;
    let ids: Vec<_> =
        (0..80).map(|key| from_key(key * 5)).collect::<std::result::Result<_, _>>()?;
    let map = compare::<S, S::Team, ByKey, Initials>(shop, &packs, &ids, 100).await?;
    compare_ranges::<S, S::Team, Initials>(shop, &packs, &ids, &map).await?;
    shop.delete_all(&packs, &ids).await?;

    // A rollback also removes the key that the transaction has made.
    let some = teams::<S>([1, 2], |key| format!("z{key}"))?;
    let [(appended, _), (deleted, _)] = [some[0].clone(), some[1].clone()];
    shop.packs_in_a_transaction(&packs, &some, deleted, appended, false).await?;
    shop.put(&packs, appended, &some[0].1).await?;
    let open = async |sealing| {
        let keyring = SharedKeyring::new(secrets(sealing, None)?);
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring, settings.clone()).await
    };
    let other = open(0).await?;
    assert_eq!(shop.get(&other, appended).await?, Some("z1".to_owned()));

    let letter = |key: i64| char::from(b"abc"[usize::try_from(key % 3).unwrap_or(0)]);
    let rows = teams::<S>(1_000..1_300, |key| format!("{}{key}", letter(key)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    let recent = teams::<S>(1_300..1_330, |key| format!("{}{key}", letter(key)))?;
    shop.put_all(&other, &recent).await?;
    let all: Vec<_> = [&some[..1], &rows, &recent].concat();
    let without = |letters: &str| -> Vec<_> {
        let is_left = |(_, text): &&RowOf<S::Team>| !text.starts_with(|it| letters.contains(it));
        all.iter().filter(is_left).cloned().collect()
    };
    assert_eq!(shop.scan(&packs).await?, all);
    // This dictionary would be empty because four groups share no text that many groups have.
    let refused = error(shop.train(&packs, 1_024).await);
    assert!(refused.contains("no text of 8 bytes or more occurs in 20 groups"), "{refused}");
    let samples: Vec<_> = (0..1_000).map(|i| format!("a{i}, b{i}, c{i}")).collect();
    shop.train_from_public(&packs, &samples, 1_024).await?;
    let rekeyed = shop.rekey(&packs, |_| {}).await?;
    assert!(rekeyed.packs > 1 && rekeyed.rows > 1 && rekeyed.lost == 0, "{rekeyed:?}");
    assert_eq!(shop.scan(&packs).await?, all);
    let tables = ["recent", "packs", "meta"];
    for table in tables {
        database
            .execute(&format!("CREATE TABLE backup_{table} AS SELECT * FROM entries_{table}"))?;
    }
    shop.erase(&packs, initial("a")).await?;
    for client in [&packs, &open(0).await?] {
        assert_eq!(shop.scan(client).await?, without("a"));
        assert_eq!(shop.get(client, rows[2].0).await?, None);
        assert_eq!(shop.verify(client, |_| {}).await?.problems, []);
    }
    // This client has not seen the erasure.
    let refused = shop.put(&other, rows[2].0, &"a new".to_owned()).await;
    assert!(error(refused).contains("its group is erased"));
    let refused = shop.append(&other, appended, String::new()).await;
    assert_eq!(refused?, Some("z1".to_owned()));
    shop.merge_all(&other).await?;
    assert_eq!(shop.scan(&packs).await?, without("a"));

    // A new secret replaces the old one, and bodies stay.
    let rotated =
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring(1)?, settings.clone()).await?;
    let rekeyed = shop.rekey(&rotated, |_| {}).await?;
    assert_eq!((rekeyed.packs, rekeyed.rows, rekeyed.lost), (0, 0, 0));
    let packs = open(1).await?;
    assert_eq!(shop.scan(&packs).await?, without("a"));

    // A sweep rewrites packs without recent writes. It deletes the previous dictionary, but not too early.
    shop.train_from_public(&packs, &samples, 1_024).await?;
    shop.rekey(&packs, |_| {}).await?;
    shop.erase(&packs, initial("b")).await?;
    let hour = Duration::from_secs(3_600);
    let swept = shop.sweep(&packs, hour, |_| {}).await?;
    assert!(swept.packs > 0 && swept.lost == 0, "{swept:?}");
    assert_eq!((swept.dictionaries, swept.dictionaries_left), (0, 1));
    let swept = shop.sweep(&packs, Duration::ZERO, |_| {}).await?;
    assert_eq!((swept.packs, swept.rows, swept.dictionaries), (0, 0, 1));
    assert_eq!(shop.scan(&packs).await?, without("ab"));
    assert_eq!(shop.verify(&open(1).await?, |_| {}).await?.problems, []);

    // The backup is opened with the current keys and without keys.
    for table in tables {
        database.execute(&format!("DELETE FROM entries_{table}"))?;
        database.execute(&format!("INSERT INTO entries_{table} SELECT * FROM backup_{table}"))?;
    }
    let restored =
        shop.open_packs::<S::Team, ByKey, Initials>(&keyring(0)?, settings.clone()).await?;
    assert_eq!(shop.scan(&restored).await?, without("ab"));
    shop.merge_all(&restored).await?;
    assert_eq!(shop.scan(&restored).await?, without("ab"));
    database.execute("DELETE FROM entries_keys")?;
    let restored = shop.open_packs::<S::Team, ByKey, Initials>(&keyring(0)?, settings).await?;
    assert!(error(shop.scan(&restored).await).contains("cannot be read"));

    // Each of many statements creates new groups.
    let many = teams::<S>(20_000..32_000, |key| {
        char::from(b'A' + u8::try_from((key - 20_000) / 1_000).unwrap_or(0)).to_string()
    })?;
    shop.put_all(&restored, &many).await?;
    let last = &many[many.len() - 1];
    assert_eq!(shop.get(&restored, last.0).await?.as_ref(), Some(&last.1));
    Ok(Passed)
}

/// Returns another client's table of teams.
async fn fresh<S: PackShop>(shop: &S) -> Result<S::Packs<S::Team, ByKey, Json>> {
    shop.open_packs(&keyring(0)?, Settings::default().pack_bytes(1_900)).await
}

/// Returns rows of teams. Each key has its own text.
fn teams<S: PackShop>(
    keys: impl IntoIterator<Item = i64>,
    mut text: impl FnMut(i64) -> String,
) -> Result<Vec<RowOf<S::Team>>> {
    keys.into_iter().map(|key| Ok((from_key(key)?, text(key)))).collect()
}

async fn create<S: PackShop, T: OpaqueId, O: Order, E: Encoding<String>>(
    shop: &S,
    database: &Database,
    settings: Settings,
) -> Result<S::Packs<T, O, E>> {
    database.execute(&S::create_packs::<T, O, E>(dialect(database.kind)))?;
    shop.open_packs(&keyring(0)?, settings).await
}

fn value(random: &mut Random) -> String {
    let words = ["login", "logout", "order", "refund", "Zürich", "\"quoted\"", "\\'\0;--"];
    let count = [0, 1, 3, 20, 400][random.below(5)];
    (0..count).map(|_| words[random.below(words.len())]).collect()
}

/// Does random operations on the table and on a map, and compares after each step.
async fn compare<S: PackShop, T: OpaqueId, O: Order, E: Encoding<String>>(
    shop: &S,
    packs: &S::Packs<T, O, E>,
    ids: &[IdOf<T>],
    steps: usize,
) -> Result<BTreeMap<IdOf<T>, String>> {
    let mut random = Random(7);
    let mut map = BTreeMap::new();
    for _ in 0..steps {
        let some = |most: usize, random: &mut Random| -> Vec<IdOf<T>> {
            let count = random.below(most) + 1;
            (0..count).map(|_| ids[random.below(ids.len())]).collect()
        };
        match random.below(8) {
            0 | 1 => {
                let rows: Vec<_> =
                    some(30, &mut random).into_iter().map(|id| (id, value(&mut random))).collect();
                shop.put_all(packs, &rows).await?;
                map.extend(rows);
            }
            2 => {
                let (id, value) = (some(1, &mut random)[0], value(&mut random));
                shop.put(packs, id, &value).await?;
                map.insert(id, value);
            }
            3 => {
                let deleted = some(5, &mut random);
                shop.delete_all(packs, &deleted).await?;
                map.retain(|id, _| !deleted.contains(id));
            }
            4 => {
                let (id, text) = (some(1, &mut random)[0], value(&mut random));
                let before = shop.append(packs, id, text.clone()).await?;
                assert_eq!(before.as_ref(), map.get(&id));
                map.entry(id).or_default().push_str(&text);
            }
            5 => {
                let asked = some(40, &mut random);
                let expected: Vec<_> = asked.iter().map(|id| map.get(id).cloned()).collect();
                assert_eq!(shop.get_all(packs, &asked).await?, expected);
                assert_eq!(shop.get(packs, asked[0]).await?, expected[0]);
            }
            6 => {
                shop.merge(packs).await?;
            }
            _ => {
                shop.merge_all(packs).await?;
            }
        }
    }
    let mut rows = shop.scan(packs).await?;
    rows.sort();
    assert_eq!(rows, Vec::from_iter(map.clone()));
    let verified = shop.verify(packs, |_| {}).await?;
    assert_eq!(verified.problems, []);
    Ok(map)
}

async fn compare_ranges<S: PackShop, T: OpaqueId, E: Encoding<String>>(
    shop: &S,
    packs: &S::Packs<T, ByKey, E>,
    ids: &[IdOf<T>],
    map: &BTreeMap<IdOf<T>, String>,
) -> Result
where
    T::Key: Key<Repr: Copy>,
{
    let mut sorted = ids.to_vec();
    sorted.sort_unstable();
    for (first, last) in [(0, sorted.len() - 1), (3, 40), (50, 50), (60, 20)] {
        let key = |place: usize| T::Key::from_checked(*sorted[place].as_repr());
        let range = IdRange::all().within(key(first)..=key(last));
        let mut expected: Vec<_> = map
            .iter()
            .filter(|(id, _)| range.contains(**id))
            .map(|(id, value)| (*id, value.clone()))
            .collect();
        assert_eq!(shop.range(packs, range, false).await?, expected);
        expected.reverse();
        assert_eq!(shop.range(packs, range, true).await?, expected);
    }
    Ok(())
}

/// Runs a call and returns whether it panicked.
pub async fn panics(call: impl Future) -> bool {
    let mut call = pin!(call);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        polled.map_or(Poll::Ready(true), |polled| polled.map(|_| false))
    })
    .await
}

async fn packs_behave_like_a_map<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::User, ByKey, Json>(shop, database, settings).await?;
    // The ids are below and above a resource's own keys.
    let mut ids: Vec<IdOf<S::User>> = (0..80).map(|_| generate()).collect();
    ids.sort();
    assert_eq!(shop.scan(&packs).await?, []);
    let packs = S::cache_packs(packs, 20_000);
    let map = compare::<S, S::User, ByKey, Json>(shop, &packs, &ids, 150).await?;
    assert!(count(database, "entries_packs")? > 3);
    compare_ranges::<S, S::User, Json>(shop, &packs, &ids, &map).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    compare_ranges::<S, S::User, Json>(shop, &packs, &ids, &map).await?;

    // A panic in a closure changes neither the row nor the connection.
    let update = shop.update(&packs, ids[0], |_| resume_unwind(Box::new("in a closure")));
    assert!(panics(update).await);
    assert_eq!(shop.get(&packs, ids[0]).await?.as_ref(), map.get(&ids[0]));

    // Another client finds the same settings, although it would begin with others.
    let again = shop
        .open_packs::<S::User, ByKey, Json>(&keyring(0)?, Settings::default().pack_bytes(15_960))
        .await?;
    assert_eq!(shop.scan(&again).await?, Vec::from_iter(map));
    Ok(Passed)
}

async fn packs_of_integers_have_their_order<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(300);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut ids = Vec::new();
    for key in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX] {
        ids.push(from_key(key)?);
    }
    for key in 0..90_i64 {
        ids.push(from_key((key - 45) * 1_000_003)?);
    }
    let map = compare::<S, S::Team, ByKey, Json>(shop, &packs, &ids, 100).await?;
    compare_ranges::<S, S::Team, Json>(shop, &packs, &ids, &map).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);

    // A merger takes fewer rows at once, and other rows of their pack follow.
    let rows = |keys: std::ops::Range<i64>| {
        teams::<S>(keys.map(|key| key << 40), |key| format!("{:x}", (key >> 40).wrapping_pow(9)))
    };
    shop.configure(&packs, Settings::default().pack_bytes(15_960)).await?;
    for keys in [10_000..11_000, 1..1_500] {
        shop.put_all(&packs, &rows(keys)?).await?;
        shop.merge_all(&packs).await?;
        assert_eq!(count(database, "entries_recent")?, 0);
    }

    // The values have the maximum size, and a merger writes two at once.
    let mut random = Random(7);
    let mut text = |len| incompressible(&mut random, len);
    let key = 500 << 40;
    for key in [key + 1, key + 2] {
        let (id, text) = (from_key(key)?, text(3_600_000));
        shop.put(&packs, id, &text).await?;
        shop.merge_all(&packs).await?;
        assert_eq!(shop.get(&packs, id).await?, Some(text));
    }
    // A few large values among many small ones make their average meaningless.
    let mut mixed = rows(600..1_500)?;
    for row in mixed.iter_mut().take(3) {
        row.1 = text(2_500_000);
    }
    for row in &mixed[..3] {
        shop.put(&packs, row.0, &row.1).await?;
    }
    shop.put_all(&packs, &mixed[3..]).await?;
    shop.merge_all(&packs).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    let ids: Vec<_> = mixed[..4].iter().map(|(id, _)| *id).collect();
    let values: Vec<_> = mixed[..4].iter().map(|(_, text)| Some(text.clone())).collect();
    assert_eq!(shop.get_all(&packs, &ids).await?, values);
    // `update` writes into a pack and into the recent table.
    for _ in 0..2 {
        let (id, text) = (from_key(key + 1)?, text(200_000));
        let to = text.clone();
        shop.update(&packs, id, move |_| Update::Put(to.clone())).await?;
        assert_eq!(shop.get(&packs, id).await?, Some(text));
    }
    let too_large = error(shop.put(&packs, from_key(key)?, &text(4_000_000)).await);
    let expected = "expected a value of at most 3145728 bytes after compression";
    assert!(too_large.contains(expected), "{too_large}");
    Ok(Passed)
}

/// Returns a text that no codec shortens much.
pub fn incompressible(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(b' ' + random.below(95).to_le_bytes()[0])).collect()
}

async fn packs_by_encrypted_key<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(500);
    let packs = create::<S, S::Team, ByEncryptedKey, Json>(shop, database, settings).await?;
    let ids = (0..60).map(from_key).collect::<std::result::Result<Vec<_>, _>>()?;
    compare::<S, S::Team, ByEncryptedKey, Json>(shop, &packs, &ids, 80).await?;
    // The other order has another column type, so the statement fails before the settings are compared.
    assert!(fresh(shop).await.is_err());
    Ok(Passed)
}

async fn packs_that_are_written_through<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(600).write_through();
    let packs = create::<S, S::Legacy, ByKey, Json>(shop, database, settings).await?;
    let mut ids = vec![from_key(Uuid::nil())?, from_key(Uuid::max())?];
    for number in 0..60_u128 {
        ids.push(from_key(Uuid::from_u128(number << 121 | number))?);
    }
    let map = compare::<S, S::Legacy, ByKey, Json>(shop, &packs, &ids, 80).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    compare_ranges::<S, S::Legacy, Json>(shop, &packs, &ids, &map).await?;
    let large = incompressible(&mut Random(3), 200_000);
    for id in &ids[..2] {
        shop.put(&packs, *id, &large).await?;
        assert_eq!(shop.get(&packs, *id).await?.as_ref(), Some(&large));
    }

    // Clients that also write into the recent table would not see each other.
    let changed = error(shop.configure(&packs, Settings::default()).await);
    assert!(changed.contains("found rows that are written through"), "{changed}");
    let resized = Settings::default().pack_bytes(900).write_through();
    shop.configure(&packs, resized).await?;
    Ok(Passed)
}

async fn packs_in_the_callers_transaction<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let packs =
        create::<S, S::User, ByKey, Json>(shop, database, Settings::default().pack_bytes(1_900))
            .await?;
    let mut ids: Vec<IdOf<S::User>> = (0..6).map(|_| generate()).collect();
    ids.sort();
    let row = |i: usize, text: &str| (ids[i], text.to_owned());
    shop.put_all(&packs, &[row(0, "a"), row(1, "b"), row(2, "c")]).await?;
    shop.merge_all(&packs).await?;
    for commit in [false, true] {
        let rows = [row(3, "d"), row(4, "e"), row(1, "B")];
        let seen = shop.packs_in_a_transaction(&packs, &rows, ids[0], ids[2], commit).await?;
        let texts = |texts: [Option<&str>; 4]| texts.map(|text| text.map(str::to_owned)).to_vec();
        assert_eq!(seen[..3], texts([Some("d"), Some("e"), Some("B"), None])[..3]);
        let all = match commit {
            false => [Some("a"), Some("b"), Some("c"), None],
            true => [None, Some("B"), Some("c!"), Some("d")],
        };
        assert_eq!(shop.get_all(&packs, &ids[..4]).await?, texts(all));
    }
    Ok(Passed)
}

async fn packs_are_rekeyed_and_trained<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    database.execute(&S::create_packs::<S::User, ByKey, Json>(dialect(database.kind)))?;
    let shared = keyring(0)?;
    let packs = shop
        .open_packs::<S::User, ByKey, Json>(&shared, Settings::default().pack_bytes(1_900))
        .await?;
    let other = shop
        .open_packs::<S::User, ByKey, Json>(&keyring(1)?, Settings::default().pack_bytes(1_900))
        .await?;
    let value =
        |i| format!(r#"{{"actor":"user {i}","action":"login","from":"10.0.0.{}"}}"#, i % 256);
    let rows: Vec<RowOf<S::User>> = (0..1_600).map(|i| (generate(), value(i))).collect();
    assert!(error(shop.train(&packs, 2_048).await).contains("more samples"));
    assert!(error(shop.train(&packs, 255).await).contains("256 bytes or more, found 255"));
    shop.put_all(&packs, &rows[..1_500]).await?;
    shop.merge_all(&packs).await?;
    shop.train(&packs, 2_048).await?;
    shop.put_all(&packs, &rows[1_500..]).await?;

    // The other client learns of the dictionary from a body that needs it.
    let (ids, values): (Vec<_>, Vec<_>) =
        rows.into_iter().map(|(id, text)| (id, Some(text))).unzip();
    assert_eq!(shop.get_all(&other, &ids).await?, values);

    let rekeyed = shop.rekey(&other, |_| {}).await?;
    assert!(rekeyed.packs > 1 && rekeyed.rows == 100 && rekeyed.lost == 0, "{rekeyed:?}");
    let again = shop.rekey(&other, |_| {}).await?;
    assert_eq!((again.packs, again.rows), (0, 0));
    // The old secret is no longer needed.
    let new = shop
        .open_packs::<S::User, ByKey, Json>(
            &secrets(1, None)?.into(),
            Settings::default().pack_bytes(1_900),
        )
        .await?;
    assert_eq!(shop.get_all(&new, &ids).await?, values);
    assert_eq!(shop.verify(&new, |_| {}).await?.problems, []);
    shared.replace(secrets(1, Some(0))?)?;
    shared.replace(secrets(1, None)?)?;
    assert_eq!(shop.get_all(&packs, &ids).await?, values);

    // The dictionary has more than 64 KiB.
    let mut random = Random(5);
    let large: Vec<_> =
        (0..400).map(|_| (generate(), incompressible(&mut random, 3_000))).collect();
    shop.put_all(&packs, &large).await?;
    shop.train(&packs, 110 << 10).await?;
    let longest = database.integer("MAX(LENGTH(body))", "entries_meta")?;
    assert!(longest > 1 << 16, "{longest}");
    shop.put(&packs, large[0].0, &large[1].1).await?;
    assert_eq!(shop.get(&new, large[0].0).await?.as_ref(), Some(&large[1].1));
    Ok(Passed)
}

/// A server, or anyone with its password, may change a table like this.
async fn packs_that_were_altered<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    // These digits occur nowhere else in a message.
    const FIRST: i64 = 9_000_000_000;
    let settings = Settings::default().pack_bytes(256);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut random = Random(9);
    let rows = teams::<S>(FIRST..FIRST + 50, |_| incompressible(&mut random, 40))?;
    let id = |place: usize| rows[place].0;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    shop.put(&packs, id(7), &"recent".to_owned()).await?;
    let pack = |place| {
        database.integer("id", &format!("entries_packs ORDER BY id LIMIT 1 OFFSET {place}"))
    };
    let (second, third) = (pack(1)?, pack(2)?);
    let inside = from_key(second)?;
    let update = |set: &str| {
        database.execute(&format!("UPDATE entries_packs SET {set} WHERE id = {second}"))
    };
    let put_back = "DELETE FROM entries_packs; INSERT INTO entries_packs SELECT * FROM kept";

    database.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    // Each change has an error that `verify` must report, and must not break other rows.
    for (harm, expected) in [
        ("version = version + 1", "not genuine"),
        (&format!("body = (SELECT body FROM kept WHERE id = {third})"), "not genuine"),
        ("body = SUBSTR(body, 1, 40)", "not genuine"),
        ("body = SUBSTR(body, 1, 2)", "expected at least"),
        // `opaque-id packs restore` leaves this body if it ends early.
        ("body = SUBSTR(body, 1, 0)", "expected at least"),
        ("", "a gap"),
    ] {
        match harm {
            "" => database.execute(&format!("DELETE FROM entries_packs WHERE id = {second}"))?,
            set => update(set)?,
        }
        let fresh = fresh(shop).await?;
        let read = shop.get(&fresh, inside).await.err().ok_or("read what is not genuine")?;
        let scan = shop.scan(&fresh).await.err().ok_or("scanned what is not genuine")?;
        let verified = shop.verify(&fresh, |_| {}).await?;
        assert_eq!(verified.problems.len(), 1, "{harm}: {:?}", verified.problems);
        let problem = &verified.problems[0];
        for (message, debug) in [
            (message(&*read), format!("{read:?}")),
            (message(&*scan), format!("{scan:?}")),
            (message(problem), format!("{problem:?}")),
        ] {
            assert!(message.contains(expected), "{harm}: {message}");
            assert!(message.contains("a pack of entries_packs"), "{message}");
            // A client may see the message.
            assert!(!(message + &debug).contains(&second.to_string()), "{debug}");
        }
        let shown = problem.location().and_then(Location::expose_id);
        assert!(shown == Some(&*second.to_string()) || expected == "a gap", "{shown:?}");
        // All other rows are still there.
        assert_eq!(shop.get(&fresh, id(7)).await?.as_deref(), Some("recent"));
        assert!(verified.packs > 3 && verified.recent_rows == 1);
        database.execute(put_back)?;
    }
    assert_eq!(shop.verify(&packs, |_| {}).await?.problems, []);

    // Rows of an unreadable pack stay, and the others are merged.
    update("version = version + 1")?;
    let client = fresh(shop).await?;
    shop.put(&client, inside, &"waits".to_owned()).await?;
    shop.put(&client, id(49), &"merged".to_owned()).await?;
    assert!(error(shop.merge_all(&client).await).contains("a pack of entries_packs"));
    let left = count(database, "entries_recent")?;
    assert!((1..=2).contains(&left), "{left}");
    assert_eq!(shop.get(&client, inside).await?.as_deref(), Some("waits"));
    assert_eq!(shop.get(&client, id(49)).await?.as_deref(), Some("merged"));
    update("version = version - 1")?;
    shop.merge_all(&client).await?;
    assert_eq!(count(database, "entries_recent")?, 0);
    database.execute("DELETE FROM kept; INSERT INTO kept SELECT * FROM entries_packs")?;

    // Rows without a pack stay as well.
    let first = pack(0)?;
    database.execute(&format!("DELETE FROM entries_packs WHERE id = {first}"))?;
    shop.put(&client, id(0), &"waits".to_owned()).await?;
    shop.put(&client, id(49), &"merged again".to_owned()).await?;
    assert!(error(shop.merge_all(&client).await).contains("a gap"));
    assert_eq!(count(database, "entries_recent")?, 1);
    let again = format!("INSERT INTO entries_packs SELECT * FROM kept WHERE id = {first}");
    database.execute(&again)?;
    shop.merge_all(&client).await?;
    assert_eq!(shop.get(&client, id(0)).await?.as_deref(), Some("waits"));
    assert_eq!(count(database, "entries_recent")?, 0);
    database.execute("DELETE FROM kept; INSERT INTO kept SELECT * FROM entries_packs")?;

    // An old state is complete. Only a process that has seen a newer one can tell.
    let packs = S::cache_packs(packs, 1 << 20);
    for place in 0..3 {
        shop.put(&packs, id(place), &"new".to_owned()).await?;
    }
    shop.merge_all(&packs).await?;
    assert_eq!(shop.get(&packs, id(0)).await?.as_deref(), Some("new"));
    database.execute(put_back)?;
    let old = error(shop.get(&packs, id(0)).await);
    assert!(old.contains("times or more, found"), "{old}");
    let client = fresh(shop).await?;
    assert_eq!(shop.get(&client, id(0)).await?.as_deref(), Some("waits"));
    // The lost state had the same number of replacements. A client with a cache does not confuse them.
    for place in 0..3 {
        shop.put(&client, id(place), &"after the crash".to_owned()).await?;
    }
    shop.merge_all(&client).await?;
    assert_eq!(shop.get(&packs, id(0)).await?.as_deref(), Some("after the crash"));

    // New settings would have another order and no dictionary.
    database.execute("DELETE FROM entries_meta")?;
    let opened = error(fresh(shop).await);
    assert!(opened.contains("restore entries_meta from a backup"), "{opened}");
    assert_eq!(count(database, "entries_meta")?, 0);
    Ok(Passed)
}

/// Secrets are rotated while clients write. Each client then writes under the new secret, and `rekey` makes the old one
/// unnecessary.
async fn packs_follow_a_rotation<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    const WRITERS: usize = 3;
    let shared = SharedKeyring::new(secrets(0, Some(1))?);
    database.execute(&S::create_packs::<S::Team, ByKey, Json>(dialect(database.kind)))?;
    let settings = Settings::default().pack_bytes(400);
    let packs = shop.open_packs::<S::Team, ByKey, Json>(&shared, settings.clone()).await?;
    let write = async |shop: S, number: usize, rounds: &mut dyn Iterator<Item = usize>| {
        let packs = shop.open_packs::<S::Team, ByKey, Json>(&shared, settings.clone()).await?;
        for round in rounds {
            let id = from_key(i64::try_from(round * WRITERS + number)?)?;
            shop.put(&packs, id, &format!("{number} {round}")).await?;
            if round.is_multiple_of(7) {
                shop.merge_all(&packs).await?;
            }
        }
        Ok(())
    };
    // Rotation waits until all calls that began before it have ended.
    let rotate = async |shop: S, wait: &dyn Fn()| {
        wait();
        shared.replace(secrets(1, Some(0))?)?;
        wait();
        loop {
            let rekeyed = shop.rekey(&packs, |_| {}).await?;
            if (rekeyed.packs, rekeyed.rows, rekeyed.lost) == (0, 0, 0) {
                break;
            }
        }
        shared.replace(secrets(1, None)?)?;
        wait();
        Ok(())
    };
    let written: [_; WRITERS] = rotate_while_clients_write(database, 10, write, rotate)?;
    let fresh =
        shop.open_packs::<S::Team, ByKey, Json>(&secrets(1, None)?.into(), settings).await?;
    assert_eq!(shop.verify(&fresh, |_| {}).await?.problems, []);
    for (number, written) in (0..).zip(written) {
        for i in 0..written {
            let id = from_key(i64::try_from(i * WRITERS + number)?)?;
            assert_eq!(shop.get(&fresh, id).await?, Some(format!("{number} {i}")));
        }
    }
    Ok(Passed)
}

/// A pack of a backup is restored in full although it was split since. It overlaps packs with acknowledged rows.
async fn packs_that_are_put_back<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(600);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let mut random = Random(11);
    let mut rows = |keys: std::ops::Range<i64>, step| {
        teams::<S>(keys.step_by(step), |_| incompressible(&mut random, 60))
    };
    shop.put_all(&packs, &rows(0..1_000, 10)?).await?;
    shop.merge_all(&packs).await?;
    database.execute("CREATE TABLE kept AS SELECT * FROM entries_packs")?;
    let split = rows(0..1_000, 3)?;
    shop.put_all(&packs, &split).await?;
    shop.merge_all(&packs).await?;

    // These are the second pack and the first row after it.
    let second = database.integer("id", "kept ORDER BY id LIMIT 1 OFFSET 1")?;
    database.execute(&format!(
        "DELETE FROM entries_packs WHERE id = {second};
         INSERT INTO entries_packs SELECT * FROM kept WHERE id = {second}"
    ))?;
    let fresh = fresh(shop).await?;
    let put_back = from_key(second)?;
    let overlap = "reaches into it";
    // A point read does not fetch the next pack. Every other call does.
    assert!(shop.get(&fresh, put_back).await?.is_some());
    assert!(shop.append(&fresh, put_back, "!".to_owned()).await.is_err());
    for is_descending in [false, true] {
        assert!(error(shop.range(&fresh, IdRange::all(), is_descending).await).contains(overlap));
    }
    let verified = shop.verify(&fresh, |_| {}).await?;
    let [TableError::Overlap { location, .. }] = &verified.problems[..] else {
        panic!("expected an overlap, found {:?}", verified.problems);
    };
    assert_eq!(location.expose_id(), Some(&*second.to_string()));

    // A merger does not split the pack at an old row, because the split would hide newer acknowledged rows.
    let new = rows(second..second + 3, 1)?;
    shop.put_all(&fresh, &new).await?;
    assert!(error(shop.merge_all(&fresh).await).contains(overlap));
    let mut expected: BTreeMap<_, _> = split.into_iter().collect();
    expected.extend(new);
    // Only the rows of the pack itself are old.
    let mut old = 0;
    for (id, value) in expected {
        old += u32::from(shop.get(&fresh, id).await? != Some(value));
    }
    assert!((1..20).contains(&old), "{old}");
    Ok(Passed)
}

/// A rewritten pack is sent once and is then served from the cache.
async fn packs_in_a_cache<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = teams::<S>(0..60, |key| format!("{key} {}", key.wrapping_pow(19)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    let cached = S::cache_packs(fresh(shop).await?, 1 << 20);
    assert_eq!(S::cache_stats(&packs), CacheStats::default());
    let counts = |stats: CacheStats| (stats.hits, stats.misses);
    let (last, ids) = (rows[59].0, rows.iter().map(|(id, _)| *id).collect::<Vec<_>>());
    for round in 0..5 {
        let value = format!("changed {round}");
        shop.put(&packs, rows[7].0, &value).await?;
        shop.merge_all(&packs).await?;
        for read in 0..4 {
            assert_eq!(shop.get(&cached, rows[7].0).await?.as_ref(), Some(&value));
            // The other pack has not changed.
            assert_eq!(shop.get(&cached, last).await?.as_ref(), Some(&rows[59].1));
            let misses = round + 1 + 1;
            let reads = 8 * round + 2 * (read + 1);
            assert_eq!(counts(S::cache_stats(&cached)), (reads - misses, misses));
        }
    }
    // A row of the recent table needs no pack.
    let before = S::cache_stats(&cached);
    shop.put(&packs, rows[7].0, &rows[7].1).await?;
    assert_eq!(shop.get(&cached, rows[7].0).await?.as_ref(), Some(&rows[7].1));
    assert_eq!(S::cache_stats(&cached), before);
    shop.merge_all(&packs).await?;

    // One call reads all: first all packs but one are sent, and then none.
    let all = rows.iter().map(|(_, value)| Some(value.clone())).collect::<Vec<_>>();
    assert_eq!(shop.get_all(&cached, &ids).await?, all);
    let first = S::cache_stats(&cached);
    assert_eq!(shop.get_all(&cached, &ids).await?, all);
    let second = S::cache_stats(&cached);
    let count = u64::try_from(count(database, "entries_packs")?)?;
    assert_eq!(counts(first), (before.hits + 1, before.misses + count - 1));
    assert_eq!(counts(second), (first.hits + count, first.misses));
    let bytes = database.integer("SUM(LENGTH(body))", "entries_packs")?;
    assert_eq!(second.bytes_saved - first.bytes_saved, u64::try_from(bytes)?);
    Ok(Passed)
}

/// The number of packs that a statement reads does not depend on their total.
async fn packs_that_are_many<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    // Other servers do not count reads by table, or count them late.
    let (setup, counter) = match database.kind {
        Engine::Mysql => (
            "DO 0",
            "performance_schema.table_io_waits_summary_by_table \
             WHERE OBJECT_SCHEMA = DATABASE() AND OBJECT_NAME = 'entries_packs'",
        ),
        Engine::Mariadb => (
            "SET GLOBAL userstat = 1",
            "information_schema.TABLE_STATISTICS \
             WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'entries_packs'",
        ),
        _ => return Ok(NotApplicable),
    };
    database.execute(setup)?;
    let column = if database.kind == Engine::Mysql { "COUNT_FETCH" } else { "ROWS_READ" };
    let read = || database.integer(&format!("COALESCE(SUM({column}), 0)"), counter);

    let settings = Settings::default().pack_bytes(256);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = teams::<S>(0..3_000, |key| format!("{key} {}", key.wrapping_pow(19)))?;
    shop.put_all(&packs, &rows).await?;
    shop.merge_all(&packs).await?;
    assert!(count(database, "entries_packs")? > 150);

    let before = read()?;
    for (id, value) in &rows[1_500..1_510] {
        assert_eq!(shop.get(&packs, *id).await?.as_ref(), Some(value));
    }
    let got = read()? - before;
    assert!((10..=100).contains(&got), "{got} for ten rows");

    let before = read()?;
    let some: Vec<_> = rows.iter().step_by(100).cloned().collect();
    let ids: Vec<_> = some.iter().map(|(id, _)| *id).collect();
    let values: Vec<_> = some.into_iter().map(|(_, value)| Some(value)).collect();
    assert_eq!(shop.get_all(&packs, &ids).await?, values);
    let got = read()? - before;
    assert!((30..=400).contains(&got), "{got} for thirty rows at once");

    for is_descending in [false, true] {
        let before = read()?;
        let range = IdRange::all().within(2_000..=2_030);
        assert_eq!(shop.range(&packs, range, is_descending).await?.len(), 31);
        let got = read()? - before;
        // The ids of a whole page are sent.
        assert!((2..=600).contains(&got), "{got} for a range");
    }

    let before = read()?;
    shop.put_all(&packs, &teams::<S>(3_000..3_010, |key| key.to_string())?).await?;
    assert_eq!(shop.merge_all(&packs).await?.rows, 10);
    let got = read()? - before;
    assert!((2..=100).contains(&got), "{got} for rows at the end that are merged");
    Ok(Passed)
}

/// A transaction has written a row and is idle, like the transaction of a debugger or a lost client.
async fn packs_beside_an_idle_transaction<S: PackShop>(shop: &S, database: &Database) -> Verdict {
    // SQLite has one writer at a time, and all others wait for it.
    if database.kind == Engine::Sqlite {
        return Ok(NotApplicable);
    }
    let settings = Settings::default().pack_bytes(700);
    let packs = create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
    let rows = |text: &str| teams::<S>(0..400, |key| format!("{text} {}", key.wrapping_pow(19)));
    shop.put_all(&packs, &rows("old")?).await?;
    shop.merge_all(&packs).await?;
    shop.put_all(&packs, &rows("new")?).await?;
    // These are the locks of `put` and `update`: a row, and another row's pack.
    let last = "(SELECT id FROM (SELECT id FROM entries_packs ORDER BY id DESC LIMIT 1) AS last)";
    let idle = format!(
        "BEGIN; SELECT id FROM entries_recent WHERE id = 7 FOR UPDATE; \
         SELECT id FROM entries_packs WHERE id = {last} FOR UPDATE"
    );
    let merge = || {
        S::block_on(async {
            let shop = S::connect(database).await?;
            shop.merge_all(&fresh(&shop).await?).await
        })
    };
    let (merged, waited) = while_idle(database, &idle, merge)?;
    assert!(!waited, "the merger has waited for the transaction");
    let left = count(database, "entries_recent")?;
    assert!((2..100).contains(&left), "{left}");
    let left = left as u64;
    assert_eq!((merged.rows, merged.rows_left), (400 - left, left));
    assert_eq!((merged.packs_left, merged.packs_stuck), (2, 2));
    for (id, value) in rows("new")? {
        assert_eq!(shop.get(&packs, id).await?, Some(value));
    }
    let merged = shop.merge_all(&packs).await?;
    assert_eq!((merged.rows, merged.rows_left), (left, 0));

    // On MySQL, `update` takes these locks in a transaction if another client was faster: a pack, and the ids up to its
    // neighbors, where its new parts would be.
    let mut random = Random(7);
    let long = teams::<S>(0..400, |_| incompressible(&mut random, 100))?;
    shop.put_all(&packs, &long).await?;
    let pack = "SELECT id FROM entries_packs WHERE id <= 200 ORDER BY id DESC LIMIT 1 FOR UPDATE";
    let after = "SELECT id FROM entries_packs WHERE id > 200 ORDER BY id LIMIT 1 FOR UPDATE";
    let (merged, waited) = while_idle(database, &format!("BEGIN; {pack}; {after}"), merge)?;
    assert!(!waited, "the merger has waited for the transaction");
    let left = count(database, "entries_recent")?;
    assert!((2..200).contains(&left), "{left}");
    assert_eq!(merged.rows_left, left as u64);
    assert_eq!(shop.merge_all(&packs).await?.rows_left, 0);
    for (id, value) in long {
        assert_eq!(shop.get(&packs, id).await?, Some(value));
    }
    Ok(Passed)
}

/// Acts while a transaction of another connection is open. Returns whether the transaction timed out because the action waited for it.
fn while_idle<R: Send>(
    database: &Database,
    transaction: &str,
    act: impl FnOnce() -> Result<R> + Send,
) -> Result<(R, bool)> {
    let (begun, begins) = std::sync::mpsc::channel();
    let (ended, ends) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let idle = scope.spawn(move || {
            database.hold(transaction, move || {
                let _ = begun.send(());
                // MySQL and MariaDB wait longer for a lock.
                ends.recv_timeout(Duration::from_secs(40)).is_err()
            })
        });
        begins.recv()?;
        // This thread may have a runtime already.
        let acted = scope.spawn(act).join();
        let _ = ended.send(());
        let waited = idle.join().map_err(|_| "the transaction panicked")??;
        Ok((acted.map_err(|_| "it panicked")??, waited))
    })
}

/// A dropped call has all of its effect or none, perhaps a little later, and does not harm the pool.
async fn packs_with_dropped_calls<S: PackShop + PoolShop>(_: &S, database: &Database) -> Verdict {
    let Some(shop) = S::pool(database, 2).await? else {
        return Ok(NotApplicable);
    };
    let settings = Settings::default().pack_bytes(300);
    let packs = create::<S, S::Team, ByKey, Json>(&shop, database, settings).await?;
    let mut dropped = 0;
    let mut keys = 0_i64;
    for polls in 0..100 {
        let dropped_before = dropped;
        for moment in [Moment::Polled(polls), Moment::Woken(polls)] {
            let text = |key| format!("{key} {}", "x".repeat(40));
            let rows = teams::<S>(keys..keys + 20, text)?;
            keys += 20;
            let (id, value) = rows[7].clone();
            let put = moment.drop(shop.put_all(&packs, &rows)).await.transpose()?;
            let merged = moment.drop(shop.merge_all(&packs)).await.transpose()?;
            let found = shop.get(&packs, id).await?;
            assert!(found.as_ref() == Some(&value) || (found.is_none() && put.is_none()));

            let appended =
                moment.drop(shop.append(&packs, id, "!".to_owned())).await.transpose()?;
            let found = shop.get(&packs, id).await?.unwrap_or_default();
            assert!(found.replace('!', "") == value || put.is_none());
            assert!(found.ends_with('!') || appended.is_none() || put.is_none());
            let calls = [put.is_none(), merged.is_none(), appended.is_none()];
            dropped += calls.into_iter().filter(|is_dropped| *is_dropped).count();
        }
        if dropped == dropped_before {
            break;
        }
    }
    assert!(dropped > 5, "{dropped}");
    shop.merge_all(&packs).await?;
    assert_eq!(shop.verify(&packs, |_| {}).await?.problems, []);
    shop.close().await?;
    Ok(Passed)
}

/// Every client does everything to the same few rows while some merge. The recorded calls on each row must be linearizable.
async fn sixteen_clients_and_mergers_of_packs<S: PackShop>(
    shop: &S,
    database: &Database,
) -> Verdict {
    const CLIENTS: usize = 16;
    const MERGERS: usize = 2;
    for through in [false, true] {
        if through {
            database.execute(
                "DROP TABLE entries_recent; DROP TABLE entries_packs; DROP TABLE entries_meta",
            )?;
        }
        let settings = Settings::default().pack_bytes(400);
        let settings = if through { settings.write_through() } else { settings };
        create::<S, S::Team, ByKey, Json>(shop, database, settings).await?;
        let clock = AtomicU64::new(0);
        let tick = || clock.fetch_add(1, Ordering::SeqCst);
        let histories = Mutex::new(BTreeMap::<i64, Vec<Event<String>>>::new());
        let is_done = AtomicBool::new(false);
        let client = |number: usize| -> Result {
            let mut random = Random(number as u64 * 1_000 + u64::from(through));
            S::block_on(async {
                let shop = S::connect(database).await?;
                let packs = fresh(&shop).await?;
                let packs =
                    if number.is_multiple_of(2) { S::cache_packs(packs, 1 << 20) } else { packs };
                for turn in 0..12 {
                    let key = i64::try_from(random.below(12))?;
                    let id = from_key::<IdOf<S::Team>>(key)?;
                    // The values are so long that packs are split, even by two clients at once.
                    let noise = incompressible(&mut random, 40);
                    let text = format!("{number}.{turn} {noise} ");
                    let began = tick();
                    let done = match random.below(4) {
                        0 => shop.put(&packs, id, &text).await.map(|()| Op::Write(Some(text))),
                        1 if random.below(3) == 0 => {
                            shop.delete_all(&packs, &[id]).await.map(|()| Op::Write(None))
                        }
                        1 | 2 => shop.append(&packs, id, text.clone()).await.map(|before| {
                            let after = before.clone().unwrap_or_default() + &text;
                            Op::Change(before, Some(after))
                        }),
                        _ => shop.get(&packs, id).await.map(Op::Read),
                    };
                    let ended = tick();
                    // A call has no effect if the other clients were faster for ten seconds.
                    let op = match done {
                        Err(error) if error.to_string() == TableError::Outrun.to_string() => {
                            continue;
                        }
                        done => done?,
                    };
                    let event = Event { op, began, ended, is_certain: true };
                    let mut histories = histories.lock().expect("no client panics in here");
                    histories.entry(key).or_default().push(event);
                }
                Ok(())
            })
        };
        let merger = || -> Result {
            S::block_on(async {
                let shop = S::connect(database).await?;
                let packs = fresh(&shop).await?;
                while !is_done.load(Ordering::Relaxed) {
                    shop.merge_all(&packs).await?;
                }
                Ok(())
            })
        };
        std::thread::scope(|scope| -> Result {
            let clients: Vec<_> =
                (0..CLIENTS).map(|number| scope.spawn(move || client(number))).collect();
            let mergers: Vec<_> = (0..MERGERS).map(|_| scope.spawn(merger)).collect();
            let done: Vec<_> = clients.into_iter().map(|client| client.join()).collect();
            is_done.store(true, Ordering::Relaxed);
            for merger in mergers {
                merger.join().map_err(|_| "a merger panicked")??;
            }
            for client in done {
                client.map_err(|_| "a client panicked")??;
            }
            Ok(())
        })?;

        // The final rows count as well.
        let packs = fresh(shop).await?;
        shop.merge_all(&packs).await?;
        for (key, mut history) in histories.into_inner()? {
            let read = shop.get(&packs, from_key(key)?).await?;
            let (began, ended) = (tick(), tick());
            history.push(Event { op: Op::Read(read), began, ended, is_certain: true });
            assert!(is_linearizable(&history), "key {key}: {history:#?}");
        }
        assert_eq!(shop.verify(&packs, |_| {}).await?.problems, Vec::<TableError>::new());
        assert_eq!(count(database, "entries_recent")?, 0);
        assert!(count(database, "entries_packs")? > 2);
    }
    Ok(Passed)
}
