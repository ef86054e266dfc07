//! Connections of diesel-async, with the same names as in `blocking`.

pub(crate) use diesel::QueryResult;
pub(crate) use diesel_async::{AsyncConnection as Connect, RunQueryDsl};
pub(crate) use opaque_id_diesel::{
    AsyncSequence as Sequence, AsyncUuidColumn as UuidColumn, AsyncUuidMap as UuidMap,
    retry_async as retry,
};
pub(crate) use opaque_id_packs::diesel::{
    AsyncEncryptedColumn as EncryptedColumn, AsyncPackTable as PackTable,
};
pub(crate) use opaque_id_tests::conformance::shop::on_tokio as block_on;

use diesel_async::TransactionManager;

pub(crate) const ADAPTER: &str = "diesel-async";

pub(crate) const HAS_POOL: bool = true;

pub(crate) fn done<F: Future>(call: F) -> F {
    call
}

pub(crate) async fn begin<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::begin_transaction(connection).await
}

pub(crate) async fn commit<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::commit_transaction(connection).await
}

pub(crate) async fn rollback<C: Connect>(connection: &mut C) -> QueryResult<()> {
    C::TransactionManager::rollback_transaction(connection).await
}
