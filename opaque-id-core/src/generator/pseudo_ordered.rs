use std::time::Duration;

use uuid::{Builder, Uuid};

use super::clock::{Clock, SystemClock};
use crate::error::Invalid;
use crate::hazmat::AesBlock;
use crate::keyring::MasterSecret;
use crate::random::{Random, SystemRandom};
use crate::subkeys::Label;

/// A generator of pseudo-ordered UUIDs (Trudeau 2019, "option 1"). They are UUIDv4s by version and variant,
/// and random except for a prefix that stays the same during a window of time.
///
/// New rows then go to one narrow part of an index that stays in memory. The prefix is AES-128 of the
/// window's number. Without the secret it reveals only whether two keys belong to the same window (for one
/// pair in 2^`prefix_bits`, falsely). All processes that write to a table should have the same secret and
/// settings.
///
/// The written part of the index is its size / 2^`prefix_bits` (16 MB of 1 TB with 16 bits). It should fit
/// into memory, and a window should have many more rows than this part has pages.
#[derive(Debug)]
pub struct PseudoOrderedGenerator<C = SystemClock, R = SystemRandom> {
    windows: Box<AesBlock>,
    window: Duration,
    prefix_bits: u32,
    clock: C,
    random: R,
}

const MAX_PREFIX_BITS: u32 = 48;

impl PseudoOrderedGenerator {
    /// Creates a generator that reads the system's clock.
    ///
    /// # Errors
    /// [`Invalid`] unless the window is at least a millisecond and the prefix has 1 to 48 bits.
    pub fn new(secret: &MasterSecret, window: Duration, prefix_bits: u32) -> Result<Self, Invalid> {
        Self::with(secret, window, prefix_bits, SystemClock, SystemRandom)
    }
}

impl<C, R> PseudoOrderedGenerator<C, R> {
    /// Creates a generator with the caller's clock and randomness.
    ///
    /// # Errors
    /// The same as [`new`](PseudoOrderedGenerator::new).
    pub fn with(
        secret: &MasterSecret,
        window: Duration,
        prefix_bits: u32,
        clock: C,
        random: R,
    ) -> Result<Self, Invalid> {
        if window < Duration::from_millis(1) {
            return Err(Invalid::setting("the window must be a millisecond or longer"));
        }
        if prefix_bits == 0 || prefix_bits > MAX_PREFIX_BITS {
            return Err(Invalid::setting("the prefix takes 1 to 48 bits"));
        }
        Ok(Self {
            windows: secret.with_subkey(Label::Window, "", |key| Box::new(AesBlock::new(key))),
            window,
            prefix_bits,
            clock,
            random,
        })
    }
}

impl<C: Clock, R: Random> PseudoOrderedGenerator<C, R> {
    /// Generates a key.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn generate(&self) -> Uuid {
        let window = self.clock.since_1970().as_nanos() / self.window.as_nanos();
        let free = u128::BITS - self.prefix_bits;
        let prefix = self.windows.encrypt(window) >> free << free;
        let mut random = [0; 16];
        self.random.fill(&mut random);
        let random = u128::from_be_bytes(random) << self.prefix_bits >> self.prefix_bits;
        Builder::from_random_bytes((prefix | random).to_be_bytes()).into_uuid()
    }
}
