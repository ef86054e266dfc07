//! Forms: the look of external ids and the way to seal them.

mod diagnose;
mod kind;
mod log;
mod mapped;
pub(crate) mod short;
mod tagged;
mod text;
mod uuid;

use core::fmt::Debug;
use core::hash::Hash;

use ::uuid::Uuid;

pub use self::kind::FormKind;
#[doc(hidden)]
pub use self::log::{LOGS_AUDIENCE, from_log, to_log};
pub use self::mapped::{Mapped, MappedUuid};
pub use self::short::Short;
pub use self::tagged::Tagged;
pub(crate) use self::tagged::TaggedId;
pub use self::text::Text;
use self::text::TextId;
pub use self::uuid::UuidForm;
pub(crate) use self::uuid::version_8;
use crate::error::IdProblem;
pub use crate::error::Invalid;
use crate::key::{FixedBits, Key};
use crate::key_id::KeyId;
use crate::prefix::MAX_PREFIX_LEN;
use crate::private::Private;
use crate::subkeys::Subkeys;

pub(crate) const TEXT_CHARS: usize = 26;
pub(crate) const SHORT_CHARS: usize = 13;
pub(crate) const TAGGED_CHARS: usize = 34;
const UUID_CHARS: usize = ::uuid::fmt::Hyphenated::LENGTH;
const DIGIT: &str = "[0-9a-hjkmnp-tv-z]";
const SHORT_BYTES: usize = 9;
const TEXT_BYTES: usize = 17;
const TAGGED_BYTES: usize = 22;

pub(crate) const MAX_BYTES_LEN: usize = TAGGED_BYTES;

const MAX_TEXT_LEN: usize = MAX_PREFIX_LEN + 1 + TAGGED_CHARS;

/// The standard library checks UTF-8 in steps of this size.
const UTF8_STEP: usize = 16;

/// A buffer for the text of one external id, for [`External::encode`](crate::External::encode).
#[derive(Clone, Debug)]
#[repr(align(16))]
pub struct TextBuffer([u8; MAX_TEXT_LEN.next_multiple_of(UTF8_STEP)]);

impl TextBuffer {
    /// Creates an empty buffer.
    #[must_use]
    pub const fn new() -> Self {
        Self([0; _])
    }

    /// Checking whole, aligned steps is much faster than checking exactly `len` bytes.
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

/// A form of external ids. A keyring seals ids of the forms [`Text`], [`Short`], [`Tagged`] and [`UuidForm`].
/// Ids of [`Mapped`] and [`MappedUuid`] are rows of a mapping table.
///
/// Only this crate implements it.
pub trait Form: Private + Debug + 'static {
    /// The form's name in the derive: `text`, `short`, `tagged`, `uuid`, `mapped` or `mapped_uuid`.
    const NAME: &'static str;

    /// An external id without its prefix.
    #[doc(hidden)]
    type Body: Copy + Ord + Hash + Send + Sync + Unpin + 'static;

    #[doc(hidden)]
    fn write<'b>(prefix: &str, body: Self::Body, buffer: &'b mut TextBuffer) -> &'b str;
    #[doc(hidden)]
    fn parse(prefix: &str, text: &str) -> Result<Self::Body, Invalid>;
    #[doc(hidden)]
    fn write_bytes(body: Self::Body, buffer: &mut [u8; MAX_BYTES_LEN]) -> &[u8];
    #[doc(hidden)]
    fn parse_bytes(bytes: &[u8]) -> Result<Self::Body, Invalid>;

    /// The number of characters by which an id can be longer than the example.
    #[doc(hidden)]
    const GROWS_BY: usize = 0;

    /// The regular expression of exactly the ids.
    #[doc(hidden)]
    fn pattern(prefix: &str) -> String;
}

/// A form that exists for the key `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a form of the key `{K}`",
    label = "this form does not exist for `{K}`",
    note = "text accepts every key; short accepts integers; tagged accepts 16-byte keys (an integer's text form has a tag already); uuid accepts `Uuid7`, `StructuredKey` and integers; mapped and mapped_uuid accept `i64`"
)]
pub trait FormOf<K: Key>: Form {
    /// Checks that a stored value is a key and fits the form.
    #[doc(hidden)]
    #[inline]
    fn check(repr: K::Repr) -> Result<(), Invalid> {
        K::check(repr)
    }

    /// The bits that are the same in all keys that fit the form.
    #[doc(hidden)]
    const FIXED: FixedBits<K::Repr> = K::FIXED;

    /// Returns the example id.
    #[doc(hidden)]
    fn example(keys: &Subkeys, key_id: KeyId) -> Self::Body;
}

/// A form of ids that a keyring seals and opens, for the key `K`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a form that seals",
    label = "ids of this form are not sealed by a keyring",
    note = "ids of the mapped forms are rows of a mapping table: use the adapter's `UuidMap` to convert in both directions, with `map.to_external(…, id)` and `map.find(…, external)`",
    note = "in code that is generic over the resource, add the bound `T: SealedResource`"
)]
pub trait SealedFormOf<K: Key>: FormOf<K> {
    /// The number of tag bits that a made-up id must guess, or 0 without a tag.
    #[doc(hidden)]
    const TAG_BITS: u32;

    /// Whether made-up ids are refused, so that the form is an [`AuthenticatedFormOf`] the key.
    #[doc(hidden)]
    const IS_AUTHENTICATED: bool = Self::TAG_BITS >= 40;

    /// Returns the key id of the secret that the id claims to be sealed with.
    #[doc(hidden)]
    fn key_id(body: Self::Body) -> KeyId;

    #[doc(hidden)]
    #[must_use]
    fn seal(keys: &Subkeys, key_id: KeyId, repr: K::Repr) -> Self::Body;

    /// Opens an id. Returns a stored value that [`check`](FormOf::check) must still accept, or `None` if a
    /// tag is wrong or [`Subkeys::admit`] refuses the value.
    #[doc(hidden)]
    #[must_use]
    fn open(keys: &Subkeys, body: Self::Body) -> Option<K::Repr>;
}

/// A form that seals the key `K` with a tag, so made-up ids are refused without the database.
#[diagnostic::on_unimplemented(
    message = "ids of the form `{Self}` and the key `{K}` carry no tag, so a client can make up ids that open",
    label = "a made-up id opens to a random key",
    note = "page by cursors: `keyring.seal_cursor(last_row.id)` and `keyring.open_cursor(cursor)?`",
    note = "or look up the row first, and use `Position::from_row(row.id)`",
    note = "or use a form with a tag, which refuses made-up ids: `tagged`, or for an integer `text` or `uuid`"
)]
pub trait AuthenticatedFormOf<K: Key>: SealedFormOf<K> {}

/// A sealed form with a prefix: [`Text`], [`Short`] or [`Tagged`].
#[diagnostic::on_unimplemented(
    message = "`AnyId` cannot have a variant of the form `{Self}`",
    label = "ids of this form are not sealed with a prefix",
    note = "use the form `text`, `short` or `tagged`",
    note = "if no variant matches, parse the ids of other forms: `text.parse::<External<_>>()`"
)]
pub trait PrefixedForm: Form {}

impl PrefixedForm for Text {}
impl PrefixedForm for Short {}
impl PrefixedForm for Tagged {}

/// A form of ids in a mapping table: [`Mapped`] or [`MappedUuid`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a mapped form",
    label = "ids of this form have no mapping table",
    note = "set `form = \"mapped\"` or `\"mapped_uuid\"` in the resource's `#[opaque_id(…)]`; ids of the other forms are sealed, with `keyring.seal(id)` and `keyring.open(external)?`",
    note = "in code that is generic over the resource, add the bound `T: MappedResource`"
)]
pub trait MappedForm: FormOf<i64> + Form<Body = Uuid> {}

fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], Invalid> {
    bytes.try_into().map_err(|_| {
        let found = bytes.len();
        Invalid::from(IdProblem::Bytes { found, expected: N })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::InvalidReason;

    fn problem(invalid: Invalid) -> IdProblem {
        match invalid.0 {
            InvalidReason::Id(problem) => problem,
            other => panic!("expected a problem of an id, found {other}"),
        }
    }

    #[test]
    fn problems_have_a_kind_and_a_place() {
        use IdProblem::{
            Character, Length, NoPrefix, NotVersion8, OtherPrefix, TooLarge, UpperCase,
        };

        fn check<F: Form>(cases: &[(&str, Option<IdProblem>)]) {
            for (text, expected) in cases {
                assert_eq!(F::parse("user", text).err().map(problem), *expected, "{text}");
            }
        }
        let length = |found, expected| Some(Length { found, expected });
        check::<Text>(&[
            ("user_7x1nhm7sq0r1qh4pewbejb04n3", None),
            ("order_7x1nhm7sq0r1qh4pewbejb04n3", Some(OtherPrefix)),
            ("user_admin_7x1nhm7sq0r1qh4pewbejb04n3", Some(OtherPrefix)),
            ("user7x1nhm7sq0r1qh4pewbejb04n3", Some(NoPrefix)),
            ("", Some(NoPrefix)),
            ("user_", length(0, 26)),
            ("user_pw3cyrpqvh5xbz4sashh6532bacjrdvp6e", length(34, 26)),
            ("user_7X1nhm7sq0r1qh4pewbejb04n3", Some(UpperCase { position: 7 })),
            ("user_7x1nhm7sq0r1qh4pewbejb04no", Some(Character { position: 31 })),
        ]);
        check::<UuidForm>(&[
            ("b141f7fe-3115-84f0-b7be-f0b5c2b7862c", None),
            ("B141f7fe-3115-84f0-b7be-f0b5c2b7862c", Some(UpperCase { position: 1 })),
            ("b141f7fe_3115-84f0-b7be-f0b5c2b7862c", Some(Character { position: 9 })),
            ("b141f7fe311584f0b7bef0b5c2b7862c", length(32, 36)),
            ("b141f7fe-3115-44f0-b7be-f0b5c2b7862c", Some(NotVersion8)),
            ("order_7x1nhm7sq0r1qh4pewbejb04n3", Some(OtherPrefix)),
        ]);
        check::<Mapped>(&[
            ("user_7zzzzzzzzzzzzzzzzzzzzzzzzz", None),
            ("user_00000000000000000000000000", None),
            ("user_80000000000000000000000000", Some(TooLarge)),
            ("order_00000000000000000000000000", Some(OtherPrefix)),
        ]);
        check::<MappedUuid>(&[
            ("6d179ed1-fd65-480b-a475-77983c28dd10", None),
            ("6D179ED1-fd65-480b-a475-77983c28dd10", Some(UpperCase { position: 2 })),
        ]);
    }

    #[test]
    fn bytes_have_one_length_and_a_small_key_id() {
        fn error<F: Form>(bytes: &[u8]) -> Option<IdProblem> {
            F::parse_bytes(bytes).err().map(problem)
        }
        let expected = IdProblem::Bytes { found: 16, expected: 17 };
        assert_eq!(error::<Text>(&[0; 16]), Some(expected));
        assert_eq!(error::<Text>(&[4; 17]), Some(IdProblem::KeyId));
        assert_eq!(error::<Tagged>(&[4; 22]), Some(IdProblem::KeyId));
        assert_eq!(error::<UuidForm>(&[0; 16]), Some(IdProblem::NotVersion8));
        let id = Tagged::parse_bytes(&[3; 22]).expect("22 bytes");
        assert_eq!(Tagged::write_bytes(id, &mut [0; MAX_BYTES_LEN]), [3; 22]);
    }
}
