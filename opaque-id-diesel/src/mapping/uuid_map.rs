use diesel::connection::LoadConnection;
#[cfg(feature = "async")]
use diesel_async::AsyncConnection;
use opaque_id_sql::uuid_map;

use super::run::{SupportedBackend, run};
#[cfg(feature = "async")]
use super::run_async::{AsyncSupportedBackend, run_async};

uuid_map! {
    /// The mapping table of a resource, with UUIDs outside and integers inside.
    ///
    /// Its calls accept a connection, from a pool or not. In the caller's transaction a call is part of it.
    /// `AsyncUuidMap` (feature `async`) is the same for diesel-async.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_diesel::{Dialect, External, OpaqueId, UuidMap};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// connection.batch_execute(&map.create_sql(Dialect::Sqlite))?; // a migration
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&mut connection, theirs)?;
    /// assert_eq!(map.find(&mut connection, theirs)?, Some(id));
    /// assert_eq!(map.to_external(&mut connection, id)?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&mut connection)?;
    /// assert!(map.delete(&mut connection, ours)?);
    /// assert_eq!(map.to_external(&mut connection, id)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct UuidMap;

    /// Two columns of a table of rows: their integers and their public UUIDs.
    ///
    /// It searches like a [`UuidMap`](crate::UuidMap). The application inserts the rows, with a UUID from
    /// `External::random` or a [`PseudoOrderedGenerator`](crate::generator::PseudoOrderedGenerator).
    /// `AsyncUuidColumn` (feature `async`) is the same for diesel-async.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use diesel::sql_types::Binary;
    /// use opaque_id_diesel::{External, OpaqueId, UuidColumn};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// connection.batch_execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, public_id BLOB NOT NULL UNIQUE)")?; // a migration
    /// let column = UuidColumn::<Order>::new("orders", "id", "public_id");
    ///
    /// let id = External::random();
    /// diesel::sql_query("INSERT INTO orders (public_id) VALUES (?)")
    ///     .bind::<Binary, _>(id.to_uuid().as_bytes())
    ///     .execute(&mut connection)?;
    /// let key = column.find(&mut connection, id)?.ok_or("no such order")?;
    /// assert_eq!(column.to_external(&mut connection, key)?, Some(id));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct UuidColumn;
    on: [C: LoadConnection<Backend: SupportedBackend>] &mut C, run: run, error: MappingError,
    async: [] []
}

#[cfg(feature = "async")]
uuid_map! {
    /// A [`UuidMap`](crate::UuidMap) for diesel-async.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use diesel::SqliteConnection;
    /// use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
    /// use diesel_async::{AsyncConnection, SimpleAsyncConnection};
    /// use opaque_id_diesel::{AsyncUuidMap, Dialect, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let mut connection = SyncConnectionWrapper::<SqliteConnection>::establish(":memory:").await?;
    /// let map = AsyncUuidMap::<Order>::unique("order_ids");
    /// connection.batch_execute(&map.create_sql(Dialect::Sqlite)).await?; // a migration
    ///
    /// let (external, id) = map.issue(&mut connection).await?;
    /// assert_eq!(map.find(&mut connection, external).await?, Some(id));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct AsyncUuidMap;

    /// A [`UuidColumn`](crate::UuidColumn) for diesel-async.
    pub struct AsyncUuidColumn;
    on: [C: AsyncConnection<Backend: AsyncSupportedBackend>] &mut C, run: run_async, error: MappingError,
    async: [async] [.await]
}

/// The error of the calls of a [`UuidMap`] and a [`UuidColumn`].
pub type MappingError = opaque_id_sql::MappingError<diesel::result::Error>;
