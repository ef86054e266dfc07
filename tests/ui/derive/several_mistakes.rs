use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "User", form = "base58", domain = "")]
struct User;

fn main() {}
