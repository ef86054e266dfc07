use opaque_id_sql::uuid_map;
use sqlx::Acquire;

use super::run::{SupportedConnection, SupportedDatabase, run};

uuid_map! {
    /// The mapping table of a resource, with UUIDs outside and integers inside.
    ///
    /// Its calls accept anything that sqlx acquires a connection from: a pool, a connection or a transaction.
    /// In the caller's transaction a call is part of it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_sqlx::{Dialect, External, OpaqueId, UuidMap};
    /// use sqlx::{QueryBuilder, SqlitePool};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// QueryBuilder::new(map.create_sql(Dialect::Sqlite)).build().execute(&pool).await?; // a migration
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&pool, theirs).await?;
    /// assert_eq!(map.find(&pool, theirs).await?, Some(id));
    /// assert_eq!(map.to_external(&pool, id).await?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&pool).await?;
    /// assert!(map.delete(&pool, ours).await?);
    /// assert_eq!(map.to_external(&pool, id).await?, None);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct UuidMap;

    /// Two columns of a table of rows: their integers and their public UUIDs.
    ///
    /// It searches like a [`UuidMap`](crate::UuidMap). The application inserts the rows, with a UUID from
    /// `External::random` or a [`PseudoOrderedGenerator`](crate::generator::PseudoOrderedGenerator).
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_sqlx::{External, OpaqueId, UuidColumn};
    /// use sqlx::SqlitePool;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// sqlx::query("CREATE TABLE orders (id INTEGER PRIMARY KEY, public_id BLOB NOT NULL UNIQUE)").execute(&pool).await?; // a migration
    /// let column = UuidColumn::<Order>::new("orders", "id", "public_id");
    ///
    /// let id = External::random();
    /// sqlx::query("INSERT INTO orders (public_id) VALUES (?)").bind(id.to_uuid()).execute(&pool).await?;
    /// let key = column.find(&pool, id).await?.ok_or("no such order")?;
    /// assert_eq!(column.to_external(&pool, key).await?, Some(id));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct UuidColumn;
    on: ['c, A: Acquire<'c, Database: SupportedDatabase, Connection: SupportedConnection> + Send] A, run: run, error: MappingError,
    async: [async] [.await]
}

/// The error of the calls of a [`UuidMap`] and a [`UuidColumn`].
pub type MappingError = opaque_id_sql::MappingError<sqlx::Error>;
