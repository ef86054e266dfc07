//! A pool of connections of diesel-async.

use diesel::ConnectionError;
use diesel_async::SimpleAsyncConnection;
use diesel_async::pooled_connection::bb8::{Pool, PooledConnection};
use diesel_async::pooled_connection::{
    AsyncDieselConnectionManager, ManagerConfig, RecyclingMethod,
};
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;

use super::{Connect, DbConnection};

pub(crate) type Connection<'c> = PooledConnection<'c, DbConnection>;

pub(crate) struct Connections(Pool<DbConnection>);

impl Connections {
    pub(crate) async fn open(url: &str, kind: Engine, connections: u32) -> Result<Self> {
        let mut config = ManagerConfig::default();
        // The test of a connection could be dropped as well, and MySQL's driver would not recover from that.
        config.recycling_method = RecyclingMethod::Fast;
        config.custom_setup = Box::new(move |url| {
            Box::pin(async move {
                let mut connection = DbConnection::establish(url).await?;
                if kind == Engine::Sqlite {
                    let waits = connection.batch_execute("PRAGMA busy_timeout = 5000");
                    let waits = waits.await;
                    waits.map_err(ConnectionError::CouldntSetupConfiguration)?;
                }
                Ok(connection)
            })
        });
        let manager = AsyncDieselConnectionManager::new_with_config(url, config);
        let pool = Pool::builder().max_size(connections);
        Ok(Self(pool.build(manager).await?))
    }

    pub(crate) async fn get(&self) -> Result<Connection<'_>> {
        Ok(self.0.get().await?)
    }
}
