//! A recent row's plaintext: a value, or the mark of a deleted row.

use super::codec::Codec;
use super::error::FormatError;
use super::padding::Padding;
use super::plaintext::Plaintext;

const DELETED: u8 = 0;

/// A row of the recent table: a value, or the mark that it is deleted, which hides the value in a pack.
///
/// ```
/// use opaque_id_packs::format::{Codec, FormatError, Padding, Row};
///
/// let codec = Codec::new(3, None)?;
/// for row in [Row::Value(b"Ada".to_vec()), Row::Deleted] {
///     let plaintext = row.encode(&codec, Padding::Steps(64))?;
///     assert_eq!(plaintext.len(), 64);
///     assert_eq!(Row::decode(&plaintext, &codec)?, row);
/// }
/// # Ok::<(), FormatError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum Row {
    /// A value.
    Value(Vec<u8>),
    /// There is no such row any more.
    Deleted,
}

impl Row {
    /// Writes the plaintext of the row.
    ///
    /// # Errors
    /// [`FormatError::TooLong`] if the value is longer than [`MAX_LEN`](super::MAX_LEN).
    pub fn encode(&self, codec: &Codec, padding: Padding) -> Result<Plaintext, FormatError> {
        match self {
            Self::Value(value) => codec.write(&[], value, padding),
            Self::Deleted => {
                let mut plaintext = Plaintext::with_capacity(padding.padded_len(1));
                plaintext.push(DELETED);
                padding.pad(&mut plaintext);
                Ok(plaintext)
            }
        }
    }

    /// Reads the plaintext of a row.
    ///
    /// # Errors
    /// [`FormatError`] if it is not one.
    pub fn decode(mut plaintext: &[u8], codec: &Codec) -> Result<Self, FormatError> {
        let row = match plaintext {
            [DELETED, rest @ ..] => {
                plaintext = rest;
                Self::Deleted
            }
            _ => Self::Value(codec.read(&mut plaintext)?),
        };
        only_padding(plaintext)?;
        Ok(row)
    }
}

/// Checks that nothing follows but padding.
pub(super) fn only_padding(rest: &[u8]) -> Result<(), FormatError> {
    match rest.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(FormatError::Invalid("something follows that is not padding")),
    }
}

/// Without the value.
impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => write!(f, "Value({} bytes)", value.len()),
            Self::Deleted => f.write_str("Deleted"),
        }
    }
}
