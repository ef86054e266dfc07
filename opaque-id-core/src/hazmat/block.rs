//! One block of AES-128, by the CPU's AES instructions in the module `x86_64`, or by the crate `aes`.

use core::fmt;

use aes::cipher::{BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
use super::x86_64::{Instructions, RoundKeys};

/// One block of AES-128 (FIPS 197): a permutation of 128-bit values that looks random without the key. The
/// text form and the tagged form use it.
///
/// An observer sees only whether two blocks are equal. It takes 1.3 times as long as an AES block that never
/// leaves the vector registers (docs/PERFORMANCE.md, *Permutations*).
#[derive(Clone)]
pub struct AesBlock(Backend);

#[derive(Clone)]
enum Backend {
    #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
    X86 {
        encrypt: RoundKeys,
        decrypt: RoundKeys,
    },
    Crate(aes::Aes128),
}

impl AesBlock {
    /// Expands a key for both directions. The expanded key is wiped on drop. The caller must wipe its own
    /// copy.
    #[must_use]
    pub fn new(key: &[u8; 16]) -> Self {
        #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
        if let Some(cpu) = Instructions::detect() {
            let encrypt = RoundKeys::new(cpu, key);
            let decrypt = encrypt.inverse();
            return Self(Backend::X86 { encrypt, decrypt });
        }
        Self::portable(key)
    }

    fn portable(key: &[u8; 16]) -> Self {
        Self(Backend::Crate(aes::Aes128::new(key.into())))
    }

    /// Encrypts one block.
    #[must_use]
    #[inline]
    pub fn encrypt(&self, block: u128) -> u128 {
        match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86 { encrypt, .. } => encrypt.encrypt(block),
            Backend::Crate(aes) => encrypt_by_crate(aes, block),
        }
    }

    /// Decrypts one block.
    #[must_use]
    #[inline]
    pub fn decrypt(&self, block: u128) -> u128 {
        match &self.0 {
            #[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
            Backend::X86 { decrypt, .. } => decrypt.decrypt(block),
            Backend::Crate(aes) => decrypt_by_crate(aes, block),
        }
    }
}

/// Is out of line because the crate's code for every CPU would burden each caller.
#[inline(never)]
fn encrypt_by_crate(aes: &aes::Aes128, block: u128) -> u128 {
    let mut bytes = block.to_be_bytes().into();
    aes.encrypt_block(&mut bytes);
    u128::from_be_bytes(bytes.into())
}

#[inline(never)]
fn decrypt_by_crate(aes: &aes::Aes128, block: u128) -> u128 {
    let mut bytes = block.to_be_bytes().into();
    aes.decrypt_block(&mut bytes);
    u128::from_be_bytes(bytes.into())
}

impl fmt::Debug for AesBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AesBlock { .. }")
    }
}

#[cfg(test)]
mod tests {
    use super::AesBlock;

    fn vectors() -> impl Iterator<Item = (&'static str, [u128; 3])> {
        let lines = include_str!("aes128.txt").lines();
        lines.filter(|line| !line.starts_with('#')).map(|line| {
            let mut words = line.split(' ');
            let test = words.next().expect("a test");
            let mut number = || u128::from_str_radix(words.next()?, 16).ok();
            (test, [(); 3].map(|()| number().expect("32 hex digits")))
        })
    }

    #[test]
    fn known_answers_of_nist() {
        let known = vectors().filter(|(test, _)| !test.starts_with("MCT"));
        for (test, [key, plaintext, ciphertext]) in known {
            for new in [AesBlock::new, AesBlock::portable] {
                let aes = new(&key.to_be_bytes());
                assert_eq!(aes.encrypt(plaintext), ciphertext, "{test}");
                assert_eq!(aes.decrypt(ciphertext), plaintext, "{test}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "400,000 blocks")]
    fn monte_carlo_tests_of_nist() {
        for (test, [key, plaintext, ciphertext]) in vectors() {
            let (act, first, last): (fn(&AesBlock, u128) -> u128, _, _) = match test {
                "MCT-encrypt" => (AesBlock::encrypt, plaintext, ciphertext),
                "MCT-decrypt" => (AesBlock::decrypt, ciphertext, plaintext),
                _ => continue,
            };
            for new in [AesBlock::new, AesBlock::portable] {
                let (mut key, mut block) = (key, first);
                for _ in 0..100 {
                    let aes = new(&key.to_be_bytes());
                    block = (0..1_000).fold(block, |block, _| act(&aes, block));
                    key ^= block;
                }
                assert_eq!(block, last, "{test}");
            }
        }
    }
}
