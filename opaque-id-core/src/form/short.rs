//! The short form of integers. `docs/FORMAT.md` specifies it.

use subtle::ConstantTimeEq;

use super::diagnose::diagnose;
use super::text::{strip_prefix, text_id, write_text, write_text_id};
use super::{
    DIGIT, Form, FormOf, MAX_BYTES_LEN, SHORT_BYTES, SHORT_CHARS, SealedFormOf, TEXT_CHARS, Text,
    TextBuffer, TextId,
};
use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::hazmat::FF1_BITS;
use crate::key::{Key, Repr};
use crate::key_id::KeyId;
use crate::private::Private;
use crate::subkeys::Subkeys;

const INTEGER_BITS: u32 = 36;
/// The zero bits after the integer identify a made-up id.
const TAG_BITS: u32 = FF1_BITS - INTEGER_BITS;

/// `prefix_` and 13 characters for an integer from 0 to 2^36 - 1, and [`Text`]'s 26 characters for any other
/// integer. It requires an integer key.
///
/// A made-up id of 13 characters opens with probability 2^-26. Use it for lists and for links behind a rate
/// limit, but not for ids that must be unguessable.
#[derive(Clone, Copy, Debug)]
pub enum Short {}

impl Private for Short {}

/// An id of the short form: a block of 62 bits and the key id, or an id of the text form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShortId {
    Short { block: u64, key_id: KeyId },
    Long(TextId),
}

impl Form for Short {
    const NAME: &'static str = "short";

    type Body = ShortId;

    #[inline]
    fn write<'b>(prefix: &str, id: ShortId, buffer: &'b mut TextBuffer) -> &'b str {
        match id {
            ShortId::Short { block, key_id } => write_text(prefix, buffer, |body| {
                base32::encode_65(u64::from(key_id.get()) << FF1_BITS | block, body);
            }),
            ShortId::Long(id) => write_text(prefix, buffer, |body| write_text_id(id, body)),
        }
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<ShortId, Invalid> {
        if let Some(body) = strip_prefix::<SHORT_CHARS>(prefix, text) {
            return match base32::decode_65(body) {
                Ok(Some(number)) => Ok(from_number(number)),
                Ok(None) => Err(IdProblem::KeyId.into()),
                Err(_) => Err(diagnose(prefix, text, SHORT_CHARS)),
            };
        }
        let parsed = strip_prefix::<TEXT_CHARS>(prefix, text).and_then(text_id);
        parsed.map(ShortId::Long).ok_or_else(|| match text.len() == prefix.len() + 1 + TEXT_CHARS {
            true => diagnose(prefix, text, TEXT_CHARS),
            false => diagnose(prefix, text, SHORT_CHARS),
        })
    }

    fn write_bytes(id: ShortId, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        match id {
            ShortId::Short { block, key_id } => {
                buffer[0] = key_id.get();
                buffer[1..SHORT_BYTES].copy_from_slice(&block.to_be_bytes());
                &buffer[..SHORT_BYTES]
            }
            ShortId::Long(id) => Text::write_bytes(id, buffer),
        }
    }

    fn parse_bytes(bytes: &[u8]) -> Result<ShortId, Invalid> {
        let Ok([key_id, block @ ..]) = <[u8; SHORT_BYTES]>::try_from(bytes) else {
            return Text::parse_bytes(bytes).map(ShortId::Long);
        };
        let block = u64::from_be_bytes(block);
        match KeyId::new(key_id) {
            Some(key_id) if block >> FF1_BITS == 0 => Ok(ShortId::Short { block, key_id }),
            _ => Err(IdProblem::KeyId.into()),
        }
    }

    const GROWS_BY: usize = TEXT_CHARS - SHORT_CHARS;

    fn pattern(prefix: &str) -> String {
        // One bit of the first of 13 characters is always zero.
        format!("^{prefix}_([0-9a-f]{DIGIT}{{{}}}|{DIGIT}{{{TEXT_CHARS}}})$", SHORT_CHARS - 1)
    }
}

/// Splits *key id ‖ block*.
#[inline]
fn from_number(number: u64) -> ShortId {
    let key_id = KeyId::truncated((number >> FF1_BITS) as u8);
    ShortId::Short { block: number & ((1 << FF1_BITS) - 1), key_id }
}

#[diagnostic::on_unimplemented(
    message = "`Short` is not a form of the key `{Self}`",
    label = "this form does not exist for `{Self}`",
    note = "short accepts integers; for a 16-byte key, use the form `text`, `tagged` or `uuid`"
)]
trait Integer: Key<Repr: Into<i64>> {}
impl Integer for i64 {}
impl Integer for i32 {}
impl Integer for u32 {}

impl<K: Integer> FormOf<K> for Short {
    fn example(keys: &Subkeys, key_id: KeyId) -> ShortId {
        <Self as SealedFormOf<K>>::seal(keys, key_id, K::EXAMPLE)
    }
}

impl<K: Integer> SealedFormOf<K> for Short {
    const TAG_BITS: u32 = TAG_BITS;

    #[inline]
    fn key_id(id: ShortId) -> KeyId {
        match id {
            ShortId::Short { key_id, .. } => key_id,
            ShortId::Long(id) => <Text as SealedFormOf<K>>::key_id(id),
        }
    }

    #[inline]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> ShortId {
        if has_short_id(repr) {
            let integer = repr.into().cast_unsigned();
            ShortId::Short { block: keys.short.encrypt(integer << TAG_BITS), key_id }
        } else {
            ShortId::Long(<Text as SealedFormOf<K>>::seal(keys, key_id, repr))
        }
    }

    #[inline]
    fn open(keys: &Subkeys, id: ShortId) -> Option<K::Repr> {
        match id {
            ShortId::Short { block, .. } => {
                let plaintext = keys.short.decrypt(block);
                let has_tag = (plaintext & ((1 << TAG_BITS) - 1)).ct_eq(&0);
                let integer = (plaintext >> TAG_BITS).cast_signed();
                let repr = bool::from(has_tag).then(|| K::Repr::from_integer(integer)).flatten()?;
                keys.admit(repr, K::EXAMPLE)
            }
            // A small integer in the text form is refused, so that each id has exactly one text.
            ShortId::Long(id) => {
                <Text as SealedFormOf<K>>::open(keys, id).filter(|repr| !has_short_id(*repr))
            }
        }
    }
}

#[inline]
pub(crate) fn has_short_id(repr: impl Into<i64>) -> bool {
    repr.into().cast_unsigned() >> INTEGER_BITS == 0
}
