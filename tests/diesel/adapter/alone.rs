//! One connection: no call of a blocking adapter can be dropped, so the tests need no pool.

use diesel::connection::SimpleConnection;
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use tokio::sync::{Mutex, MutexGuard};

use super::{Connect, DbConnection};

pub(crate) type Connection<'c> = MutexGuard<'c, DbConnection>;

pub(crate) struct Connections(Mutex<DbConnection>);

impl Connections {
    pub(crate) async fn open(url: &str, kind: Engine, _: u32) -> Result<Self> {
        let mut connection = DbConnection::establish(url)?;
        if kind == Engine::Sqlite {
            connection.batch_execute("PRAGMA busy_timeout = 5000")?;
        }
        Ok(Self(Mutex::new(connection)))
    }

    pub(crate) async fn get(&self) -> Result<Connection<'_>> {
        Ok(self.0.lock().await)
    }
}
