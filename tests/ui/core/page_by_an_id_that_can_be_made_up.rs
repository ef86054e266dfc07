use opaque_id_core::{External, IdRange, Internal, Keyring, OpaqueId, OpenError};

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

fn page(keyring: &Keyring, asked: External<User>) -> Result<IdRange<Internal<User>>, OpenError> {
    Ok(IdRange::all().starting_after(Some(keyring.open(asked)?)))
}
