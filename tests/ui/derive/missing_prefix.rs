use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
struct LineItem;

fn main() {}
