use opaque_id_core::View;

struct User;

#[derive(View)]
#[view(from = User)]
struct UserView {
    #[view(rename = "title", given)]
    name: String,
    #[view(skip)]
    other: String,
}

#[derive(View)]
struct WithoutAModel {
    name: String,
}
