use core::fmt;
use core::marker::PhantomData;
use std::collections::HashMap;
#[cfg(feature = "cache")]
use std::sync::Arc;
#[cfg(feature = "cache")]
use std::time::Instant;

use uuid::Uuid;

#[cfg(feature = "cache")]
use super::cache::Cache;
use super::table::{Dialect, Plan, Table};
use super::work::Work;
use crate::external::External;
use crate::internal::InternalId;
use crate::resource::MappedResource;

/// What an adapter's `UuidMap` holds: the table, the cache, and the calls up to their statements.
pub struct Mapping<T> {
    table: Table,
    #[cfg(feature = "cache")]
    cache: Option<Arc<Cache>>,
    resource: PhantomData<fn() -> T>,
}

impl<T: MappedResource> Mapping<T> {
    /// # Panics
    /// On a bad name.
    #[must_use]
    #[track_caller]
    pub fn new(table: &'static str, plan: Plan) -> Self {
        Self {
            table: Table::new(table, plan),
            #[cfg(feature = "cache")]
            cache: None,
            resource: PhantomData,
        }
    }

    /// # Panics
    /// On a domain that a shared table has no room for.
    #[must_use]
    #[track_caller]
    pub fn shared(self) -> Self {
        Self {
            table: self.table.shared(T::DOMAIN),
            ..self
        }
    }

    /// A cache of so many mappings.
    #[cfg(feature = "cache")]
    #[must_use]
    pub fn cached(self, capacity: usize) -> Self {
        Self {
            cache: Some(Arc::new(Cache::new(capacity))),
            ..self
        }
    }

    /// See the macro's method.
    #[must_use]
    pub fn create_sql(&self, dialect: Dialect) -> String {
        self.table.create_sql(dialect)
    }

    /// See the macro's method.
    #[must_use]
    pub fn drop_sql(&self) -> String {
        self.table.drop_sql()
    }

    /// The work of `find_all`.
    #[must_use]
    pub fn find(&self, ids: &[External<T>]) -> Work {
        let (known, unknown) = self.recall(ids);
        Work::find(self.table, unknown).knowing(known)
    }

    /// The work of `get_or_insert_all`.
    #[must_use]
    pub fn get_or_insert(&self, ids: &[External<T>]) -> Work {
        let (known, unknown) = self.recall(ids);
        Work::get_or_insert(self.table, unknown).knowing(known)
    }

    /// The work of `issue_all`.
    #[must_use]
    pub fn issue(&self, count: usize) -> Work {
        let uuids = (0..count).map(|_| External::<T>::random().to_uuid());
        Work::issue(self.table, uuids.collect())
    }

    /// The work of `external_of_all`.
    #[must_use]
    pub fn external_of(&self, ids: &[T::Internal]) -> Work {
        let ids = ids.iter().map(|id| *id.as_repr());
        let (known, unknown) = recall(ids, |id| Some((id, self.cached_uuid(id)?)));
        Work::external_of(self.table, unknown).knowing(known)
    }

    /// The work of `forget_all`.
    #[must_use]
    pub fn forget(&self, ids: &[External<T>]) -> Work {
        let work = Work::forget(self.table, ids.iter().map(|id| id.to_uuid()).collect());
        #[cfg(feature = "cache")]
        let work = match &self.cache {
            Some(cache) => work.out_of(Arc::clone(cache)),
            None => work,
        };
        work
    }

    /// The internal id of each external one that has one.
    #[must_use]
    pub fn internal_ids(&self, work: Work, ids: &[External<T>]) -> Vec<Option<T::Internal>> {
        self.learn(&work);
        let found = work.into_found().into_iter();
        let found: HashMap<Uuid, i64> = found.map(|(id, uuid)| (uuid, id)).collect();
        ids.iter()
            .map(|id| found.get(&id.to_uuid()).copied().map(internal_id::<T>))
            .collect()
    }

    /// The external id of each internal one that has one.
    #[must_use]
    pub fn external_ids(&self, work: Work, ids: &[T::Internal]) -> Vec<Option<External<T>>> {
        self.learn(&work);
        let found: HashMap<i64, Uuid> = work.into_found().into_iter().collect();
        ids.iter()
            .map(|id| found.get(id.as_repr()).copied().map(External::from))
            .collect()
    }

    /// What was issued.
    #[must_use]
    pub fn issued(&self, work: Work) -> Vec<(External<T>, T::Internal)> {
        self.learn(&work);
        let found = work.into_found().into_iter();
        found
            .map(|(id, uuid)| (External::from(uuid), internal_id::<T>(id)))
            .collect()
    }

    fn recall(&self, ids: &[External<T>]) -> (Vec<(i64, Uuid)>, Vec<Uuid>) {
        let uuids = ids.iter().map(|id| id.to_uuid());
        recall(uuids, |uuid| Some((self.cached_id(uuid)?, uuid)))
    }

    #[cfg(feature = "cache")]
    fn cached_id(&self, uuid: Uuid) -> Option<i64> {
        self.cache.as_ref()?.id(uuid)
    }

    #[cfg(feature = "cache")]
    fn cached_uuid(&self, id: i64) -> Option<Uuid> {
        self.cache.as_ref()?.uuid(id)
    }

    #[cfg(feature = "cache")]
    fn learn(&self, work: &Work) {
        if let Some(cache) = &self.cache {
            cache.insert_all(work.committed(), work.began(), Instant::now());
        }
    }

    #[cfg(not(feature = "cache"))]
    fn cached_id(&self, _: Uuid) -> Option<i64> {
        None
    }

    #[cfg(not(feature = "cache"))]
    fn cached_uuid(&self, _: i64) -> Option<Uuid> {
        None
    }

    #[cfg(not(feature = "cache"))]
    fn learn(&self, _: &Work) {}
}

/// The mappings that a cache knows, and what it does not know of.
fn recall<K: Copy>(
    asked: impl Iterator<Item = K>,
    cached: impl Fn(K) -> Option<(i64, Uuid)>,
) -> (Vec<(i64, Uuid)>, Vec<K>) {
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
            table: self.table,
            #[cfg(feature = "cache")]
            cache: self.cache.clone(),
            resource: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Mapping<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("UuidMap");
        debug.field("table", &self.table);
        #[cfg(feature = "cache")]
        debug.field("cache", &self.cache);
        debug.finish()
    }
}

/// Writes an adapter's `UuidMap<T>`: the type, and each call once. The adapter has a function `run(on,
/// &mut Work)`, which is given what the calls are given as `on`.
#[doc(hidden)]
#[macro_export]
macro_rules! uuid_map {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        $(#[$attribute])*
        $visibility struct $name<T: $crate::MappedResource>($crate::__private::Mapping<T>);

        impl<T: $crate::MappedResource> ::core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        /// Cheap; the clones share the cache.
        impl<T: $crate::MappedResource> ::core::clone::Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        impl<T: $crate::MappedResource> $name<T> {
            /// A map in a table of the unique plan: a unique index over the UUID. Right in every
            /// isolation level and on clusters; the one to take unless measurements say otherwise.
            ///
            /// # Panics
            /// Unless the name is of `a-z`, `0-9` and `_`, with a schema and a dot before it if wanted.
            #[must_use]
            #[track_caller]
            pub fn unique(table: &'static str) -> Self {
                Self($crate::__private::Mapping::new(table, $crate::Plan::Unique))
            }

            /// A map in a table of the hashed plan: an index over a 32-bit hash of the UUID, which is
            /// compared after it, and locks that only inserts of the same hash share. All that write to
            /// the table have to do it through such maps, on one server.
            ///
            /// # Panics
            /// As [`unique`](Self::unique).
            #[must_use]
            #[track_caller]
            pub fn hashed(table: &'static str) -> Self {
                Self($crate::__private::Mapping::new(table, $crate::Plan::Hashed))
            }

            /// The same map in a table that it shares with maps of other resources, whose rows a column
            /// `resource` tells apart; it holds the resource's domain.
            ///
            /// # Panics
            /// Unless the domain could be a prefix.
            #[must_use]
            #[track_caller]
            pub fn shared(self) -> Self {
                Self(self.0.shared())
            }

            $crate::__private::uuid_map_cache!();

            /// The statements that create the table and its index, for a migration. On MySQL and
            /// MariaDB they also create `opaque_id_slots` if it is not there: 16,384 rows that inserts
            /// lock instead of waiting for one another's UUIDs, for all maps of the database.
            #[must_use]
            pub fn create_sql(&self, dialect: $crate::Dialect) -> ::std::string::String {
                self.0.create_sql(dialect)
            }

            /// The statement that drops the table. `opaque_id_slots` stays: other maps may use it.
            #[must_use]
            pub fn drop_sql(&self) -> ::std::string::String {
                self.0.drop_sql()
            }

            /// A fresh external id, which is a random UUIDv4, and its integer.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            ///
            /// # Panics
            /// If the operating system has no randomness to give.
            pub $($async)* fn issue<$($generics)*>(
                &self,
                on: $on,
            ) -> ::core::result::Result<($crate::External<T>, T::Internal), $error> {
                let issued = self.issue_all(on, 1)$($await)*?;
                issued.into_iter().next().ok_or($crate::MappingError::Forgotten)
            }

            /// As many fresh external ids as wanted, with their integers, in one statement.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            ///
            /// # Panics
            /// If the operating system has no randomness to give.
            pub $($async)* fn issue_all<$($generics)*>(
                &self,
                on: $on,
                count: usize,
            ) -> ::core::result::Result<::std::vec::Vec<($crate::External<T>, T::Internal)>, $error> {
                let mut work = self.0.issue(count);
                $run(on, &mut work)$($await)*?;
                let issued = self.0.issued(work);
                if issued.len() < count {
                    return Err($crate::MappingError::Forgotten);
                }
                Ok(issued)
            }

            /// The integer of an external id made elsewhere: the same one every time, for everybody.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn get_or_insert<$($generics)*>(
                &self,
                on: $on,
                id: $crate::External<T>,
            ) -> ::core::result::Result<T::Internal, $error> {
                let ids = self.get_or_insert_all(on, &[id])$($await)*?;
                ids.into_iter().next().ok_or($crate::MappingError::Forgotten)
            }

            /// The integers of external ids made elsewhere, in their order: one statement if all are
            /// known, and one more for those that are not. What a transaction needs is best asked for in
            /// one call, as the calls of two transactions may wait for one another.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn get_or_insert_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::External<T>],
            ) -> ::core::result::Result<::std::vec::Vec<T::Internal>, $error> {
                let mut work = self.0.get_or_insert(ids);
                $run(on, &mut work)$($await)*?;
                let ids = self.0.internal_ids(work, ids).into_iter();
                ids.map(|id| id.ok_or($crate::MappingError::Forgotten)).collect()
            }

            /// The integer of an external id, if it has one.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn find<$($generics)*>(
                &self,
                on: $on,
                id: $crate::External<T>,
            ) -> ::core::result::Result<::core::option::Option<T::Internal>, $error> {
                Ok(self.find_all(on, &[id])$($await)*?.into_iter().next().flatten())
            }

            /// The integers of external ids, in their order, in one statement.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn find_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::External<T>],
            ) -> ::core::result::Result<::std::vec::Vec<::core::option::Option<T::Internal>>, $error>
            {
                let mut work = self.0.find(ids);
                $run(on, &mut work)$($await)*?;
                Ok(self.0.internal_ids(work, ids))
            }

            /// The external id of an integer, if it has one.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn external_of<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
            ) -> ::core::result::Result<::core::option::Option<$crate::External<T>>, $error> {
                Ok(self.external_of_all(on, &[id])$($await)*?.into_iter().next().flatten())
            }

            /// The external ids of integers, in their order, in one statement: to list 1,000 rows costs
            /// one query more, not 1,000.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn external_of_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[T::Internal],
            ) -> ::core::result::Result<
                ::std::vec::Vec<::core::option::Option<$crate::External<T>>>,
                $error,
            > {
                let mut work = self.0.external_of(ids);
                $run(on, &mut work)$($await)*?;
                Ok(self.0.external_ids(work, ids))
            }

            /// Deletes a mapping; whether there was one. The integer is not given to another UUID, and
            /// the same UUID would get another integer.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn forget<$($generics)*>(
                &self,
                on: $on,
                id: $crate::External<T>,
            ) -> ::core::result::Result<bool, $error> {
                Ok(self.forget_all(on, &[id])$($await)*? > 0)
            }

            /// Deletes mappings; how many there were. In one statement, or with a cache two.
            ///
            /// # Errors
            /// [`MappingError`]($crate::MappingError).
            pub $($async)* fn forget_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::External<T>],
            ) -> ::core::result::Result<u64, $error> {
                let mut work = self.0.forget(ids);
                $run(on, &mut work)$($await)*?;
                Ok(work.count())
            }
        }
    };
}

/// The method that gives a map its cache.
#[cfg(feature = "cache")]
#[doc(hidden)]
#[macro_export]
macro_rules! uuid_map_cache {
    () => {
        /// The same map with a cache of so many mappings in this process, for it and its clones.
        ///
        /// Only what is known to be committed is kept: nothing that is read or inserted in a transaction
        /// of the caller's. What this map forgets is never served again, from the call on; if that is in a
        /// transaction of the caller's, the transaction must end within five minutes of it. What another
        /// process forgets may be served still: its integer belongs to no other UUID, so it leads to no
        /// row; but where ids are forgotten and inserted anew, all of it belongs into one process, or
        /// the cache is left out.
        #[must_use]
        pub fn cached(self, capacity: usize) -> Self {
            Self(self.0.cached(capacity))
        }
    };
}

/// Without the feature `cache` there is none.
#[cfg(not(feature = "cache"))]
#[doc(hidden)]
#[macro_export]
macro_rules! uuid_map_cache {
    () => {};
}
