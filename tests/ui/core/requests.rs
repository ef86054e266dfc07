use opaque_id_core::{External, Internal, IntoModel, OpaqueId};

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
struct OfAnotherResource {
    team_id: External<User>,
}

#[derive(IntoModel)]
#[model(into = NewUser)]
struct WithoutAField {}
