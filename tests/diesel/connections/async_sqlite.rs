#[path = "../adapter/mod.rs"]
pub(crate) mod adapter;
#[path = "../adapter/pool.rs"]
mod connections;
#[path = "../adapter/returning.rs"]
mod server;

use crate::asynchronous::*;
use crate::rows::ExplainedBySqlite as Explained;
use crate::rows::plain_binary as plain;
use crate::types::sqlite_keys as typed_keys;

pub(crate) type DbConnection =
    diesel_async::sync_connection_wrapper::SyncConnectionWrapper<diesel::SqliteConnection>;

/// diesel-async has no batches for SQLite, because they are several statements there.
mod batch {
    use opaque_id_tests::Result;

    use super::*;
    use crate::rows::{User, users};

    pub(crate) async fn insert_users(connection: &mut DbConnection, users: Vec<User>) -> Result {
        let insert = |connection: &mut _| {
            let insert = diesel::insert_into(users::table).values(users);
            diesel::RunQueryDsl::execute(insert, connection)
        };
        connection.spawn_blocking(insert).await?;
        Ok(())
    }
}
