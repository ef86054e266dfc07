use opaque_id_core::{External, Internal, OpaqueId, IntoModel};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

struct NewLine {
    order_id: Internal<Order>,
}

#[derive(IntoModel)]
#[model(into = NewLine)]
struct CreateLine {
    order_id: External<Order>,
}

fn main() {}
