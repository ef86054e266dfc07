//! Tokens: a key and a payload, sealed for one purpose by AES-256-GCM-SIV (RFC 8452). `docs/FORMAT.md` specifies them.
//!
//! An id and a cursor are one block, so a cipher of blocks and a short tag are enough. A token is as long as its payload.

use aes_gcm_siv::Nonce;
use aes_gcm_siv::aead::{Aead, Payload};

use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::key::Repr;
use crate::key_id::KeyId;
use crate::random::{Random, SystemRandom};
use crate::subkeys::Subkeys;

const NONCE: usize = 12;

/// The characters of the longest token.
pub(crate) const MAX_CHARS: usize = 16_384;

/// What a token is for. It opens for the same purpose only.
#[derive(Clone, Debug)]
pub(crate) struct Purpose {
    kind: &'static str,
    associated_data: Vec<u8>,
}

/// The kinds of tokens: the word after the prefix.
pub(crate) const KINDS: [&str; 2] = [GRANT, POSITION];

pub(crate) const GRANT: &str = "grant";
const POSITION: &str = "position";

impl Purpose {
    /// A grant is for what an application calls it.
    pub(crate) fn grant(purpose: &str) -> Self {
        Self::new(GRANT, &[purpose])
    }

    /// A position is for a list and a filter in JSON, which contains no zero: so the bytes tell where the list's name ends.
    #[cfg(any(feature = "serde", test))]
    pub(crate) fn position(listing: &str, filter: &str) -> Self {
        Self::new(POSITION, &[listing, filter])
    }

    /// A purpose that only parses.
    pub(crate) fn of_kind(kind: &'static str) -> Self {
        Self::new(kind, &[])
    }

    pub(crate) fn new(kind: &'static str, parts: &[&str]) -> Self {
        let mut associated_data = kind.as_bytes().to_vec();
        for part in parts {
            associated_data.push(0);
            associated_data.extend_from_slice(part.as_bytes());
        }
        Self { kind, associated_data }
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.kind
    }

    fn prefix(&self, prefix: &str) -> String {
        format!("{prefix}_{}_", self.kind)
    }

    pub(crate) fn seal<R: Repr>(
        &self,
        prefix: &str,
        keys: &Subkeys,
        key_id: KeyId,
        repr: R,
        payload: &[u8],
    ) -> String {
        let mut nonce = [0; NONCE];
        SystemRandom.fill(&mut nonce);
        self.seal_with(nonce, prefix, keys, key_id, repr, payload)
    }

    /// With the nonce of a vector.
    fn seal_with<R: Repr>(
        &self,
        nonce: [u8; NONCE],
        prefix: &str,
        keys: &Subkeys,
        key_id: KeyId,
        repr: R,
        payload: &[u8],
    ) -> String {
        let plaintext = [&repr.to_plaintext(0).to_be_bytes()[..], payload].concat();
        let message = Payload { msg: &plaintext, aad: &self.associated_data };
        let cipher = keys.token().expect("a keyring does not seal with the public secret");
        let ciphertext = cipher.encrypt(&Nonce::from(nonce), message);
        let ciphertext = ciphertext.expect("a payload is shorter than 2^36 bytes");
        let bytes = [&[key_id.get()][..], &nonce, &ciphertext].concat();
        self.prefix(prefix) + &base32::encode_bytes(&bytes)
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
        let bytes = base32::decode_bytes(body).ok_or(IdProblem::NotWhole)?;
        let (key_id, rest) = bytes.split_first().ok_or(IdProblem::NotWhole)?;
        let (nonce, ciphertext) = rest.split_first_chunk().ok_or(IdProblem::NotWhole)?;
        let key_id = KeyId::new(*key_id).ok_or(IdProblem::KeyId)?;
        Ok(Token { key_id, nonce: *nonce, ciphertext: ciphertext.to_vec() })
    }

    /// Returns a stored value that is not checked yet and the payload, or `None` if the token is not genuine, or of another purpose.
    pub(crate) fn open<R: Repr>(&self, keys: &Subkeys, token: &Token) -> Option<(R, Vec<u8>)> {
        let message = Payload { msg: &token.ciphertext, aad: &self.associated_data };
        let plaintext = keys.token()?.decrypt(&Nonce::from(token.nonce), message).ok()?;
        let (block, payload) = plaintext.split_first_chunk()?;
        Some((R::from_plaintext(u128::from_be_bytes(*block), 0)?, payload.to_vec()))
    }
}

/// A token that is not opened yet.
pub(crate) struct Token {
    pub(crate) key_id: KeyId,
    nonce: [u8; NONCE],
    ciphertext: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use hkdf::Hkdf;
    use serde::Deserialize;
    use sha2::Sha256;
    use uuid::Uuid;

    use super::*;

    #[derive(Deserialize)]
    struct Vector {
        master: String,
        key_id: u8,
        prefix: String,
        domain: String,
        kind: String,
        key: String,
        nonce: String,
        purpose: String,
        expires: u64,
        name: String,
        filter: String,
        values: String,
        grant: String,
        position: String,
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits = (0..hex.len()).step_by(2).map(|i| &hex[i..i + 2]);
        digits.map(|digits| u8::from_str_radix(digits, 16).expect("hex")).collect()
    }

    fn subkeys(master: &[u8], domain: &str, is_public: bool) -> Subkeys {
        let hkdf = Hkdf::<Sha256>::new(Some(b"opaque-id.v1"), master);
        Subkeys::derive(&hkdf, domain, is_public)
    }

    impl Vector {
        fn check<R: Repr + std::fmt::Debug>(&self, repr: R) {
            let keys = subkeys(&bytes(&self.master), &self.domain, false);
            let key_id = KeyId::new(self.key_id).expect("at most 3");
            let nonce = bytes(&self.nonce).try_into().expect("12 bytes");
            let grant =
                (Purpose::grant(&self.purpose), &self.expires.to_be_bytes()[..], &self.grant);
            let position = Purpose::position(&self.name, &self.filter);
            for (purpose, payload, text) in
                [grant, (position, self.values.as_bytes(), &self.position)]
            {
                let sealed = purpose.seal_with(nonce, &self.prefix, &keys, key_id, repr, payload);
                assert_eq!(&sealed, text);
                let token = purpose.parse(&self.prefix, text).expect("well formed");
                assert_eq!(token.key_id, key_id);
                assert_eq!(purpose.open(&keys, &token), Some((repr, payload.to_vec())));
            }
        }
    }

    #[test]
    fn every_vector_seals_and_opens() {
        let vectors = include_str!("tokens-v1.json");
        let vectors: Vec<Vector> = serde_json::from_str(vectors).expect("valid vectors");
        assert_eq!(vectors.len(), 30);
        for vector in vectors {
            match vector.kind.as_str() {
                "int" => vector.check(vector.key.parse::<i64>().expect("an integer")),
                _ => vector.check(vector.key.parse::<Uuid>().expect("a UUID")),
            }
        }
    }

    /// Anybody has the example's secret, so anybody can make up a token of the example's row.
    #[test]
    fn a_token_of_the_example_secret_is_refused() {
        let secret = b"opaque-id: example, not a secret";
        let (key_id, purpose) = (KeyId::new(3).expect("at most 3"), Purpose::grant("x"));
        let theirs = subkeys(secret, "user", false);
        let text = purpose.seal("user", &theirs, key_id, 1_i64, &[0xff; 8]);
        let token = purpose.parse("user", &text).expect("well formed");
        assert!(purpose.open::<i64>(&theirs, &token).is_some());
        assert!(purpose.open::<i64>(&subkeys(secret, "user", true), &token).is_none());
    }
}
