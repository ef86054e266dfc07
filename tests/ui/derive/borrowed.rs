use opaque_id_core::{Internal, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User<'a> {
    name: &'a str,
}

fn main() {}
