use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "2fa")]
struct SecondFactor;

fn main() {}
