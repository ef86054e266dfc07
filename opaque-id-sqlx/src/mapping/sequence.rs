use opaque_id_sql::sequence;
use sqlx::Pool;

use super::run::{SupportedDatabase, run};

sequence! {
    /// A sequence of a resource with structured keys. Its numbers come from the database in blocks, with one
    /// round trip per thousand keys. No number is allocated twice, except after a failover that lost it. If a
    /// process ends, its unused numbers are gaps.
    ///
    /// Its calls accept only a pool, because the rollback of a transaction would allow its numbers to be
    /// allocated again.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_sqlx::{Dialect, OpaqueId, Sequence};
    /// use sqlx::{QueryBuilder, SqlitePool};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    ///
    /// let pool = SqlitePool::connect("sqlite::memory:").await?;
    /// let create = Sequence::<Order>::create_sql(Dialect::Sqlite); // a migration
    /// QueryBuilder::new(create).build().execute(&pool).await?;
    ///
    /// let sequence = Sequence::<Order>::new();
    /// let first = sequence.next(&pool).await?; // allocates a block
    /// let more = sequence.next_all(&pool, 500).await?; // no round trip: served from the block
    /// assert_eq!(first.expose_key().sequence(), 1);
    /// assert_eq!(more[499].expose_key().sequence(), 501);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct Sequence;
    on: [DB: SupportedDatabase] &Pool<DB>, run: run, error: SequenceError,
    async: [async] [.await]
}

/// The error of the calls of a [`Sequence`].
pub type SequenceError = opaque_id_sql::SequenceError<sqlx::Error>;
