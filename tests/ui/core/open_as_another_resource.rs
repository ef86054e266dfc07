#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

fn cancel(keyring: &Keyring, asked: External<User>) -> Result<Internal<Order>, opaque_id_core::OpenError> {
    keyring.open(asked)
}

fn main() {}
