use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = 5)]
struct User;

fn main() {}
