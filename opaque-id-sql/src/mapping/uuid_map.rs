//! The content of an adapter's `UuidMap` and `UuidColumn`.
//!
//! Generic types cannot replace the macro: sqlx takes a connection by value, SeaORM by `&` and diesel by
//! `&mut`, and diesel's calls are blocking or not.

use core::fmt;
use core::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use opaque_id_core::generator::{Clock, PseudoOrderedGenerator};
use opaque_id_core::resource::{InternalId, MappedResource};
use opaque_id_core::{External, IntoView, Keyring};
use uuid::Uuid;

use super::cache::Cache;
use super::call::{Connected, FoundMappings, Mapped, Refusal};
use super::ddl::Index;
use super::error::MappingError;
use super::table::Table;
use crate::call::{Call, Session};
use crate::dialect::Dialect;

/// The content of an adapter's `UuidMap` and `UuidColumn`. It builds the calls.
pub struct Mapping<T> {
    table: Table,
    cache: Option<Arc<Cache>>,
    generator: Option<Arc<dyn Fn() -> Uuid + Send + Sync>>,
    resource: PhantomData<fn() -> T>,
}

type MappingCall<'a, R> = Call<'a, R, Refusal>;

impl<T: MappedResource> Mapping<T> {
    /// # Panics
    /// If the name is invalid.
    #[must_use]
    #[track_caller]
    pub fn new(table: &'static str, index: Index) -> Self {
        Self::with_table(Table::new(table, index))
    }

    /// Uses two columns of the rows' own table.
    ///
    /// # Panics
    /// If a name is invalid.
    #[must_use]
    #[track_caller]
    pub fn for_rows(table: &'static str, id: &'static str, uuid: &'static str) -> Self {
        Self::with_table(Table::for_rows(table, id, uuid))
    }

    fn with_table(table: Table) -> Self {
        Self { table, cache: None, generator: None, resource: PhantomData }
    }

    /// # Panics
    /// Unless the domain is a valid prefix.
    #[must_use]
    #[track_caller]
    pub fn shared(self) -> Self {
        Self { table: self.table.shared(T::DOMAIN), ..self }
    }

    #[must_use]
    pub fn retry_for(mut self, duration: Duration) -> Self {
        self.table.retry_for = duration;
        self
    }

    #[must_use]
    pub fn cached(self, capacity: usize) -> Self {
        Self { cache: Some(Arc::new(Cache::new(capacity))), ..self }
    }

    #[must_use]
    pub fn pseudo_ordered<C: Clock + Send + Sync + 'static>(
        self,
        generator: PseudoOrderedGenerator<C>,
    ) -> Self {
        Self { generator: Some(Arc::new(move || generator.generate())), ..self }
    }

    #[must_use]
    pub fn create_sql(&self, dialect: Dialect) -> String {
        self.table.create_sql(dialect)
    }

    #[must_use]
    pub fn drop_sql(&self) -> String {
        self.table.drop_sql()
    }

    pub fn find<'a>(&'a self, ids: &'a [External<T>]) -> MappingCall<'a, Vec<Option<T::Internal>>> {
        self.call(move |session| async move {
            let (mut mappings, unknown) = self.recall(ids);
            if !unknown.is_empty() {
                let call = Connected::begin(session, &self.table).await?;
                mappings = self.cache(call.find(unknown).await, mappings);
            }
            Ok(internal_ids::<T>(mappings, ids))
        })
    }

    pub fn get_or_insert<'a>(
        &'a self,
        ids: &'a [External<T>],
    ) -> MappingCall<'a, Vec<T::Internal>> {
        self.call(move |session| async move {
            let (mut mappings, unknown) = self.recall(ids);
            if !unknown.is_empty() {
                let call = Connected::begin(session, &self.table).await?;
                mappings = self.cache(call.get_or_insert(unknown).await?, mappings);
            }
            let ids = internal_ids::<T>(mappings, ids).into_iter();
            ids.map(|id| id.ok_or(MappingError::Deleted)).collect()
        })
    }

    pub fn issue(&self, count: usize) -> MappingCall<'_, Vec<(External<T>, T::Internal)>> {
        self.call(move |session| async move {
            let uuids = (0..count).map(|_| match &self.generator {
                Some(generate) => generate(),
                None => External::<T>::random().to_uuid(),
            });
            let uuids: Vec<_> = uuids.collect();
            if uuids.is_empty() {
                return Ok(Vec::new());
            }
            let call = Connected::begin(session, &self.table).await?;
            let issued = self.cache(call.issue(uuids).await?, Vec::new());
            if issued.len() < count {
                return Err(MappingError::Deleted);
            }
            let ids = issued.into_iter();
            Ok(ids.map(|(id, uuid)| (External::from(uuid), internal_id::<T>(id))).collect())
        })
    }

    pub fn to_external<'a>(
        &'a self,
        ids: &'a [T::Internal],
    ) -> MappingCall<'a, Vec<Option<External<T>>>> {
        self.call(move |session| async move {
            let cached = |id| Some((id, self.cache.as_ref()?.uuid(id)?));
            let (mut mappings, unknown) = recall(ids.iter().map(|id| *id.as_repr()), cached);
            if !unknown.is_empty() {
                let call = Connected::begin(session, &self.table).await?;
                mappings = self.cache(call.find_uuids(&unknown).await, mappings);
            }
            mappings.sort_unstable_by_key(|(id, _)| *id);
            let uuid = |id: &T::Internal| {
                let found = mappings.binary_search_by_key(id.as_repr(), |(id, _)| *id);
                found.ok().map(|i| External::from(mappings[i].1))
            };
            Ok(ids.iter().map(uuid).collect())
        })
    }

    /// The ids leave the cache at once.
    pub fn delete(&self, ids: &[External<T>]) -> MappingCall<'_, u64> {
        let uuids: Vec<_> = ids.iter().map(|id| id.to_uuid()).collect();
        if let Some(cache) = &self.cache {
            cache.remove(uuids.iter().copied());
        }
        self.call(move |session| async move {
            if uuids.is_empty() {
                return Ok(0);
            }
            let call = Connected::begin(session, &self.table).await?;
            Ok(call.delete(uuids, self.cache.as_deref()).await)
        })
    }

    fn call<'a, R, F>(&self, call: impl FnOnce(Session) -> F) -> MappingCall<'a, R>
    where
        F: Future<Output = Result<R, Refusal>> + Send + 'a,
    {
        Call::new(self.table.retry_for, call)
    }

    pub fn views<E, M, V>(
        &self,
        keyring: &Keyring,
        rows: Vec<M>,
        ids: Vec<Option<External<T>>>,
    ) -> Result<Vec<V>, MappingError<E>>
    where
        (M, External<T>): IntoView<V>,
    {
        let rows = rows.into_iter().zip(ids);
        let view = |(row, id): (M, Option<_>)| {
            Ok(keyring.view((row, id.ok_or_else(|| self.table.unmapped())?)))
        };
        rows.map(view).collect()
    }

    fn recall(&self, ids: &[External<T>]) -> (Vec<Mapped>, Vec<Uuid>) {
        let uuids = ids.iter().map(|id| id.to_uuid());
        recall(uuids, |uuid| Some((self.cache.as_ref()?.id(uuid)?, uuid)))
    }

    fn cache(&self, found: FoundMappings, known: Vec<Mapped>) -> Vec<Mapped> {
        let FoundMappings { mut mappings, began, is_inserted, is_in_transaction } = found;
        if let Some(cache) = self.cache.as_ref().filter(|_| !is_in_transaction) {
            cache.insert_all(&mappings, is_inserted, began, Instant::now());
        }
        mappings.extend(known);
        mappings
    }
}

fn internal_ids<T: MappedResource>(
    mut mappings: Vec<Mapped>,
    ids: &[External<T>],
) -> Vec<Option<T::Internal>> {
    mappings.sort_unstable_by_key(|(_, uuid)| *uuid);
    let id = |external: &External<T>| {
        let found = mappings.binary_search_by_key(&external.to_uuid(), |(_, uuid)| *uuid);
        found.ok().map(|i| internal_id::<T>(mappings[i].0))
    };
    ids.iter().map(id).collect()
}

fn recall<K: Copy>(
    asked: impl Iterator<Item = K>,
    cached: impl Fn(K) -> Option<Mapped>,
) -> (Vec<Mapped>, Vec<K>) {
    let mut known = Vec::new();
    let mut unknown = Vec::new();
    for key in asked {
        match cached(key) {
            Some(mapping) => known.push(mapping),
            None => unknown.push(key),
        }
    }
    (known, unknown)
}

fn internal_id<T: MappedResource>(id: i64) -> T::Internal {
    T::Internal::from_repr(id).expect("every integer is a key in the mapped forms")
}

impl<T> Clone for Mapping<T> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            cache: self.cache.clone(),
            generator: self.generator.clone(),
            resource: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Mapping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mapping").field("table", &self.table).field("cache", &self.cache).finish()
    }
}

/// The adapter has a function `run(on, call)`, and `on` is the first argument of the calls.
#[doc(hidden)]
#[macro_export]
macro_rules! uuid_map {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        $(#[$column_attribute:meta])* $column_visibility:vis struct $column:ident;
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        $crate::uuid_map! {
            @search {[$($generics)*] $on, $run, $error, [$($async)*] [$($await)*]}
            $(#[$attribute])* $visibility struct $name;
        }

        $crate::uuid_map! {
            @search {[$($generics)*] $on, $run, $error, [$($async)*] [$($await)*]}
            $(#[$column_attribute])* $column_visibility struct $column;
        }

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> $column<T> {
            /// Uses two columns of a table: the integers of the rows, and their public UUIDs. The UUIDs need
            /// a unique index. A row with a NULL UUID has no external id.
            ///
            /// # Panics
            /// Unless each name consists of `a-z`, `0-9` and `_` and does not start with a digit. A schema and a dot may precede the
            /// table's name.
            #[must_use]
            #[track_caller]
            pub fn new(table: &'static str, id: &'static str, uuid: &'static str) -> Self {
                Self($crate::mapping::Mapping::for_rows(table, id, uuid))
            }
        }

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> $name<T> {
            /// Creates a map in a table with a unique index over the UUID. It is correct above READ
            /// UNCOMMITTED and on clusters; use it unless measurements favor [`hashed`](Self::hashed).
            ///
            /// # Panics
            /// Unless the table's name consists of `a-z`, `0-9` and `_` and does not start with a digit. A schema and a dot may precede it.
            /// With these, it has at most 58 characters.
            #[must_use]
            #[track_caller]
            pub fn unique(table: &'static str) -> Self {
                Self($crate::mapping::Mapping::new(table, $crate::mapping::Index::Unique))
            }

            /// Creates a map in a table with an index over a 32-bit hash of the UUID. Inserts of the same
            /// hash share a lock. All programs must write to the table through such maps, on one server.
            ///
            /// # Panics
            /// Like [`unique`](Self::unique).
            #[must_use]
            #[track_caller]
            pub fn hashed(table: &'static str) -> Self {
                Self($crate::mapping::Mapping::new(table, $crate::mapping::Index::Hashed))
            }

            /// Shares the table with maps of other resources. The column `resource` has the resource's
            /// domain.
            ///
            /// # Panics
            /// Unless the domain is a valid prefix.
            #[must_use]
            #[track_caller]
            pub fn shared(self) -> Self {
                Self(self.0.shared())
            }

            /// Sets the time for retries of a statement after its first conflict: 10 seconds by default.
            /// There are no retries in your transactions. The wait for a lock ends with the session's lock
            /// timeout, and no retry follows it.
            #[must_use]
            pub fn retry_for(self, duration: ::core::time::Duration) -> Self {
                Self(self.0.retry_for(duration))
            }

            /// Adds a cache of `capacity` mappings that the map's clones share.
            ///
            /// The cache ignores mappings that were read or inserted in the caller's transaction. A mapping
            /// that this map deletes is never served after the call. If the call is in the caller's
            /// transaction, the transaction must end within five minutes of the call. A mapping that another
            /// process deletes may still be served. Its integer belongs to no other UUID, so it identifies no
            /// row. If ids are deleted and inserted again, do both in one process, or do not use the cache.
            #[must_use]
            pub fn cached(self, capacity: usize) -> Self {
                Self(self.0.cached(capacity))
            }

            /// Generates the ids of [`issue`](Self::issue) so that ids of a window of time are near each
            /// other in the index. Clients can see which rows were inserted within the same window, and
            /// nothing else. See
            /// [`PseudoOrderedGenerator`]($crate::__private::opaque_id_core::generator::PseudoOrderedGenerator).
            #[must_use]
            pub fn pseudo_ordered<K>(
                self,
                generator: $crate::__private::opaque_id_core::generator::PseudoOrderedGenerator<K>,
            ) -> Self
            where
                K: $crate::__private::opaque_id_core::generator::Clock
                    + ::core::marker::Send
                    + ::core::marker::Sync
                    + 'static,
            {
                Self(self.0.pseudo_ordered(generator))
            }

            /// Returns the statements that create the table and its index, for a migration. On MySQL and
            /// MariaDB they also create `opaque_id_slots` if it does not exist: its 16,384 rows serve all
            /// maps of the database. Inserts in your transactions and all inserts into hashed indexes lock
            /// them.
            #[must_use]
            pub fn create_sql(&self, dialect: $crate::dialect::Dialect) -> ::std::string::String {
                self.0.create_sql(dialect)
            }

            /// Returns the statement that drops the table. `opaque_id_slots` stays because other maps may use
            /// it.
            #[must_use]
            pub fn drop_sql(&self) -> ::std::string::String {
                self.0.drop_sql()
            }

            $crate::methods! {
                {[$($generics)*] $on, $run, $error, [$($async)*] [$($await)*]}

                /// Generates an external id, a random UUIDv4 unless the map is
                /// [`pseudo_ordered`](Self::pseudo_ordered), and its internal id.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                ///
                /// # Panics
                /// If the operating system's random number generator fails.
                fn issue(&self) -> ($crate::__private::opaque_id_core::External<T>, T::Internal) {
                    self.0.issue(1).map($crate::call::only)
                }

                /// Generates `count` external ids and their internal ids in one statement. On MySQL and MariaDB
                /// it needs two, but only one for a single id with sqlx and SeaORM.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                ///
                /// # Panics
                /// If the operating system's random number generator fails.
                fn issue_all(&self, count: usize) -> ::std::vec::Vec<($crate::__private::opaque_id_core::External<T>, T::Internal)> {
                    self.0.issue(count)
                }

                /// Returns the internal id of an external id from elsewhere, and inserts a missing mapping. Every
                /// call returns the same internal id until it is deleted.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn get_or_insert(&self, id: $crate::__private::opaque_id_core::External<T>) -> T::Internal {
                    self.0.get_or_insert(&[id]).map($crate::call::only)
                }

                /// Returns the internal ids of external ids from elsewhere, in their order, and inserts missing
                /// mappings. If all exist, it needs one statement. Map all ids of a transaction in one call,
                /// because the calls of two transactions may wait for each other.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn get_or_insert_all(&self, ids: &[$crate::__private::opaque_id_core::External<T>]) -> ::std::vec::Vec<T::Internal> {
                    self.0.get_or_insert(ids)
                }

                /// Deletes a mapping and returns whether it existed. The integer is never assigned to another
                /// UUID. If the same UUID is inserted again, it gets another integer.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn delete(&self, id: $crate::__private::opaque_id_core::External<T>) -> bool {
                    self.0.delete(&[id]).map(|deleted| deleted > 0)
                }

                /// Deletes mappings with one statement per list, or two with a cache, and returns the number of
                /// existing ones.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn delete_all(&self, ids: &[$crate::__private::opaque_id_core::External<T>]) -> u64 {
                    self.0.delete(ids)
                }
            }
        }
    };
    (
        @search {[$($generics:tt)*] $on:ty, $run:path, $error:ty, [$($async:tt)*] [$($await:tt)*]}
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
    ) => {
        $(#[$attribute])*
        $visibility struct $name<T: $crate::__private::opaque_id_core::resource::MappedResource>($crate::mapping::Mapping<T>);

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> ::core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_tuple(stringify!($name)).field(&self.0).finish()
            }
        }

        /// Cloning is cheap, and clones share the cache.
        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> ::core::clone::Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> $name<T> {
            $crate::methods! {
                {[$($generics)*] $on, $run, $error, [$($async)*] [$($await)*]}

                /// Returns the internal id of an external id, if it has one.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn find(&self, id: $crate::__private::opaque_id_core::External<T>) -> ::core::option::Option<T::Internal> {
                    self.0.find(&[id]).map($crate::call::only)
                }

                /// Returns the internal ids of external ids, in their order, with one statement per list.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn find_all(&self, ids: &[$crate::__private::opaque_id_core::External<T>]) -> ::std::vec::Vec<::core::option::Option<T::Internal>> {
                    self.0.find(ids)
                }

                /// Returns the external id of an internal id, if it has one.
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn to_external(&self, id: T::Internal) -> ::core::option::Option<$crate::__private::opaque_id_core::External<T>> {
                    self.0.to_external(&[id]).map($crate::call::only)
                }

                /// Returns the external ids of internal ids, in their order, with one statement per list. So
                /// 1,000 rows need one more query (two on MySQL and MariaDB).
                ///
                /// # Errors
                /// [`MappingError`]($crate::mapping::MappingError).
                fn to_external_all(&self, ids: &[T::Internal]) -> ::std::vec::Vec<::core::option::Option<$crate::__private::opaque_id_core::External<T>>> {
                    self.0.to_external(ids)
                }
            }

            /// Converts rows into views with one statement for all external ids. `id` returns the internal id
            /// of a row. In the view, the external id is the field `#[view(given)]`. The keyring seals ids of
            /// sealed resources.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError), `Unmapped` if a row has no mapping.
            pub $($async)* fn view_all<$($generics)*, M, V>(
                &self,
                on: $on,
                keyring: &$crate::__private::opaque_id_core::Keyring,
                rows: ::std::vec::Vec<M>,
                id: impl ::core::ops::Fn(&M) -> T::Internal,
            ) -> ::core::result::Result<::std::vec::Vec<V>, $error>
            where
                (M, $crate::__private::opaque_id_core::External<T>): $crate::__private::opaque_id_core::IntoView<V>,
            {
                let ids: ::std::vec::Vec<_> = rows.iter().map(id).collect();
                let ids = self.to_external_all(on, &ids)$($await)*?;
                self.0.views(keyring, rows, ids)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::ops::ControlFlow;
    use std::time::{SystemTime, UNIX_EPOCH};

    use opaque_id_core::generator::SystemRandom;
    use opaque_id_core::{MasterSecret, OpaqueId};

    use super::*;
    use crate::call::ConnectionState;
    use crate::statement::Value;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    struct Order;

    struct Minute(u64);

    impl Clock for Minute {
        fn now(&self) -> SystemTime {
            UNIX_EPOCH + Duration::from_secs(60 * self.0)
        }
    }

    #[test]
    fn issued_ids_are_near_each_other_if_the_map_is_pseudo_ordered() {
        let map = Mapping::<Order>::new("order_ids", Index::Unique);
        map.table.column_is_checked();
        let connection = ConnectionState { dialect: Dialect::Sqlite, is_in_transaction: false };
        let generator = |minutes: u64| {
            let (secret, window) = (MasterSecret::example(), Duration::from_secs(60));
            PseudoOrderedGenerator::with(&secret, window, 48, Minute(minutes), SystemRandom)
        };
        let prefixes = |map: &Mapping<Order>| {
            let mut issue = map.issue(10);
            let ControlFlow::Continue(insert) = issue.next(connection) else {
                panic!("expected an insert")
            };
            let Value::Bytes(uuids) = &insert.values[0] else { panic!("expected bytes") };
            uuids.chunks(16).map(|uuid| uuid[..6].to_vec()).collect::<HashSet<_>>()
        };
        assert_eq!(prefixes(&map).len(), 10);
        let [first, same, next] = [1, 1, 2].map(|minutes| {
            let generator = generator(minutes).expect("valid settings");
            prefixes(&map.clone().pseudo_ordered(generator))
        });
        assert_eq!(first.len(), 1);
        assert_eq!(first, same);
        assert_ne!(first, next);
    }
}
