//! Tables of packs for SeaORM.

use std::fmt;
use std::time::Duration;

use futures_timer::Delay;
use futures_util::stream::{self, Stream, StreamExt, TryStreamExt};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{IdRange, OpaqueId};
use opaque_id_seaorm::{SupportedConnection, run};
use opaque_id_sql::Dialect;
use sea_orm::{DatabaseConnection, DbErr};

use crate::call::{Merged, Rekeyed, Verified};
use crate::encoding::{Encoding, Json};
use crate::error;
use crate::group::Group;
use crate::name::TableName;
use crate::order::{ByKey, KeyOrder, Order};
use crate::pack_table::{pack_streams, pack_table};
use crate::packs::{Packs, Pages, Update};
use crate::settings::Settings;

/// The error of a [`PackTable`]'s calls.
pub type PackError = error::PackError<DbErr>;

pack_table! {
    /// A table of a resource's rows, which the database keeps compressed and encrypted.
    ///
    /// Its calls accept a `DatabaseConnection` or a `DatabaseTransaction`. In the caller's transaction a call is part of it, and
    /// is rolled back with it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use futures_util::TryStreamExt;
    /// use opaque_id_packs::seaorm::PackTable;
    /// use opaque_id_packs::{Settings, Update};
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

pack_streams! { [] [] DatabaseConnection }
