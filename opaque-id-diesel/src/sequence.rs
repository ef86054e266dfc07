use diesel::QueryResult;
use diesel::connection::LoadConnection;
use opaque_id_core::sequence;

use crate::{MapBackend, SequenceError, mapping};

sequence! {
    /// The sequence of a resource with structured keys, whose numbers come from the database in blocks: one
    /// round trip for a thousand keys. Numbers are never given twice, to whichever process; those that a
    /// process has left when it ends are gaps.
    ///
    /// Its calls take a connection that is in no transaction, as a number that a transaction has taken would
    /// be given again if it is rolled back. `AsyncSequence` (feature `async`) is the same for diesel-async.
    ///
    /// ```
    /// use diesel::connection::SimpleConnection;
    /// use diesel::prelude::*;
    /// use opaque_id_diesel::{Dialect, OpaqueId, Sequence};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = StructuredKey, form = "uuid")]
    /// struct Order;
    /// # use opaque_id_diesel::StructuredKey;
    ///
    /// let mut connection = SqliteConnection::establish(":memory:")?;
    /// connection.batch_execute(&Sequence::<Order>::create_sql(Dialect::Sqlite))?; // a migration
    ///
    /// let sequence = Sequence::<Order>::new();
    /// let first = sequence.next(&mut connection)?; // takes a block
    /// let more = sequence.next_all(&mut connection, 500)?; // asks nobody
    /// assert_eq!(first.expose_key().sequence(), 1);
    /// assert_eq!(more[499].expose_key().sequence(), 501);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub struct Sequence;
    on: [C: LoadConnection<Backend: MapBackend>] [&mut *] &mut C, check: check [&mut *], run: mapping::run, error: SequenceError,
    async: [] []
}

/// Whether or not a block is needed: that it is, comes once in a thousand keys.
fn check<C: LoadConnection<Backend: MapBackend>>(connection: &mut C) -> Result<(), SequenceError> {
    refuse_transaction(mapping::is_in_transaction(connection))
}

pub(crate) fn refuse_transaction(
    is_in_transaction: QueryResult<bool>,
) -> Result<(), SequenceError> {
    match is_in_transaction.map_err(SequenceError::Database)? {
        true => Err(SequenceError::InTransaction),
        false => Ok(()),
    }
}
