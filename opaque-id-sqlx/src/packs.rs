//! Packs: many rows compressed and encrypted as one.

use std::time::Duration;

use futures_timer::Delay;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use opaque_id_core::{IdRange, OpaqueId};
use opaque_id_packs::pack_table;
#[doc(no_inline)]
pub use opaque_id_packs::{
    ByKey, Encoding, Json, KeyOrder, Location, Merged, Order, Pages, Raw, Refusal, Rekeyed, Sealed,
    Settings, TableName, Update, Verified, format,
};
use sqlx::{Acquire, Pool};

/// For `opaque-id packs`.
#[doc(hidden)]
pub use crate::run::run;
use crate::run::{SupportedConnection, SupportedDatabase};

/// The error of a [`PackTable`]'s calls.
pub type PackError = opaque_id_packs::PackError<sqlx::Error>;

pack_table! {
    /// A table of a resource's rows, which the database keeps compressed and encrypted.
    ///
    /// Its calls accept anything that sqlx acquires a connection from: a pool, a connection or a transaction. In the caller's
    /// transaction a call is part of it, and is rolled back with it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use opaque_id_sqlx::packs::{PackTable, Settings, Update};
    /// use opaque_id_sqlx::{Dialect, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
    /// use serde::{Deserialize, Serialize};
    /// use sqlx::SqlitePool;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "event")]
    /// struct Event;
    ///
    /// #[derive(Debug, PartialEq, Serialize, Deserialize)]
    /// struct Entry {
    ///     actor: String,
    ///     action: String,
    /// }
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let tables = PackTable::<Event, Entry>::create_sql(Dialect::Sqlite, "events");
    /// sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&pool).await?; // a migration
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let events = PackTable::<Event, Entry>::open(&pool, &keyring, "events", Settings::large()).await?;
    ///
    /// let id = Internal::generate();
    /// let login = Entry { actor: "ada".into(), action: "login".into() };
    /// events.put(&pool, id, &login).await?;
    /// assert_eq!(events.get(&pool, id).await?, Some(login));
    ///
    /// events.merge_all(&pool).await?; // a task does so: `merge_every`
    /// events
    ///     .update(&pool, id, |entry| match entry {
    ///         Some(entry) => Update::Put(Entry { action: "logout".into(), ..entry }),
    ///         None => Update::Keep,
    ///     })
    ///     .await?;
    /// let rows: Vec<_> = events.range(&pool, IdRange::all()).try_collect().await?;
    /// assert_eq!(rows[0].1.action, "logout");
    ///
    /// events.delete(&pool, id).await?;
    /// assert_eq!(events.get(&pool, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct PackTable;
    on: ['c, A: Acquire<'c, Database: SupportedDatabase, Connection: SupportedConnection> + Send] A, run: run, error: PackError,
    async: [async] [.await]
}

impl<T: OpaqueId, V, E: Encoding<V>, O: Order> PackTable<T, V, E, O> {
    /// Returns the rows of a range, in the order of their ids. They are read page by page, each with a statement of its own:
    /// see [`next_page`](Self::next_page), which also reads within a transaction.
    pub fn range<'p, DB: SupportedDatabase>(
        &'p self,
        pool: &'p Pool<DB>,
        range: IdRange<T::Internal>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O, DB>
    where
        T: Send,
        V: Send,
        O: KeyOrder,
    {
        self.stream(pool, self.pages(range))
    }

    /// Returns the rows of a range, from the last id to the first.
    pub fn range_descending<'p, DB: SupportedDatabase>(
        &'p self,
        pool: &'p Pool<DB>,
        range: IdRange<T::Internal>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O, DB>
    where
        T: Send,
        V: Send,
        O: KeyOrder,
    {
        self.stream(pool, self.pages_descending(range))
    }

    fn stream<'p, DB: SupportedDatabase>(
        &'p self,
        pool: &'p Pool<DB>,
        pages: Pages<T>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O, DB>
    where
        T: Send,
        V: Send,
    {
        let pages = stream::try_unfold(pages, move |mut pages| async move {
            let rows = self.next_page(pool, &mut pages).await?;
            Ok::<_, PackError>(rows.map(|rows| (stream::iter(rows).map(Ok), pages)))
        });
        pages.try_flatten()
    }

    /// Merges every `interval`, until the future is dropped: the task of a merger. `report` gets the outcome of each pass, for
    /// logs and metrics. After an error the merger waits and goes on.
    pub async fn merge_every<DB: SupportedDatabase>(
        &self,
        pool: &Pool<DB>,
        interval: Duration,
        mut report: impl FnMut(Result<Merged, PackError>),
    ) {
        loop {
            report(self.merge(pool).await);
            Delay::new(interval).await;
        }
    }
}
