use opaque_id_core::Request;

struct NewUser {
    name: String,
    age: u8,
}

#[derive(Request)]
#[request(into = NewUser)]
struct CreateUser {
    name: String,
}

fn main() {}
