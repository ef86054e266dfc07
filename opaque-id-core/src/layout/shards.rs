use core::ops::RangeInclusive;

use uuid::Uuid;

use crate::error::{Invalid, KeyProblem};
use crate::key::{Key, StructuredKey};

/// A layout of structured keys with the number of a shard in front of the sequence. In stores that keep
/// ranges of keys together, such as CockroachDB, Spanner, TiKV or HBase, it spreads writes over 2^n ranges,
/// each in the order of the sequence (Khuong 2022).
///
/// The first n of a key's 60 bits of sequence are the shard. All readers and writers of a table must use the
/// same n.
///
/// ```
/// use opaque_id_core::layout::Shards;
///
/// let shards = Shards::with_bits(4)?; // sixteen
/// let keys = (1..=32).map(|sequence| shards.spread(sequence));
/// let keys = keys.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(shards.shard(keys[4]), 5);
/// assert_eq!(shards.sequence(keys[4]), 5);
///
/// let fifth = shards.bounds(5, 1..=100); // WHERE id BETWEEN … AND …
/// assert_eq!(keys.iter().filter(|key| fifth.contains(key)).count(), 2); // 5 and 21
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    bits: u32,
}

const MAX_BITS: u32 = 16;
const SEQUENCE_BITS: u32 = 60;

impl Shards {
    /// Creates a layout with 2^`bits` shards, from 2 to 65,536.
    ///
    /// # Errors
    /// [`Invalid`] unless `bits` is 1 to 16.
    pub const fn with_bits(bits: u32) -> Result<Self, Invalid> {
        if bits == 0 || bits > MAX_BITS {
            return Err(Invalid::setting("the shard takes 1 to 16 bits"));
        }
        Ok(Self { bits })
    }

    /// Generates a key in the given shard (such as a tenant's or a region's), with a new nonce.
    ///
    /// # Errors
    /// [`Invalid`] if the shard does not exist, or has no room for the sequence.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn key(self, shard: u64, sequence: u64) -> Result<StructuredKey, Invalid> {
        if shard >> self.bits != 0 || sequence >> self.sequence_bits() != 0 {
            return Err(Invalid::from(KeyProblem::OutOfRange(
                "the shard and the sequence must fit their bits",
            )));
        }
        StructuredKey::with_sequence(shard << self.sequence_bits() | sequence)
    }

    /// Generates a key in the next shard in turn for this sequence.
    ///
    /// # Errors
    /// [`Invalid`] if a shard has no room for the sequence.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    pub fn spread(self, sequence: u64) -> Result<StructuredKey, Invalid> {
        self.key(sequence & ((1 << self.bits) - 1), sequence)
    }

    /// Returns the shard of a key.
    #[must_use]
    pub const fn shard(self, key: StructuredKey) -> u64 {
        key.sequence() >> self.sequence_bits()
    }

    /// Returns the sequence of a key in its shard.
    #[must_use]
    pub const fn sequence(self, key: StructuredKey) -> u64 {
        key.sequence() & self.max_sequence()
    }

    /// Returns the smallest and the largest key of a shard with these sequences, as
    /// [`TimeKey::bounds`](crate::key::TimeKey::bounds) does.
    #[must_use]
    pub fn bounds(
        self,
        shard: u64,
        sequences: RangeInclusive<u64>,
    ) -> RangeInclusive<StructuredKey> {
        let (first, last) = sequences.into_inner();
        let last = last.min(self.max_sequence());
        let key =
            |sequence, nonce| StructuredKey::from_checked(Uuid::from_u64_pair(sequence, nonce));
        let max = u64::MAX >> (u64::BITS - SEQUENCE_BITS);
        if shard >> self.bits != 0 || first > last {
            return key(max, max)..=key(0, 0);
        }
        let shard = shard << self.sequence_bits();
        key(shard | first, 0)..=key(shard | last, max)
    }

    const fn sequence_bits(self) -> u32 {
        SEQUENCE_BITS - self.bits
    }

    const fn max_sequence(self) -> u64 {
        (1 << self.sequence_bits()) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_is_a_range_in_order() {
        let shards = Shards::with_bits(3).expect("1 to 16");
        let keys: Vec<_> = (0..800).map(|i| shards.spread(i).expect("room")).collect();
        let mut sorted = keys.clone();
        sorted.sort();
        for (shard, part) in (0..).zip(sorted.chunks(100)) {
            assert!(part.iter().all(|key| shards.shard(*key) == shard));
            assert!(part.is_sorted_by_key(|key| shards.sequence(*key)));
            let bounds = shards.bounds(shard, 80..=159);
            let found = keys.iter().filter(|key| bounds.contains(key));
            assert_eq!(found.count(), 10);
        }
    }

    #[test]
    fn values_that_exceed_the_bits_are_refused() {
        assert!(Shards::with_bits(0).is_err() && Shards::with_bits(17).is_err());
        let shards = Shards::with_bits(16).expect("1 to 16");
        assert!(shards.key(65_535, (1 << 44) - 1).is_ok());
        assert!(shards.key(65_536, 0).is_err());
        assert!(shards.spread(1 << 44).is_err());
        assert!(shards.bounds(65_536, 0..=9).is_empty());
        #[expect(clippy::reversed_empty_ranges, reason = "that is the test")]
        let none = shards.bounds(0, 9..=8);
        assert!(none.is_empty());
        let all = shards.bounds(65_535, 0..=u64::MAX);
        assert!(all.contains(&shards.key(65_535, (1 << 44) - 1).expect("room")));
    }
}
