use opaque_id_core::{External, Internal, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "team")]
struct Team {
    id: Internal<Team>,
}

type TeamKey = Internal<Team>;
type UserId = External<User>;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
    team_id: TeamKey,
    invited_by: Option<Internal<User>>,
    team: Team,
    age: u32,
}

#[derive(View)]
#[view(from = User)]
struct Missing {
    nane: String,
}

#[derive(View)]
#[view(from = User)]
struct OfAnotherType {
    age: u64,
}

#[derive(View)]
#[view(from = User)]
struct AliasOfAnotherResource {
    id: UserId,
    team_id: UserId,
}

#[derive(serde::Serialize, View)]
#[view(from = User)]
struct InternalId {
    id: Internal<User>,
}

#[derive(View)]
#[view(from = User)]
struct OptionAsAnId {
    invited_by: External<User>,
}

#[derive(View)]
#[view(from = User)]
struct OfAnotherModel {
    team: Empty,
}

#[derive(View)]
#[view(from = User)]
struct Empty {}
