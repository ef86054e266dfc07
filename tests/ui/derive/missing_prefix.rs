use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
struct LineItem;

fn main() {}
