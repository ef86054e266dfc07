//! Mapping tables and packs.

use std::convert::identity;
use std::sync::Arc;

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_packs::sqlx::PackTable;
use opaque_id_sql::Dialect;
use opaque_id_sqlx::{OpaqueId, UuidColumn, UuidMap};
use sqlx::pool::PoolOptions;
use tokio::task::JoinHandle;

use crate::shop::SqlxShop;
use opaque_id_tests::conformance::dropped::{Load, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::packs::PackShop;
use opaque_id_tests::conformance::shop::{IdOf, Shop};
use opaque_id_tests::database::Database;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::{Result, map_calls, pack_calls};

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

macro_rules! map_shop {
    ($($database:ty),*) => {$(
        impl MapShop for SqlxShop<$database> {
            map_calls!(UuidMap, UuidColumn, self, &self.pool, |transaction| &mut *transaction, identity);
        }

        impl PackShop for SqlxShop<$database> {
            pack_calls!(PackTable, self, &self.pool, |transaction| &mut **transaction, identity);
        }

        impl PoolShop for SqlxShop<$database> {
            async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
                let options = PoolOptions::new().max_connections(connections);
                // A prepared statement is prepared every time, so that calls are dropped there as well.
                let pool = match database.kind {
                    Engine::Sqlite => options.connect(&database.url).await?,
                    _ => {
                        let url = format!("{}&statement-cache-capacity=0", database.url);
                        options.connect(&url).await?
                    }
                };
                Ok(Some(Self { pool }))
            }

            async fn close(self) -> Result {
                self.pool.close().await;
                Ok(())
            }

            fn spawn(load: Arc<Load<Self>>) -> JoinHandle<Result> {
                tokio::spawn(async move { load.repeat().await })
            }
        }
    )*};
}

map_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
