use diesel::connection::LoadConnection;
#[cfg(feature = "async")]
use diesel_async::AsyncConnection;
use opaque_id_sql::sequence;

use super::run::{SupportedBackend, run};
#[cfg(feature = "async")]
use super::run_async::{AsyncSupportedBackend, run_async};

sequence! {
    /// A sequence of a resource with structured keys. Its numbers come from the database in blocks, with one
    /// round trip per thousand keys. No number is allocated twice, except after a failover that lost it. If a
    /// process ends, its unused numbers are gaps.
    ///
    /// Its calls require a connection outside of a transaction, because a rollback would allow the
    /// transaction's numbers to be allocated again. `AsyncSequence` (feature `async`) is the same for
    /// diesel-async.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_diesel::{Dialect, OpaqueId, Sequence};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    ///
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// connection.batch_execute(&Sequence::<Order>::create_sql(Dialect::Sqlite))?; // a migration
    ///
    /// let sequence = Sequence::<Order>::new();
    /// let first = sequence.next(&mut connection)?; // allocates a block
    /// let more = sequence.next_all(&mut connection, 500)?; // no round trip: served from the block
    /// assert_eq!(first.expose_key().sequence(), 1);
    /// assert_eq!(more[499].expose_key().sequence(), 501);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct Sequence;
    on: [C: LoadConnection<Backend: SupportedBackend>] &mut C, run: run, error: SequenceError,
    async: [] []
}

#[cfg(feature = "async")]
sequence! {
    /// A [`Sequence`](crate::Sequence) for diesel-async. `AsyncUuidMap` has an example of a connection.
    pub struct AsyncSequence;
    on: [C: AsyncConnection<Backend: AsyncSupportedBackend>] &mut C, run: run_async, error: SequenceError,
    async: [async] [.await]
}

/// The error of the calls of a [`Sequence`].
pub type SequenceError = opaque_id_sql::SequenceError<diesel::result::Error>;
