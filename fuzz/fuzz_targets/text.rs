//! The text of an external id, in each form, and of a cursor: never a panic, and one text per id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::resource::{MappedResource, SealedResource};
use opaque_id_core::{Cursor, External, Keyring, MasterSecret, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "u")]
struct User;

#[derive(OpaqueId)]
#[opaque_id(prefix = "s", form = "tagged")]
struct Session;

#[derive(OpaqueId)]
#[opaque_id(prefix = "i", key = i64, form = "uuid")]
struct Invoice;

#[derive(OpaqueId)]
#[opaque_id(prefix = "o", key = i64, form = "short")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "m", key = i64, form = "mapped")]
struct Mapped;

#[derive(OpaqueId)]
#[opaque_id(prefix = "n", key = i64, form = "mapped_uuid")]
struct MappedUuid;

fn check_sealed<T: SealedResource>(text: &str) {
    let secret = *b"one that nobody but a fuzzer has";
    let keyring =
        Keyring::builder().sealing(0, MasterSecret::from(secret)).build().expect("a secret");
    if let Ok(cursor) = text.parse::<Cursor<T>>() {
        assert_eq!(cursor.to_string(), text);
        let _ = keyring.open_cursor(cursor);
    }
    if let Ok(id) = text.parse::<External<T>>() {
        assert_eq!(id.to_string(), text);
        let _ = keyring.open(id);
    }
}

fn check_mapped<T: MappedResource>(text: &str) {
    if let Ok(id) = text.parse::<External<T>>() {
        assert_eq!(id.to_string(), text);
        assert_eq!(External::from(id.to_uuid()), id);
    }
}

fuzz_target!(|text: &str| {
    check_sealed::<User>(text);
    check_sealed::<Session>(text);
    check_sealed::<Invoice>(text);
    check_sealed::<Order>(text);
    check_mapped::<Mapped>(text);
    check_mapped::<MappedUuid>(text);
});
