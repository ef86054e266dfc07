use opaque_id_core::{Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

#[derive(serde::Serialize, View)]
#[view(from = User)]
struct UserView {
    id: Internal<User>,
}

fn main() {}
