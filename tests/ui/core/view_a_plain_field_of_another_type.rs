use opaque_id_core::{OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    age: u32,
}

#[derive(View)]
#[view(from = User)]
struct UserView {
    age: u64,
}

fn main() {}
