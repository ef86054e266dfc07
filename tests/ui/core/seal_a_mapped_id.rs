use opaque_id_core::{Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

fn show(keyring: &Keyring, id: Internal<Order>) -> String {
    keyring.seal(id).to_string()
}

fn main() {}
