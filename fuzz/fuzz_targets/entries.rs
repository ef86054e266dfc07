//! The entries of OPAQUE_ID_KEYS: never a panic, and no secret is repeated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::{Keyring, MasterSecret};

fuzz_target!(|text: &str| {
    if let Err(error) = Keyring::from_entries("OPAQUE_ID_KEYS", text) {
        let _ = error.to_string();
    }
    let _ = MasterSecret::from_hex(text);
    let shown = MasterSecret::redact(text);
    let longest = shown.split(|c: char| !c.is_ascii_hexdigit()).map(str::len).max();
    assert!(longest < Some(48));
});
