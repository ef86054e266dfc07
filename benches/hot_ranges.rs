//! How much of the inserts of an hour, and of a second, go to the hottest of 64 ranges of keys: what a database that splits tables by
//! ranges of their keys over its servers has to bear. `cargo xtask bench hot-ranges`. A simulation: it generates keys and counts them.
//!
//! The ranges are as large as each other, by the keys of the ten hours before, as a database splits what has grown. A hash-sharded index
//! spreads every kind of key as random ones.

use std::cell::Cell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use opaque_id_benches::{Result, is_smoke};
use opaque_id_core::MasterSecret;
use opaque_id_core::generator::{
    Clock, PseudoOrderedGenerator, SystemRandom, Uuid7Generator, Uuid7Method,
};
use opaque_id_core::key::{StructuredKey, Uuid};
use opaque_id_core::layout::Shards;

const RANGES: usize = 64;
const SECONDS: u64 = 3_600;
const HOURS_BEFORE: u64 = 10;
/// Keys per second.
const KEYS: u64 = 100;

/// A clock of which the simulation moves the hands.
struct Simulated(Cell<Duration>);

impl Clock for Simulated {
    fn now(&self) -> SystemTime {
        UNIX_EPOCH + self.0.get()
    }
}

fn main() -> Result {
    let hours = if is_smoke() { 1 } else { HOURS_BEFORE };
    let clock = Simulated(Cell::default());
    let uuid7 = Uuid7Generator::with(Uuid7Method::default(), &clock, SystemRandom);
    let by_window = |seconds| {
        let (secret, window) = (MasterSecret::generate(), Duration::from_secs(seconds));
        PseudoOrderedGenerator::with(&secret, window, 16, &clock, SystemRandom)
    };
    let [minute, second] = [by_window(60)?, by_window(1)?];
    let shards = Shards::with_bits(4)?;
    let cases: [(&str, &dyn Fn(u64) -> u128); 7] = [
        ("random (UUIDv4), or any key by its hash", &|_| Uuid::new_v4().as_u128()),
        ("UUIDv7, ULID", &|_| Uuid::from(uuid7.generate()).as_u128()),
        ("auto-increment, 64-bit id", &|number| u128::from(number) << 64),
        ("structured", &|number| key(StructuredKey::with_sequence(number))),
        ("structured in 16 shards", &|number| key(shards.spread(number))),
        ("pseudo-ordered by the minute", &|_| minute.generate().as_u128()),
        ("pseudo-ordered by the second", &|_| second.generate().as_u128()),
    ];
    println!("{:42} {:>10} {:>10}", "share of the hottest of 64 ranges", "an hour", "a second");
    for (name, generate) in cases {
        let keys = |from: u64, seconds: u64| {
            (from..from + seconds).map(|second| {
                clock.0.set(Duration::from_secs(1_800_000_000 + second));
                (0..KEYS).map(|i| generate(second * KEYS + i)).collect::<Vec<_>>()
            })
        };
        let mut before: Vec<_> = keys(0, hours * SECONDS).flatten().collect();
        before.sort_unstable();
        let starts: Vec<_> = (1..RANGES).map(|i| before[i * before.len() / RANGES]).collect();
        let (mut of_hour, mut of_seconds) = ([0; RANGES], 0.0);
        for keys in keys(hours * SECONDS, SECONDS) {
            let mut of_second = [0; RANGES];
            for key in keys {
                of_second[starts.partition_point(|start| *start <= key)] += 1;
            }
            for (hour, second) in of_hour.iter_mut().zip(of_second) {
                *hour += second;
            }
            of_seconds += share(&of_second);
        }
        println!(
            "{name:42} {:>8.1} % {:>8.1} %",
            100.0 * share(&of_hour),
            100.0 * of_seconds / SECONDS as f64
        );
    }
    Ok(())
}

fn key(key: std::result::Result<StructuredKey, opaque_id_core::error::Invalid>) -> u128 {
    Uuid::from(key.expect("room for a small sequence")).as_u128()
}

/// Returns the share of the range that has most.
fn share(ranges: &[u64; RANGES]) -> f64 {
    let most = ranges.iter().max().copied().unwrap_or_default();
    most as f64 / ranges.iter().sum::<u64>() as f64
}
