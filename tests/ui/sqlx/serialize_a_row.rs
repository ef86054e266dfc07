use opaque_id_sqlx::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId, sqlx::FromRow)]
#[opaque_id(prefix = "user")]
struct User {
    id: Internal<User>,
}

fn show(user: &User) -> String {
    serde_json::to_string(&user.id).unwrap()
}
