use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix)]
struct User;

fn main() {}
