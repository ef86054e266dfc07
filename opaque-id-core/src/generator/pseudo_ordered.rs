use std::time::Duration;

use uuid::{Builder, Uuid};

use super::clock::{Clock, SystemClock};
use crate::error::GenerateError;
use crate::hazmat::AesBlock;
use crate::keyring::MasterSecret;
use crate::random::{Random, SystemRandom};
use crate::subkeys::Label;

/// Makes pseudo-ordered UUIDs (Trudeau 2019, "option 1"): v4 by version and variant, and random but for a
/// prefix that stays the same during a window of time.
///
/// New rows then fall into one narrow part of an index, which stays in memory, instead of all over it. The
/// prefix is AES-128 of the window's number, so that it tells neither time nor order to those who don't have
/// the secret: only that two keys were made in the same window, or once in 2^`prefix_bits` pairs in
/// another. All processes that write to a table should have the same secret, window and prefix.
///
/// How to choose: [`working_set`](Self::working_set) has to fit into memory, and rows that fall into one
/// window have to be many more than the pages of the part of the index that they fall into.
///
/// ```
/// use opaque_id_core::MasterSecret;
/// use opaque_id_core::generator::PseudoOrderedGenerator;
/// use std::time::Duration;
///
/// let hour = Duration::from_secs(3_600);
/// let keys = PseudoOrderedGenerator::new(&MasterSecret::generate(), hour, 16)?;
/// let (first, second) = (keys.generate(), keys.generate());
/// assert_ne!(first, second);
/// assert_eq!(first.get_version_num(), 4);
///
/// // Trudeau's example: for a table of 1 TB, a buffer pool of 16 MB will do.
/// assert_eq!(keys.working_set(1 << 40), 16 << 20);
/// # Ok::<(), opaque_id_core::generator::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct PseudoOrderedGenerator<C = SystemClock, R = SystemRandom> {
    windows: Box<AesBlock>,
    window: Duration,
    prefix_bits: u32,
    clock: C,
    random: R,
}

/// Before the version.
const MAX_PREFIX_BITS: u32 = 48;

impl PseudoOrderedGenerator {
    /// A generator by the system's clock.
    ///
    /// # Errors
    /// [`GenerateError::Setting`] unless the window is a millisecond or longer and the prefix has 1 to 48
    /// bits.
    pub fn new(
        secret: &MasterSecret,
        window: Duration,
        prefix_bits: u32,
    ) -> Result<Self, GenerateError> {
        Self::with(secret, window, prefix_bits, SystemClock, SystemRandom)
    }
}

impl<C, R> PseudoOrderedGenerator<C, R> {
    /// With a clock and randomness of the caller's.
    ///
    /// # Errors
    /// As [`new`](PseudoOrderedGenerator::new).
    pub fn with(
        secret: &MasterSecret,
        window: Duration,
        prefix_bits: u32,
        clock: C,
        random: R,
    ) -> Result<Self, GenerateError> {
        if window < Duration::from_millis(1) {
            return Err(GenerateError::Setting {
                rule: "the window must be a millisecond or longer",
            });
        }
        if prefix_bits == 0 || prefix_bits > MAX_PREFIX_BITS {
            return Err(GenerateError::Setting {
                rule: "the prefix takes 1 to 48 bits",
            });
        }
        Ok(Self {
            windows: secret.with_subkey(Label::Window, "", |key| Box::new(AesBlock::new(key))),
            window,
            prefix_bits,
            clock,
            random,
        })
    }

    /// How much of an index is written to during a window, and so has to be in memory: the index's size
    /// divided by the number of prefixes, where one window's rows are few beside the whole.
    #[must_use]
    pub const fn working_set(&self, index_bytes: u64) -> u64 {
        index_bytes >> self.prefix_bits
    }
}

impl<C: Clock, R: Random> PseudoOrderedGenerator<C, R> {
    /// A fresh key.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
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
