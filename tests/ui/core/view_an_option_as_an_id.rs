use opaque_id_core::{External, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    invited_by: Option<Internal<User>>,
}

#[derive(View)]
#[view(from = User)]
struct UserView {
    invited_by: External<User>,
}

fn main() {}
