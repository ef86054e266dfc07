use opaque_id_core::{External, Internal, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

struct Card;

fn show_card(_: External<Card>) {}

fn show(keyring: &Keyring, id: Option<Internal<User>>) -> String {
    keyring.seal(id).to_string()
}
