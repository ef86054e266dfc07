#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

fn newest(ids: Vec<External<User>>) -> Option<External<User>> {
    ids.into_iter().max()
}

fn main() {}
