//! The text form. `docs/FORMAT.md` specifies it.

use super::diagnose::diagnose;
use super::{
    AuthenticatedFormOf, DIGIT, Form, FormOf, MAX_BYTES_LEN, SealedFormOf, TEXT_BYTES, TEXT_CHARS,
    TextBuffer, sized,
};
use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::key::{Key, Repr};
use crate::key_id::KeyId;
use crate::private::Private;
use crate::subkeys::Subkeys;

/// `prefix_` and 26 characters: one AES block. It is the default and accepts every key.
///
/// The id of an integer carries a 64-bit tag, so a forgery opens with probability 2^-64. The id of a 16-byte
/// key carries none: a guess opens to some key (one in 64 for a `Uuid7`), and the database finds no such row.
#[derive(Clone, Copy, Debug)]
pub enum Text {}

impl Private for Text {}

/// An id of the text form: the sealed block and the key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId {
    pub(super) block: u128,
    pub(super) key_id: KeyId,
}

impl Form for Text {
    const NAME: &'static str = "text";

    type Body = TextId;

    // Inlining makes the prefix and its length constants where they are copied.
    #[inline(always)]
    fn write<'b>(prefix: &str, id: TextId, buffer: &'b mut TextBuffer) -> &'b str {
        write_text(prefix, buffer, |body| write_text_id(id, body))
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<TextId, Invalid> {
        let parsed = strip_prefix::<TEXT_CHARS>(prefix, text).and_then(text_id);
        parsed.ok_or_else(|| diagnose(prefix, text, TEXT_CHARS))
    }

    fn write_bytes(id: TextId, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        buffer[0] = id.key_id.get();
        buffer[1..TEXT_BYTES].copy_from_slice(&id.block.to_be_bytes());
        &buffer[..TEXT_BYTES]
    }

    fn parse_bytes(bytes: &[u8]) -> Result<TextId, Invalid> {
        let bytes: &[u8; TEXT_BYTES] = sized(bytes)?;
        let [key_id, block @ ..] = *bytes;
        let key_id = KeyId::new(key_id).ok_or(Invalid::from(IdProblem::KeyId))?;
        Ok(TextId { block: u128::from_be_bytes(block), key_id })
    }

    fn pattern(prefix: &str) -> String {
        format!("^{prefix}_{DIGIT}{{{TEXT_CHARS}}}$")
    }
}

impl<K: Key> FormOf<K> for Text {
    fn example(keys: &Subkeys, key_id: KeyId) -> TextId {
        <Self as SealedFormOf<K>>::seal(keys, key_id, K::EXAMPLE)
    }
}

impl AuthenticatedFormOf<i64> for Text {}
impl AuthenticatedFormOf<i32> for Text {}
impl AuthenticatedFormOf<u32> for Text {}

impl<K: Key> SealedFormOf<K> for Text {
    const TAG_BITS: u32 = K::Repr::TAG_BITS;

    #[inline]
    fn key_id(id: TextId) -> KeyId {
        id.key_id
    }

    #[inline]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> TextId {
        TextId { block: keys.block.encrypt(repr.to_plaintext(keys.tag)), key_id }
    }

    #[inline]
    fn open(keys: &Subkeys, id: TextId) -> Option<K::Repr> {
        let repr = K::Repr::from_plaintext(keys.block.decrypt(id.block), keys.tag)?;
        keys.admit(repr, K::EXAMPLE)
    }
}

#[inline(always)]
pub(super) fn write_text<'b, const N: usize>(
    prefix: &str,
    buffer: &'b mut TextBuffer,
    write_body: impl FnOnce(&mut [u8; N]),
) -> &'b str {
    let start = prefix.len() + 1;
    buffer.0[..prefix.len()].copy_from_slice(prefix.as_bytes());
    buffer.0[prefix.len()] = b'_';
    write_body(buffer.0[start..].first_chunk_mut().expect("room for the longest id"));
    buffer.text(start + N)
}

#[inline]
pub(super) fn write_text_id(id: TextId, body: &mut [u8; TEXT_CHARS]) {
    base32::encode_130(id.key_id.get(), id.block, body);
}

#[inline]
pub(super) fn strip_prefix<'t, const N: usize>(prefix: &str, text: &'t str) -> Option<&'t [u8; N]> {
    let (head, body) = text.as_bytes().split_last_chunk::<N>()?;
    let (underscore, head) = head.split_last()?;
    (*underscore == b'_' && head == prefix.as_bytes()).then_some(body)
}

#[inline]
pub(super) fn text_id(body: &[u8; TEXT_CHARS]) -> Option<TextId> {
    let (key_id, block) = base32::decode_130(body).ok()?;
    Some(TextId { block, key_id: KeyId::truncated(key_id) })
}
