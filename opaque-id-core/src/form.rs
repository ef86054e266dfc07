//! How external ids look, and what each form is sealed with.

use core::fmt::Debug;
use core::hash::Hash;

use subtle::ConstantTimeEq;
use uuid::Uuid;

use crate::__private::Sealed;
use crate::base32;
use crate::error::{IdFault, KeyFault};
use crate::hazmat::{AesBlock, Arbitrary, HALF_BITS, Halves, Nonce, Uniform};
use crate::key::{FixedBits, Key, Repr, StructuredKey, Uuid7, V7, VERSION_AND_VARIANT};
use crate::keyring::{KeyId, Subkeys};
use crate::resource::{MAX_PREFIX_LEN, is_prefix};

const TEXT_CHARS: usize = 26;
const TAGGED_CHARS: usize = 34;
const UUID_CHARS: usize = uuid::fmt::Hyphenated::LENGTH;
const TAG_BITS: u32 = 40;
const TEXT_BYTES: usize = 17;
const TAGGED_BYTES: usize = 22;

/// The length of the longest binary form of an external id.
pub(crate) const MAX_BYTES_LEN: usize = TAGGED_BYTES;

/// The length of the longest text of an external id: prefix, underscore, 34 characters.
pub const MAX_TEXT_LEN: usize = MAX_PREFIX_LEN + 1 + TAGGED_CHARS;

/// What the standard library's UTF-8 check takes at a step, if aligned.
const UTF8_STEP: usize = 16;

/// Room for the text of one external id: [`External::encode`](crate::External::encode).
///
/// ```
/// use opaque_id_core::{External, OpaqueId, TextBuffer};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let id: External<User> = "user_7x1nhm7sq0r1qh4pewbejb04n3".parse()?;
/// let mut buffer = TextBuffer::new();
/// assert_eq!(id.encode(&mut buffer), "user_7x1nhm7sq0r1qh4pewbejb04n3");
/// # Ok::<(), opaque_id_core::ParseError>(())
/// ```
#[derive(Clone, Debug)]
#[repr(align(16))]
pub struct TextBuffer([u8; MAX_TEXT_LEN.next_multiple_of(UTF8_STEP)]);

impl TextBuffer {
    /// An empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; _])
    }

    /// The first `len` bytes, of which all are ASCII, and so is what lies behind them.
    ///
    /// The check of whole, aligned steps takes a fraction of that of as many bytes as the text has.
    #[inline]
    fn text(&self, len: usize) -> &str {
        let whole_steps = &self.0[..len.next_multiple_of(UTF8_STEP)];
        &str::from_utf8(whole_steps).expect("prefixes and base32 are ASCII")[..len]
    }
}

impl Default for TextBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// How the external ids of a resource look, and what stands behind them: the sealed forms [`Text`],
/// [`Tagged`] and [`UuidForm`], and the mapped ones [`Mapped`] and [`MappedUuid`].
pub trait Form: Layout {
    /// As the derive spells it: `text`, `tagged`, `uuid`, `mapped` or `mapped_uuid`.
    const NAME: &'static str;
}

/// A form that exists for the key `K`; anything else does not compile.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a form of the key `{K}`",
    label = "this form does not exist for `{K}`",
    note = "text takes every key; tagged takes 16-byte keys (an integer's text form is authenticated already); uuid takes `Uuid7`, `StructuredKey` and `i64`; mapped and mapped_uuid take `i64`"
)]
pub trait FormOf<K: Key>: Form {
    /// Whether a stored value is a key, and one that the form has room for.
    #[doc(hidden)]
    #[inline]
    fn check(repr: K::Repr) -> Result<(), KeyFault> {
        K::check(repr)
    }

    /// The bits that are the same in all keys that the form has room for.
    #[doc(hidden)]
    const FIXED: FixedBits<K::Repr> = K::FIXED;
}

/// A form that seals the key `K`: a keyring leads both ways. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a form that seals",
    label = "a keyring has no part in ids of this form",
    note = "ids of the mapped forms stand in a mapping table: the adapter's `UuidMap` leads both ways, by `map.external_of(…, id)` and `map.find(…, external)`",
    note = "code that is generic over the resource says `T: SealedResource`"
)]
pub trait SealedFormOf<K: Key>: FormOf<K> + Sealing<K> {}

/// A form that seals the key `K` with a tag: made-up ids are refused without the database. Sealed.
#[diagnostic::on_unimplemented(
    message = "ids of the form `{Self}` and the key `{K}` carry no tag, so a client can make up ones that open",
    label = "a made-up id opens to a random key",
    note = "page by cursors: `keyring.seal_cursor(last_row.id)` and `keyring.open_cursor(cursor)?`",
    note = "or look the row up first, and write `Position::of_row(row.id)`",
    note = "or take the tagged form, which refuses made-up ids; an integer's ids have a tag in every sealed form"
)]
pub trait AuthenticatedFormOf<K: Key>: SealedFormOf<K> {}

/// A form whose ids stand in a mapping table: [`Mapped`] or [`MappedUuid`]. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mapped form",
    label = "there is no mapping table for ids of this form",
    note = "write `form = \"mapped\"` or `\"mapped_uuid\"` in the resource's `#[opaque_id(…)]`; ids of the other forms are sealed, by `keyring.seal(id)` and `keyring.open(external)?`",
    note = "code that is generic over the resource says `T: MappedResource`"
)]
pub trait MappedForm: FormOf<i64> + Layout<Repr = Uuid> {}

/// The sealed half of [`Form`]: what an id is made of, and its texts and bytes.
pub trait Layout: Sealed + Debug + 'static {
    /// An external id without its prefix.
    type Repr: Copy + Eq + Hash + Send + Sync + Unpin + 'static;

    fn write<'b>(prefix: &str, repr: Self::Repr, buffer: &'b mut TextBuffer) -> &'b str;
    fn parse(prefix: &str, text: &str) -> Result<Self::Repr, IdFault>;
    fn write_bytes(repr: Self::Repr, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8];
    fn parse_bytes(bytes: &[u8]) -> Result<Self::Repr, IdFault>;
}

/// An id that names the secret which sealed it.
pub trait Keyed: Layout {
    fn key_id(repr: Self::Repr) -> KeyId;
}

/// The sealed half of [`SealedFormOf`]: the steps from a stored key to an id and back.
///
/// As given here they are one AES block, as in the text form and the tagged form.
pub trait Sealing<K: Key>: Keyed {
    /// Whether a tag refuses ids that are made up: the form is an [`AuthenticatedFormOf`] the key.
    const IS_AUTHENTICATED: bool = K::Repr::HAS_TAG;

    #[inline]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> Self::Repr {
        let ciphertext = Self::encrypt(keys, Self::to_plaintext(keys, repr));
        Self::assemble(keys, key_id, ciphertext)
    }

    /// What may be a stored key ([`check`](Self::check) tells), unless a tag is wrong.
    #[inline]
    fn open(keys: &Subkeys, id: Self::Repr) -> Option<K::Repr> {
        let ciphertext = Self::take_apart(keys, id)?;
        Self::from_plaintext(keys, Self::decrypt(keys, ciphertext))
    }

    #[inline]
    fn to_plaintext(keys: &Subkeys, repr: K::Repr) -> u128 {
        repr.to_plaintext(keys.tag())
    }

    #[inline]
    fn encrypt(keys: &Subkeys, plaintext: u128) -> u128 {
        keys.block().encrypt(plaintext)
    }

    fn assemble(keys: &Subkeys, key_id: KeyId, ciphertext: u128) -> Self::Repr;

    /// The ciphertext, unless a tag of its own is wrong.
    fn take_apart(keys: &Subkeys, repr: Self::Repr) -> Option<u128>;

    #[inline]
    fn decrypt(keys: &Subkeys, ciphertext: u128) -> u128 {
        keys.block().decrypt(ciphertext)
    }

    /// The stored key, unless the tag within the plaintext is wrong.
    #[inline]
    fn from_plaintext(keys: &Subkeys, plaintext: u128) -> Option<K::Repr> {
        K::Repr::from_plaintext(plaintext, keys.tag())
    }
}

/// `prefix_` and 26 characters: one AES block. For every key; the default.
///
/// An integer's carries a 64-bit tag, so a forgery opens with probability 2^-64. A 16-byte key's does
/// not: a guess opens to some key (one in 64 for a `Uuid7`), and the database finds no such row.
///
/// ```
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct Resource;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let id = keyring.seal(Internal::<Resource>::generate());
/// assert_eq!(id.to_string().len(), "user_".len() + 26);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Text {}

/// `prefix_` and 34 characters: the text form and a 40-bit tag. For 16-byte keys.
///
/// A guessed or altered id is refused without a query, with probability 1 - 2^-40.
///
/// ```
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "session", form = "tagged")]
/// struct Resource;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let id = keyring.seal(Internal::<Resource>::generate());
/// assert_eq!(id.to_string().len(), "session_".len() + 34);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Tagged {}

/// A valid UUIDv8 (RFC 9562, section 5.8), without a prefix. For [`Uuid7`], [`StructuredKey`] and `i64`
/// below 2^60.
///
/// ```
/// use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", form = "uuid")]
/// struct Resource;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let id = keyring.seal(Internal::<Resource>::generate());
/// assert_eq!(id.to_uuid().get_version_num(), 8);
/// assert_eq!(External::from_uuid(id.to_uuid())?, id);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum UuidForm {}

/// `prefix_` and 26 characters, for a resource whose UUIDs stand in a mapping table. For `i64`.
///
/// Any UUID, made by anyone: it prints as a TypeID does (jetify's *TypeID specification* 0.3, whose
/// prefixes have no digits), which is the text form with its two spare bits zero.
///
/// ```
/// use opaque_id_core::{External, OpaqueId, Uuid};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64, form = "mapped")]
/// struct Order;
///
/// let id = External::<Order>::from(Uuid::from_u128(0x0188bac7_4afa_78aa_bc3b_bd1eef28d881));
/// assert_eq!(id.to_string(), "order_01h2xcejqtf2nbrexx3vqjhp41");
/// assert_eq!("order_01h2xcejqtf2nbrexx3vqjhp41".parse(), Ok(id));
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Mapped {}

/// A UUID without a prefix, for a resource whose UUIDs stand in a mapping table. For `i64`.
///
/// Any UUID of any version, made by anyone, in lower case with hyphens.
///
/// ```
/// use opaque_id_core::{External, OpaqueId, Uuid};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64, form = "mapped_uuid")]
/// struct Order;
///
/// let id: External<Order> = "6d179ed1-fd65-480b-a475-77983c28dd10".parse()?;
/// assert_eq!(id.to_uuid().get_version_num(), 4);
/// # Ok::<(), opaque_id_core::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum MappedUuid {}

impl Sealed for Text {}
impl Sealed for Tagged {}
impl Sealed for UuidForm {}
impl Sealed for Mapped {}
impl Sealed for MappedUuid {}

impl Form for Text {
    const NAME: &'static str = "text";
}
impl Form for Tagged {
    const NAME: &'static str = "tagged";
}
impl Form for UuidForm {
    const NAME: &'static str = "uuid";
}
impl Form for Mapped {
    const NAME: &'static str = "mapped";
}
impl Form for MappedUuid {
    const NAME: &'static str = "mapped_uuid";
}

/// A text form's id: the sealed block and the key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextId {
    block: u128,
    key_id: KeyId,
}

impl Keyed for Text {
    #[inline]
    fn key_id(id: TextId) -> KeyId {
        id.key_id
    }
}

impl Layout for Text {
    type Repr = TextId;

    #[inline]
    fn write<'b>(prefix: &str, id: TextId, buffer: &'b mut TextBuffer) -> &'b str {
        write_text(prefix, buffer, |body| write_text_id(id, body))
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<TextId, IdFault> {
        let parsed = strip_prefix::<TEXT_CHARS>(prefix, text).and_then(text_id);
        parsed.ok_or_else(|| diagnose(prefix, text, TEXT_CHARS))
    }

    fn write_bytes(id: TextId, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        buffer[0] = id.key_id.get();
        buffer[1..TEXT_BYTES].copy_from_slice(&id.block.to_be_bytes());
        &buffer[..TEXT_BYTES]
    }

    fn parse_bytes(bytes: &[u8]) -> Result<TextId, IdFault> {
        let bytes: &[u8; TEXT_BYTES] = sized(bytes)?;
        let [key_id, block @ ..] = *bytes;
        let key_id = KeyId::new(key_id).ok_or(IdFault::KeyId)?;
        Ok(TextId {
            block: u128::from_be_bytes(block),
            key_id,
        })
    }
}

/// A tagged form's id: the sealed block, its tag and the key id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TaggedId {
    text: TextId,
    /// Forty bits.
    tag: u64,
}

impl TaggedId {
    #[inline]
    pub(crate) fn new(mac: &AesBlock, key_id: KeyId, block: u128) -> Self {
        Self {
            text: TextId { block, key_id },
            tag: tag_of(mac, block),
        }
    }

    /// The sealed block, unless the tag is wrong.
    #[inline]
    pub(crate) fn authentic_block(self, mac: &AesBlock) -> Option<u128> {
        bool::from(tag_of(mac, self.text.block).ct_eq(&self.tag)).then_some(self.text.block)
    }
}

#[inline]
fn tag_of(mac: &AesBlock, block: u128) -> u64 {
    (mac.encrypt(block) >> (u128::BITS - TAG_BITS)) as u64
}

impl Keyed for Tagged {
    #[inline]
    fn key_id(id: TaggedId) -> KeyId {
        id.text.key_id
    }
}

impl Layout for Tagged {
    type Repr = TaggedId;

    #[inline]
    fn write<'b>(prefix: &str, id: TaggedId, buffer: &'b mut TextBuffer) -> &'b str {
        write_text(prefix, buffer, |body: &mut [u8; TAGGED_CHARS]| {
            let (text, tag) = body.split_first_chunk_mut().expect("34 characters");
            write_text_id(id.text, text);
            base32::encode_40(id.tag, tag.first_chunk_mut().expect("8 characters"));
        })
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<TaggedId, IdFault> {
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

    fn parse_bytes(bytes: &[u8]) -> Result<TaggedId, IdFault> {
        let bytes: &[u8; TAGGED_BYTES] = sized(bytes)?;
        let (text, tag) = bytes.split_at(TEXT_BYTES);
        let tag = tag.iter().fold(0, |tag, byte| tag << 8 | u64::from(*byte));
        Ok(TaggedId {
            text: Text::parse_bytes(text)?,
            tag,
        })
    }
}

impl Keyed for UuidForm {
    #[inline]
    fn key_id(uuid: Uuid) -> KeyId {
        KeyId::truncated((uuid.as_u128() >> 126) as u8)
    }
}

/// Those UUIDs of [`MappedUuid`] that have version 8.
impl Layout for UuidForm {
    type Repr = Uuid;

    #[inline]
    fn write<'b>(prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        MappedUuid::write(prefix, uuid, buffer)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, IdFault> {
        MappedUuid::parse(prefix, text).and_then(version_8)
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        MappedUuid::write_bytes(uuid, buffer)
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, IdFault> {
        MappedUuid::parse_bytes(bytes).and_then(version_8)
    }
}

/// The texts of [`Text`] with key id 0.
impl Layout for Mapped {
    type Repr = Uuid;

    #[inline]
    fn write<'b>(prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        let id = TextId {
            block: uuid.as_u128(),
            key_id: KeyId::truncated(0),
        };
        Text::write(prefix, id, buffer)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, IdFault> {
        match Text::parse(prefix, text)? {
            TextId { block, key_id } if key_id.get() == 0 => Ok(Uuid::from_u128(block)),
            _ => Err(IdFault::TooLarge),
        }
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        MappedUuid::write_bytes(uuid, buffer)
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, IdFault> {
        MappedUuid::parse_bytes(bytes)
    }
}

impl Layout for MappedUuid {
    type Repr = Uuid;

    #[inline]
    fn write<'b>(_prefix: &str, uuid: Uuid, buffer: &'b mut TextBuffer) -> &'b str {
        uuid.hyphenated().encode_lower(&mut buffer.0)
    }

    #[inline]
    fn parse(prefix: &str, text: &str) -> Result<Uuid, IdFault> {
        let bytes = text.as_bytes();
        if bytes.len() != UUID_CHARS {
            return Err(diagnose(prefix, text, UUID_CHARS));
        }
        let uuid = Uuid::try_parse_ascii(bytes).map_err(|_| diagnose(prefix, text, UUID_CHARS))?;
        if bytes.iter().any(u8::is_ascii_uppercase) {
            return Err(diagnose(prefix, text, UUID_CHARS));
        }
        Ok(uuid)
    }

    fn write_bytes(uuid: Uuid, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8] {
        let bytes = uuid.into_bytes();
        buffer[..bytes.len()].copy_from_slice(&bytes);
        &buffer[..bytes.len()]
    }

    fn parse_bytes(bytes: &[u8]) -> Result<Uuid, IdFault> {
        Ok(Uuid::from_bytes(*sized(bytes)?))
    }
}

#[inline]
fn write_text<'b, const N: usize>(
    prefix: &str,
    buffer: &'b mut TextBuffer,
    write_body: impl FnOnce(&mut [u8; N]),
) -> &'b str {
    let start = prefix.len() + 1;
    buffer.0[..prefix.len()].copy_from_slice(prefix.as_bytes());
    buffer.0[prefix.len()] = b'_';
    write_body(
        buffer.0[start..]
            .first_chunk_mut()
            .expect("room for the longest id"),
    );
    buffer.text(start + N)
}

#[inline]
fn write_text_id(id: TextId, body: &mut [u8; TEXT_CHARS]) {
    base32::encode_130(id.key_id.get(), id.block, body);
}

/// The last `N` bytes, if the prefix and an underscore are all that is before them.
#[inline]
fn strip_prefix<'t, const N: usize>(prefix: &str, text: &'t str) -> Option<&'t [u8; N]> {
    let (head, body) = text.as_bytes().split_last_chunk::<N>()?;
    let (underscore, head) = head.split_last()?;
    (*underscore == b'_' && head == prefix.as_bytes()).then_some(body)
}

#[inline]
fn text_id(body: &[u8; TEXT_CHARS]) -> Option<TextId> {
    let (key_id, block) = base32::decode_130(body).ok()?;
    Some(TextId {
        block,
        key_id: KeyId::truncated(key_id),
    })
}

fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], IdFault> {
    bytes.try_into().map_err(|_| IdFault::Length {
        found: bytes.len(),
        wanted: N,
    })
}

#[inline]
pub(crate) fn version_8(uuid: Uuid) -> Result<Uuid, IdFault> {
    if uuid.as_u128() & VERSION_AND_VARIANT == V8 {
        Ok(uuid)
    } else {
        Err(IdFault::NotVersion8)
    }
}

/// Why `text` is not an id; `wanted` is the number of characters after the prefix, or a UUID's.
#[cold]
#[inline(never)]
fn diagnose(prefix: &str, text: &str, wanted: usize) -> IdFault {
    if text_id_prefix(text).is_some_and(|other| other != prefix) {
        return IdFault::OtherPrefix;
    }
    let body = match wanted {
        UUID_CHARS => Some(text),
        _ => text
            .strip_prefix(prefix)
            .and_then(|rest| rest.strip_prefix('_')),
    };
    let Some(body) = body else {
        return IdFault::NoPrefix;
    };
    if body.len() != wanted {
        return IdFault::Length {
            found: body.len(),
            wanted,
        };
    }
    let start = text.len() - body.len();
    let faulty = body.bytes().enumerate().find_map(|(i, byte)| {
        let position = start + i + 1;
        let fits = match (wanted, i) {
            (UUID_CHARS, 8 | 13 | 18 | 23) => byte == b'-',
            (UUID_CHARS, _) => byte.is_ascii_hexdigit() && !byte.is_ascii_uppercase(),
            _ => base32::is_valid(byte),
        };
        match byte {
            _ if fits => None,
            b'A'..=b'Z' => Some(IdFault::UpperCase { position }),
            _ => Some(IdFault::Character { position }),
        }
    });
    faulty.unwrap_or(IdFault::NoPrefix)
}

/// The prefix of a well-formed id of any resource in the text form or the tagged form.
fn text_id_prefix(text: &str) -> Option<&str> {
    let (prefix, body) = text.rsplit_once('_')?;
    let is_id = is_prefix(prefix)
        && matches!(body.len(), TEXT_CHARS | TAGGED_CHARS)
        && body.bytes().all(base32::is_valid);
    is_id.then_some(prefix)
}

impl FormOf<i64> for Mapped {}
impl MappedForm for Mapped {}
impl FormOf<i64> for MappedUuid {}
impl MappedForm for MappedUuid {}

impl<K: Key> FormOf<K> for Text {}
impl<K: Key> SealedFormOf<K> for Text {}
impl AuthenticatedFormOf<i64> for Text {}

impl<K: Key> Sealing<K> for Text {
    #[inline]
    fn assemble(_keys: &Subkeys, key_id: KeyId, block: u128) -> TextId {
        TextId { block, key_id }
    }

    #[inline]
    fn take_apart(_keys: &Subkeys, id: TextId) -> Option<u128> {
        Some(id.block)
    }
}

impl<K: Key<Repr = Uuid>> FormOf<K> for Tagged {}
impl<K: Key<Repr = Uuid>> SealedFormOf<K> for Tagged {}
impl<K: Key<Repr = Uuid>> AuthenticatedFormOf<K> for Tagged {}

impl<K: Key<Repr = Uuid>> Sealing<K> for Tagged {
    const IS_AUTHENTICATED: bool = true;

    #[inline]
    fn assemble(keys: &Subkeys, key_id: KeyId, block: u128) -> TaggedId {
        TaggedId::new(keys.mac(), key_id, block)
    }

    #[inline]
    fn take_apart(keys: &Subkeys, id: TaggedId) -> Option<u128> {
        id.authentic_block(keys.mac())
    }
}

/// A key that fits two 60-bit halves.
#[diagnostic::on_unimplemented(
    message = "the key `{Self}` has no uuid form",
    label = "no uuid form",
    note = "uuid takes `Uuid7`, `StructuredKey` and `i64`; text takes every key"
)]
trait InHalves: Key {
    type Nonce: Rounds;

    fn check_fits(_repr: Self::Repr) -> Result<(), KeyFault> {
        Ok(())
    }
    fn to_halves(repr: Self::Repr, tag: u64) -> Halves<Self::Nonce>;
    fn from_halves(halves: Halves<Self::Nonce>, tag: u64) -> Option<Self::Repr>;
}

/// How many rounds seal halves with such a nonce.
trait Rounds: Nonce {
    fn encrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self>;
    fn decrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self>;
}

impl Rounds for Uniform {
    #[inline]
    fn encrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self> {
        keys.two_rounds().encrypt(halves)
    }

    #[inline]
    fn decrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self> {
        keys.two_rounds().decrypt(halves)
    }
}

impl Rounds for Arbitrary {
    #[inline]
    fn encrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self> {
        keys.four_rounds().encrypt(halves)
    }

    #[inline]
    fn decrypt(keys: &Subkeys, halves: Halves<Self>) -> Halves<Self> {
        keys.four_rounds().decrypt(halves)
    }
}

/// The 120 bits that are left of a UUIDv7 without version, variant and the top two bits of its time.
impl InHalves for Uuid7 {
    type Nonce = Arbitrary;

    #[inline]
    fn check_fits(repr: Uuid) -> Result<(), KeyFault> {
        if repr.as_u128() >> 126 == 0 {
            Ok(())
        } else {
            Err(KeyFault::OutOfRange {
                wanted: "a time before the year 4199, for the uuid form,",
            })
        }
    }

    #[inline]
    fn to_halves(repr: Uuid, _tag: u64) -> Halves<Arbitrary> {
        split(gather(repr))
    }

    #[inline]
    fn from_halves(halves: Halves<Arbitrary>, _tag: u64) -> Option<Uuid> {
        Some(scatter(join(halves), V7))
    }
}

impl InHalves for StructuredKey {
    type Nonce = Uniform;

    #[inline]
    fn to_halves(repr: Uuid, _tag: u64) -> Halves<Uniform> {
        Self::halves(repr)
    }

    #[inline]
    fn from_halves(halves: Halves<Uniform>, _tag: u64) -> Option<Uuid> {
        Some(Uuid::from_u64_pair(halves.hi(), halves.lo()))
    }
}

impl InHalves for i64 {
    type Nonce = Arbitrary;

    #[inline]
    fn check_fits(repr: i64) -> Result<(), KeyFault> {
        if repr.cast_unsigned() >> HALF_BITS == 0 {
            Ok(())
        } else {
            Err(KeyFault::OutOfRange {
                wanted: "an integer from 0 to 2^60 - 1, for the uuid form,",
            })
        }
    }

    #[inline]
    fn to_halves(repr: i64, tag: u64) -> Halves<Arbitrary> {
        Halves::masked(repr.cast_unsigned(), tag)
    }

    #[inline]
    fn from_halves(halves: Halves<Arbitrary>, tag: u64) -> Option<i64> {
        let tag = Halves::<Arbitrary>::masked(0, tag).lo();
        bool::from(halves.lo().ct_eq(&tag)).then_some(halves.hi().cast_signed())
    }
}

impl FormOf<Uuid7> for UuidForm {
    #[inline]
    fn check(repr: Uuid) -> Result<(), KeyFault> {
        check_halves::<Uuid7>(repr)
    }

    const FIXED: FixedBits<Uuid> = FixedBits::new(3 << 126 | VERSION_AND_VARIANT, V7);
}

impl FormOf<StructuredKey> for UuidForm {
    #[inline]
    fn check(repr: Uuid) -> Result<(), KeyFault> {
        check_halves::<StructuredKey>(repr)
    }
}

impl FormOf<i64> for UuidForm {
    #[inline]
    fn check(repr: i64) -> Result<(), KeyFault> {
        check_halves::<i64>(repr)
    }

    const FIXED: FixedBits<i64> = FixedBits {
        mask: !0 << HALF_BITS,
        value: 0,
    };
}

#[inline]
fn check_halves<K: InHalves>(repr: K::Repr) -> Result<(), KeyFault> {
    K::check(repr)?;
    K::check_fits(repr)
}

impl<K: InHalves> SealedFormOf<K> for UuidForm where Self: FormOf<K> {}
impl AuthenticatedFormOf<i64> for UuidForm {}

/// Plaintext and ciphertext are 120-bit numbers, *hi ‖ lo*.
impl<K: InHalves> Sealing<K> for UuidForm {
    #[inline]
    fn to_plaintext(keys: &Subkeys, repr: K::Repr) -> u128 {
        join(K::to_halves(repr, keys.tag()))
    }

    #[inline]
    fn encrypt(keys: &Subkeys, plaintext: u128) -> u128 {
        join(K::Nonce::encrypt(keys, split(plaintext)))
    }

    #[inline]
    fn assemble(_keys: &Subkeys, key_id: KeyId, ciphertext: u128) -> Uuid {
        scatter(u128::from(key_id.get()) << (2 * HALF_BITS) | ciphertext, V8)
    }

    #[inline]
    fn take_apart(_keys: &Subkeys, uuid: Uuid) -> Option<u128> {
        Some(gather(uuid) & !(3 << (2 * HALF_BITS)))
    }

    #[inline]
    fn decrypt(keys: &Subkeys, ciphertext: u128) -> u128 {
        join(K::Nonce::decrypt(keys, split(ciphertext)))
    }

    #[inline]
    fn from_plaintext(keys: &Subkeys, plaintext: u128) -> Option<K::Repr> {
        K::from_halves(split(plaintext), keys.tag())
    }
}

#[inline]
fn join<N: Nonce>(halves: Halves<N>) -> u128 {
    u128::from(halves.hi()) << HALF_BITS | u128::from(halves.lo())
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "the low 60 bits are what is wanted"
)]
fn split<N: Nonce>(bits: u128) -> Halves<N> {
    Halves::masked((bits >> HALF_BITS) as u64, bits as u64)
}

/// Version 8 and RFC 9562's variant.
const V8: u128 = 0x8000_8000_0000_0000_0000;

/// The 122 bits of a UUID outside of version and variant.
#[inline]
fn gather(uuid: Uuid) -> u128 {
    let uuid = uuid.as_u128();
    (uuid >> 80) << 74 | (uuid >> 64 & 0xfff) << 62 | uuid & ((1 << 62) - 1)
}

/// A UUID of these 122 bits, with a version and variant.
#[inline]
fn scatter(bits: u128, version: u128) -> Uuid {
    let bits = (bits >> 74) << 80 | (bits >> 62 & 0xfff) << 64 | bits & ((1 << 62) - 1);
    Uuid::from_u128(bits | version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_told_by_kind_and_place() {
        use IdFault::{Character, Length, NoPrefix, NotVersion8, OtherPrefix, UpperCase};

        let text = |text| Text::parse("user", text).err();
        assert_eq!(text("user_7x1nhm7sq0r1qh4pewbejb04n3"), None);
        assert_eq!(text("order_7x1nhm7sq0r1qh4pewbejb04n3"), Some(OtherPrefix));
        assert_eq!(
            text("user_admin_7x1nhm7sq0r1qh4pewbejb04n3"),
            Some(OtherPrefix)
        );
        assert_eq!(text("user7x1nhm7sq0r1qh4pewbejb04n3"), Some(NoPrefix));
        assert_eq!(text(""), Some(NoPrefix));
        assert_eq!(
            text("user_"),
            Some(Length {
                found: 0,
                wanted: 26
            })
        );
        assert_eq!(
            text("user_pw3cyrpqvh5xbz4sashh6532bacjrdvp6e"),
            Some(Length {
                found: 34,
                wanted: 26
            }),
        );
        assert_eq!(
            text("user_7X1nhm7sq0r1qh4pewbejb04n3"),
            Some(UpperCase { position: 7 })
        );
        assert_eq!(
            text("user_7x1nhm7sq0r1qh4pewbejb04no"),
            Some(Character { position: 31 })
        );

        let uuid = |text| UuidForm::parse("user", text).err();
        assert_eq!(uuid("b141f7fe-3115-84f0-b7be-f0b5c2b7862c"), None);
        assert_eq!(
            uuid("B141f7fe-3115-84f0-b7be-f0b5c2b7862c"),
            Some(UpperCase { position: 1 })
        );
        assert_eq!(
            uuid("b141f7fe_3115-84f0-b7be-f0b5c2b7862c"),
            Some(Character { position: 9 })
        );
        assert_eq!(
            uuid("b141f7fe311584f0b7bef0b5c2b7862c"),
            Some(Length {
                found: 32,
                wanted: 36
            })
        );
        assert_eq!(
            uuid("b141f7fe-3115-44f0-b7be-f0b5c2b7862c"),
            Some(NotVersion8)
        );
        assert_eq!(uuid("order_7x1nhm7sq0r1qh4pewbejb04n3"), Some(OtherPrefix));
    }

    #[test]
    fn a_mapped_id_is_any_uuid() {
        let any = |text| Mapped::parse("user", text);
        assert_eq!(
            any("user_7zzzzzzzzzzzzzzzzzzzzzzzzz"),
            Ok(Uuid::from_u128(u128::MAX))
        );
        assert_eq!(any("user_00000000000000000000000000"), Ok(Uuid::nil()));
        assert_eq!(
            any("user_80000000000000000000000000"),
            Err(IdFault::TooLarge)
        );
        assert_eq!(
            any("order_00000000000000000000000000"),
            Err(IdFault::OtherPrefix)
        );
        let v4 = "6d179ed1-fd65-480b-a475-77983c28dd10";
        assert_eq!(
            MappedUuid::parse("user", v4).map(|uuid| uuid.to_string()),
            Ok(v4.to_owned())
        );
        assert_eq!(
            MappedUuid::parse("user", &v4.to_uppercase()),
            Err(IdFault::UpperCase { position: 2 })
        );
    }

    #[test]
    fn bytes_have_one_length_and_a_small_key_id() {
        assert_eq!(
            Text::parse_bytes(&[0; 16]).err(),
            Some(IdFault::Length {
                found: 16,
                wanted: 17
            })
        );
        assert_eq!(Text::parse_bytes(&[4; 17]).err(), Some(IdFault::KeyId));
        assert_eq!(Tagged::parse_bytes(&[4; 22]).err(), Some(IdFault::KeyId));
        assert_eq!(
            UuidForm::parse_bytes(&[0; 16]).err(),
            Some(IdFault::NotVersion8)
        );
        let id = Tagged::parse_bytes(&[3; 22]).expect("22 bytes");
        assert_eq!(Tagged::write_bytes(id, &mut [0; MAX_BYTES_LEN]), [3; 22]);
    }
}
