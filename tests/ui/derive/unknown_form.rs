use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", form = "base58")]
struct User;

fn main() {}
