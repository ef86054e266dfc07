use opaque_id_core::{External, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "team")]
struct Team {
    id: Internal<Team>,
}

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    team: Team,
}

#[derive(View)]
#[view(from = User)]
struct Card {
    team: Other,
}

#[derive(View)]
#[view(from = User)]
struct Other {}

fn main() {}
