//! AES-128, and Feistel networks of it, in vector registers.
//!
//! A single block takes the crate `aes` twice as long, because with VAES it first computes eleven wide round
//! keys (docs/PERFORMANCE.md, *Permutations*). Remove this module when the crate is as fast for a single
//! block.
//!
//! Each `unsafe` block calls a safe function that needs CPU features, and has an [`Instructions`] or a
//! [`RoundKeys`]. Both exist only if [`Instructions::detect`] has found these features.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m128i, _mm_add_epi32, _mm_aesdec_si128, _mm_aesdeclast_si128, _mm_aesenc_si128,
    _mm_aesenclast_si128, _mm_aesimc_si128, _mm_and_si128, _mm_cvtsi32_si128, _mm_cvtsi64_si128,
    _mm_cvtsi128_si32, _mm_cvtsi128_si64, _mm_set_epi64x, _mm_set1_epi32, _mm_setzero_si128,
    _mm_shuffle_epi8, _mm_slli_si128, _mm_sub_epi32, _mm_xor_si128,
};

use zeroize::Zeroize as _;

use super::{FF1_HALF_MASK, HALF_MASK};

/// A proof that the CPU has `aes` and `avx`.
#[derive(Clone, Copy)]
pub(super) struct Instructions(());

impl Instructions {
    pub(super) fn detect() -> Option<Self> {
        (std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("avx"))
            .then_some(Self(()))
    }
}

#[derive(Clone)]
pub(super) struct RoundKeys([__m128i; 11]);

impl Drop for RoundKeys {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl RoundKeys {
    pub(super) fn new(_: Instructions, key: &[u8; 16]) -> Self {
        // SAFETY: an `Instructions` exists, so the CPU has `aes` and `avx`.
        unsafe { expand(u128::from_be_bytes(*key)) }
    }

    /// Returns the round keys for decryption (FIPS 197, section 5.3.5).
    pub(super) fn inverse(&self) -> Self {
        // SAFETY: `self` exists, so the CPU has `aes` and `avx` (`RoundKeys::new`).
        unsafe { invert(self) }
    }

    #[inline]
    pub(super) fn encrypt(&self, block: u128) -> u128 {
        // SAFETY: `self` exists, so the CPU has `aes` and `avx` (`RoundKeys::new`).
        unsafe { encrypt(self, block) }
    }

    /// Decrypts with the keys of [`inverse`](Self::inverse).
    #[inline]
    pub(super) fn decrypt(&self, block: u128) -> u128 {
        // SAFETY: `self` exists, so the CPU has `aes` and `avx` (`RoundKeys::new`).
        unsafe { decrypt(self, block) }
    }
}

/// Runs an even number of rounds, forwards to encrypt and backwards to decrypt.
#[inline]
pub(super) fn feistel<const ROUNDS: usize, const ENCRYPTS: bool>(
    keys: &[RoundKeys; ROUNDS],
    hi: u64,
    lo: u64,
) -> (u64, u64) {
    const { assert!(ROUNDS > 0) }
    // SAFETY: at least one `RoundKeys` exists, so the CPU has `aes` and `avx` (`RoundKeys::new`).
    unsafe { network::<ROUNDS, ENCRYPTS>(keys, hi, lo) }
}

/// The round keys of FF1, and each round's block without the half, combined with the first round key.
#[derive(Clone)]
pub(super) struct Ff1Keys {
    keys: RoundKeys,
    starts: [__m128i; 10],
}

impl Drop for Ff1Keys {
    fn drop(&mut self) {
        self.starts.zeroize();
    }
}

impl Ff1Keys {
    pub(super) fn new(cpu: Instructions, key: &[u8; 16], first: u128) -> Self {
        let keys = RoundKeys::new(cpu, key);
        // SAFETY: an `Instructions` exists, so the CPU has `aes` and `avx`.
        let starts = unsafe { ff1_starts(&keys, keys.encrypt(first)) };
        Self { keys, starts }
    }

    #[inline]
    pub(super) fn encrypt(&self, a: u32, b: u32) -> (u32, u32) {
        // SAFETY: `self` exists, so the CPU has `aes` and `avx` (`Ff1Keys::new`).
        unsafe { ff1_encrypt(self, a, b) }
    }

    #[inline]
    pub(super) fn decrypt(&self, a: u32, b: u32) -> (u32, u32) {
        // SAFETY: `self` exists, so the CPU has `aes` and `avx` (`Ff1Keys::new`).
        unsafe { ff1_decrypt(self, a, b) }
    }
}

#[target_feature(enable = "aes,avx")]
fn expand(key: u128) -> RoundKeys {
    #[target_feature(enable = "aes,avx")]
    fn next<const RCON: i32>(key: __m128i) -> __m128i {
        // The last word, rotated, is repeated four times, so the rotation of rows changes nothing.
        // AESKEYGENASSIST is not used because Miri does not have it.
        let word = _mm_shuffle_epi8(key, _mm_set1_epi32(0x0c0f0e0d));
        let word = _mm_aesenclast_si128(word, _mm_set1_epi32(RCON));
        let key = _mm_xor_si128(key, _mm_slli_si128::<4>(key));
        let key = _mm_xor_si128(key, _mm_slli_si128::<8>(key));
        _mm_xor_si128(key, word)
    }
    let mut keys = [load(key); 11];
    keys[1] = next::<0x01>(keys[0]);
    keys[2] = next::<0x02>(keys[1]);
    keys[3] = next::<0x04>(keys[2]);
    keys[4] = next::<0x08>(keys[3]);
    keys[5] = next::<0x10>(keys[4]);
    keys[6] = next::<0x20>(keys[5]);
    keys[7] = next::<0x40>(keys[6]);
    keys[8] = next::<0x80>(keys[7]);
    keys[9] = next::<0x1b>(keys[8]);
    keys[10] = next::<0x36>(keys[9]);
    RoundKeys(keys)
}

#[target_feature(enable = "aes,avx")]
fn invert(encrypt: &RoundKeys) -> RoundKeys {
    let mut keys = encrypt.0;
    keys.reverse();
    for key in &mut keys[1..10] {
        *key = _mm_aesimc_si128(*key);
    }
    RoundKeys(keys)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the block is taken apart")]
fn halves(block: u128) -> [u64; 2] {
    [(block >> 64) as u64, block as u64]
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn load(block: u128) -> __m128i {
    let [first, last] = halves(block);
    _mm_set_epi64x(last.swap_bytes().cast_signed(), first.swap_bytes().cast_signed())
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn store(block: __m128i) -> u128 {
    let first = _mm_cvtsi128_si64(block).cast_unsigned().swap_bytes();
    u128::from(first) << 64 | u128::from(store_half(block))
}

/// Returns `other ^ AES(block)`. The last round key includes `other`, so the XOR costs no time.
#[inline]
#[target_feature(enable = "aes,avx")]
fn encrypt_onto(RoundKeys(keys): &RoundKeys, block: __m128i, other: __m128i) -> __m128i {
    let mut block = _mm_xor_si128(block, keys[0]);
    for key in &keys[1..10] {
        block = _mm_aesenc_si128(block, *key);
    }
    _mm_aesenclast_si128(block, _mm_xor_si128(keys[10], other))
}

#[inline(never)]
#[target_feature(enable = "aes,avx")]
fn encrypt(keys: &RoundKeys, block: u128) -> u128 {
    store(encrypt_onto(keys, load(block), _mm_setzero_si128()))
}

#[inline(never)]
#[target_feature(enable = "aes,avx")]
fn decrypt(RoundKeys(keys): &RoundKeys, block: u128) -> u128 {
    let mut block = _mm_xor_si128(load(block), keys[0]);
    for key in &keys[1..10] {
        block = _mm_aesdec_si128(block, *key);
    }
    store(_mm_aesdeclast_si128(block, keys[10]))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn load_half(half: u64) -> __m128i {
    reverse(_mm_cvtsi64_si128(half.cast_signed()))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn store_half(half: __m128i) -> u64 {
    _mm_cvtsi128_si64(reverse(half)).cast_unsigned()
}

/// Reverses all bytes. One shuffle moves a half and swaps its bytes, a cycle less than two instructions.
#[inline]
#[target_feature(enable = "aes,avx")]
fn reverse(block: __m128i) -> __m128i {
    _mm_shuffle_epi8(block, _mm_set_epi64x(0x00010203_04050607, 0x08090a0b_0c0d0e0f))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn round(key: &RoundKeys, half: __m128i, other: __m128i) -> __m128i {
    _mm_and_si128(encrypt_onto(key, other, half), load_half(HALF_MASK))
}

#[inline(never)]
#[target_feature(enable = "aes,avx")]
fn network<const ROUNDS: usize, const ENCRYPTS: bool>(
    keys: &[RoundKeys; ROUNDS],
    hi: u64,
    lo: u64,
) -> (u64, u64) {
    let (mut hi, mut lo) = (load_half(hi), load_half(lo));
    if ENCRYPTS {
        for pair in keys.chunks_exact(2) {
            hi = round(&pair[0], hi, lo);
            lo = round(&pair[1], lo, hi);
        }
    } else {
        for pair in keys.rchunks_exact(2) {
            lo = round(&pair[1], lo, hi);
            hi = round(&pair[0], hi, lo);
        }
    }
    (store_half(hi), store_half(lo))
}

/// Returns the start of each round's *Q*. It ends with the round's number in its twelfth byte and a half in
/// the last four.
#[target_feature(enable = "aes,avx")]
fn ff1_starts(keys: &RoundKeys, first: u128) -> [__m128i; 10] {
    let first = _mm_xor_si128(load(first), keys.0[0]);
    core::array::from_fn(|round| _mm_xor_si128(first, load((round as u128) << 32)))
}

/// Returns the low 32 bits of FF1's *y* in the low lane.
#[inline]
#[target_feature(enable = "aes,avx")]
fn ff1_round(RoundKeys(keys): &RoundKeys, start: __m128i, half: __m128i) -> __m128i {
    // The first shuffle moves the half from the low lane to the last four bytes. The second moves the second
    // four bytes back, most significant byte first.
    let half = _mm_shuffle_epi8(half, _mm_set_epi64x(0x00010203_80808080, -1));
    let mut block = _mm_xor_si128(start, half);
    for key in &keys[1..10] {
        block = _mm_aesenc_si128(block, *key);
    }
    let block = _mm_aesenclast_si128(block, keys[10]);
    _mm_shuffle_epi8(block, _mm_set_epi64x(-1, 0x80808080_04050607_u64.cast_signed()))
}

#[inline(never)]
#[target_feature(enable = "aes,avx")]
fn ff1_encrypt(Ff1Keys { keys, starts }: &Ff1Keys, a: u32, b: u32) -> (u32, u32) {
    let (mut a, mut b, mask) = (lane(a), lane(b), lane(FF1_HALF_MASK));
    for [even, odd] in starts.as_chunks().0 {
        a = _mm_and_si128(_mm_add_epi32(a, ff1_round(keys, *even, b)), mask);
        b = _mm_and_si128(_mm_add_epi32(b, ff1_round(keys, *odd, a)), mask);
    }
    (lane_to_u32(a), lane_to_u32(b))
}

#[inline(never)]
#[target_feature(enable = "aes,avx")]
fn ff1_decrypt(Ff1Keys { keys, starts }: &Ff1Keys, a: u32, b: u32) -> (u32, u32) {
    let (mut a, mut b, mask) = (lane(a), lane(b), lane(FF1_HALF_MASK));
    for [even, odd] in starts.as_chunks().0.iter().rev() {
        b = _mm_and_si128(_mm_sub_epi32(b, ff1_round(keys, *odd, a)), mask);
        a = _mm_and_si128(_mm_sub_epi32(a, ff1_round(keys, *even, b)), mask);
    }
    (lane_to_u32(a), lane_to_u32(b))
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn lane(number: u32) -> __m128i {
    _mm_cvtsi32_si128(number.cast_signed())
}

#[inline]
#[target_feature(enable = "aes,avx")]
fn lane_to_u32(lane: __m128i) -> u32 {
    _mm_cvtsi128_si32(lane).cast_unsigned()
}
