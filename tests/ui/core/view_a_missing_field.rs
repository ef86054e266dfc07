use opaque_id_core::{Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    name: String,
}

#[derive(View)]
#[view(from = User)]
struct UserView {
    nane: String,
}

fn main() {}
