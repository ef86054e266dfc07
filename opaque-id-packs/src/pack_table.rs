//! The macros that write `PackTable<T, V, E, O>` for an adapter.
//!
//! Generic types cannot replace the macros: sqlx takes a connection by value, SeaORM by `&` and diesel by
//! `&mut`, and diesel's calls are blocking or not. So each adapter has a function `run(on, call)`.

/// The names that the macros use.
pub(crate) mod names {
    pub(crate) use std::time::{Duration, SystemTime};

    pub(crate) use opaque_id_core::keyring::SharedKeyring;
    pub(crate) use opaque_id_core::resource::ReprOf;
    pub(crate) use opaque_id_core::{IdRange, OpaqueId};
    pub(crate) use opaque_id_sql::Dialect;

    pub(crate) use crate::order::id_column;
    pub(crate) use crate::packs::Packs;
    pub(crate) use crate::statement::Statements;
    pub(crate) use crate::values::Values;
    pub(crate) use crate::{
        ByKey, CacheStats, ColumnName, Conversion, Converted, Encoding, Encrypted, Fingerprint,
        Group, Json, KeyOrder, Merged, Order, Pages, Rekeyed, Settings, TableName, Update,
        Verified,
    };
}

macro_rules! table_calls {
    (
        $adapter:tt $name:ident, $content:ident, rows: $rows:expr,
        [$($parameter:ident),*], [$($bound:tt)*]
    ) => {
        impl<$($parameter),*> std::fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&self.0, f)
            }
        }

        /// Cloning is cheap, and clones share the settings, the dictionaries and the cache.
        impl<$($parameter),*> Clone for $name<$($parameter),*> {
            fn clone(&self) -> Self {
                Self(self.0.clone())
            }
        }

        impl<$($bound)*> $name<$($parameter),*> {
            /// Returns the statements that create the tables, for a migration: `…_meta`, for packs `…_recent`
            /// and `…_packs`, and `…_keys` if values have groups.
            ///
            /// # Panics
            /// Unless the name consists of `a-z`, `0-9` and `_` and does not start with a digit. A schema and a dot may precede it.
            #[must_use]
            #[track_caller]
            pub fn create_sql(dialect: Dialect, name: &str) -> String {
                Statements::create_sql(dialect, TableName::new(name).table(), $rows, E::IS_GROUPED)
            }

            /// Returns the statements that drop these tables. Without them the values of a column cannot be read.
            ///
            /// # Panics
            /// Panics like [`create_sql`](Self::create_sql).
            #[must_use]
            #[track_caller]
            pub fn drop_sql(name: &str) -> String {
                Statements::drop_sql(TableName::new(name).table(), $rows, E::IS_GROUPED)
            }

            /// Returns the settings that this client has last read.
            #[must_use]
            pub fn settings(&self) -> Settings {
                self.0.settings()
            }

            opaque_id_sql::methods! {
                $adapter

                /// Opens a table or a column that has settings.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), even if the settings are missing.
                ///
                /// # Panics
                /// Panics like [`create_sql`](Self::create_sql).
                fn open_existing(
                    keyring: impl Into<SharedKeyring>,
                    name: impl Into<TableName>,
                ) -> Self {
                    $content::open(keyring.into(), name.into(), None)?.map(Self)
                }

                /// Replaces the settings. They apply to packs and values that are written afterwards. Other
                /// clients read them within a minute, and clients of a column when they refresh it. Clients with
                /// old settings do no harm.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn configure(&self, settings: Settings) -> () {
                    self.0.configure(settings)
                }

                /// Trains a dictionary like [`train`](Self::train), from samples without personal data, such as
                /// made-up values. Pieces of them stay in `…_meta` while the dictionary is in use, and lengths
                /// may reveal them.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), for example if there are too few samples.
                fn train_from_public<'v>(
                    &self,
                    samples: impl IntoIterator<Item = &'v V>,
                    bytes: usize,
                ) -> () where V: 'v {
                    self.0.train_from_public::<V, E>(samples, bytes)
                }

                /// Erases a [group](crate::guide#groups) irrevocably: replaces its key by a mark. Reads no longer find
                /// its rows, new ones are refused, and mergers remove them. Other processes notice within a
                /// minute.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), for example if there are no groups.
                fn erase(&self, group: Group) -> () {
                    self.0.erase(group)
                }
            }
        }
    };
}

macro_rules! pack_table {
    ($adapter:tt $(#[$attribute:meta])* pub struct $name:ident;) => {
        $(#[$attribute])*
        pub struct $name<T, V, E = Json, O = ByKey>(Packs<T, V, E, O>);

        crate::pack_table::table_calls! {
            $adapter $name, Packs, rows: Some(id_column::<ReprOf<T>>(O::HIDES_KEYS)),
            [T, V, E, O], [T: OpaqueId, V, E: Encoding<V>, O: Order]
        }

        impl<T: OpaqueId, V, E: Encoding<V>, O: Order> $name<T, V, E, O> {
            /// Adds a cache of decoded packs with `bytes` bytes that all clones share. `get` and
            /// `get_all` ask the server whether a pack has changed, and only then get it. Ranges do not use it.
            #[must_use]
            pub fn cached(self, bytes: u64) -> Self {
                self.0.set_cache(bytes);
                self
            }

            /// Returns the hits and misses of the [cache](Self::cached), or zeros without one. Rows in the
            /// recent table do not count.
            #[must_use]
            pub fn cache_stats(&self) -> CacheStats {
                self.0.cache_stats()
            }

            /// Returns the pages of all rows, in the table's order.
            #[must_use]
            pub fn scan(&self) -> Pages<T> {
                self.0.scan()
            }

            /// Returns the pages of a range, in the order of the ids.
            #[must_use]
            pub fn pages(&self, range: IdRange<T::Internal>) -> Pages<T>
            where
                O: KeyOrder,
            {
                self.0.range(range, false)
            }

            /// Returns the pages of a range, from the last id to the first.
            #[must_use]
            pub fn pages_descending(&self, range: IdRange<T::Internal>) -> Pages<T>
            where
                O: KeyOrder,
            {
                self.0.range(range, true)
            }

            opaque_id_sql::methods! {
                $adapter

                /// Opens the tables with this name. It is bound to their contents and cannot change. Empty
                /// tables without settings get these settings. Open a table once, when the process starts,
                /// and clone it. Once it is in use, call [`open_existing`](Self::open_existing), because
                /// empty tables are then an error. Open tables of this name in other databases separately,
                /// and also in schemas that a connection's `search_path` chooses.
                ///
                /// The keyring is a `&Keyring` or a `&SharedKeyring`. The table and its clones follow the
                /// rotation of a `SharedKeyring`. The name is a text, or a [`TableName`](crate::TableName) with a
                /// context.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), for example if rows have groups or an encrypted order, and
                /// the first call is in a transaction.
                ///
                /// # Panics
                /// Panics like [`create_sql`](Self::create_sql), and if the operating system's random number
                /// generator fails.
                fn open(
                    keyring: impl Into<SharedKeyring>,
                    name: impl Into<TableName>,
                    settings: Settings,
                ) -> Self {
                    Packs::open(keyring.into(), name.into(), Some(settings))?.map(Self)
                }

                /// Trains a dictionary of `bytes` bytes, such as 65,536, from the last rows of the table, and
                /// uses it from now on. Packs keep their dictionary until they are written again, or until
                /// [`rekey`](Self::rekey).
                ///
                /// It computes for a second or two without yielding, with groups for up to ten. On a server,
                /// run it by `Handle::block_on` in tokio's `spawn_blocking`, or run `opaque-id packs train` instead.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), if there are too few rows, or in a transaction.
                fn train(&self, bytes: usize) -> () {
                    self.0.train(bytes)
                }

                /// Inserts or replaces a row by one statement. In a table with groups it may first read and
                /// insert keys. A table that writes through reads and replaces the row's pack.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn put(&self, id: T::Internal, value: &V) -> () {
                    self.0.put([(id, value)])
                }

                /// Writes rows, with a statement per 1,000 rows or 256 KiB. The last value of an id counts.
                /// Outside of a transaction, a call that fails or is dropped may have written some of the rows:
                /// call it again.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn put_all(&self, rows: &[(T::Internal, V)]) -> () {
                    self.0.put(rows.iter().map(|(id, value)| (*id, value)))
                }

                /// Deletes a row if it exists, like [`put`](Self::put).
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn delete(&self, id: T::Internal) -> () {
                    self.0.delete(&[id])
                }

                /// Deletes rows like [`put_all`](Self::put_all) writes them.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn delete_all(&self, ids: &[T::Internal]) -> () {
                    self.0.delete(ids)
                }

                /// Deletes the rows of a range page by page, and returns their number. Rows that others insert
                /// meanwhile may stay. `delete_range(on, IdRange::all().created_in(..a_year_ago))` keeps the rows
                /// of the last year.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError). The rows of earlier pages are already deleted.
                fn delete_range(&self, range: IdRange<T::Internal>) -> u64 where O: KeyOrder {
                    self.0.delete_range(range)
                }

                /// Returns the value of an id by one statement. Once a minute, a call also reads the settings.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn get(&self, id: T::Internal) -> Option<V> {
                    self.0.get_one(id)
                }

                /// Returns the values of ids, in their order, with a statement per 1,000 ids, or per 64 on MySQL and
                /// MariaDB.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn get_all(&self, ids: &[T::Internal]) -> Vec<Option<V>> {
                    self.0.get(ids)
                }

                /// Changes a row: reads its value, computes a new one, and writes it if no other client has
                /// changed the row meanwhile. Otherwise it calls `change` again.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError).
                fn update(
                    &self,
                    id: T::Internal,
                    change: impl FnMut(Option<V>) -> Update<V> + Send + 'static,
                ) -> () {
                    self.0.update(id, change)
                }

                /// Moves recent rows into packs that get at least a quarter of their size. The other rows stay
                /// until there are more. Any number of clients may merge at any time. If two clients merge the
                /// same pack, the slower one's work is discarded.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), after the rows of other packs are merged. If a pack cannot be
                /// read, its rows stay.
                fn merge(&self) -> Merged {
                    self.0.merge(false)
                }

                /// Moves all recent rows into packs.
                ///
                /// # Errors
                /// The same as [`merge`](Self::merge).
                fn merge_all(&self) -> Merged {
                    self.0.merge(true)
                }

                /// Encrypts packs and rows again that are not under the keyring's sealing secret or the current
                /// dictionary. Another call continues after an early end. `progress` receives the number of
                /// completed packs and rows.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError), after all readable packs and rows are encrypted again.
                fn rekey(&self, progress: impl FnMut(u64) + Send + 'static) -> Rekeyed {
                    self.0.rekey(None, None, progress)
                }

                /// Encrypts packs and rows again like [`rekey`](Self::rekey), also if they have rows of
                /// erased groups. If everything already had the current secret and dictionary, and the dictionary has been current
                /// for at least `unused_for`, it deletes the others. The result has the number of packs and
                /// rows that others have locked or changed, and of remaining dictionaries. Call it again until
                /// both are 0.
                ///
                /// Choose an hour, or longer than the longest transaction. A client that has asked the server
                /// within ten minutes may still write with the previous dictionary.
                ///
                /// # Errors
                /// The same as [`rekey`](Self::rekey). After an error, all dictionaries still exist.
                fn sweep(
                    &self,
                    unused_for: Duration,
                    progress: impl FnMut(u64) + Send + 'static,
                ) -> Rekeyed {
                    self.0.rekey(None, Some(unused_for), progress)
                }

                /// Reads all packs and recent rows, and finds corrupt and missing ones. `progress` receives the
                /// number of completed packs and recent rows.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError) if it cannot continue.
                fn verify(&self, progress: impl FnMut(u64) + Send + 'static) -> Verified {
                    self.0.verify(None, None, progress)
                }

                /// Returns the rows of the next page, or `None` after the last one. A page is one snapshot. It
                /// may be empty.
                ///
                /// # Errors
                /// [`PackError`](crate::PackError). The next call reads the same page again.
                fn next_page(&self, pages: &mut Pages<T>) -> Option<Vec<(T::Internal, V)>> {
                    self.0.next_page(pages)
                }
            }
        }
    };
}

/// These calls need a connection several times. Therefore they take a pool, and do not accept a transaction.
#[cfg(any(feature = "sqlx", feature = "seaorm"))]
macro_rules! pack_streams {
    ([$($generics:tt)*] [$($captured:tt)*] $pool:ty) => {
        impl<T: OpaqueId, V, E: Encoding<V>, O: Order> PackTable<T, V, E, O> {
            /// Returns the rows of a range, in the order of their ids. They are read page by page.
            /// [`next_page`](Self::next_page) also reads within a transaction.
            pub fn range<'p, $($generics)*>(
                &'p self,
                pool: &'p $pool,
                range: IdRange<T::Internal>,
            ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + Unpin + use<'p, T, V, E, O $($captured)*>
            where
                T: Send,
                V: Send,
                O: KeyOrder,
            {
                self.stream(pool, self.pages(range))
            }

            /// Returns the rows of a range, from the last id to the first.
            pub fn range_descending<'p, $($generics)*>(
                &'p self,
                pool: &'p $pool,
                range: IdRange<T::Internal>,
            ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + Unpin + use<'p, T, V, E, O $($captured)*>
            where
                T: Send,
                V: Send,
                O: KeyOrder,
            {
                self.stream(pool, self.pages_descending(range))
            }

            fn stream<'p, $($generics)*>(
                &'p self,
                pool: &'p $pool,
                pages: Pages<T>,
            ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + Unpin + use<'p, T, V, E, O $($captured)*>
            where
                T: Send,
                V: Send,
            {
                let pages = stream::try_unfold(pages, move |mut pages| async move {
                    let rows = self.next_page(pool, &mut pages).await?;
                    Ok::<_, PackError>(rows.map(|rows| (stream::iter(rows).map(Ok), pages)))
                });
                Box::pin(pages.try_flatten())
            }

            /// Merges every `interval` until the future is dropped: the task of a merger. `report` receives
            /// the outcome of each pass, for logs and metrics. After an error the merger continues.
            pub async fn merge_every<$($generics)*>(
                &self,
                pool: &$pool,
                interval: Duration,
                mut report: impl FnMut(Result<Merged, PackError>),
            ) {
                loop {
                    report(self.merge(pool).await);
                    Delay::new(interval).await;
                }
            }
        }
    };
}

#[cfg(any(feature = "sqlx", feature = "seaorm"))]
pub(crate) use pack_streams;
pub(crate) use {pack_table, table_calls};
