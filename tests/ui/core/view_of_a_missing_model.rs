use opaque_id_core::View;

#[derive(View)]
struct UserView {
    name: String,
}

fn main() {}
