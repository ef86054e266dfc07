use opaque_id_core::{External, Internal, OpaqueId, IntoModel};

#[derive(OpaqueId)]
#[opaque_id(prefix = "team")]
struct Team;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

struct NewUser {
    team_id: Internal<Team>,
}

#[derive(IntoModel)]
#[model(into = NewUser)]
struct CreateUser {
    team_id: External<User>,
}

fn main() {}
