//! FF1 of NIST SP 800-38G over 62 bits.

use core::fmt;

use aes::cipher::KeyInit;
use zeroize::Zeroize;

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
use super::x86_64::{Ff1Keys, Instructions};
use super::{FF1_HALF_MASK, encrypt_block};

const ROUNDS: u8 = 10;
const HALF_BITS: u32 = 31;

/// The block *P* (SP 800-38G, algorithm 7, step 5): radix 2, ten rounds, halves of 31 digits of 62, no tweak.
const FIRST: u128 = 0x0102_0100_0002_0a1f_0000_003e_0000_0000;

/// The width of an [`Ff1`] block.
pub const FF1_BITS: u32 = 2 * HALF_BITS;

/// FF1 (NIST SP 800-38G, section 5.1) with AES-128, radix 2, 62 digits and an empty tweak: a permutation of
/// 62-bit numbers. The first digit is the most significant bit. The short form uses it.
#[derive(Clone)]
pub struct Ff1(Backend);

#[derive(Clone)]
enum Backend {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    X86(Ff1Keys),
    Crate {
        aes: aes::Aes128Enc,
        /// AES of *P*. The empty tweak keeps it constant.
        first: u128,
    },
}

impl Ff1 {
    /// Expands a key. The expanded key is wiped on drop. The caller must wipe its own copy.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
        if let Some(cpu) = Instructions::detect() {
            return Self(Backend::X86(Ff1Keys::new(cpu, key, FIRST)));
        }
        Self::portable(key)
    }

    fn portable(key: &[u8; 16]) -> Self {
        let aes = aes::Aes128Enc::new(key.into());
        let first = encrypt_block(&aes, FIRST);
        Self(Backend::Crate { aes, first })
    }

    /// Encrypts the low 62 bits.
    #[must_use]
    #[inline]
    pub fn encrypt(&self, block: u64) -> u64 {
        let (a, b) = halves(block);
        join(match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86(keys) => keys.encrypt(a, b),
            Backend::Crate { aes, first } => (0..ROUNDS).fold((a, b), |(a, b), round| {
                (b, a.wrapping_add(round_function(aes, *first, round, b)) & FF1_HALF_MASK)
            }),
        })
    }

    /// Decrypts the low 62 bits.
    #[must_use]
    #[inline]
    pub fn decrypt(&self, block: u64) -> u64 {
        let (a, b) = halves(block);
        join(match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86(keys) => keys.decrypt(a, b),
            Backend::Crate { aes, first } => (0..ROUNDS).rev().fold((a, b), |(a, b), round| {
                (b.wrapping_sub(round_function(aes, *first, round, a)) & FF1_HALF_MASK, a)
            }),
        })
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the block is taken apart")]
fn halves(block: u64) -> (u32, u32) {
    ((block >> HALF_BITS) as u32 & FF1_HALF_MASK, block as u32 & FF1_HALF_MASK)
}

#[inline]
fn join((a, b): (u32, u32)) -> u64 {
    u64::from(a) << HALF_BITS | u64::from(b)
}

/// Returns the low 32 bits of *y* (steps 6.i to 6.iv): the low 32 bits of the first eight bytes of the
/// CBC-MAC of *P* and *Q*.
fn round_function(aes: &aes::Aes128Enc, first: u128, round: u8, half: u32) -> u32 {
    let q = u128::from(round) << 32 | u128::from(half);
    #[expect(clippy::cast_possible_truncation, reason = "a power of two divides the modulus")]
    let y = (encrypt_block(aes, first ^ q) >> 64) as u32;
    y
}

impl Drop for Backend {
    fn drop(&mut self) {
        match self {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Self::X86(_) => {}
            Self::Crate { first, .. } => first.zeroize(),
        }
    }
}

impl fmt::Debug for Ff1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ff1 { .. }")
    }
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::{FF1_BITS, Ff1};

    proptest! {
        #[test]
        fn every_cpu_agrees_with_the_aes_crate(key: [u8; 16], block in 0..1_u64 << FF1_BITS) {
            let (ours, theirs) = (Ff1::new(&key), Ff1::portable(&key));
            prop_assert_eq!(ours.encrypt(block), theirs.encrypt(block));
            prop_assert_eq!(ours.decrypt(block), theirs.decrypt(block));
            prop_assert_eq!(ours.decrypt(ours.encrypt(block)), block);
        }
    }
}
