use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = "uuid7")]
struct User;

fn main() {}
