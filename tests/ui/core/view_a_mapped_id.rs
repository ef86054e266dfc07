use opaque_id_core::{External, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order {
    id: Internal<Order>,
}

#[derive(View)]
#[view(from = Order)]
struct OrderView {
    id: External<Order>,
}

fn main() {}
