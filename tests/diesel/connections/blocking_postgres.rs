#[path = "../adapter/mod.rs"]
pub(crate) mod adapter;
#[path = "../adapter/batch.rs"]
mod batch;
#[path = "../adapter/alone.rs"]
mod connections;
#[path = "../adapter/returning.rs"]
mod server;

use crate::blocking::*;
use crate::rows::ExplainedByPostgres as Explained;
use crate::rows::plain_uuid as plain;
use crate::types::postgres_keys as typed_keys;

pub(crate) type DbConnection = diesel::PgConnection;
