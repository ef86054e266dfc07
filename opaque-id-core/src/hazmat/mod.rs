//! The permutations of the wire format. Each can be used alone.
//!
//! The name is a warning: nothing here knows about resources, key ids or tags. Applications should use
//! [`Keyring`](crate::Keyring) instead.
//!
//! All but FF1 come from Khuong, *Plan B for UUIDs: double AES-128* (2022). Blocks are `u128` values that
//! represent 16 big-endian bytes.

mod block;
mod cycle_walk;
mod feistel;
mod ff1;
#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod x86_64;

use aes::cipher::BlockCipherEncrypt;
pub use block::AesBlock;
pub use cycle_walk::CycleWalk;
pub use feistel::{Arbitrary, Feistel, HALF_BITS, Halves, Nonce, SafeIn, Uniform};
pub use ff1::{FF1_BITS, Ff1};

fn encrypt_block(aes: &aes::Aes128Enc, block: u128) -> u128 {
    let mut bytes = block.to_be_bytes().into();
    aes.encrypt_block(&mut bytes);
    u128::from_be_bytes(bytes.into())
}

const FF1_HALF_MASK: u32 = (1 << (FF1_BITS / 2)) - 1;
const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
