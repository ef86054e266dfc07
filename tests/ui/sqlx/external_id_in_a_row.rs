#![allow(unused)]
use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: External<User>,
}

async fn find(pool: &sqlx::SqlitePool) -> sqlx::Result<Row> {
    sqlx::query_as("SELECT * FROM users").fetch_one(pool).await
}

fn main() {}
