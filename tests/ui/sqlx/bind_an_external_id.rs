#![allow(unused)]
use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

fn find(id: External<User>) {
    sqlx::query::<sqlx::Sqlite>("SELECT * FROM users WHERE id = ?").bind(id);
}

fn main() {}
