//! The bytes of an external id, in each form, and of a cursor: never a panic, and one byte string per id.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::{Cursor, External, OpaqueId};

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

fn check<T: OpaqueId>(bytes: &[u8]) {
    if let Ok((id, rest)) = postcard::take_from_bytes::<External<T>>(bytes) {
        let again = postcard::to_stdvec(&id).expect("serializes");
        assert!(postcard::from_bytes::<External<T>>(&again).is_ok_and(|again| again == id));
        assert!(rest.len() < bytes.len());
    }
    if let Ok((cursor, _)) = postcard::take_from_bytes::<Cursor<T>>(bytes) {
        let again = postcard::to_stdvec(&cursor).expect("serializes");
        assert!(postcard::from_bytes::<Cursor<T>>(&again).is_ok_and(|again| again == cursor));
    }
}

fuzz_target!(|bytes: &[u8]| {
    check::<User>(bytes);
    check::<Session>(bytes);
    check::<Invoice>(bytes);
    check::<Order>(bytes);
    check::<Mapped>(bytes);
});
