use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user", form = "base58")]
struct User;

fn main() {}
