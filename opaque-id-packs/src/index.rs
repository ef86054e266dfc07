//! Blind indexes: keyed hashes that find the rows of an encrypted value.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use unicode_normalization::UnicodeNormalization;
use zeroize::Zeroizing;

use crate::encrypted::Encrypted;

/// The fingerprint of a value: the first 16 bytes of its HMAC-SHA-256 (RFC 2104), the type of a field for the column of a blind index.
///
/// The column is a `BYTEA` of PostgreSQL, a `BINARY(16)` of MySQL and MariaDB, or a `BLOB` of SQLite, with an index. Two fingerprints
/// of a column are equal if the values are equal after normalization.
pub type Fingerprint<T> = Encrypted<T, Blind>;

/// Stands for the value of a [`Fingerprint`]. No key brings the value back.
#[derive(Clone, Copy, Debug)]
pub enum Blind {}

pub(crate) const FINGERPRINT: usize = 16;

/// The treatment of texts that are equal for users and have different bytes, before their fingerprint is computed.
///
/// ```
/// use opaque_id_packs::Normalizer;
///
/// assert_eq!(Normalizer::Caseless.apply("ADA@Example.org"), "ada@example.org");
/// assert_eq!(Normalizer::Nfc.apply("Zu\u{308}rich"), "Z\u{fc}rich");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Normalizer {
    /// The text stays as it is.
    Exact,
    /// The text is composed: Unicode's form NFC (UAX #15).
    Nfc,
    /// NFKC, the lower case of each character, and NFKC again. Use it for email addresses and user names.
    Caseless,
}

impl Normalizer {
    /// Normalizes a text.
    #[must_use]
    pub fn apply(self, text: &str) -> String {
        match self {
            Self::Exact => text.to_owned(),
            Self::Nfc => text.nfc().collect(),
            // `str::to_lowercase` would treat a sigma at the end of a word in another way.
            Self::Caseless => text.nfkc().flat_map(char::to_lowercase).nfkc().collect(),
        }
    }
}

pub(crate) struct IndexKey(Zeroizing<[u8; 32]>);

impl IndexKey {
    /// Derives the key from a resource's subkey for a column and its context.
    pub(crate) fn derive(subkey: &[u8; 32], column: &str, context: &str) -> Self {
        let separator: &[u8] = if context.is_empty() { &[] } else { &[0] };
        Self(Zeroizing::new(hmac(subkey, &[column.as_bytes(), separator, context.as_bytes()])))
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &*self.0
    }

    pub(crate) fn fingerprint(&self, text: &str) -> Vec<u8> {
        hmac(&self.0, &[text.as_bytes()])[..FINGERPRINT].to_vec()
    }
}

fn hmac(key: &[u8; 32], message: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    message.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}
