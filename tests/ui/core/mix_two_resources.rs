#![allow(unused)]
use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order")]
struct Order;

fn ship(_: Internal<Order>) {}

fn main() {
    ship(Internal::<User>::generate());
}
