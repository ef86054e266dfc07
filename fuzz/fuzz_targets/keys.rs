//! The texts of internal keys: never a panic, and a parsed key prints and parses again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::key::{Ulid, Uuid7};
use opaque_id_core::layout::Uuid6;

fuzz_target!(|text: &str| {
    if let Ok(key) = text.parse::<Uuid7>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
    if let Ok(key) = text.parse::<Uuid6>() {
        assert_eq!(key.to_string().parse(), Ok(key));
        assert_eq!(Uuid6::from_v1(key.to_v1()), Ok(key));
    }
    if let Ok(key) = text.parse::<Ulid>() {
        assert_eq!(key.to_string(), text.to_ascii_uppercase());
    }
});
