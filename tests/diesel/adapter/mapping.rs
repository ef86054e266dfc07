//! Mapping tables, packs and dropped calls.

use std::sync::Arc;

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_sql::Dialect;
use opaque_id_tests::conformance::dropped::{Load, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::{IdOf, Shop};
use opaque_id_tests::database::Database;
use opaque_id_tests::{Result, map_calls, pack_calls};
use tokio::task::JoinHandle;

use super::*;

impl MapShop for DieselShop {
    map_calls!(
        UuidMap,
        UuidColumn,
        self,
        &mut *self.connection().await?,
        |transaction| &mut **transaction,
        done
    );
}

impl PackShop for DieselShop {
    pack_calls!(
        PackTable,
        self,
        &mut *self.connection().await?,
        |transaction| &mut **transaction,
        done
    );
}

impl PoolShop for DieselShop {
    async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
        Ok(match HAS_POOL {
            false => None,
            true => Some(Self::open(database, connections).await?),
        })
    }

    async fn close(self) -> Result {
        Ok(())
    }

    fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result> {
        tokio::spawn(async move { load.repeat().await })
    }
}
