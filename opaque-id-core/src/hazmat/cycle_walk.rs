//! AES-128 on half of its domain.

use super::AesBlock;

const FIXED: u128 = 1 << 127;

/// AES-128 that keeps the first (most significant) bit of a block. By cycle walking, it encrypts at least
/// once and until the bit has its first value again.
///
/// It is a permutation of the 2^127 blocks that start with 0, and of the 2^127 that start with 1. It takes
/// two AES blocks on average, and the time reveals their number. Source: Black and Rogaway, *Ciphers with
/// Arbitrary Finite Domains* (2002), section 3.
#[derive(Clone, Debug)]
pub struct CycleWalk(AesBlock);

impl CycleWalk {
    /// Expands a key; see [`AesBlock::new`].
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        Self(AesBlock::new(key))
    }

    /// Encrypts one block.
    #[must_use]
    #[inline]
    pub fn encrypt(&self, block: u128) -> u128 {
        walk(block, |b| self.0.encrypt(b))
    }

    /// Decrypts one block.
    #[must_use]
    #[inline]
    pub fn decrypt(&self, block: u128) -> u128 {
        walk(block, |b| self.0.decrypt(b))
    }
}

/// The loop ends because a permutation's cycle returns to `block` itself.
#[inline]
fn walk(block: u128, step: impl Fn(u128) -> u128) -> u128 {
    let mut next = step(block);
    while (next ^ block) & FIXED != 0 {
        next = step(next);
    }
    next
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::{CycleWalk, FIXED};

    proptest! {
        #[test]
        fn keeps_the_first_bit_and_inverts(key: [u8; 16], block: u128) {
            let walk = CycleWalk::new(&key);
            let sealed = walk.encrypt(block);
            prop_assert_eq!(sealed & FIXED, block & FIXED);
            prop_assert_eq!(walk.decrypt(sealed), block);
        }
    }
}
