//! The tagged form. `docs/FORMAT.md` specifies it.

use subtle::ConstantTimeEq;
use uuid::Uuid;

use super::diagnose::diagnose;
use super::text::{Text, TextId, strip_prefix, text_id, write_text, write_text_id};
use super::{
    AuthenticatedFormOf, DIGIT, Form, FormOf, MAX_BYTES_LEN, SealedFormOf, TAGGED_BYTES,
    TAGGED_CHARS, TEXT_BYTES, TextBuffer, sized,
};
use crate::base32;
use crate::error::Invalid;
use crate::hazmat::AesBlock;
use crate::key::Key;
use crate::key_id::KeyId;
use crate::private::Private;
use crate::subkeys::Subkeys;

const TAG_BITS: u32 = 40;

/// `prefix_` and 34 characters: the text form and a 40-bit tag. It requires a 16-byte key.
///
/// A guessed or altered id is refused without a query, with probability 1 - 2^-40.
#[derive(Clone, Copy, Debug)]
pub enum Tagged {}

impl Private for Tagged {}

/// An id of the tagged form: the sealed block, its tag and the key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaggedId {
    text: TextId,
    tag: u64,
}

impl TaggedId {
    #[inline]
    pub(crate) fn new(mac: &AesBlock, key_id: KeyId, block: u128) -> Self {
        Self { text: TextId { block, key_id }, tag: tag_of(mac, block) }
    }

    #[inline]
    pub(crate) fn key_id(self) -> KeyId {
        self.text.key_id
    }

    #[inline]
    pub(crate) fn authentic_block(self, mac: &AesBlock) -> Option<u128> {
        bool::from(tag_of(mac, self.text.block).ct_eq(&self.tag)).then_some(self.text.block)
    }
}

#[inline]
fn tag_of(mac: &AesBlock, block: u128) -> u64 {
    (mac.encrypt(block) >> (u128::BITS - TAG_BITS)) as u64
}

impl Form for Tagged {
    const NAME: &'static str = "tagged";

    type Body = TaggedId;

    // Inlining makes the prefix and its length constants where they are copied.
    #[inline(always)]
    fn write<'b>(prefix: &str, id: TaggedId, buffer: &'b mut TextBuffer) -> &'b str {
        write_text(prefix, buffer, |body: &mut [u8; TAGGED_CHARS]| {
            let (text, tag) = body.split_first_chunk_mut().expect("34 characters");
            write_text_id(id.text, text);
            base32::encode_40(id.tag, tag.first_chunk_mut().expect("8 characters"));
        })
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<TaggedId, Invalid> {
        let parsed = strip_prefix::<TAGGED_CHARS>(prefix, text).and_then(|body| {
            let text = text_id(body.first_chunk()?)?;
            let tag = base32::decode_40(body.last_chunk()?).ok()?;
            Some(TaggedId { text, tag })
        });
        parsed.ok_or_else(|| diagnose(prefix, text, TAGGED_CHARS))
    }

    fn write_bytes(id: TaggedId, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        Text::write_bytes(id.text, buffer);
        buffer[TEXT_BYTES..].copy_from_slice(&id.tag.to_be_bytes()[3..]);
        buffer
    }

    fn parse_bytes(bytes: &[u8]) -> Result<TaggedId, Invalid> {
        let bytes: &[u8; TAGGED_BYTES] = sized(bytes)?;
        let (text, tag) = bytes.split_at(TEXT_BYTES);
        let tag = tag.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        Ok(TaggedId { text: Text::parse_bytes(text)?, tag })
    }

    fn pattern(prefix: &str) -> String {
        format!("^{prefix}_{DIGIT}{{{TAGGED_CHARS}}}$")
    }
}

impl<K: Key<Repr = Uuid>> FormOf<K> for Tagged {
    fn example(keys: &Subkeys, key_id: KeyId) -> TaggedId {
        <Self as SealedFormOf<K>>::seal(keys, key_id, K::EXAMPLE)
    }
}

impl<K: Key<Repr = Uuid>> AuthenticatedFormOf<K> for Tagged {}

impl<K: Key<Repr = Uuid>> SealedFormOf<K> for Tagged {
    const TAG_BITS: u32 = TAG_BITS;

    #[inline]
    fn key_id(id: TaggedId) -> KeyId {
        id.key_id()
    }

    #[inline]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> TaggedId {
        TaggedId::new(&keys.mac, key_id, <Text as SealedFormOf<K>>::seal(keys, key_id, repr).block)
    }

    #[inline]
    fn open(keys: &Subkeys, id: TaggedId) -> Option<K::Repr> {
        id.authentic_block(&keys.mac)?;
        <Text as SealedFormOf<K>>::open(keys, id.text)
    }
}
