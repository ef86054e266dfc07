//! The macros that write `PackTable<T, V, E, O>` for an adapter.
//!
//! Generic types cannot replace the macros: sqlx takes a connection by value, SeaORM by `&` and diesel by
//! `&mut`, and diesel's calls are blocking or not. So a method asks its `Packs` for a call, runs the call in
//! the ORM's way, and converts the result.

macro_rules! table_calls {
    (
        $name:ident, $content:ident, [$($parameter:ident),*], [$($bound:tt)*];
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        impl<$($parameter),*> fmt::Debug for $name<$($parameter),*> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
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
                $content::<$($parameter),*>::create_sql(dialect, name)
            }

            /// Returns the statements that drop these tables. Without them the values of a column cannot be read.
            ///
            /// # Panics
            /// Panics like [`create_sql`](Self::create_sql).
            #[must_use]
            #[track_caller]
            pub fn drop_sql(name: &str) -> String {
                $content::<$($parameter),*>::drop_sql(name)
            }

            /// Opens a table or a column that has settings.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), even if the settings are missing.
            ///
            /// # Panics
            /// Panics like [`create_sql`](Self::create_sql).
            pub $($async)* fn open_existing<$($generics)*>(
                on: $on,
                keyring: impl Into<SharedKeyring>,
                name: impl Into<TableName>,
            ) -> Result<Self, $error> {
                let (content, call) = $content::open(keyring.into(), name.into(), None)?;
                $run(on, call)$($await)*?;
                Ok(Self(content))
            }

            /// Returns the settings that this client has last read, at most a minute before its last call.
            #[must_use]
            pub fn settings(&self) -> Settings {
                self.0.settings()
            }

            /// Replaces the settings. They apply to packs and values that are written afterwards. Other
            /// clients read them within a minute, and clients of a column when they refresh it. Clients with
            /// old settings do no harm.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn configure<$($generics)*>(
                &self,
                on: $on,
                settings: Settings,
            ) -> Result<(), $error> {
                Ok($run(on, self.0.configure(settings))$($await)*?)
            }

            /// Trains a dictionary like [`train`](Self::train), from samples without personal data, such as
            /// made-up values. Pieces of them stay in `…_meta` while the dictionary is in use, and lengths
            /// may reveal them.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), for example if there are too few samples.
            pub $($async)* fn train_from_public<'v, $($generics)*>(
                &self,
                on: $on,
                samples: impl IntoIterator<Item = &'v V>,
                bytes: usize,
            ) -> Result<(), $error>
            where
                V: 'v,
            {
                Ok($run(on, self.0.train_from_public::<V, E>(samples, bytes))$($await)*?)
            }

            /// Erases a [group](crate#groups) irrevocably: replaces its key by a mark. Reads no longer find
            /// its rows, new ones are refused, and mergers remove them. Other processes notice within a
            /// minute.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), for example if there are no groups.
            pub $($async)* fn erase<$($generics)*>(
                &self,
                on: $on,
                group: Group,
            ) -> Result<(), $error> {
                Ok($run(on, self.0.erase(group))$($await)*?)
            }
        }
    };
}

/// The adapter has a function `run(on, call)`, and `on` is the first argument of the calls.
macro_rules! pack_table {
    (
        $(#[$attribute:meta])* $visibility:vis struct $name:ident;
        on: [$($generics:tt)*] $on:ty, run: $run:path, error: $error:ty,
        async: [$($async:tt)*] [$($await:tt)*]
    ) => {
        $(#[$attribute])*
        $visibility struct $name<T, V, E = Json, O = ByKey>(Packs<T, V, E, O>);

        table_calls! {
            $name, Packs, [T, V, E, O], [T: OpaqueId, V, E: Encoding<V>, O: Order];
            on: [$($generics)*] $on, run: $run, error: $error, async: [$($async)*] [$($await)*]
        }

        impl<T, V, E, O> $name<T, V, E, O>
        where
            T: OpaqueId,
            E: Encoding<V>,
            O: Order,
        {
            /// Opens the tables with this name, which is bound to their contents and cannot change. Empty
            /// tables without settings get these settings. Open a table once, when the process starts, and
            /// clone it. Once the table is in use, use [`open_existing`](Self::open_existing): it returns an
            /// error if a server shows empty tables. Open tables of this name in other databases separately,
            /// and also in schemas that a connection's `search_path` selects, because they have other
            /// dictionaries.
            ///
            /// The keyring is a `&Keyring` or a `&SharedKeyring`. The table and its clones follow the
            /// rotation of a `SharedKeyring`. The name is a text, or a [`TableName`](crate::TableName) with a
            /// context.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            ///
            /// # Panics
            /// Panics like [`create_sql`](Self::create_sql), and if the operating system's random number
            /// generator fails.
            pub $($async)* fn open<$($generics)*>(
                on: $on,
                keyring: impl Into<SharedKeyring>,
                name: impl Into<TableName>,
                settings: Settings,
            ) -> Result<Self, $error> {
                let (packs, call) = Packs::open(keyring.into(), name.into(), Some(settings))?;
                $run(on, call)$($await)*?;
                Ok(Self(packs))
            }

            /// Adds a cache of decoded packs with `bytes` bytes that all clones share. Each read asks the
            /// server whether its pack has changed, and only then gets the pack.
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

            /// Trains a dictionary of `bytes` bytes, such as 65,536, from the last rows of the table, and
            /// uses it from now on. Packs keep their dictionary until they are written again, or until
            /// [`rekey`](Self::rekey).
            ///
            /// It computes for a second or two without yielding, and for up to ten seconds if the table has
            /// groups. On a server, run it where it may block, for example by `Handle::block_on` within
            /// tokio's `spawn_blocking`, or run `opaque-id packs train` instead.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), for example if there are too few rows.
            pub $($async)* fn train<$($generics)*>(
                &self,
                on: $on,
                bytes: usize,
            ) -> Result<(), $error> {
                Ok($run(on, self.0.train(bytes))$($await)*?)
            }

            /// Inserts or replaces a row by one statement. In a table with groups it may first read and
            /// insert keys. A table that writes through reads and replaces the row's pack.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn put<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
                value: &V,
            ) -> Result<(), $error> {
                Ok($run(on, self.0.put([(id, value)]))$($await)*?)
            }

            /// Writes rows, with a statement per 1,000 rows or 256 KiB. The last value of an id counts.
            /// Outside of a transaction, a call that fails or is dropped may have written some of the rows:
            /// call it again.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn put_all<$($generics)*>(
                &self,
                on: $on,
                rows: &[(T::Internal, V)],
            ) -> Result<(), $error> {
                Ok($run(on, self.0.put(rows.iter().map(|(id, value)| (*id, value))))$($await)*?)
            }

            /// Deletes a row if it exists, like [`put`](Self::put).
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn delete<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
            ) -> Result<(), $error> {
                self.delete_all(on, &[id])$($await)*
            }

            /// Deletes rows like [`put_all`](Self::put_all) writes them.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn delete_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[T::Internal],
            ) -> Result<(), $error> {
                Ok($run(on, self.0.delete(ids))$($await)*?)
            }

            /// Deletes the rows of a range page by page, and returns their number. Rows that others insert
            /// meanwhile may stay. `delete_range(on, IdRange::all().created_in(..a_year_ago))` keeps the rows
            /// of the last year.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError). The rows of earlier pages are already deleted.
            pub $($async)* fn delete_range<$($generics)*>(
                &self,
                on: $on,
                range: IdRange<T::Internal>,
            ) -> Result<u64, $error>
            where
                O: KeyOrder,
            {
                Ok($run(on, self.0.delete_range(range))$($await)*?)
            }

            /// Returns the value of an id by one statement. Once a minute, a call also reads the settings.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn get<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
            ) -> Result<Option<V>, $error> {
                Ok(self.get_all(on, &[id])$($await)*?.pop().flatten())
            }

            /// Returns the values of ids, in their order, with a statement per 1,000 ids, or per 64 on MySQL and
            /// MariaDB.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn get_all<$($generics)*>(
                &self,
                on: $on,
                ids: &[T::Internal],
            ) -> Result<Vec<Option<V>>, $error> {
                Ok($run(on, self.0.get(ids))$($await)*?)
            }

            /// Changes a row: reads its value, computes a new one, and writes it if no other client has
            /// changed the row meanwhile. Otherwise it calls `change` again.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError).
            pub $($async)* fn update<$($generics)*>(
                &self,
                on: $on,
                id: T::Internal,
                change: impl FnMut(Option<V>) -> Update<V> + Send + 'static,
            ) -> Result<(), $error>
            {
                Ok($run(on, self.0.update(id, change))$($await)*?)
            }

            /// Moves recent rows into packs that get at least a quarter of their size. The other rows stay
            /// until there are more. Any number of clients may merge at any time. If two clients merge the
            /// same pack, the slower one's work is discarded.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), after the rows of other packs are merged. If a pack cannot be
            /// read, its rows stay.
            pub $($async)* fn merge<$($generics)*>(
                &self,
                on: $on,
            ) -> Result<Merged, $error> {
                Ok($run(on, self.0.merge(false))$($await)*?)
            }

            /// Moves all recent rows into packs.
            ///
            /// # Errors
            /// The same as [`merge`](Self::merge).
            pub $($async)* fn merge_all<$($generics)*>(
                &self,
                on: $on,
            ) -> Result<Merged, $error> {
                Ok($run(on, self.0.merge(true))$($await)*?)
            }

            /// Encrypts packs and rows again that are not under the keyring's sealing secret or the current
            /// dictionary. Another call continues after an early end. `progress` receives the number of
            /// completed packs and rows.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError), after all readable packs and rows are encrypted again.
            pub $($async)* fn rekey<$($generics)*>(
                &self,
                on: $on,
                progress: impl FnMut(u64) + Send + 'static,
            ) -> Result<Rekeyed, $error> {
                Ok($run(on, self.0.rekey(None, None, progress))$($await)*?)
            }

            /// Encrypts packs and rows again like [`rekey`](Self::rekey), also if they have rows
            /// of erased groups. Then it deletes the unused old dictionaries if the current one has been current for at
            /// least `unused_for`. The result has the number of packs and rows that others have locked or
            /// changed, and of remaining dictionaries. Call it again until both are 0. Groups that other
            /// processes erase are noticed within a minute.
            ///
            /// Choose an hour, or longer than the longest transaction. A client that has asked the server
            /// within ten minutes may still write with the previous dictionary.
            ///
            /// # Errors
            /// The same as [`rekey`](Self::rekey). After an error, all dictionaries still exist.
            pub $($async)* fn sweep<$($generics)*>(
                &self,
                on: $on,
                unused_for: Duration,
                progress: impl FnMut(u64) + Send + 'static,
            ) -> Result<Rekeyed, $error> {
                Ok($run(on, self.0.rekey(None, Some(unused_for), progress))$($await)*?)
            }

            /// Reads all packs and recent rows, and finds corrupt and missing ones. `progress` receives the
            /// number of completed packs and recent rows.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError) if it cannot continue.
            pub $($async)* fn verify<$($generics)*>(
                &self,
                on: $on,
                progress: impl FnMut(u64) + Send + 'static,
            ) -> Result<Verified, $error> {
                Ok($run(on, self.0.verify(None, None, progress))$($await)*?)
            }

            /// Returns the pages of all rows, in the table's order.
            #[must_use]
            pub fn scan(&self) -> Pages<T> {
                self.0.scan()
            }

            /// Returns the rows of the next page, or `None` after the last one. A page is one snapshot. It
            /// may be empty.
            ///
            /// # Errors
            /// [`PackError`](crate::PackError). The next call reads the same page again.
            pub $($async)* fn next_page<$($generics)*>(
                &self,
                on: $on,
                pages: &mut Pages<T>,
            ) -> Result<Option<Vec<(T::Internal, V)>>, $error> {
                Ok($run(on, self.0.next_page(pages))$($await)*?)
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
            pub fn pages_descending(
                &self,
                range: IdRange<T::Internal>,
            ) -> Pages<T>
            where
                O: KeyOrder,
            {
                self.0.range(range, true)
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
