use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", domain = "")]
struct User;

fn main() {}
