//! The text of an external id, in each form: never a panic, and one text an id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::{External, Keyring, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "u")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "s", form = "tagged")]
struct Session;

#[derive(OpaqueId)]
#[opaque_id(prefix = "i", key = i64, form = "uuid")]
struct Invoice;

fn check<T: OpaqueId>(text: &str) {
    let keyring = Keyring::builder().sealing(0, [7; 32]).build().expect("a secret");
    if let Ok(id) = text.parse::<External<T>>() {
        assert_eq!(id.to_string(), text);
        let _ = keyring.open(id);
    }
}

fuzz_target!(|text: &str| {
    check::<User>(text);
    check::<Session>(text);
    check::<Invoice>(text);
});
