use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", prefix = "person")]
struct User;

fn main() {}
