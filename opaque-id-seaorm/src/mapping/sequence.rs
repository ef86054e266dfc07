use opaque_id_sql::sequence;
use sea_orm::DatabaseConnection;

use super::run::run;

sequence! {
    /// A sequence of a resource with structured keys. Its numbers come from the database in blocks, with one
    /// round trip per thousand keys. No number is allocated twice, except after a failover that lost it. If a
    /// process ends, its unused numbers are gaps.
    ///
    /// Its calls accept only a `DatabaseConnection`, because the rollback of a transaction would allow its
    /// numbers to be allocated again.
    ///
    /// ```
    /// # async fn docs() -> Result<(), Box<dyn std::error::Error>> {
    /// use opaque_id_seaorm::{OpaqueId, Sequence, migration};
    /// use sea_orm::Database;
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    ///
    /// let db = Database::connect("sqlite::memory:").await?;
    /// migration::create_sequences(&db).await?; // in a migration: manager.get_connection()
    ///
    /// let sequence = Sequence::<Order>::new();
    /// let first = sequence.next(&db).await?; // allocates a block
    /// let more = sequence.next_all(&db, 500).await?; // no round trip: served from the block
    /// assert_eq!(first.expose_key().sequence(), 1);
    /// assert_eq!(more[499].expose_key().sequence(), 501);
    /// # Ok(())
    /// # }
    /// # tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(docs()).unwrap();
    /// ```
    pub struct Sequence;
    on: [] &DatabaseConnection, run: run, error: SequenceError,
    async: [async] [.await]
}

/// The error of the calls of a [`Sequence`].
pub type SequenceError = opaque_id_sql::SequenceError<sea_orm::DbErr>;
