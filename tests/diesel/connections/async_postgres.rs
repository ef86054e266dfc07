#[path = "../adapter/mod.rs"]
pub(crate) mod adapter;
#[path = "../adapter/batch.rs"]
mod batch;
#[path = "../adapter/pool.rs"]
mod connections;
#[path = "../adapter/returning.rs"]
mod server;

use crate::asynchronous::*;
use crate::rows::ExplainedByPostgres as Explained;
use crate::rows::plain_uuid as plain;
use crate::types::postgres_keys as typed_keys;

pub(crate) type DbConnection = diesel_async::AsyncPgConnection;
