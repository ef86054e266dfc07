#![allow(unused)]
use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

fn store(id: Internal<User>) {}

fn main() {
    store(opaque_id_core::Internal::<User>::generate());
}
