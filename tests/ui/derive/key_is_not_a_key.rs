use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", key = u64)]
struct User;

fn main() {}
