#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

fn main() {
    let _: Internal<User> = opaque_id_core::key::Uuid::nil().into();
}
