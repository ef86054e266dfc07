//! Random numbers that a test can repeat.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

/// The seed of this run. It is that of `OPAQUE_ID_TEST_SEED`, or another one each time, and it is printed.
pub static SEED: LazyLock<u64> = LazyLock::new(|| {
    let seed = std::env::var("OPAQUE_ID_TEST_SEED").ok();
    let seed = seed.map(|seed| seed.parse().expect("OPAQUE_ID_TEST_SEED is a number"));
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(()));
    println!("OPAQUE_ID_TEST_SEED={seed}");
    seed
});

/// A generator, SplitMix64 (Steele, Lea and Flood, *Fast Splittable Pseudorandom Number Generators*, 2014), and its state.
pub struct Random(pub u64);

impl Random {
    /// Returns a number below `limit`.
    ///
    /// # Panics
    /// If the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((bits ^ bits >> 31) % limit as u64).expect("below a usize")
    }
}
