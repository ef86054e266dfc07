use std::fmt;

use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};
use zstd::zstd_safe::{self, CParameter};

use super::error::FormatError;
use super::varint;

/// The most bytes that a value, or all values of a pack, may have: 64 MiB. A longer frame is not decompressed.
pub const MAX_LEN: usize = 64 << 20;

/// What a zstd frame begins with. It is left out.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const STORED: u8 = 1;
const ZSTD: u8 = 2;

/// A dictionary that zstd was trained to make from rows, and its number in the table, from 1.
///
/// ```
/// use opaque_id_packs::format::{Codec, Dictionary};
///
/// let samples: Vec<String> = (0..2_000).map(|i| format!("{{\"actor\":\"user {i}\",\"what\":\"login\"}}")).collect();
/// let trained = zstd::dict::from_samples(&samples, 4_096)?;
/// let codec = Codec::new(3, Some(Dictionary::new(1, trained)))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Dictionary {
    id: u16,
    bytes: Vec<u8>,
}

impl Dictionary {
    /// Names a dictionary.
    ///
    /// # Panics
    /// If the number is 0, which stands for no dictionary.
    #[must_use]
    pub fn new(id: u16, bytes: Vec<u8>) -> Self {
        assert_ne!(id, 0, "dictionaries have numbers from 1");
        Self { id, bytes }
    }
}

impl fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Dictionary({})", self.id)
    }
}

/// Compresses and decompresses values, at one level and with one dictionary or none.
pub struct Codec {
    level: i32,
    dictionary: Option<(u16, EncoderDictionary<'static>, DecoderDictionary<'static>)>,
}

impl Codec {
    /// Prepares a dictionary for a level: 3 for rows, which are written while a client waits, and 9 for packs.
    ///
    /// # Errors
    /// [`FormatError::Zstd`] if the dictionary is none.
    pub fn new(level: i32, dictionary: Option<Dictionary>) -> Result<Self, FormatError> {
        let prepared = |Dictionary { id, bytes }| -> Result<_, FormatError> {
            Ok((
                id,
                EncoderDictionary::try_copy(&bytes, level)?,
                DecoderDictionary::try_copy(&bytes)?,
            ))
        };
        Ok(Self {
            level,
            dictionary: dictionary.map(prepared).transpose()?,
        })
    }

    /// Returns the number of the dictionary; 0 is none.
    #[must_use]
    pub fn dictionary_id(&self) -> u16 {
        self.dictionary.as_ref().map_or(0, |(id, ..)| *id)
    }

    /// Writes a method, a length and the value, compressed if that is shorter.
    pub(super) fn write(&self, value: &[u8], to: &mut Vec<u8>) -> Result<(), FormatError> {
        check_len(value.len() as u64)?;
        let mut compressor = match &self.dictionary {
            Some((_, dictionary, _)) => Compressor::with_prepared_dictionary(dictionary)?,
            None => Compressor::new(self.level)?,
        };
        compressor.set_parameter(CParameter::DictIdFlag(false))?;
        let frame = compressor.compress(value)?;
        let (method, bytes) = match frame.strip_prefix(&MAGIC) {
            Some(frame) if frame.len() < value.len() => (ZSTD, frame),
            _ => (STORED, value),
        };
        to.push(method);
        varint::write(bytes.len() as u128, to);
        to.extend(bytes);
        Ok(())
    }

    /// Takes a value.
    pub(super) fn read(&self, from: &mut &[u8]) -> Result<Vec<u8>, FormatError> {
        let method = varint::take(1, from)?[0];
        let len = varint::read_len(from)?;
        let bytes = varint::take(len, from)?;
        match method {
            STORED => Ok(bytes.to_owned()),
            ZSTD => self.decompress(&[&MAGIC, bytes].concat()),
            _ => Err(FormatError::Invalid("unknown method")),
        }
    }

    fn decompress(&self, frame: &[u8]) -> Result<Vec<u8>, FormatError> {
        let announced = zstd_safe::get_frame_content_size(frame);
        let Ok(Some(len)) = announced else {
            return Err(FormatError::Invalid("a frame does not say how long it is"));
        };
        // Before memory is allocated for it.
        check_len(len)?;
        let mut decompressor = match &self.dictionary {
            Some((_, _, dictionary)) => Decompressor::with_prepared_dictionary(dictionary)?,
            None => Decompressor::new()?,
        };
        let len = usize::try_from(len).unwrap_or(MAX_LEN);
        let value = decompressor.decompress(frame, len)?;
        match value.len() == len {
            true => Ok(value),
            false => Err(FormatError::Invalid("a frame is shorter than it says")),
        }
    }
}

fn check_len(found: u64) -> Result<(), FormatError> {
    match found > MAX_LEN as u64 {
        true => Err(FormatError::TooLong {
            max: MAX_LEN,
            found,
        }),
        false => Ok(()),
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codec")
            .field("level", &self.level)
            .field("dictionary_id", &self.dictionary_id())
            .finish()
    }
}
