use opaque_id_core::{External, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "team")]
struct Team;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    team_id: TeamKey,
}

type TeamKey = Internal<Team>;
type UserId = External<User>;

#[derive(View)]
#[view(from = User)]
struct UserView {
    id: UserId,
    team_id: UserId,
}

fn main() {}
