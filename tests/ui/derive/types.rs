use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct Borrowed<'a> {
    name: &'a str,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
union Union {
    id: u64,
}
