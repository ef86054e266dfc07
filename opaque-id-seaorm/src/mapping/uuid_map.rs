use opaque_id_sql::uuid_map;

use super::run::{SupportedConnection, run};

uuid_map! {
    /// The mapping table of a resource, with UUIDs outside and integers inside.
    ///
    /// Its calls accept a `DatabaseConnection` or a `DatabaseTransaction`. In the caller's transaction a call
    /// is part of it.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_seaorm::{External, OpaqueId, UuidMap, migration};
    /// use sea_orm::Database;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let db = Database::connect("sqlite::memory:").await?;
    /// let map = UuidMap::<Order>::unique("order_ids");
    /// migration::create_map(&db, &map).await?; // in a migration: manager.get_connection()
    ///
    /// let theirs: External<Order> = "order_01h2xcejqtf2nbrexx3vqjhp41".parse()?;
    /// let id = map.get_or_insert(&db, theirs).await?;
    /// assert_eq!(map.find(&db, theirs).await?, Some(id));
    /// assert_eq!(map.to_external(&db, id).await?, Some(theirs));
    ///
    /// let (ours, id) = map.issue(&db).await?;
    /// assert!(map.delete(&db, ours).await?);
    /// assert_eq!(map.to_external(&db, id).await?, None);
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
    /// use opaque_id_seaorm::{External, OpaqueId, UuidColumn};
    /// use sea_orm::{ConnectionTrait, Database};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
    /// struct Order;
    ///
    /// let db = Database::connect("sqlite::memory:").await?;
    /// db.execute_unprepared("CREATE TABLE orders (id INTEGER PRIMARY KEY, public_id BLOB NOT NULL UNIQUE)").await?; // a migration
    /// let column = UuidColumn::<Order>::new("orders", "id", "public_id");
    ///
    /// let id = External::random();
    /// let insert = format!("INSERT INTO orders (public_id) VALUES (x'{}')", id.to_uuid().simple());
    /// db.execute_unprepared(&insert).await?;
    /// let key = column.find(&db, id).await?.ok_or("no such order")?;
    /// assert_eq!(column.to_external(&db, key).await?, Some(id));
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct UuidColumn;
    on: [C: SupportedConnection] &C, run: run, error: MappingError,
    async: [async] [.await]
}

/// The error of the calls of a [`UuidMap`] and a [`UuidColumn`].
pub type MappingError = opaque_id_sql::MappingError<sea_orm::DbErr>;
