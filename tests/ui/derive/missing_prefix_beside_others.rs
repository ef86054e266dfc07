use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(key = i64)]
struct LineItem;

fn main() {}
