use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "LineItem")]
struct LineItem;

fn main() {}
