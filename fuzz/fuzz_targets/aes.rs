//! Our AES instructions against the `aes` crate: one block, the Feistel networks, FF1.
#![no_main]

use aes::Aes128;
use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use libfuzzer_sys::fuzz_target;
use opaque_id_core::hazmat::{AesBlock, FF1_BITS, Feistel, Ff1, HALF_BITS, Halves, SafeIn};

const HALF_MASK: u64 = (1 << HALF_BITS) - 1;
const FF1_HALF_MASK: u64 = (1 << (FF1_BITS / 2)) - 1;

fn encrypt(key: &[u8; 16], block: u128) -> u128 {
    let mut bytes = block.to_be_bytes().into();
    Aes128::new(key.into()).encrypt_block(&mut bytes);
    u128::from_be_bytes(bytes.into())
}

fn decrypt(key: &[u8; 16], block: u128) -> u128 {
    let mut bytes = block.to_be_bytes().into();
    Aes128::new(key.into()).decrypt_block(&mut bytes);
    u128::from_be_bytes(bytes.into())
}

fn check_network<const ROUNDS: usize, N>(keys: &[[u8; 16]], first: Halves<N>)
where
    N: PartialEq + SafeIn<ROUNDS>,
{
    let keys = keys.first_chunk().expect("enough keys");
    let network = Feistel::<ROUNDS>::new(keys);
    let (mut hi, mut lo) = (first.hi(), first.lo());
    for [even, odd] in keys.as_chunks().0 {
        hi ^= encrypt(even, lo.into()) as u64 & HALF_MASK;
        lo ^= encrypt(odd, hi.into()) as u64 & HALF_MASK;
    }
    let sealed = network.encrypt(first);
    assert_eq!((sealed.hi(), sealed.lo()), (hi, lo));
    assert!(network.decrypt(sealed) == first);
}

/// Computes SP 800-38G, algorithm 7, for 62 digits of radix 2 and no tweak.
fn ff1(key: &[u8; 16], block: u64) -> u64 {
    let first = encrypt(key, 0x0102_0100_0002_0a1f_0000_003e_0000_0000);
    let halves = (block >> (FF1_BITS / 2), block & FF1_HALF_MASK);
    let (a, b) = (0..10).fold(halves, |(a, b), round| {
        let y = encrypt(key, first ^ round << 32 ^ u128::from(b)) >> 64;
        (b, a.wrapping_add(y as u64) & FF1_HALF_MASK)
    });
    a << (FF1_BITS / 2) | b
}

fuzz_target!(|input: ([[u8; 16]; 6], u128)| {
    let (keys, block) = input;
    let [key, ..] = keys;
    let aes = AesBlock::new(&key);
    assert_eq!(aes.encrypt(block), encrypt(&key, block));
    assert_eq!(aes.decrypt(block), decrypt(&key, block));

    let (hi, lo) = ((block >> 64) as u64 & HALF_MASK, block as u64 & HALF_MASK);
    check_network::<2, _>(&keys, Halves::with_uniform_nonce(hi, lo).expect("masked"));
    check_network::<4, _>(&keys, Halves::new(hi, lo).expect("masked"));
    check_network::<6, _>(&keys, Halves::new(hi, lo).expect("masked"));

    let short = block as u64 >> (u64::BITS - FF1_BITS);
    assert_eq!(Ff1::new(&key).encrypt(short), ff1(&key, short));
    assert_eq!(Ff1::new(&key).decrypt(ff1(&key, short)), short);
});
