//! Mapping tables.

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_seaorm::{OpaqueId, UuidMap};
use opaque_id_sql::Dialect;
use sea_orm::{ConnectOptions, ConnectionTrait, Database as SeaOrm, TransactionTrait};

use super::SeaOrmShop;
use crate::Result;
use crate::mapping::{MapShop, map_calls};
use crate::shop::IdOf;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

impl MapShop for SeaOrmShop {
    map_calls!(UuidMap, self, &self.connection, .await);

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
}
