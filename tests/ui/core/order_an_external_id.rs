#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

fn is_newer(a: External<User>, b: External<User>) -> bool {
    a > b
}

fn main() {}
