use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", crate = "opaque id")]
struct User;

fn main() {}
