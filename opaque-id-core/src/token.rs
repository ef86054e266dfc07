//! Tokens: a key and a payload, sealed for one purpose by AES-256-GCM-SIV (RFC 8452). `docs/FORMAT.md`
//! specifies them.
//!
//! For an id and a cursor, a block cipher and a short tag are enough, because they are one block.

use aes_gcm_siv::Nonce;
use aes_gcm_siv::aead::{Aead, Payload};

use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::key_id::KeyId;
use crate::random::{Random, SystemRandom};
use crate::subkeys::Subkeys;

const NONCE: usize = 12;

pub(crate) const MAX_CHARS: usize = 16_384;

#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    pub(crate) kind: &'static str,
    associated_data: Vec<u8>,
}

pub(crate) const KINDS: [&str; 2] = [GRANT, POSITION];

pub(crate) const GRANT: &str = "grant";
const POSITION: &str = "position";

impl Purpose {
    pub(crate) fn grant(purpose: &str) -> Self {
        Self::new(GRANT, &[purpose])
    }

    /// JSON contains no zero byte, so the bytes show where the list's name ends.
    pub(crate) fn position(listing: &str, filter: &str) -> Self {
        Self::new(POSITION, &[listing, filter])
    }

    pub(crate) fn new(kind: &'static str, parts: &[&str]) -> Self {
        let mut associated_data = kind.as_bytes().to_vec();
        for part in parts {
            associated_data.push(0);
            associated_data.extend_from_slice(part.as_bytes());
        }
        Self { kind, associated_data }
    }

    fn prefix(&self, prefix: &str) -> String {
        format!("{prefix}_{}_", self.kind)
    }

    pub(crate) fn seal(
        &self,
        prefix: &str,
        keys: &Subkeys,
        key_id: KeyId,
        key: u128,
        payload: &[u8],
    ) -> String {
        let mut nonce = [0; NONCE];
        SystemRandom.fill(&mut nonce);
        let plaintext = [&key.to_be_bytes()[..], payload].concat();
        let message = Payload { msg: &plaintext, aad: &self.associated_data };
        let cipher = keys.token.as_ref().expect("a keyring does not seal with the public secret");
        let ciphertext = cipher.encrypt(&Nonce::from(nonce), message);
        let ciphertext = ciphertext.expect("a payload is shorter than 2^36 bytes");
        let bytes = [&[key_id.get()][..], &nonce, &ciphertext].concat();
        self.prefix(prefix) + &encode_bytes(&bytes)
    }

    pub(crate) fn parse(&self, prefix: &str, text: &str) -> Result<Token, Invalid> {
        if text.len() > MAX_CHARS {
            return Err(IdProblem::TooLong { max: MAX_CHARS }.into());
        }
        let expected = self.prefix(prefix);
        let body = text.strip_prefix(&expected).ok_or(IdProblem::NoPrefix)?;
        if let Some(at) = body.bytes().position(|byte| !base32::is_valid(byte)) {
            let position = expected.len() + at + 1;
            return Err(Invalid::from(match body.as_bytes()[at].is_ascii_uppercase() {
                true => IdProblem::UpperCase { position },
                false => IdProblem::Character { position },
            }));
        }
        let bytes = decode_bytes(body).ok_or(IdProblem::NotWhole)?;
        let (key_id, rest) = bytes.split_first().ok_or(IdProblem::NotWhole)?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or(IdProblem::NotWhole)?;
        let key_id = KeyId::new(*key_id).ok_or(IdProblem::KeyId)?;
        Ok(Token { key_id, nonce: *nonce, ciphertext: ciphertext.to_vec() })
    }

    pub(crate) fn open(&self, keys: &Subkeys, token: &Token) -> Option<(u128, Vec<u8>)> {
        let message = Payload { msg: &token.ciphertext, aad: &self.associated_data };
        let plaintext = keys.token.as_ref()?.decrypt(&Nonce::from(token.nonce), message).ok()?;
        let (block, payload) = plaintext.split_first_chunk()?;
        Some((u128::from_be_bytes(*block), payload.to_vec()))
    }
}

pub(crate) struct Token {
    pub(crate) key_id: KeyId,
    nonce: [u8; NONCE],
    ciphertext: Vec<u8>,
}

const BYTES: usize = 5;

fn encode_bytes(bytes: &[u8]) -> String {
    bytes.chunks(BYTES).flat_map(encode_chunk).map(char::from).collect()
}

fn encode_chunk(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let mut word = [0; 8];
    word[3..3 + bytes.len()].copy_from_slice(bytes);
    let mut text = [0; 8];
    base32::encode_40(u64::from_be_bytes(word), &mut text);
    text.into_iter().take((8 * bytes.len()).div_ceil(5))
}

/// Returns `None` unless the text is exactly the encoding of the bytes.
fn decode_bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * BYTES / 8);
    for chunk in text.as_bytes().chunks(8) {
        let mut padded = [b'0'; 8];
        padded[..chunk.len()].copy_from_slice(chunk);
        let word = base32::decode_40(&padded).ok()?.to_be_bytes();
        let decoded = &word[3..3 + chunk.len() * BYTES / 8];
        if !encode_chunk(decoded).eq(chunk.iter().copied()) {
            return None;
        }
        bytes.extend_from_slice(decoded);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use hkdf::Hkdf;
    use proptest1::prelude::*;
    use sha2::Sha256;

    use super::*;

    fn subkeys(master: &[u8], domain: &str, is_public: bool) -> Subkeys {
        let hkdf = Hkdf::<Sha256>::new(Some(b"opaque-id.v1"), master);
        Subkeys::derive(&hkdf, domain, is_public)
    }

    #[test]
    fn a_token_of_the_example_secret_is_refused() {
        let secret = b"opaque-id: example, not a secret";
        let (key_id, purpose) = (KeyId::new(3).expect("at most 3"), Purpose::grant("x"));
        let theirs = subkeys(secret, "user", false);
        let text = purpose.seal("user", &theirs, key_id, 1, &[0xff; 8]);
        let token = purpose.parse("user", &text).expect("well formed");
        assert!(purpose.open(&theirs, &token).is_some());
        assert!(purpose.open(&subkeys(secret, "user", true), &token).is_none());
    }

    proptest! {
        #[test]
        fn bytes_round_trip(bytes: Vec<u8>, text in "[0-9a-hjkmnp-tv-zIo]{0,20}") {
            prop_assert_eq!(decode_bytes(&encode_bytes(&bytes)), Some(bytes));
            if let Some(bytes) = decode_bytes(&text) {
                prop_assert_eq!(encode_bytes(&bytes), text);
            }
        }
    }
}
