//! Diesel's own blocking connections, with the same names as in `asynchronous`.

use std::future::{Ready, ready};

pub(crate) use diesel::{Connection as Connect, QueryResult, RunQueryDsl};
pub(crate) use futures_executor::block_on;
pub(crate) use opaque_id_diesel::{Sequence, UuidColumn, UuidMap, retry};
pub(crate) use opaque_id_packs::diesel::{EncryptedColumn, PackTable};

use diesel::connection::TransactionManager;

pub(crate) const ADAPTER: &str = "diesel";

pub(crate) const HAS_POOL: bool = false;

/// Returns the result of a call as a future.
pub(crate) fn done<T>(returned: T) -> Ready<T> {
    ready(returned)
}

pub(crate) fn begin<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::begin_transaction(connection)
}

pub(crate) fn commit<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::commit_transaction(connection)
}

pub(crate) fn rollback<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::rollback_transaction(connection)
}
