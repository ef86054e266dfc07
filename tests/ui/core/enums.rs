use opaque_id_core::{External, Internal, IntoModel, OpaqueId, View};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

enum Event {
    Joined { user: Internal<User> },
    Left(Internal<User>),
}

#[derive(View, IntoModel)]
#[view(from = Event)]
#[model(into = Event)]
enum WithoutAVariant {
    Joined { user: External<User> },
}

#[derive(View)]
#[view(from = Event)]
enum GivenInAVariant {
    Joined {
        user: External<User>,
        #[view(given)]
        at: u64,
    },
    Left(External<User>),
}

#[derive(View)]
#[view(from = Event)]
enum WithAnOption {
    #[view(skip)]
    Left(External<User>),
}

#[derive(View)]
#[view(from = Event)]
enum Empty {}

#[derive(View)]
#[view(from = Event, part)]
enum Part {
    Left(External<User>),
}

struct NewUser {
    id: Internal<User>,
}

#[derive(IntoModel)]
#[model(into = NewUser, given(id))]
struct WithoutAType {}

#[derive(IntoModel)]
#[model(into = Event, given(id: Internal<User>))]
enum GivenToAnEnum {
    Left(External<User>),
}

#[derive(View)]
#[view(from = &'a str)]
struct Borrowed<'a> {
    name: &'a str,
}
