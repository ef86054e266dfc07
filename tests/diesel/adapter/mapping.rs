//! Mapping tables, and calls that are dropped.

use std::sync::Arc;

use diesel::dsl::sql;
use diesel::result::Error::BrokenTransactionManager;
use diesel::sql_types::Text;
use opaque_id_core::External;
use opaque_id_core::resource::MappedResource;
use opaque_id_sql::dialect::{Dialect, Retry};
use opaque_id_tests::conformance::dropped::{Load, Moment, PoolShop};
use opaque_id_tests::conformance::mapping::MapShop;
use opaque_id_tests::conformance::shop::IdOf;
use opaque_id_tests::database::Database;
use opaque_id_tests::{Result, map_calls};
use tokio::task::JoinHandle;

use super::*;

impl MapShop for DieselShop {
    map_calls!(UuidMap, UuidColumn, self, &mut *self.connection().await?, done);

    async fn in_a_transaction<T: MappedResource>(
        &self,
        map: &UuidMap<T>,
        prepare: &str,
        first: &[External<T>],
        hold: impl FnOnce(),
        second: &[External<T>],
        commits: bool,
    ) -> Result<Vec<IdOf<T>>> {
        let connection = &mut *self.connection().await?;
        if !prepare.is_empty() {
            done(diesel::sql_query(prepare).execute(connection)).await?;
        }
        done(begin(connection)).await?;
        let ids = done(map.get_or_insert_all(connection, first)).await;
        hold();
        let more = match ids {
            Ok(_) => done(map.get_or_insert_all(connection, second)).await,
            Err(_) => Ok(Vec::new()),
        };
        if commits && ids.is_ok() && more.is_ok() {
            done(commit(connection)).await?;
        } else {
            done(rollback(connection)).await?;
        }
        Ok([ids?, more?].concat())
    }

    async fn retry_at_commit(
        &self,
        prepare: &str,
        statement: &str,
        hold: impl FnOnce() -> Result,
    ) -> Result<Option<Retry>> {
        let connection = &mut *self.connection().await?;
        done(diesel::sql_query(prepare).execute(connection)).await?;
        done(begin(connection)).await?;
        done(diesel::sql_query(statement).execute(connection)).await?;
        hold()?;
        match done(commit(connection)).await {
            Ok(()) => Err("committed".into()),
            Err(error) => Ok(done(retry(connection, &error)).await),
        }
    }
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

    async fn read_twice(
        &self,
        select: &str,
        between: impl FnOnce() -> Result,
    ) -> Result<[String; 2]> {
        let connection = &mut *self.connection().await?;
        done(begin(connection)).await?;
        let select = || diesel::select(sql::<Text>(&format!("({select})")));
        let before = done(select().get_result(connection)).await?;
        between()?;
        let after = done(select().get_result(connection)).await?;
        done(rollback(connection)).await?;
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
        let connection = &mut *self.connection().await?;
        done(begin(connection)).await?;
        done(map.get_or_insert_all(connection, first)).await?;
        let call = async { done(map.get_or_insert_all(connection, second)).await };
        let completed = moment.drop(call).await.transpose()?;
        if rolls_back {
            let rolled_back = done(rollback(connection)).await;
            // After a dropped call MySQL's connection may be broken: the pool closes it.
            if !matches!(rolled_back, Err(BrokenTransactionManager)) {
                rolled_back?;
            }
        }
        Ok(completed.is_none())
    }
}
