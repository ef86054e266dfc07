use opaque_id_sql::sequence;
use sqlx::Pool;

use crate::SequenceError;
use crate::run::{SupportedDatabase, run};

sequence! {
    /// The sequence of a resource with structured keys, whose numbers come from the database in blocks: one
    /// round trip for a thousand keys. Numbers are never given twice, to whichever process; those that a
    /// process has left when it ends are gaps.
    ///
    /// Its calls take the pool, as a number that a transaction has taken would be given again if it is rolled
    /// back.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_sqlx::{Dialect, OpaqueId, Sequence};
    /// use sqlx::SqlitePool;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let create = Sequence::<Order>::create_sql(Dialect::Sqlite); // a migration
    /// sqlx::raw_sql(sqlx::AssertSqlSafe(create)).execute(&pool).await?;
    ///
    /// let sequence = Sequence::<Order>::new();
    /// let first = sequence.next(&pool).await?; // takes a block
    /// let more = sequence.next_all(&pool, 500).await?; // no round trip: served from the block
    /// assert_eq!(first.expose_key().sequence(), 1);
    /// assert_eq!(more[499].expose_key().sequence(), 501);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct Sequence;
    on: [DB: SupportedDatabase] [] &Pool<DB>, run: run, error: SequenceError,
    async: [async] [.await]
}
