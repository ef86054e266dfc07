#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(serde::Serialize)]
struct Model {
    id: Internal<User>,
}

fn main() {}
