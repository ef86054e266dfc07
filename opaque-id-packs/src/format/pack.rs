//! A pack's plaintext. `docs/PACKS-FORMAT.md` specifies it.

use std::collections::HashMap;
use std::sync::Arc;
use std::{fmt, iter};

use super::codec::{Codec, MAX_LEN, check_len};
use super::error::FormatError;
use super::group::GroupKeys;
use super::padding::Padding;
use super::plaintext::Plaintext;
use super::row::only_padding;
use super::value::{self, Value, Written};
use super::varint;

/// Rows of neighboring keys, compressed as one. Keys are 128-bit numbers in the database's order: the 16 bytes of a key,
/// big-endian, or an integer plus 2^63.
#[derive(Clone, PartialEq, Eq)]
pub struct Pack {
    /// The pack's id. No key is smaller.
    pub id: u128,
    /// The id of the next pack at the time of writing. All keys are smaller. `None` means the last pack.
    pub end: Option<u128>,
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(u128, Value)>,
}

impl Pack {
    /// Writes the plaintext of the pack.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] unless the keys ascend from the pack's id to its end,
    /// [`FormatError::TooLong`] if all values are longer than [`MAX_LEN`](super::MAX_LEN), and
    /// [`FormatError::NoGroupKey`] or [`FormatError::ErasedGroup`] without the keys of the groups.
    pub fn encode(
        &self,
        codec: &Codec,
        padding: Padding,
        groups: &GroupKeys,
    ) -> Result<Plaintext, FormatError> {
        let frames = Frames::new(&self.rows);
        let numbers = 2 + 3 * self.rows.len();
        let mut head = Plaintext::with_capacity(17 + varint::MAX_LEN * numbers);
        let is_framed = frames.groups.len() > 1;
        head.push(u8::from(self.end.is_some()) | if is_framed { FRAMES } else { 0 });
        head.extend(self.end.iter().flat_map(|end| end.to_be_bytes()));
        varint::write(self.rows.len() as u128, &mut head);
        let mut next = Some(self.id);
        for (key, _) in &self.rows {
            let difference = next.and_then(|next| key.checked_sub(next));
            let difference = difference.filter(|_| self.end.is_none_or(|end| *key < end));
            varint::write(difference.ok_or(ORDER)?, &mut head);
            next = key.checked_add(1);
        }
        for (_, value) in &self.rows {
            varint::write(value.len() as u128, &mut head);
        }
        if is_framed {
            varint::write(frames.groups.len() as u128, &mut head);
            for frame in &frames.by_row {
                varint::write(*frame as u128, &mut head);
            }
        }
        check_len(frames.groups.iter().map(|(_, len)| *len as u64).sum(), MAX_LEN)?;
        let lens = frames.groups.iter().map(|(_, len)| *len);
        let mut values: Vec<_> = lens.map(Plaintext::with_capacity).collect();
        for ((_, value), frame) in self.rows.iter().zip(&frames.by_row) {
            values[*frame].extend_from_slice(value);
        }
        let written = frames.groups.iter().zip(&values);
        let written =
            written.map(|((group, _), values)| value::write(codec, values, *group, groups));
        let parts = iter::once(Ok(head)).chain(written).collect::<Result<Vec<_>, _>>()?;
        Ok(padding.padded(&parts))
    }

    /// Reads the plaintext of the pack with this id, without the rows of erased groups.
    ///
    /// # Errors
    /// [`FormatError`] if the plaintext is not that of this pack.
    pub fn decode(
        id: u128,
        plaintext: &[u8],
        codec: &Codec,
        groups: &GroupKeys,
    ) -> Result<Self, FormatError> {
        let (pack, unreadable) = Self::decode_readable(id, plaintext, codec, groups)?;
        unreadable.into_iter().next().map_or(Ok(pack), |(_, error)| Err(error))
    }

    /// Reads the plaintext like [`decode`](Self::decode), without the unreadable rows of groups. The second
    /// result has their keys with the reason.
    ///
    /// # Errors
    /// [`FormatError`] if the plaintext is not that of a pack, or if its rows without a group cannot be read.
    pub fn decode_readable(
        id: u128,
        plaintext: &[u8],
        codec: &Codec,
        groups: &GroupKeys,
    ) -> Result<(Self, Vec<(u128, FormatError)>), FormatError> {
        let head = Head::decode(id, plaintext)?;
        let frames = (0..head.frames.len()).map(|frame| match head.open(frame, codec, groups) {
            Err(error) if head.frames[frame].0.group().is_none() => Err(error),
            opened => Ok(opened),
        });
        let frames = frames.collect::<Result<Vec<_>, _>>()?;
        let frames: Vec<_> =
            frames.into_iter().map(|frame| frame.map(|it| it.map(Arc::new))).collect();
        let mut starts = vec![0; frames.len()];
        let mut rows = Vec::with_capacity(head.keys.len());
        let mut unreadable = Vec::new();
        for ((key, len), frame) in head.keys.iter().zip(&head.lens).zip(&head.by_row) {
            match &frames[*frame] {
                Ok(Some(values)) => {
                    let group = head.frames[*frame].0.group();
                    rows.push((*key, Value::take(values, &mut starts[*frame], *len, group)));
                }
                Ok(None) => {}
                Err(error) => unreadable.push((*key, error.clone())),
            }
        }
        Ok((Self { id, end: head.end, rows }, unreadable))
    }

    /// Reads the end of the pack with this id, and the value of one key.
    ///
    /// # Errors
    /// [`FormatError`] like [`decode`](Self::decode).
    pub fn find(
        id: u128,
        plaintext: &[u8],
        codec: &Codec,
        groups: &GroupKeys,
        key: u128,
    ) -> Result<(Option<u128>, Option<Value>), FormatError> {
        let head = Head::decode(id, plaintext)?;
        let Ok(place) = head.keys.binary_search(&key) else {
            return Ok((head.end, None));
        };
        let frame = head.by_row[place];
        let before = head.lens.iter().zip(&head.by_row).take(place);
        let start = before.filter(|(_, of)| **of == frame).map(|(len, _)| len).sum::<usize>();
        let value = head.open(frame, codec, groups)?.map(|values| {
            let bytes = values[start..][..head.lens[place]].to_owned();
            Value::new(bytes, head.frames[frame].0.group())
        });
        Ok((head.end, value))
    }

    /// Stops at the first unreadable part.
    pub(crate) fn groups(id: u128, plaintext: &[u8]) -> Vec<u128> {
        let head = Head::decode(id, plaintext);
        head.map_or(Vec::new(), |head| {
            head.frames.iter().filter_map(|(it, _)| it.group()).collect()
        })
    }
}

/// The flag for rows in several frames.
const FRAMES: u8 = 2;

/// A read decodes a whole frame. Half of this limit stores 3 % more of Debian's package index, and no limit 3
/// % less.
const FRAME_BYTES: usize = 32 << 10;

/// The rows of a frame are compressed together and have one group.
struct Frames {
    groups: Vec<(Option<u128>, usize)>,
    by_row: Vec<usize>,
}

impl Frames {
    fn new(rows: &[(u128, Value)]) -> Self {
        let mut frames = Self { groups: Vec::new(), by_row: Vec::with_capacity(rows.len()) };
        let mut numbers = HashMap::new();
        for (_, value) in rows {
            let number = numbers.get(&value.group).copied();
            let has_room = |frame: &usize| {
                value.group.is_some() || frames.groups[*frame].1 + value.len() <= FRAME_BYTES
            };
            let frame = number.filter(has_room).unwrap_or_else(|| {
                frames.groups.push((value.group, 0));
                frames.groups.len() - 1
            });
            numbers.insert(value.group, frame);
            frames.groups[frame].1 += value.len();
            frames.by_row.push(frame);
        }
        // A pack without rows has a frame as well.
        if rows.is_empty() {
            frames.groups.push((None, 0));
        }
        frames
    }
}

struct Head<'p> {
    end: Option<u128>,
    keys: Vec<u128>,
    lens: Vec<usize>,
    by_row: Vec<usize>,
    /// The stored value and the decoded length of each frame.
    frames: Vec<(Written<'p>, usize)>,
}

impl<'p> Head<'p> {
    fn decode(id: u128, mut plaintext: &'p [u8]) -> Result<Self, FormatError> {
        let from = &mut plaintext;
        let first = varint::take(1, from)?[0];
        let end = match first & !FRAMES {
            0 => None,
            1 => {
                let end = varint::take(16, from)?.try_into();
                Some(u128::from_be_bytes(end.map_err(|_| ORDER)?))
            }
            _ => return Err(FormatError::Invalid("unknown end")),
        };
        let count = varint::read_len(from)?;
        // Each row has at least two bytes, so memory for rows is a multiple of the plaintext's length.
        if count > from.len() / 2 {
            return Err(FormatError::Invalid("it has fewer rows than it says"));
        }
        let mut keys = Vec::with_capacity(count);
        let mut next = Some(id);
        for _ in 0..count {
            let difference = varint::read(from)?;
            let key = next.and_then(|next| next.checked_add(difference)).ok_or(ORDER)?;
            if end.is_some_and(|end| key >= end) {
                return Err(ORDER);
            }
            keys.push(key);
            next = key.checked_add(1);
        }
        let mut lens =
            |count| (0..count).map(|_| varint::read_len(from)).collect::<Result<Vec<_>, _>>();
        let row_lens = lens(count)?;
        let (frames, by_row) = match first & FRAMES {
            0 => (1, vec![0; count]),
            _ => (lens(1)?[0], lens(count)?),
        };
        if frames > count.max(1) || by_row.iter().any(|frame| *frame >= frames) {
            return Err(FormatError::Invalid("it has fewer frames than it says"));
        }
        let frames = (0..frames).map(|_| Ok((Written::take(from)?, 0_usize)));
        let mut frames = frames.collect::<Result<Vec<_>, FormatError>>()?;
        only_padding(from)?;
        for (len, frame) in row_lens.iter().zip(&by_row) {
            let total = &mut frames[*frame].1;
            *total = total.checked_add(*len).ok_or(LENGTHS)?;
        }
        let all = frames.iter().try_fold(0_usize, |all, (_, total)| all.checked_add(*total));
        check_len(all.ok_or(LENGTHS)? as u64, MAX_LEN)?;
        Ok(Self { end, keys, lens: row_lens, by_row, frames })
    }

    fn open(
        &self,
        frame: usize,
        codec: &Codec,
        groups: &GroupKeys,
    ) -> Result<Option<Plaintext>, FormatError> {
        let (written, total) = self.frames[frame];
        let values = written.read(codec, groups, total)?;
        match values.as_ref().is_none_or(|values| values.len() == total) {
            true => Ok(values),
            false => Err(LENGTHS),
        }
    }
}

const LENGTHS: FormatError =
    FormatError::Invalid("the values are not as long as their lengths say");

const ORDER: FormatError =
    FormatError::Invalid("the keys do not ascend from the pack's id to its end");

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({} rows)", self.rows.len())
    }
}
