use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "User", form = "base58", domain = "")]
struct User;

fn main() {}
