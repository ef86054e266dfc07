//! A recent row's plaintext.

use super::codec::{Codec, MAX_LEN};
use super::error::FormatError;
use super::group::GroupKeys;
use super::padding::Padding;
use super::plaintext::Plaintext;
use super::value::{self, Value, Written};

const DELETED: u8 = 0;

/// A row of the recent table: a value, or a mark of deletion that hides the value in a pack.
#[derive(Clone, PartialEq, Eq)]
pub enum Row {
    /// A value.
    Value(Value),
    /// The row is deleted.
    Deleted,
}

impl Row {
    /// Writes the plaintext of the row.
    ///
    /// # Errors
    /// [`FormatError::TooLong`] if the value is longer than [`MAX_LEN`](super::MAX_LEN), and [`FormatError::NoGroupKey`] or
    /// [`FormatError::ErasedGroup`] without the key of its group.
    pub fn encode(
        &self,
        codec: &Codec,
        padding: Padding,
        groups: &GroupKeys,
    ) -> Result<Plaintext, FormatError> {
        let written = match self {
            Self::Value(value) => value::write(codec, value, value.group, groups)?,
            Self::Deleted => Plaintext::from(vec![DELETED]),
        };
        Ok(padding.padded(&[written]))
    }

    /// Reads the plaintext of a row. A row of an erased group is deleted.
    ///
    /// # Errors
    /// [`FormatError`] if the plaintext is not that of a row.
    pub fn decode(
        mut plaintext: &[u8],
        codec: &Codec,
        groups: &GroupKeys,
    ) -> Result<Self, FormatError> {
        if let [DELETED, rest @ ..] = plaintext {
            only_padding(rest)?;
            return Ok(Self::Deleted);
        }
        let written = Written::take(&mut plaintext)?;
        only_padding(plaintext)?;
        let bytes = written.read(codec, groups, MAX_LEN)?;
        Ok(bytes.map_or(Self::Deleted, |bytes| Self::Value(Value::new(bytes, written.group()))))
    }

    pub(crate) fn group(&self) -> Option<u128> {
        match self {
            Self::Value(value) => value.group,
            Self::Deleted => None,
        }
    }

    pub(crate) fn group_in(mut plaintext: &[u8]) -> Option<u128> {
        Written::take(&mut plaintext).ok()?.group()
    }
}

pub(super) fn only_padding(rest: &[u8]) -> Result<(), FormatError> {
    match rest.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(FormatError::Invalid("something follows that is not padding")),
    }
}

impl std::fmt::Debug for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Value(value) => write!(f, "Value({} bytes)", value.len()),
            Self::Deleted => f.write_str("Deleted"),
        }
    }
}
