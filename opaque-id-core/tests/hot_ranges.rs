//! The figures of docs/ENGINES.md: the share of an hour's, and of a second's, inserts in the hottest of 64
//! ranges of keys. A database that splits tables by ranges of their keys over its servers must bear this
//! load.
//!
//! The ranges have the same size by the keys of the ten hours before, because a database splits grown ranges.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_core::generator::{
    Clock, PseudoOrderedGenerator, Random, Uuid7Generator, Uuid7Method,
};
use opaque_id_core::hazmat::AesBlock;
use opaque_id_core::key::{Key, StructuredKey};
use opaque_id_core::layout::Shards;

use crate::bytes;

const RANGES: usize = 64;
const HOUR: u64 = 3_600;

/// A clock and random numbers. They are the same in each run.
struct Simulated {
    time: Cell<Duration>,
    aes: AesBlock,
    blocks: Cell<u128>,
}

impl Clock for Simulated {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.time.get()
    }
}

impl Random for Simulated {
    fn fill(&self, bytes: &mut [u8]) {
        for bytes in bytes.chunks_mut(16) {
            self.blocks.set(self.blocks.get() + 1);
            let block = self.aes.encrypt(self.blocks.get()).to_be_bytes();
            bytes.copy_from_slice(&block[..bytes.len()]);
        }
    }
}

#[test]
fn the_hottest_ranges_are_as_documented() {
    let document = include_str!("../../docs/ENGINES.md");
    let aes = AesBlock::new(&[7; 16]);
    let world = &Simulated { time: Cell::default(), aes, blocks: Cell::default() };
    let uuid7 = Uuid7Generator::with(Uuid7Method::default(), world, world);
    let [minute, second] = [60, 1].map(|seconds| {
        let window = Duration::from_secs(seconds);
        PseudoOrderedGenerator::with(&bytes(1).into(), window, 16, world, world).expect("settings")
    });
    let shards = Shards::with_bits(4).expect("sixteen");
    let in_order = "UUIDv7, ULID, auto-increment, 64-bit id, structured";
    let cases: [(&str, &dyn Fn(u64) -> u128); 7] = [
        ("random (UUIDv4), or any key by its hash", &|_| u128::from(world.next_u64()) << 64),
        ("`StructuredKey` in 16 shards (`Sequence::sharded`)", &|number| {
            shards.spread(number).expect("room").into_repr().as_u128()
        }),
        ("pseudo-ordered by the second", &|_| second.generate().as_u128()),
        ("pseudo-ordered by the minute", &|_| minute.generate().as_u128()),
        (in_order, &|_| uuid7.generate().into_repr().as_u128()),
        (in_order, &|number| number.into()),
        (in_order, &|number| {
            StructuredKey::with_sequence(number).expect("room").into_repr().as_u128()
        }),
    ];
    let mut missing = Vec::new();
    for (name, key) in cases {
        let keys = |second: u64, count: u64| {
            world.time.set(Duration::from_secs(1_800_000_000 + second));
            (0..count).map(move |i| key(second * count + i))
        };
        // Fewer keys per second are enough to find the start of the ranges.
        let mut before: Vec<_> = (0..10 * HOUR).flat_map(|second| keys(second, 10)).collect();
        before.sort_unstable();
        let starts: Vec<_> = (1..RANGES).map(|i| before[i * before.len() / RANGES]).collect();
        let (mut of_hour, mut of_seconds) = ([0; RANGES], 0.0);
        for second in 10 * HOUR..11 * HOUR {
            let mut of_second = [0; RANGES];
            for key in keys(second, 100) {
                of_second[starts.partition_point(|start| *start <= key)] += 1;
            }
            for (hour, second) in of_hour.iter_mut().zip(of_second) {
                *hour += second;
            }
            of_seconds += percents_of_hottest(&of_second) / HOUR as f64;
        }
        let percents = [percents_of_hottest(&of_hour), of_seconds];
        let [of_hour, of_second] = percents.map(|it| format!("{it:.1} %").replace("100.0", "100"));
        let row = format!("| {name} | {of_hour} | {of_second} |");
        if !document.contains(&row) {
            missing.push(row);
        }
    }
    assert_eq!(missing, [""; 0], "rows of docs/ENGINES.md");
}

fn percents_of_hottest(ranges: &[u64; RANGES]) -> f64 {
    let hottest = ranges.iter().max().copied().unwrap_or_default();
    100.0 * hottest as f64 / ranges.iter().sum::<u64>() as f64
}
