use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "LineItem")]
struct LineItem;

fn main() {}
