use opaque_id_core::IntoModel;

struct NewUser {
    name: String,
    age: u8,
}

#[derive(IntoModel)]
#[model(into = NewUser)]
struct CreateUser {
    name: String,
}

fn main() {}
