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
use sea_orm::{DatabaseConnection, DbErr};

use crate::run::{SupportedConnection, run};

/// The error of a [`PackTable`]'s calls.
pub type PackError = opaque_id_packs::PackError<DbErr>;

pack_table! {
    /// A table of a resource's rows, which the database keeps compressed and encrypted.
    ///
    /// Its calls accept a `DatabaseConnection` or a `DatabaseTransaction`. In the caller's transaction a call is part of it, and
    /// is rolled back with it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use opaque_id_seaorm::packs::{PackTable, Settings, Update};
    /// use opaque_id_seaorm::{Dialect, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
    /// use sea_orm::{ConnectionTrait, Database};
    /// use serde::{Deserialize, Serialize};
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
    /// let db = Database::connect("sqlite::memory:").await?;
    /// let tables = PackTable::<Event, Entry>::create_sql(Dialect::Sqlite, "events");
    /// db.execute_unprepared(&tables).await?; // in a migration: manager.get_connection()
    ///
    /// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    /// let events = PackTable::<Event, Entry>::open(&db, &keyring, "events", Settings::large()).await?;
    ///
    /// let id = Internal::generate();
    /// let login = Entry { actor: "ada".into(), action: "login".into() };
    /// events.put(&db, id, &login).await?;
    /// assert_eq!(events.get(&db, id).await?, Some(login));
    ///
    /// events.merge_all(&db).await?; // a task does so: `merge_every`
    /// events
    ///     .update(&db, id, |entry| match entry {
    ///         Some(entry) => Update::Put(Entry { action: "logout".into(), ..entry }),
    ///         None => Update::Keep,
    ///     })
    ///     .await?;
    /// let rows: Vec<_> = events.range(&db, IdRange::all()).try_collect().await?;
    /// assert_eq!(rows[0].1.action, "logout");
    ///
    /// events.delete(&db, id).await?;
    /// assert_eq!(events.get(&db, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct PackTable;
    on: [C: SupportedConnection] &C, run: run, error: PackError,
    async: [async] [.await]
}

impl<T: OpaqueId, V, E: Encoding<V>, O: Order> PackTable<T, V, E, O> {
    /// Returns the rows of a range, in the order of their ids. They are read page by page, each with a statement of its own:
    /// see [`next_page`](Self::next_page), which also reads within a transaction.
    pub fn range<'p>(
        &'p self,
        db: &'p DatabaseConnection,
        range: IdRange<T::Internal>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O>
    where
        T: Send,
        V: Send,
        O: KeyOrder,
    {
        self.stream(db, self.pages(range))
    }

    /// Returns the rows of a range, from the last id to the first.
    pub fn range_descending<'p>(
        &'p self,
        db: &'p DatabaseConnection,
        range: IdRange<T::Internal>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O>
    where
        T: Send,
        V: Send,
        O: KeyOrder,
    {
        self.stream(db, self.pages_descending(range))
    }

    fn stream<'p>(
        &'p self,
        db: &'p DatabaseConnection,
        pages: Pages<T>,
    ) -> impl Stream<Item = Result<(T::Internal, V), PackError>> + Send + use<'p, T, V, E, O>
    where
        T: Send,
        V: Send,
    {
        let pages = stream::try_unfold(pages, move |mut pages| async move {
            let rows = self.next_page(db, &mut pages).await?;
            Ok::<_, PackError>(rows.map(|rows| (stream::iter(rows).map(Ok), pages)))
        });
        pages.try_flatten()
    }

    /// Merges every `interval`, until the future is dropped: the task of a merger. `report` gets the outcome of each pass, for
    /// logs and metrics. After an error the merger waits and goes on.
    pub async fn merge_every(
        &self,
        db: &DatabaseConnection,
        interval: Duration,
        mut report: impl FnMut(Result<Merged, PackError>),
    ) {
        loop {
            report(self.merge(db).await);
            Delay::new(interval).await;
        }
    }
}
