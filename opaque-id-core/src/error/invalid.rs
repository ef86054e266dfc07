//! The reasons of other errors.

use thiserror::Error;
use uuid::Uuid;

use crate::prefix::prefix_rule;
use crate::rfc9562::VERSION_AND_VARIANT;

/// The reason why a text is not an id, a value not a key, an entry not a secret, or a setting impossible. It
/// is part of other errors' messages and never contains the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct Invalid(pub(crate) InvalidReason);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum InvalidReason {
    #[error(transparent)]
    Id(#[from] IdProblem),
    #[error(transparent)]
    Key(#[from] KeyProblem),
    #[error(transparent)]
    Secret(#[from] SecretProblem),
    #[error(transparent)]
    Text(#[from] TextProblem),
    /// A setting of a generator, a layout or a resource is impossible. The text is the expected value.
    #[error("{0}")]
    Setting(&'static str),
}

impl<P: Into<InvalidReason>> From<P> for Invalid {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

/// Positions count bytes from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum IdProblem {
    #[error("it is an id of another resource")]
    OtherPrefix,
    #[error("it is an id of a log, which no API accepts; open it by `opaque-id open`")]
    OfLog,
    #[error("it does not start with the prefix and an underscore")]
    NoPrefix,
    #[error("expected {expected} characters{}, found {found}", after_prefix(*expected))]
    Length { found: usize, expected: usize },
    #[cfg(feature = "tokens")]
    #[error("expected at most {max} characters")]
    TooLong { max: usize },
    #[error("expected {expected} bytes, found {found}")]
    Bytes { found: usize, expected: usize },
    #[error("character {position} is upper case; ids are lower case")]
    UpperCase { position: usize },
    #[error("invalid character at position {position}")]
    Character { position: usize },
    #[error("it is a UUID, but not of version 8")]
    NotVersion8,
    #[error(
        "the first character after the prefix is above 7, so the value exceeds a UUID's 128 bits"
    )]
    TooLarge,
    #[error("its key id is above 3")]
    KeyId,
    #[cfg(feature = "tokens")]
    #[error("it is cut off, or has more characters than its bytes need")]
    NotWhole,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TextProblem {
    #[error("invalid prefix: expected {}", prefix_rule!())]
    Prefix,
    #[error("it has no prefix: ids start with `prefix_`")]
    NoPrefix,
    #[error("expected one id, found a text of several words")]
    SeveralWords,
    #[error("there is white space around it")]
    WhiteSpace,
    #[error("there are other characters around it")]
    Surrounded,
    #[error(
        "it is not an external id: those are `prefix_` and 13, 26 or 34 characters, or a UUID of version 8"
    )]
    Unknown,
    #[error(
        "it is not an external id but looks like an internal key ({0}), which should not be seen outside"
    )]
    InternalKey(&'static str),
}

fn after_prefix(expected: usize) -> &'static str {
    match expected {
        uuid::fmt::Hyphenated::LENGTH => "",
        _ => " after the prefix",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum SecretProblem {
    #[error("missing colon; expected `key_id:64 hex digits`")]
    NoColon,
    #[error(
        "expected `key_id:64 hex digits`, found subkeys of one resource, which only `opaque-id open` and `opaque-id inspect` accept"
    )]
    Subkeys,
    #[error("the key id must be 0, 1, 2 or 3")]
    KeyId,
    #[error("it starts with a quotation mark; remove the quotation marks")]
    Quoted,
    #[error("duplicate key id; an earlier secret has it")]
    RepeatedKeyId,
    #[error("expected 64 hex digits, found {found} (`opaque-id keygen` generates an entry)")]
    Length { found: usize },
    /// The position counts from 1 after the colon.
    #[error("invalid hex digit at position {position}")]
    NotHex { position: usize },
    #[error("duplicate secret; a new key id needs a new secret")]
    RepeatedSecret,
    #[error(
        "all bytes are the same, so it is not a secret (`opaque-id keygen` generates an entry)"
    )]
    OneByte,
    #[error(
        "it is the secret of the documentation's examples, which everyone knows (`opaque-id keygen` generates an entry)"
    )]
    Example,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum KeyProblem {
    #[error("expected a {expected}, found {}", version(*found))]
    Version {
        expected: &'static str,
        /// `None` means a variant other than RFC 9562's.
        found: Option<u8>,
    },
    #[error("{0}")]
    OutOfRange(&'static str),
    #[error("not the text of a {expected}")]
    Text { expected: &'static str },
}

fn version(found: Option<u8>) -> String {
    match found {
        Some(version) => format!("version {version}"),
        None => "16 bytes that are not an RFC 9562 UUID".into(),
    }
}

impl Invalid {
    pub(crate) const fn setting(expected: &'static str) -> Self {
        Self(InvalidReason::Setting(expected))
    }

    #[inline]
    pub(crate) fn check_version(
        uuid: Uuid,
        bits: u128,
        expected: &'static str,
    ) -> Result<(), Self> {
        match uuid.as_u128() & VERSION_AND_VARIANT == bits {
            true => Ok(()),
            false => Err(Self::version(expected, uuid)),
        }
    }

    #[cold]
    fn version(expected: &'static str, uuid: Uuid) -> Self {
        let is_rfc9562 = uuid.get_variant() == uuid::Variant::RFC4122;
        let found = is_rfc9562.then_some(uuid.as_bytes()[6] >> 4);
        KeyProblem::Version { expected, found }.into()
    }
}
