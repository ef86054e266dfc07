//! Inspection of any text: never a panic, and suggestions are well formed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use opaque_id_core::inspect::inspect;

fuzz_target!(|text: &str| {
    let found = inspect(text);
    assert_eq!(found.is_well_formed(), found.problem.is_none());
    if let Some(suggestion) = found.suggestion {
        assert!(inspect(&suggestion).is_well_formed());
    }
});
