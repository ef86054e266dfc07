//! A pack's plaintext: a head with the keys and lengths of its rows, then the values as one zstd frame. `docs/PACKS.md` specifies it.

use std::fmt;

use super::codec::Codec;
use super::error::FormatError;
use super::padding::Padding;
use super::plaintext::Plaintext;
use super::row::only_padding;
use super::varint;

/// Rows of neighboring keys, compressed as one. Keys are 128-bit numbers in the database's order: the 16 bytes of a key,
/// big-endian, or an integer plus 2^63.
#[derive(Clone, PartialEq, Eq)]
pub struct Pack {
    /// The pack's id: no key is smaller.
    pub id: u128,
    /// The id of the next pack when this one was written: all keys are smaller. `None` for the last pack.
    pub end: Option<u128>,
    /// Keys and values, in the order of the keys.
    pub rows: Vec<(u128, Vec<u8>)>,
}

impl Pack {
    /// Writes the plaintext of the pack.
    ///
    /// # Errors
    /// [`FormatError::Invalid`] unless the keys ascend from the pack's id to its end, and [`FormatError::TooLong`] if all
    /// values together are longer than [`MAX_LEN`](super::MAX_LEN).
    pub fn encode(&self, codec: &Codec, padding: Padding) -> Result<Plaintext, FormatError> {
        let numbers = 1 + 2 * self.rows.len();
        let mut head = Plaintext::with_capacity(17 + varint::MAX_LEN * numbers);
        match self.end {
            Some(end) => {
                head.push(1);
                head.extend(end.to_be_bytes());
            }
            None => head.push(0),
        }
        varint::write(self.rows.len() as u128, &mut head);
        let mut next = Some(self.id);
        for (key, _) in &self.rows {
            let difference = next.and_then(|next| key.checked_sub(next));
            let difference = difference.filter(|_| self.end.is_none_or(|end| *key < end));
            varint::write(difference.ok_or(ORDER)?, &mut head);
            next = key.checked_add(1);
        }
        let len = self.rows.iter().map(|(_, value)| value.len()).sum();
        let mut values = Plaintext::with_capacity(len);
        for (_, value) in &self.rows {
            varint::write(value.len() as u128, &mut head);
            values.extend(value);
        }
        codec.write(&head, &values, padding)
    }

    /// Reads the plaintext of the pack with this id.
    ///
    /// # Errors
    /// [`FormatError`] if it is not one.
    pub fn decode(id: u128, plaintext: &[u8], codec: &Codec) -> Result<Self, FormatError> {
        let (head, values) = Head::decode(id, plaintext, codec)?;
        let values = &mut &values[..];
        let rows = head.keys.into_iter().zip(head.lens);
        let rows = rows.map(|(key, len)| Ok((key, varint::take(len, values)?.to_owned())));
        Ok(Self { id, end: head.end, rows: rows.collect::<Result<_, FormatError>>()? })
    }

    /// Reads the end of the pack with this id, and the value of one key.
    ///
    /// # Errors
    /// [`FormatError`] as [`decode`](Self::decode).
    pub fn find(
        id: u128,
        plaintext: &[u8],
        codec: &Codec,
        key: u128,
    ) -> Result<(Option<u128>, Option<Vec<u8>>), FormatError> {
        let (head, values) = Head::decode(id, plaintext, codec)?;
        let value = head.keys.binary_search(&key).ok().map(|place| {
            let start = head.lens[..place].iter().sum::<usize>();
            values[start..][..head.lens[place]].to_owned()
        });
        Ok((head.end, value))
    }
}

/// The part before the values.
struct Head {
    end: Option<u128>,
    keys: Vec<u128>,
    /// How long their values are.
    lens: Vec<usize>,
}

impl Head {
    /// Returns the values as well, one after the other: they are as long as the lengths say.
    fn decode(
        id: u128,
        mut plaintext: &[u8],
        codec: &Codec,
    ) -> Result<(Self, Plaintext), FormatError> {
        let from = &mut plaintext;
        let end = match varint::take(1, from)? {
            [0] => None,
            [1] => {
                let end = varint::take(16, from)?.try_into();
                Some(u128::from_be_bytes(end.map_err(|_| ORDER)?))
            }
            _ => return Err(FormatError::Invalid("unknown end")),
        };
        let count = varint::read_len(from)?;
        // Each row has two bytes at least, so memory for rows is a multiple of the plaintext's length.
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
        let lens = (0..count).map(|_| varint::read_len(from)).collect::<Result<Vec<_>, _>>()?;
        let values = Plaintext::from(codec.read(from)?);
        only_padding(from)?;
        let total = lens.iter().try_fold(0_usize, |total, len| total.checked_add(*len));
        match total == Some(values.len()) {
            true => Ok((Self { end, keys, lens }, values)),
            false => Err(FormatError::Invalid("the values are not as long as their lengths say")),
        }
    }
}

const ORDER: FormatError =
    FormatError::Invalid("the keys do not ascend from the pack's id to its end");

/// Without keys and values.
impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({} rows)", self.rows.len())
    }
}
