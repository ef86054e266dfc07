use opaque_id_core::OpaqueId;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User<'a> {
    name: &'a str,
}

fn main() {}
