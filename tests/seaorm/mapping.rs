//! Mapping tables and packs.

use std::convert::identity;
use std::sync::Arc;

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_packs::seaorm::PackTable;
use opaque_id_seaorm::{OpaqueId, UuidColumn, UuidMap};
use opaque_id_sql::Dialect;
use tokio::task::JoinHandle;

use crate::shop::SeaOrmShop;
use opaque_id_tests::conformance::dropped::{Load, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::{IdOf, Shop};
use opaque_id_tests::database::Database;
use opaque_id_tests::{Result, map_calls, pack_calls};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

impl MapShop for SeaOrmShop {
    map_calls!(UuidMap, UuidColumn, self, &self.connection, |transaction| &*transaction, identity);
}

impl PackShop for SeaOrmShop {
    pack_calls!(PackTable, self, &self.connection, |transaction| &*transaction, identity);
}

impl PoolShop for SeaOrmShop {
    async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
        Ok(Some(Self::open(&database.url, connections).await?))
    }

    async fn close(self) -> Result {
        Ok(self.connection.close().await?)
    }

    fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result> {
        tokio::spawn(async move { load.repeat().await })
    }
}
