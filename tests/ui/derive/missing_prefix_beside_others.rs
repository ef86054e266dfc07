use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(key = i64)]
struct LineItem;

fn main() {}
