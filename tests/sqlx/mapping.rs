//! Mapping tables.

use std::convert::identity;
use std::sync::Arc;

use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_sql::dialect::{Dialect, Retry};
use opaque_id_sqlx::{OpaqueId, UuidColumn, UuidMap, retry};
use sqlx::Connection;
use sqlx::pool::PoolOptions;
use tokio::task::JoinHandle;

use crate::shop::SqlxShop;
use opaque_id_tests::Result;
use opaque_id_tests::conformance::dropped::{Load, Moment, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::database::Database;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::map_calls;
use opaque_id_tests::sql::fixed;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "invoice", key = i64, form = "mapped")]
pub(crate) struct Invoice;

#[derive(Debug, OpaqueId)]
#[opaque_id(prefix = "receipt", key = i64, form = "mapped_uuid")]
pub(crate) struct Receipt;

macro_rules! map_shop {
    ($($database:ty),*) => {$(
        impl MapShop for SqlxShop<$database> {
            map_calls!(UuidMap, UuidColumn, self, &self.pool, identity);

            async fn in_a_transaction<T: MappedResource>(
                &self,
                map: &UuidMap<T>,
                prepare: &str,
                first: &[External<T>],
                hold: impl FnOnce(),
                second: &[External<T>],
                commit: bool,
            ) -> Result<Vec<IdOf<T>>> {
                let mut connection = self.pool.acquire().await?.detach();
                if !prepare.is_empty() {
                    sqlx::raw_sql(fixed(prepare)).execute(&mut connection).await?;
                }
                let mut transaction = connection.begin().await?;
                let mut ids = map.get_or_insert_all(&mut transaction, first).await?;
                hold();
                ids.extend(map.get_or_insert_all(&mut *transaction, second).await?);
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
                let mut connection = self.pool.acquire().await?.detach();
                sqlx::raw_sql(fixed(prepare)).execute(&mut connection).await?;
                let mut transaction = connection.begin().await?;
                sqlx::raw_sql(fixed(statement)).execute(&mut *transaction).await?;
                hold()?;
                match transaction.commit().await {
                    Ok(()) => Err("committed".into()),
                    Err(error) => Ok(retry(&error)),
                }
            }
        }

        impl PoolShop for SqlxShop<$database> {
            async fn pool(database: &Database, connections: u32) -> Result<Option<Self>> {
                let options = PoolOptions::new().max_connections(connections);
                // Every statement is prepared every time, if it is: calls are dropped there as well.
                let pool = match database.kind {
                    Kind::Sqlite => options.connect(&database.url).await?,
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

            async fn read_twice(
                &self,
                select: &str,
                between: impl FnOnce() -> Result,
            ) -> Result<[String; 2]> {
                let mut transaction = self.pool.begin().await?;
                let select = || sqlx::query_scalar(fixed(select));
                let before = select().fetch_one(&mut *transaction).await?;
                between()?;
                let after = select().fetch_one(&mut *transaction).await?;
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
                let mut transaction = self.pool.begin().await?;
                map.get_or_insert_all(&mut transaction, first).await?;
                let call = map.get_or_insert_all(&mut transaction, second);
                let done = moment.drop(call).await.transpose()?;
                if rolls_back {
                    transaction.rollback().await?;
                }
                Ok(done.is_none())
            }
        }
    )*};
}

map_shop!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);
