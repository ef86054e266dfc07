#[path = "../adapter/mod.rs"]
pub(crate) mod adapter;
#[path = "../adapter/batch.rs"]
mod batch;
#[path = "../adapter/pool.rs"]
mod connections;
#[path = "../adapter/mysql.rs"]
mod server;

use crate::asynchronous::*;
use crate::rows::ExplainedByMysql as Explained;
use crate::rows::plain_binary as plain;
use crate::types::mysql_keys as typed_keys;

pub(crate) type DbConnection = diesel_async::AsyncMysqlConnection;
