use std::fmt;

use aes_gcm_siv::aead::{Aead, Payload};
use aes_gcm_siv::{Aes256GcmSiv, KeyInit, Nonce};
use opaque_id_core::__private::Label;
use opaque_id_core::keyring::KeyId;
use opaque_id_core::{Keyring, OpaqueId};
use zeroize::Zeroizing;

use super::codec::Codec;
use super::error::FormatError;
use super::plaintext::Plaintext;

/// Above the two bits of the key id.
const FORMAT: u8 = 1;
/// The format with the key id, and the number of the dictionary.
const HEADER: usize = 3;
const NONCE: usize = 12;
const TAG: usize = 16;

/// The kind of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A row of the recent table.
    Row = 1,
    /// A pack.
    Pack = 2,
    /// A dictionary.
    Dictionary = 3,
    /// The settings of the table.
    Settings = 4,
    /// A value of a column.
    Value = 5,
    /// The data key of a group.
    Key = 6,
    /// Values of a group, encrypted with its data key, inside of a row or a pack.
    Group = 7,
}

/// The place of a body. A body opens only there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The kind of the body.
    pub kind: Kind,
    /// The database's id of the body.
    pub id: u128,
    /// The database's version of the body.
    pub version: u64,
}

/// Encrypts and decrypts for one table, by AES-256-GCM-SIV (RFC 8452) with a random nonce of 96 bits. A repeated nonce shows
/// only whether two plaintexts at one place are equal.
pub struct PackCipher {
    sealing: KeyId,
    ciphers: [Option<Box<Aes256GcmSiv>>; 4],
    table: String,
    context: String,
}

impl PackCipher {
    /// The number of bytes by which a body is longer than its plaintext.
    pub const OVERHEAD: usize = HEADER + NONCE + TAG;

    /// Derives a resource's subkeys for a table.
    #[must_use]
    pub fn new<T: OpaqueId>(keyring: &Keyring, table: &str) -> Self {
        Self::for_domain(keyring, T::DOMAIN, table)
    }

    pub(crate) fn for_domain(keyring: &Keyring, domain: &str, table: &str) -> Self {
        let mut ciphers = [const { None }; 4];
        for key_id in keyring.key_ids() {
            ciphers[usize::from(key_id.get())] =
                keyring.with_subkey::<32, _>(key_id, Label::Packs, domain, |key| {
                    Box::new(Aes256GcmSiv::new(key.into()))
                });
        }
        Self {
            sealing: keyring.sealing_key_id(),
            ciphers,
            table: table.to_owned(),
            context: String::new(),
        }
    }

    pub(crate) fn with_key(key: &Zeroizing<[u8; 32]>, table: &str) -> Self {
        let mut ciphers = [const { None }; 4];
        ciphers[0] = Some(Box::new(Aes256GcmSiv::new((&**key).into())));
        let sealing = KeyId::new(0).expect("two bits");
        Self { sealing, ciphers, table: table.to_owned(), context: String::new() }
    }

    /// Also binds bodies to a context, such as a tenant or a database.
    #[must_use]
    pub fn context(self, context: &str) -> Self {
        Self { context: context.to_owned(), ..self }
    }

    /// Encrypts the codec's output.
    ///
    /// # Panics
    /// If the operating system's random number generator fails.
    #[must_use]
    pub fn encrypt(&self, place: Place, codec: &Codec, plaintext: &[u8]) -> Vec<u8> {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the operating system has randomness");
        self.encrypt_with(nonce, place, codec, plaintext)
    }

    pub(super) fn encrypt_with(
        &self,
        nonce: [u8; NONCE],
        place: Place,
        codec: &Codec,
        plaintext: &[u8],
    ) -> Vec<u8> {
        let header = self.header(codec.dictionary_id());
        let cipher = self.ciphers[usize::from(self.sealing.get())].as_ref();
        let payload = Payload { msg: plaintext, aad: &self.associated_data(header, place) };
        let encrypted = cipher.map(|cipher| cipher.encrypt(&Nonce::from(nonce), payload));
        let encrypted =
            encrypted.and_then(Result::ok).expect("the sealing key, and less than 2^36 bytes");
        [&header[..], &nonce, &encrypted].concat()
    }

    /// Returns the first bytes of a new body with this dictionary.
    #[must_use]
    pub fn header(&self, dictionary_id: u16) -> [u8; 3] {
        let [high, low] = dictionary_id.to_be_bytes();
        [FORMAT << 2 | self.sealing.get(), high, low]
    }

    /// Decrypts a body for the codec of its [`dictionary_id`](Self::dictionary_id).
    ///
    /// # Errors
    /// [`FormatError`] if it is not the body of this place.
    pub fn open(&self, place: Place, codec: &Codec, body: &[u8]) -> Result<Plaintext, FormatError> {
        let found = Self::dictionary_id(body)?;
        let expected = codec.dictionary_id();
        if found != expected {
            return Err(FormatError::Dictionary { expected, found });
        }
        let (header, rest) = split::<HEADER>(body)?;
        let (nonce, encrypted) = split::<NONCE>(rest)?;
        let key_id = KeyId::new(header[0] & 0b11).ok_or(FormatError::NotGenuine)?;
        let cipher = self.ciphers[usize::from(key_id.get())].as_ref();
        let cipher = cipher.ok_or(FormatError::UnknownKeyId { key_id })?;
        let payload = Payload { msg: encrypted, aad: &self.associated_data(header, place) };
        let opened = cipher.decrypt(&Nonce::from(nonce), payload);
        opened.map(Plaintext::from).map_err(|_| FormatError::NotGenuine)
    }

    /// Returns the number of the dictionary that a body claims. 0 means no dictionary.
    ///
    /// # Errors
    /// [`FormatError`] if it is not a body of this format.
    pub fn dictionary_id(body: &[u8]) -> Result<u16, FormatError> {
        let expected = Self::OVERHEAD;
        let found = body.len();
        let [first, high, low, ..] = *body else {
            return Err(FormatError::Truncated { expected, found });
        };
        if first >> 2 != FORMAT {
            return Err(FormatError::Version { found: first >> 2 });
        }
        match found < expected {
            true => Err(FormatError::Truncated { expected, found }),
            false => Ok(u16::from_be_bytes([high, low])),
        }
    }

    fn associated_data(&self, header: [u8; HEADER], place: Place) -> Vec<u8> {
        let Place { kind, id, version } = place;
        // Names of tables do not contain the separator.
        let separator: &[u8] = match &*self.context {
            "" => &[],
            _ => &[0],
        };
        [
            &b"opaque-id.packs"[..],
            &header,
            &[kind as u8],
            &version.to_be_bytes(),
            &id.to_be_bytes(),
            self.table.as_bytes(),
            separator,
            self.context.as_bytes(),
        ]
        .concat()
    }
}

fn split<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), FormatError> {
    let (first, rest) = bytes.split_first_chunk().ok_or(FormatError::NotGenuine)?;
    Ok((*first, rest))
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Place")
            .field("kind", &self.kind)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PackCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackCipher").field("table", &self.table).finish_non_exhaustive()
    }
}
