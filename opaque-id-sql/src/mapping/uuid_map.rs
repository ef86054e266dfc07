use core::fmt;
use core::marker::PhantomData;
use std::collections::HashMap;
#[cfg(feature = "cache")]
use std::sync::Arc;
#[cfg(feature = "cache")]
use std::time::Instant;

use opaque_id_core::External;
use opaque_id_core::resource::{InternalId, MappedResource};
use uuid::Uuid;

#[cfg(feature = "cache")]
use super::cache::Cache;
use super::call::MappingCall;
use super::ddl::Index;
use super::table::Table;
use crate::dialect::Dialect;

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
    pub fn new(table: &'static str, index: Index) -> Self {
        Self {
            table: Table::new(table, index),
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

    /// The call of `find_all`.
    #[must_use]
    pub fn find(&self, ids: &[External<T>]) -> MappingCall {
        let (known, unknown) = self.recall(ids);
        MappingCall::find(self.table.clone(), unknown).with_cached(known)
    }

    /// The call of `get_or_insert_all`.
    #[must_use]
    pub fn get_or_insert(&self, ids: &[External<T>]) -> MappingCall {
        let (known, unknown) = self.recall(ids);
        MappingCall::get_or_insert(self.table.clone(), unknown).with_cached(known)
    }

    /// The call of `issue_all`.
    #[must_use]
    pub fn issue(&self, count: usize) -> MappingCall {
        let uuids = (0..count).map(|_| External::<T>::random().to_uuid());
        MappingCall::issue(self.table.clone(), uuids.collect())
    }

    /// The call of `to_external_all`.
    #[must_use]
    pub fn to_external(&self, ids: &[T::Internal]) -> MappingCall {
        let ids = ids.iter().map(|id| *id.as_repr());
        let (known, unknown) = recall(ids, |id| Some((id, self.cached_uuid(id)?)));
        MappingCall::to_external(self.table.clone(), unknown).with_cached(known)
    }

    /// The call of `delete_all`.
    #[must_use]
    pub fn delete(&self, ids: &[External<T>]) -> MappingCall {
        let call = MappingCall::delete(
            self.table.clone(),
            ids.iter().map(|id| id.to_uuid()).collect(),
        );
        #[cfg(feature = "cache")]
        let call = match &self.cache {
            Some(cache) => call.evicting(Arc::clone(cache)),
            None => call,
        };
        call
    }

    /// The internal id of each external one that has one.
    #[must_use]
    pub fn internal_ids(&self, call: MappingCall, ids: &[External<T>]) -> Vec<Option<T::Internal>> {
        self.add_to_cache(&call);
        let found = call.into_found().into_iter();
        let found: HashMap<Uuid, i64> = found.map(|(id, uuid)| (uuid, id)).collect();
        ids.iter()
            .map(|id| found.get(&id.to_uuid()).copied().map(internal_id::<T>))
            .collect()
    }

    /// The external id of each internal one that has one.
    #[must_use]
    pub fn external_ids(&self, call: MappingCall, ids: &[T::Internal]) -> Vec<Option<External<T>>> {
        self.add_to_cache(&call);
        let found: HashMap<i64, Uuid> = call.into_found().into_iter().collect();
        ids.iter()
            .map(|id| found.get(id.as_repr()).copied().map(External::from))
            .collect()
    }

    /// What was issued.
    #[must_use]
    pub fn issued(&self, call: MappingCall) -> Vec<(External<T>, T::Internal)> {
        self.add_to_cache(&call);
        let found = call.into_found().into_iter();
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
    fn add_to_cache(&self, call: &MappingCall) {
        if let Some(cache) = &self.cache {
            cache.insert_all(call.committed(), call.began(), Instant::now());
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
    fn add_to_cache(&self, _: &MappingCall) {}
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
            table: self.table.clone(),
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
/// &mut MappingCall)`, which is given what the calls are given as `on`.
#[doc(hidden)]
#[macro_export]
macro_rules! uuid_map {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        $(#[$attribute])*
        $visibility struct $name<T: $crate::__private::opaque_id_core::resource::MappedResource>($crate::mapping::Mapping<T>);

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> ::core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Debug::fmt(&self.0, f)
            }
        }

        /// Cheap; the clones share the cache.
        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> ::core::clone::Clone for $name<T> {
            fn clone(&self) -> Self {
                Self(::core::clone::Clone::clone(&self.0))
            }
        }

        impl<T: $crate::__private::opaque_id_core::resource::MappedResource> $name<T> {
            /// A map in a table with a unique index over the UUID. It is right in every isolation level and on
            /// clusters; use it unless measurements say otherwise.
            ///
            /// # Panics
            /// Unless the name is of `a-z`, `0-9` and `_`, with a schema and a dot before it if wanted.
            #[must_use]
            #[track_caller]
            pub fn unique(table: &'static str) -> Self {
                Self($crate::mapping::Mapping::new(table, $crate::mapping::Index::Unique))
            }

            /// A map in a table with an index over a 32-bit hash of the UUID, which is compared after it, and
            /// locks that only inserts of the same hash share. Everything that writes to the table must do it
            /// through such maps, on one server.
            ///
            /// # Panics
            /// As [`unique`](Self::unique).
            #[must_use]
            #[track_caller]
            pub fn hashed(table: &'static str) -> Self {
                Self($crate::mapping::Mapping::new(table, $crate::mapping::Index::Hashed))
            }

            /// The same map in a table that it shares with maps of other resources. A column `resource`, which
            /// contains the resource's domain, distinguishes their rows.
            ///
            /// # Panics
            /// Unless the domain could be a prefix.
            #[must_use]
            #[track_caller]
            pub fn shared(self) -> Self {
                Self(self.0.shared())
            }

            $crate::uuid_map_cache!();

            /// The statements that create the table and its index, for a migration. On MySQL and
            /// MariaDB they also create `opaque_id_slots` if it does not exist: 16,384 rows that inserts
            /// lock instead of waiting for one another's UUIDs, for all maps of the database.
            #[must_use]
            pub fn create_sql(&self, dialect: $crate::dialect::Dialect) -> ::std::string::String {
                self.0.create_sql(dialect)
            }

            /// The statement that drops the table. `opaque_id_slots` stays: other maps may use it.
            #[must_use]
            pub fn drop_sql(&self) -> ::std::string::String {
                self.0.drop_sql()
            }

            /// Generates an external id, which is a random UUIDv4, and its integer.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            pub $($async)* fn issue<$($generics)*>(
                &self,
                on: $on,
            ) -> ::core::result::Result<($crate::__private::opaque_id_core::External<T>, T::Internal), $error> {
                let issued = self.issue_all(on, 1)$($await)*?;
                issued.into_iter().next().ok_or($crate::mapping::MappingError::Deleted)
            }

            /// Generates `count` external ids with their integers, in one statement.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            pub $($async)* fn issue_all<$($generics)*>(
                &self,
                on: $on,
                count: usize,
            ) -> ::core::result::Result<::std::vec::Vec<($crate::__private::opaque_id_core::External<T>, T::Internal)>, $error> {
                let mut call = self.0.issue(count);
                $run(on, &mut call)$($await)*?;
                let issued = self.0.issued(call);
                if issued.len() < count {
                    return Err($crate::mapping::MappingError::Deleted);
                }
                Ok(issued)
            }

            /// The integer of an external id made elsewhere: the same one every time, for everybody.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn get_or_insert<$($generics)*>(
                &self,
                on: $on,
                id: $crate::__private::opaque_id_core::External<T>,
            ) -> ::core::result::Result<T::Internal, $error> {
                let ids = self.get_or_insert_all(on, &[id])$($await)*?;
                ids.into_iter().next().ok_or($crate::mapping::MappingError::Deleted)
            }

            /// The integers of external ids made elsewhere, in their order: one statement if all are
            /// known, and one more for those that are not. What a transaction needs is best asked for in
            /// one call, as the calls of two transactions may wait for one another.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn get_or_insert_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::__private::opaque_id_core::External<T>],
            ) -> ::core::result::Result<::std::vec::Vec<T::Internal>, $error> {
                let mut call = self.0.get_or_insert(ids);
                $run(on, &mut call)$($await)*?;
                let ids = self.0.internal_ids(call, ids).into_iter();
                ids.map(|id| id.ok_or($crate::mapping::MappingError::Deleted)).collect()
            }

            /// The integer of an external id, if it has one.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn find<$($generics)*>(
                &self,
                on: $on,
                id: $crate::__private::opaque_id_core::External<T>,
            ) -> ::core::result::Result<::core::option::Option<T::Internal>, $error> {
                Ok(self.find_all(on, &[id])$($await)*?.into_iter().next().flatten())
            }

            /// The integers of external ids, in their order, in one statement.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn find_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::__private::opaque_id_core::External<T>],
            ) -> ::core::result::Result<::std::vec::Vec<::core::option::Option<T::Internal>>, $error>
            {
                let mut call = self.0.find(ids);
                $run(on, &mut call)$($await)*?;
                Ok(self.0.internal_ids(call, ids))
            }

            /// The external id of an integer, if it has one.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn to_external<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
            ) -> ::core::result::Result<::core::option::Option<$crate::__private::opaque_id_core::External<T>>, $error> {
                Ok(self.to_external_all(on, &[id])$($await)*?.into_iter().next().flatten())
            }

            /// The external ids of integers, in their order, in one statement: to list 1,000 rows costs
            /// one query more, not 1,000.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn to_external_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[T::Internal],
            ) -> ::core::result::Result<
                ::std::vec::Vec<::core::option::Option<$crate::__private::opaque_id_core::External<T>>>,
                $error,
            > {
                let mut call = self.0.to_external(ids);
                $run(on, &mut call)$($await)*?;
                Ok(self.0.external_ids(call, ids))
            }

            /// Deletes a mapping, and returns whether there was one. The integer is not given to another UUID, and
            /// the same UUID would get another integer.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn delete<$($generics)*>(
                &self,
                on: $on,
                id: $crate::__private::opaque_id_core::External<T>,
            ) -> ::core::result::Result<bool, $error> {
                Ok(self.delete_all(on, &[id])$($await)*? > 0)
            }

            /// Deletes mappings in one statement, or two with a cache, and returns how many there were.
            ///
            /// # Errors
            /// [`MappingError`]($crate::mapping::MappingError).
            pub $($async)* fn delete_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[$crate::__private::opaque_id_core::External<T>],
            ) -> ::core::result::Result<u64, $error> {
                let mut call = self.0.delete(ids);
                $run(on, &mut call)$($await)*?;
                Ok(call.count())
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
        /// of the caller's. What this map deletes is never served again, from the call on; if that is in a
        /// transaction of the caller's, the transaction must end within five minutes of it. What another
        /// process deletes may still be served: its integer belongs to no other UUID, so it leads to no
        /// row. Where ids are deleted and inserted again, do both in one process, or leave the cache out.
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
