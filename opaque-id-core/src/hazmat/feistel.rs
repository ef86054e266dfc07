//! A Feistel network over halves of 60 bits. Types state whether the second half is a uniform nonce, as two
//! rounds require.

use core::fmt;
use core::marker::PhantomData;

use aes::cipher::KeyInit;

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
use super::x86_64::{Instructions, RoundKeys, feistel};
use super::{HALF_MASK, encrypt_block};
use crate::private::Private;

/// The width of each half of a [`Feistel`] network's block.
pub const HALF_BITS: u32 = 60;

/// A fact about the second half of a block: [`Uniform`] or [`Arbitrary`].
pub trait Nonce: Private + Copy + fmt::Debug + 'static {}

/// The second half is a nonce drawn uniformly at random, independently for each block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uniform {}

/// Nothing is known about the second half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arbitrary {}

impl Private for Uniform {}
impl Private for Arbitrary {}
impl Nonce for Uniform {}
impl Nonce for Arbitrary {}

/// A nonce that is safe in a [`Feistel`] network of `ROUNDS` rounds.
#[diagnostic::on_unimplemented(
    message = "a Feistel network of {ROUNDS} rounds is not safe for halves whose nonce is `{Self}`",
    label = "two rounds need a nonce drawn uniformly at random",
    note = "use `Feistel<4>`, or `Halves::with_uniform_nonce` if the second half is drawn uniformly at random"
)]
pub trait SafeIn<const ROUNDS: usize>: Nonce {}
impl SafeIn<2> for Uniform {}
impl SafeIn<4> for Uniform {}
impl SafeIn<6> for Uniform {}
impl SafeIn<4> for Arbitrary {}
impl SafeIn<6> for Arbitrary {}

/// The two 60-bit halves of a [`Feistel`] network's block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Halves<N: Nonce> {
    hi: u64,
    lo: u64,
    nonce: PhantomData<N>,
}

impl Halves<Arbitrary> {
    /// Creates a block of two arbitrary halves. Returns `None` if one is 2^60 or more.
    #[must_use]
    #[inline]
    pub const fn new(hi: u64, lo: u64) -> Option<Self> {
        Self::checked(hi, lo)
    }
}

impl Halves<Uniform> {
    /// Creates a block of a half and a nonce. Returns `None` if one is 2^60 or more.
    ///
    /// The caller promises that `nonce` was drawn uniformly at random for this block alone. With a counter or
    /// a time instead, two rounds are easy to distinguish from a random permutation.
    #[must_use]
    #[inline]
    pub const fn with_uniform_nonce(hi: u64, nonce: u64) -> Option<Self> {
        Self::checked(hi, nonce)
    }
}

impl<N: Nonce> Halves<N> {
    const fn checked(hi: u64, lo: u64) -> Option<Self> {
        if hi > HALF_MASK || lo > HALF_MASK {
            return None;
        }
        Some(Self::masked(hi, lo))
    }

    #[inline]
    pub(crate) const fn masked(hi: u64, lo: u64) -> Self {
        Self { hi: hi & HALF_MASK, lo: lo & HALF_MASK, nonce: PhantomData }
    }

    /// Returns the first half, below 2^60.
    #[must_use]
    #[inline]
    pub const fn hi(self) -> u64 {
        self.hi
    }

    /// Returns the second half, below 2^60.
    #[must_use]
    #[inline]
    pub const fn lo(self) -> u64 {
        self.lo
    }
}

impl<N: Nonce> fmt::Debug for Halves<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Halves(..)")
    }
}

/// A Feistel network over 120-bit blocks of two, four or six rounds, with AES-128 as the round function.
///
/// Round `i`: even, `hi ^= F(k[i], lo)`; odd, `lo ^= F(k[i], hi)`; `F(k, x)` is the low 60 bits of AES-128
/// under `k` of `x` as a big-endian block. Four rounds with independent keys are a permutation that looks
/// random even to an attacker who can have blocks encrypted and decrypted (Luby and Rackoff, 1988). With q
/// blocks the attacker's advantage is about q² / 2^60, and a half that is constant in all blocks takes one of
/// the rounds away. Six rounds resist up to nearly 2^60 blocks (Patarin, *Security of Random Feistel Schemes
/// with 5 or More Rounds*, 2004). Two rounds hide as much only if the second half is uniform. [`SafeIn`]
/// requires this type: a two-round network over any other does not compile.
#[derive(Clone)]
pub struct Feistel<const ROUNDS: usize>(Backend<ROUNDS>);

#[derive(Clone)]
enum Backend<const ROUNDS: usize> {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    X86([RoundKeys; ROUNDS]),
    Crate([aes::Aes128Enc; ROUNDS]),
}

impl<const ROUNDS: usize> Feistel<ROUNDS> {
    /// Expands the keys, one per round. The expanded keys are wiped on drop. The caller must wipe its own
    /// copies.
    #[must_use]
    pub fn new(keys: &[[u8; 16]; ROUNDS]) -> Self {
        const { assert!(matches!(ROUNDS, 2 | 4 | 6), "a Feistel network has two, four or six rounds") }
        #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
        if let Some(cpu) = Instructions::detect() {
            return Self(Backend::X86(core::array::from_fn(|i| RoundKeys::new(cpu, &keys[i]))));
        }
        Self::portable(keys)
    }

    fn portable(keys: &[[u8; 16]; ROUNDS]) -> Self {
        Self(Backend::Crate(core::array::from_fn(|i| aes::Aes128Enc::new(&keys[i].into()))))
    }

    /// Encrypts one block.
    #[must_use]
    #[inline]
    pub fn encrypt<N: SafeIn<ROUNDS>>(&self, Halves { hi, lo, .. }: Halves<N>) -> Halves<N> {
        let (hi, lo) = match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86(keys) => feistel::<ROUNDS, true>(keys, hi, lo),
            Backend::Crate(keys) => keys.chunks_exact(2).fold((hi, lo), |(hi, lo), pair| {
                let hi = hi ^ round_function(&pair[0], lo);
                (hi, lo ^ round_function(&pair[1], hi))
            }),
        };
        Halves::masked(hi, lo)
    }

    /// Decrypts one block.
    #[must_use]
    #[inline]
    pub fn decrypt<N: SafeIn<ROUNDS>>(&self, Halves { hi, lo, .. }: Halves<N>) -> Halves<N> {
        let (hi, lo) = match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86(keys) => feistel::<ROUNDS, false>(keys, hi, lo),
            Backend::Crate(keys) => keys.rchunks_exact(2).fold((hi, lo), |(hi, lo), pair| {
                let lo = lo ^ round_function(&pair[1], hi);
                (hi ^ round_function(&pair[0], lo), lo)
            }),
        };
        Halves::masked(hi, lo)
    }
}

fn round_function(key: &aes::Aes128Enc, half: u64) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "only the low 60 bits are needed")]
    let low = encrypt_block(key, half.into()) as u64;
    low & HALF_MASK
}

impl<const ROUNDS: usize> fmt::Debug for Feistel<ROUNDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Feistel<{ROUNDS}> {{ .. }}")
    }
}

#[cfg(test)]
mod tests {
    use proptest1::prelude::*;

    use super::{Feistel, HALF_MASK, Halves};

    proptest! {
        #[test]
        fn every_cpu_agrees_with_the_aes_crate(
            keys: [[u8; 16]; 6], hi in 0..=HALF_MASK, lo in 0..=HALF_MASK,
        ) {
            let (ours, theirs) = (Feistel::<6>::new(&keys), Feistel::<6>::portable(&keys));
            let halves = Halves::new(hi, lo).expect("in range");
            prop_assert_eq!(ours.encrypt(halves), theirs.encrypt(halves));
            prop_assert_eq!(ours.decrypt(halves), theirs.decrypt(halves));
            prop_assert_eq!(ours.decrypt(ours.encrypt(halves)), halves);
        }
    }
}
