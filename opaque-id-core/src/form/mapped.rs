//! The mapped forms: a UUID, in base32 after a prefix or as it is.

use uuid::Uuid;

use super::diagnose::diagnose;
use super::text::{Text, TextId};
use super::{
    DIGIT, Form, FormOf, MAX_BYTES_LEN, MappedForm, TEXT_CHARS, TextBuffer, UUID_CHARS, sized,
};
use crate::base32;
use crate::error::{IdProblem, Invalid};
use crate::key::Key;
use crate::key_id::KeyId;
use crate::private::Private;
use crate::subkeys::Subkeys;

/// `prefix_` and 26 characters, for a resource with a mapping table. It requires `key = i64`.
///
/// It accepts any UUID from any generator, and prints it as a TypeID (jetify's *TypeID specification* 0.3;
/// its prefixes have no digits). This is the text form with its two spare bits zero.
#[derive(Clone, Copy, Debug)]
pub enum Mapped {}

impl Private for Mapped {}
impl MappedForm for Mapped {}

/// A UUID without a prefix, for a resource with a mapping table. It requires `key = i64`.
///
/// It accepts any UUID of any version, in lower case with hyphens.
#[derive(Clone, Copy, Debug)]
pub enum MappedUuid {}

impl Private for MappedUuid {}
impl MappedForm for MappedUuid {}

impl FormOf<i64> for Mapped {
    fn example(_keys: &Subkeys, _key_id: KeyId) -> Uuid {
        <Uuid as Key>::EXAMPLE
    }
}

impl FormOf<i64> for MappedUuid {
    fn example(_keys: &Subkeys, _key_id: KeyId) -> Uuid {
        <Uuid as Key>::EXAMPLE
    }
}

impl Form for Mapped {
    const NAME: &'static str = "mapped";

    type Body = Uuid;

    #[inline]
    fn write<'b>(prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        let id = TextId { block: uuid.as_u128(), key_id: KeyId::truncated(0) };
        Text::write(prefix, id, buffer)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, Invalid> {
        match Text::parse(prefix, text)? {
            TextId { block, key_id } if key_id.get() == 0 => Ok(Uuid::from_u128(block)),
            _ => Err(IdProblem::TooLarge.into()),
        }
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        MappedUuid::write_bytes(uuid, buffer)
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, Invalid> {
        MappedUuid::parse_bytes(bytes)
    }

    fn pattern(prefix: &str) -> String {
        // The first digit is at most 7 because the two bits of the key id are zero.
        format!("^{prefix}_[0-7]{DIGIT}{{{}}}$", TEXT_CHARS - 1)
    }
}

impl Form for MappedUuid {
    const NAME: &'static str = "mapped_uuid";

    type Body = Uuid;

    #[inline]
    fn write<'b>(_prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        uuid.hyphenated().encode_lower(&mut buffer.0)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, Invalid> {
        let uuid = text.as_bytes().try_into().ok().and_then(hyphenated);
        uuid.ok_or_else(|| diagnose(prefix, text, UUID_CHARS))
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        let bytes = uuid.into_bytes();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        &buffer[..bytes.len()]
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, Invalid> {
        Ok(Uuid::from_bytes(*sized(bytes)?))
    }

    fn pattern(_prefix: &str) -> String {
        "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$".into()
    }
}

/// It is assembled in registers, because reading back stored bytes as one word stalls the CPU.
#[inline]
fn hyphenated(text: &[u8; UUID_CHARS]) -> Option<Uuid> {
    fn group<const N: usize>(text: &[u8; UUID_CHARS], start: usize) -> Option<u64> {
        base32::decode_hex::<N>(text[start..].first_chunk()?).ok()
    }
    if [8, 13, 18, 23].iter().any(|hyphen| text[*hyphen] != b'-') {
        return None;
    }
    let high = group::<8>(text, 0)? << 32 | group::<4>(text, 9)? << 16 | group::<4>(text, 14)?;
    let low = group::<4>(text, 19)? << 48 | group::<12>(text, 24)?;
    Some(Uuid::from_u64_pair(high, low))
}
