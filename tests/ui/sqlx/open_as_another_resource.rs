#![allow(unused)]
use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

fn find(keyring: &Keyring, id: External<Order>) -> Result<Internal<User>, opaque_id_sqlx::OpenError> {
    keyring.open(id)
}

fn main() {}
