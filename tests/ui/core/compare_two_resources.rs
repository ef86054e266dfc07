#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

fn main() {
    let _ = Internal::<User>::generate() == Internal::<Order>::generate();
}
