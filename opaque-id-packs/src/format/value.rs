//! A method, a length and bytes: a value in a row, or several in a pack.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::codec::{Codec, MAX_LEN, check_len};
use super::error::FormatError;
use super::group::{GroupKey, GroupKeys};
use super::plaintext::Plaintext;
use super::varint;

/// The magic number of zstd frames is omitted.
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const STORED: u8 = 1;
const ZSTD: u8 = 2;
const GROUP: u8 = 3;

/// A value, and the group of its row. Values of one pack share the memory of their frame. The memory is wiped
/// when the last of them is dropped.
#[derive(Clone)]
pub struct Value {
    frame: Arc<Plaintext>,
    range: Range<usize>,
    /// The database's id of the group's key.
    pub group: Option<u128>,
}

impl Value {
    /// Creates a value from the encoding's bytes.
    pub fn new(bytes: impl Into<Plaintext>, group: Option<u128>) -> Self {
        let bytes = bytes.into();
        Self { range: 0..bytes.len(), frame: Arc::new(bytes), group }
    }

    pub(super) fn take(
        frame: &Arc<Plaintext>,
        start: &mut usize,
        len: usize,
        group: Option<u128>,
    ) -> Self {
        let range = *start..*start + len;
        *start = range.end;
        Self { frame: Arc::clone(frame), range, group }
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes, None)
    }
}

impl std::ops::Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.frame[self.range.clone()]
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other && self.group == other.group
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Value({} bytes)", self.len())
    }
}

/// The bytes are compressed if that is shorter, and encrypted with the key of their group.
pub(super) fn write(
    codec: &Codec,
    value: &[u8],
    group: Option<u128>,
    groups: &GroupKeys,
) -> Result<Plaintext, FormatError> {
    check_len(value.len() as u64, MAX_LEN)?;
    let frame = codec.compress(value)?;
    let written = match frame.strip_prefix(&MAGIC) {
        Some(frame) if frame.len() < value.len() => join(ZSTD, frame),
        _ => join(STORED, value),
    };
    let Some(group) = group else {
        return Ok(written);
    };
    let key = groups.get(group)?.ok_or(FormatError::ErasedGroup)?;
    Ok(join(GROUP, &key.encrypt(codec, &written)))
}

fn join(method: u8, bytes: &[u8]) -> Plaintext {
    let mut written = Plaintext::with_capacity(1 + varint::MAX_LEN + bytes.len());
    written.push(method);
    varint::write(bytes.len() as u128, &mut written);
    written.extend(bytes);
    written
}

#[derive(Clone, Copy)]
pub(super) struct Written<'p> {
    method: u8,
    bytes: &'p [u8],
}

impl<'p> Written<'p> {
    pub(super) fn take(from: &mut &'p [u8]) -> Result<Self, FormatError> {
        let method = varint::take(1, from)?[0];
        let len = varint::read_len(from)?;
        check_len(len as u64, MAX_LEN)?;
        Ok(Self { method, bytes: varint::take(len, from)? })
    }

    pub(super) fn group(self) -> Option<u128> {
        let id = self.bytes.first_chunk::<{ GroupKey::ID }>();
        id.filter(|_| self.method == GROUP).map(|id| u128::from_be_bytes(*id))
    }

    pub(super) fn read(
        self,
        codec: &Codec,
        groups: &GroupKeys,
        max: usize,
    ) -> Result<Option<Plaintext>, FormatError> {
        let Self { method, bytes } = self;
        Ok(Some(match (method, self.group()) {
            (STORED, _) => Plaintext::from(bytes.to_owned()),
            (ZSTD, _) => codec.decompress(&Plaintext::from([&MAGIC, bytes].concat()), max)?.into(),
            (_, Some(group)) => {
                let Some(key) = groups.get(group)? else {
                    return Ok(None);
                };
                let opened = key.open(codec, &bytes[GroupKey::ID..])?;
                let from = &mut &opened[..];
                let inner = Written::take(from)?;
                match inner.group().is_none() && from.is_empty() {
                    true => return inner.read(codec, groups, max),
                    false => return Err(FormatError::Invalid("a group in a group")),
                }
            }
            _ => return Err(FormatError::Invalid("unknown method")),
        }))
    }
}
