use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
union User {
    id: u64,
}

fn main() {}
