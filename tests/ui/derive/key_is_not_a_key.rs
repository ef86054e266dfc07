use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = u64)]
struct User;

fn main() {}
