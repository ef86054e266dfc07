use opaque_id_diesel::{OpaqueId, UuidMap};

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64)]
struct Order;

fn main() {
    let _ = UuidMap::<Order>::unique("order_ids");
}
