use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped_uuid")]
struct Order;

fn look_up(keyring: &Keyring, id: External<Order>) -> Option<Internal<Order>> {
    keyring.open(id).ok()
}

fn main() {}
