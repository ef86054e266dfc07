use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", form = "mapped")]
struct Order;

fn main() {}
