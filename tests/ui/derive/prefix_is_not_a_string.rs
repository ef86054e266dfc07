use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = 5)]
struct User;

fn main() {}
