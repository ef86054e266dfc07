//! Generation of keys, compared with reading the clock, because most of them start with it. `cargo xtask
//! bench keys`.
//!
//! "Single" is a key while the clock keeps up: the first thousand of a generator.

use std::hint::black_box;
use std::time::{Duration, SystemTime};

use opaque_id_benches::{Bench, Result};
use opaque_id_core::MasterSecret;
use opaque_id_core::generator::{
    Generate, Int64Generator, PseudoOrderedGenerator, Uuid6Generator, Uuid7Generator,
    Uuid8Generator,
};
use opaque_id_core::key::{StructuredKey, Ulid};
use opaque_id_core::layout::{Int64Layout, Uuid8Layout};

const KEYS: usize = 1_000;

const BATCHES: usize = 10;
const BATCH: usize = 100;

/// `--features fast-rng` gives `uuid` its own generator of random numbers.
const UUID: &str = match cfg!(feature = "fast-rng") {
    true => "uuid with fast-rng",
    false => "uuid",
};

fn thousand<K>(mut key: impl FnMut() -> K) {
    for _ in 0..KEYS {
        black_box(key());
    }
}

fn main() -> Result {
    let mut bench = Bench::new("keys");
    bench.baseline("reading of the clock", KEYS, || thousand(SystemTime::now));
    bench.case(&format!("{UUID}: now_v7"), KEYS, || {
        thousand(uuid::Uuid::now_v7);
    });
    bench.case(&format!("{UUID}: new_v4"), KEYS, || {
        thousand(uuid::Uuid::new_v4);
    });
    bench.case("ulid: generate", KEYS, || thousand(ulid::Ulid::generate));
    bench.case("Uuid7: single", KEYS, || {
        let generator = Uuid7Generator::new();
        thousand(|| generator.generate());
    });
    bench.case("Uuid7 in batches of 100: single", KEYS, || {
        let generator = Uuid7Generator::new();
        for _ in 0..BATCHES {
            black_box(generator.generate_all(BATCH));
        }
    });
    bench.case("Uuid6: single", KEYS, || {
        let generator = Uuid6Generator::new();
        thousand(|| generator.generate());
    });
    let generator = Uuid8Generator::new(Uuid8Layout::NANOS_64);
    bench.case("UUIDv8", KEYS, move || thousand(|| generator.generate()));
    bench.case("Ulid: monotonic", KEYS, || thousand(Ulid::generate));
    bench.case("StructuredKey", KEYS, || thousand(StructuredKey::generate));
    let generator = Int64Generator::new(Int64Layout::with_node_bits(0)?, 0)?;
    bench.case("64-bit id", KEYS, move || thousand(|| generator.generate()));
    let hour = Duration::from_secs(3_600);
    let generator = PseudoOrderedGenerator::new(&MasterSecret::generate(), hour, 16)?;
    bench.case("pseudo-ordered UUID", KEYS, move || {
        thousand(|| generator.generate());
    });
    bench.run_counting_instructions()
}
