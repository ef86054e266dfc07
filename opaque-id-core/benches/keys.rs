//! Generation of keys, compared with reading the clock, which most of them start with.
//!
//! `cargo xtask bench keys` prints the ratios. "Single" is a key while the clock keeps up: the first
//! thousand of a generator. "Hot loop" is one of millions without a pause, most of which share a step.

use std::hint::black_box;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use opaque_id_core::MasterSecret;
use opaque_id_core::generator::Generate;
use opaque_id_core::generator::{
    Int64Generator, PseudoOrderedGenerator, Random, SystemRandom, UlidGenerator, Uuid6Generator,
    Uuid7Generator, Uuid7Method, Uuid8Generator,
};
use opaque_id_core::key::{StructuredKey, Ulid};
use opaque_id_core::layout::{Int64Layout, Uuid8Layout};

/// Keys of one measurement.
const KEYS: u64 = 1_000;

/// The same in batches.
const BATCHES: usize = 10;
const BATCH: usize = 100;

fn thousand<K>(mut key: impl FnMut() -> K) {
    for _ in 0..KEYS {
        black_box(key());
    }
}

fn keys(c: &mut Criterion) {
    let mut group = c.benchmark_group("key");
    group.throughput(Throughput::Elements(KEYS));
    group.bench_function("reading of the clock", |b| {
        b.iter(|| thousand(SystemTime::now));
    });
    group.bench_function("reading of the clock, since 1970", |b| {
        b.iter(|| thousand(|| SystemTime::now().duration_since(UNIX_EPOCH)));
    });
    group.bench_function("64 random bits", |b| {
        b.iter(|| thousand(|| SystemRandom.next_u64()));
    });
    group.bench_function("uuid's now_v7, with fast-rng", |b| {
        b.iter(|| thousand(uuid::Uuid::now_v7));
    });
    group.bench_function("uuid's new_v4, with fast-rng", |b| {
        b.iter(|| thousand(uuid::Uuid::new_v4));
    });
    for (name, method) in [
        ("Uuid7, single", Uuid7Method::Fraction),
        ("Uuid7 in nanoseconds, single", Uuid7Method::Nanos),
        ("Uuid7 with a counter, single", Uuid7Method::Counter),
        (
            "Uuid7, monotonic random, single",
            Uuid7Method::MonotonicRandom,
        ),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let generator = Uuid7Generator::with_method(method);
                thousand(|| generator.generate());
            });
        });
    }
    group.bench_function("Uuid7, hot loop", |b| {
        let generator = Uuid7Generator::new();
        b.iter(|| thousand(|| generator.generate()));
    });
    let batches = |generator: &Uuid7Generator| {
        for _ in 0..BATCHES {
            black_box(generator.generate_all(BATCH));
        }
    };
    group.bench_function("Uuid7, batches of 100, single", |b| {
        b.iter(|| batches(&Uuid7Generator::new()));
    });
    group.bench_function("Uuid7, batches of 100, hot loop", |b| {
        let generator = Uuid7Generator::new();
        b.iter(|| batches(&generator));
    });
    group.bench_function("Uuid6, single", |b| {
        b.iter(|| {
            let generator = Uuid6Generator::new();
            thousand(|| generator.generate());
        });
    });
    group.bench_function("UUIDv8", |b| {
        let generator = Uuid8Generator::new(Uuid8Layout::NANOS_64);
        b.iter(|| thousand(|| generator.generate()));
    });
    group.bench_function("Ulid, monotonic", |b| b.iter(|| thousand(Ulid::generate)));
    group.bench_function("Ulid, random", |b| {
        let generator = UlidGenerator::new();
        b.iter(|| thousand(|| generator.generate_random()));
    });
    group.bench_function("StructuredKey", |b| {
        b.iter(|| thousand(StructuredKey::generate));
    });
    group.bench_function("64-bit id", |b| {
        let layout = Int64Layout::with_node_bits(0).expect("0 to 16");
        let generator = Int64Generator::new(layout, 0).expect("node 0");
        b.iter(|| thousand(|| generator.generate()));
    });
    group.bench_function("pseudo-ordered UUID", |b| {
        let hour = Duration::from_secs(3_600);
        let generator = PseudoOrderedGenerator::new(&MasterSecret::generate(), hour, 16);
        let generator = generator.expect("good settings");
        b.iter(|| thousand(|| generator.generate()));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500));
    targets = keys
}
criterion_main!(benches);
