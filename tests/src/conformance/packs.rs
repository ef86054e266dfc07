//! The cases of packs.

mod clients;
mod contents;
mod damage;
mod rotation;

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Mutex;
use std::task::Poll;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{IdRange, Keyring, MasterSecret, OpaqueId};
use opaque_id_packs::{ByKey, CacheStats, Encoding, Group, Json, Order, Settings, Update};
use opaque_id_sql::dialect::Dialect;

use crate::conformance::dropped::PoolShop;
use crate::conformance::mapping::dialect;
use crate::conformance::report::Cases;
use crate::conformance::shop::{IdOf, Shop, from_key};
use crate::database::Database;
use crate::random::Random;
use crate::{Result, cases};

use clients::{
    packs_beside_an_idle_transaction, packs_in_the_callers_transaction, packs_with_dropped_calls,
    sixteen_clients_and_mergers_of_packs,
};
use contents::{
    packs_behave_like_a_map, packs_by_encrypted_key, packs_in_a_cache, packs_in_groups,
    packs_of_integers_have_their_order, packs_that_are_many, packs_that_are_written_through,
};
use damage::{packs_that_are_put_back, packs_that_were_altered, packs_without_primary_keys};
use rotation::{packs_are_rekeyed_and_trained, packs_follow_a_rotation};

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
        packs_without_primary_keys
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

/// Runs a call and returns whether it panicked.
pub async fn panics(call: impl Future) -> bool {
    let mut call = pin!(call);
    poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        polled.map_or(Poll::Ready(true), |polled| polled.map(|_| false))
    })
    .await
}

/// Returns a text that no codec shortens much.
pub fn incompressible(random: &mut Random, len: usize) -> String {
    (0..len).map(|_| char::from(b' ' + random.below(95).to_le_bytes()[0])).collect()
}
