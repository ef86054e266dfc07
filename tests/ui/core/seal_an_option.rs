use opaque_id_core::{Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

fn show(keyring: &Keyring, id: Option<Internal<User>>) -> String {
    keyring.seal(id).to_string()
}

fn main() {}
