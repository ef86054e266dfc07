//! Mapping tables.

use std::convert::identity;
use std::sync::Arc;

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_seaorm::{OpaqueId, UuidColumn, UuidMap, retry};
use opaque_id_sql::dialect::{Dialect, Retry};
use sea_orm::{ConnectOptions, ConnectionTrait, Database as SeaOrm, Statement, TransactionTrait};
use tokio::task::JoinHandle;

use crate::shop::{SeaOrmShop, one};
use opaque_id_tests::Result;
use opaque_id_tests::conformance::dropped::{Load, Moment, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::database::Database;
use opaque_id_tests::map_calls;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

impl MapShop for SeaOrmShop {
    map_calls!(UuidMap, UuidColumn, self, &self.connection, identity);

    async fn in_a_transaction<T: MappedResource>(
        &self,
        map: &UuidMap<T>,
        prepare: &str,
        first: &[External<T>],
        hold: impl FnOnce(),
        second: &[External<T>],
        commit: bool,
    ) -> Result<Vec<IdOf<T>>> {
        let mut options = ConnectOptions::new(&self.url);
        options.max_connections(1).sqlx_logging(false);
        let connection = SeaOrm::connect(options).await?;
        if !prepare.is_empty() {
            connection.execute_unprepared(prepare).await?;
        }
        let transaction = connection.begin().await?;
        let mut ids = map.get_or_insert_all(&transaction, first).await?;
        hold();
        ids.extend(map.get_or_insert_all(&transaction, second).await?);
        match commit {
            true => transaction.commit().await?,
            false => transaction.rollback().await?,
        }
        connection.close().await?;
        Ok(ids)
    }

    async fn retry_at_commit(
        &self,
        prepare: &str,
        statement: &str,
        hold: impl FnOnce() -> Result,
    ) -> Result<Option<Retry>> {
        let mut options = ConnectOptions::new(&self.url);
        options.max_connections(1).sqlx_logging(false);
        let connection = SeaOrm::connect(options).await?;
        connection.execute_unprepared(prepare).await?;
        let transaction = connection.begin().await?;
        transaction.execute_unprepared(statement).await?;
        hold()?;
        match transaction.commit().await {
            Ok(()) => Err("committed".into()),
            Err(error) => Ok(retry(&error)),
        }
    }
}

impl PoolShop for SeaOrmShop {
    async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
        let mut options = ConnectOptions::new(&database.url);
        options.max_connections(connections).sqlx_logging(false);
        Ok(Some(Self { connection: SeaOrm::connect(options).await?, url: database.url.clone() }))
    }

    async fn close(self) -> Result {
        Ok(self.connection.close().await?)
    }

    fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result> {
        tokio::spawn(async move { load.repeat().await })
    }

    async fn read_twice(
        &self,
        select: &str,
        between: impl FnOnce() -> Result,
    ) -> Result<[String; 2]> {
        let transaction = self.connection.begin().await?;
        let select = Statement::from_string(transaction.get_database_backend(), select);
        let read = async || -> Result<String> {
            Ok(one(&transaction, select.clone()).await?.try_get_by(0)?)
        };
        let before = read().await?;
        between()?;
        let after = read().await?;
        transaction.rollback().await?;
        Ok([before, after])
    }

    async fn drop_in_a_transaction(
        &self,
        map: &UuidMap<Invoice>,
        first: &[External<Invoice>],
        second: &[External<Invoice>],
        moment: Moment,
        rolls_back: bool,
    ) -> Result<bool> {
        let transaction = self.connection.begin().await?;
        map.get_or_insert_all(&transaction, first).await?;
        let call = map.get_or_insert_all(&transaction, second);
        let done = moment.drop(call).await.transpose()?;
        if rolls_back {
            transaction.rollback().await?;
        }
        Ok(done.is_none())
    }
}
