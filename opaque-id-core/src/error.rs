//! One error enum for each audience: who sends an id, who runs the service, who owns the row.

use core::error::Error as StdError;

use thiserror::Error;
use uuid::Uuid;

use crate::cursor::cursor_prefix;
use crate::form::FormOf;
use crate::key::Repr;
use crate::keyring::KeyId;
use crate::resource::{OpaqueId, ReprOf};

/// What is wrong with the shape of an id's text or bytes. Positions count bytes from 1.
///
/// ```
/// use opaque_id_core::{External, IdFault, OpaqueId, ParseError};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let Err(ParseError::Malformed { fault, .. }) = "user_7x1nhm".parse::<External<User>>() else {
///     unreachable!()
/// };
/// assert!(matches!(fault, IdFault::Length { found: 6, wanted: 26, .. }));
/// assert_eq!(fault.to_string(), "it has 6 characters where 26 are needed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdFault {
    /// It starts with another resource's prefix, and is well formed otherwise.
    #[error("it is an id of another resource")]
    OtherPrefix,
    /// It does not start with the prefix and an underscore.
    #[error("it does not start with the prefix and an underscore")]
    NoPrefix,
    /// It is too short or too long.
    #[error("it has {found} characters where {wanted} are needed")]
    #[non_exhaustive]
    Length {
        /// Bytes after the prefix, or in all for the uuid form and the binary formats.
        found: usize,
        /// How many there must be.
        wanted: usize,
    },
    /// An upper-case letter. Each id has exactly one text, in lower case.
    #[error("character {position} is upper case; ids are lower case")]
    #[non_exhaustive]
    UpperCase {
        /// Where, from 1.
        position: usize,
    },
    /// A character that no id has.
    #[error("character {position} is not one that ids are written with")]
    #[non_exhaustive]
    Character {
        /// Where, from 1.
        position: usize,
    },
    /// A UUID of another version or variant.
    #[error("it is a UUID, but not of version 8")]
    NotVersion8,
    /// More than the 128 bits of a UUID, in the mapped form.
    #[error(
        "the first character after its prefix is above 7, which makes more than a UUID's 128 bits"
    )]
    TooLarge,
    /// A binary format's key id above 3.
    #[error("its key id is above 3")]
    KeyId,
}

/// A text or byte string that is not an id of the resource. For the client: answer 400 to
/// [`Malformed`](Self::Malformed) and 404 to the rest.
///
/// ```
/// use opaque_id_core::{External, OpaqueId, ParseError};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let error = "USER_1".parse::<External<User>>().unwrap_err();
/// assert!(matches!(error, ParseError::Malformed { resource: "user", .. }));
/// assert_eq!(
///     error.to_string(),
///     "not a `user` id: it does not start with the prefix and an underscore",
/// );
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not an id at all.
    #[error("not a `{resource}` id: {fault}")]
    #[non_exhaustive]
    Malformed {
        /// The prefix of the resource that was wanted.
        resource: &'static str,
        /// What is wrong.
        fault: IdFault,
    },
    /// Not a cursor of the resource.
    #[error("not a `{resource}` cursor: {}", cursor_fault(resource, *fault))]
    #[non_exhaustive]
    MalformedCursor {
        /// The prefix of the resource that was wanted.
        resource: &'static str,
        /// What is wrong.
        fault: IdFault,
    },
    /// A well-formed id with another prefix.
    #[error("not a `{resource}` id: it is an id of another resource")]
    #[non_exhaustive]
    OtherResource {
        /// The prefix of the resource that was wanted.
        resource: &'static str,
    },
}

impl ParseError {
    #[cold]
    pub(crate) fn new(resource: &'static str, fault: IdFault) -> Self {
        match fault {
            IdFault::OtherPrefix => Self::OtherResource { resource },
            fault => Self::Malformed { resource, fault },
        }
    }

    #[cold]
    pub(crate) fn cursor(resource: &'static str, fault: IdFault) -> Self {
        Self::MalformedCursor { resource, fault }
    }
}

fn cursor_fault(resource: &str, fault: IdFault) -> String {
    match fault {
        IdFault::OtherPrefix | IdFault::NoPrefix => {
            format!("it does not start with `{}_`", cursor_prefix(resource))
        }
        fault => fault.to_string(),
    }
}

/// A well-formed id that no row can have. For the client it is "not found", whichever it was; the
/// message is for the log.
///
/// ```
/// use opaque_id_core::{External, Internal, Keyring, MasterSecret, OpaqueId, OpenError};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user", form = "tagged")]
/// struct User;
///
/// let ours = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let theirs = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let id = theirs.seal(Internal::<User>::generate());
/// assert_eq!(ours.open(id), Err(OpenError::InvalidPlaintext));
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The keyring holds no secret with the id's key id: it was retired, or the id is made up.
    #[error(
        "the keyring holds no secret with key id {key_id}: it was retired, or the id was made up"
    )]
    #[non_exhaustive]
    UnknownKeyId {
        /// The id's key id.
        key_id: KeyId,
    },
    /// The tag is wrong, or what came out can't be a key of the resource: the id was altered, guessed,
    /// or sealed with another secret or for another domain.
    #[error("not genuine: altered, guessed, or sealed with another secret or for another domain")]
    InvalidPlaintext,
}

/// Secrets that make no keyring. For the operator, at start. Never holds a secret, or any part of one.
///
/// ```
/// use opaque_id_core::Keyring;
///
/// let error = Keyring::from_entries("OPAQUE_ID_KEYS", "0:c0ffee").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "entry 1 of OPAQUE_ID_KEYS has 6 hex digits; 64 are needed (`opaque-id keygen` makes an entry)",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The environment variable is not set, or not Unicode.
    #[error(
        "{variable} is not set; it takes comma-separated `key_id:64 hex digits` entries, the first of \
         which seals (`opaque-id keygen` makes one)"
    )]
    #[non_exhaustive]
    NotSet {
        /// The variable.
        variable: &'static str,
    },
    /// The file of secrets can't be read.
    #[error("{source_name} can't be read: {kind}")]
    #[non_exhaustive]
    Unreadable {
        /// The file's path.
        source_name: String,
        /// The operating system's reason.
        kind: std::io::ErrorKind,
    },
    /// The file of secrets is longer than one can be.
    #[error("{source_name} is longer than {max} bytes, so it is not a file of secrets")]
    #[non_exhaustive]
    TooLong {
        /// The file's path.
        source_name: String,
        /// How long it may be, in bytes.
        max: usize,
    },
    /// Others than its owner can read or write the file of secrets.
    #[error(
        "others can read or write {source_name}, whose mode is {mode:03o}: run `chmod 600` on it, or use \
         `Keyring::from_shared_file` (`--shared-keys-file`) if a container platform mounts it so"
    )]
    #[non_exhaustive]
    Shared {
        /// The file's path.
        source_name: String,
        /// The nine bits of its permissions.
        mode: u32,
    },
    /// Two resources have one domain and different kinds of keys, whose ids must not share subkeys.
    #[error(
        "the domain `{domain}` belongs to keys of the kind {expected}, but `{resource}` has it for keys of the \
         kind {found}: write `domain = \"…\"` with another name into its `#[opaque_id(…)]`"
    )]
    #[non_exhaustive]
    Domain {
        /// The domain.
        domain: &'static str,
        /// The prefix of the resource that came second.
        resource: &'static str,
        /// The kind of keys of the resource that came first.
        expected: &'static str,
        /// The second one's.
        found: &'static str,
    },
    /// One entry is wrong.
    #[error("entry {entry} of {source_name} {fault}")]
    #[non_exhaustive]
    Entry {
        /// Where the entries came from: a variable's name, a file's path.
        source_name: String,
        /// Which entry, from 1.
        entry: usize,
        /// What is wrong with it.
        fault: EntryFault,
    },
    /// No entry at all.
    #[error("{source_name} has no entry; `opaque-id keygen` makes one")]
    #[non_exhaustive]
    NoEntry {
        /// Where the entries came from.
        source_name: String,
    },
    /// A builder without a sealing secret.
    #[error("no sealing secret was given; call `sealing(key_id, secret)` once")]
    NoSealingSecret,
    /// A builder with two sealing secrets.
    #[error("two sealing secrets were given; keep one `sealing` and give the other to `opening`")]
    TwoSealingSecrets,
    /// A builder's secret is wrong.
    #[error("the secret with key id {key_id} {fault}")]
    #[non_exhaustive]
    Secret {
        /// The key id as given.
        key_id: u8,
        /// What is wrong with it.
        fault: EntryFault,
    },
}

/// What is wrong with one secret of a keyring. Reads on from "entry 2 of OPAQUE_ID_KEYS".
///
/// ```
/// use opaque_id_core::{EntryFault, MasterSecret};
///
/// let fault = MasterSecret::from_hex("c0ffee").unwrap_err();
/// assert!(matches!(fault, EntryFault::Length { found: 6, .. }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EntryFault {
    /// No colon.
    #[error("has no colon; write `key_id:64 hex digits`")]
    NoColon,
    /// The key id is not 0, 1, 2 or 3.
    #[error("has a key id that is not 0, 1, 2 or 3")]
    KeyId,
    /// The key id stands twice.
    #[error("has the key id of an earlier one; each of 0 to 3 can stand once")]
    RepeatedKeyId,
    /// Not 64 hex digits.
    #[error("has {found} hex digits; 64 are needed (`opaque-id keygen` makes an entry)")]
    #[non_exhaustive]
    Length {
        /// How many characters follow the colon.
        found: usize,
    },
    /// A character that is not a hex digit.
    #[error("has something other than a hex digit at position {position} after the colon")]
    #[non_exhaustive]
    NotHex {
        /// Where, from 1, after the colon.
        position: usize,
    },
    /// The secret stands twice.
    #[error("has the secret of an earlier one; a new key id needs a new secret")]
    RepeatedSecret,
    /// All bytes are the same.
    #[error("is not a secret: all of its bytes are the same (`opaque-id keygen` makes an entry)")]
    OneByte,
}

/// Why a value is not a key of its kind. Never holds the value.
///
/// ```
/// use opaque_id_core::{KeyFault, Uuid, Uuid7};
///
/// let fault = Uuid7::try_from(Uuid::from_u128(0x6d179ed1fd65480ba47577983c28dd10)).unwrap_err();
/// assert!(matches!(fault, KeyFault::Version { .. }));
/// assert_eq!(fault.to_string(), "a UUIDv7 is needed, found version 4");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyFault {
    /// A UUID of another version or variant.
    #[error("a {wanted} is needed, found {found}")]
    #[non_exhaustive]
    Version {
        /// The kind that was wanted.
        wanted: &'static str,
        /// Which kind of UUID it is.
        found: &'static str,
    },
    /// A number that the key or the form has no room for.
    #[error("out of range: {wanted} is needed")]
    #[non_exhaustive]
    OutOfRange {
        /// What is needed.
        wanted: &'static str,
    },
    /// A text that is not such a key.
    #[error("not the text of a {wanted}")]
    #[non_exhaustive]
    Text {
        /// The kind that was wanted.
        wanted: &'static str,
    },
}

impl KeyFault {
    #[cold]
    pub(crate) fn version(wanted: &'static str, uuid: Uuid) -> Self {
        let found = match (uuid.get_variant(), uuid.get_version_num()) {
            (uuid::Variant::RFC4122, version) => {
                const VERSIONS: [&str; 16] = [
                    "version 0",
                    "version 1",
                    "version 2",
                    "version 3",
                    "version 4",
                    "version 5",
                    "version 6",
                    "version 7",
                    "version 8",
                    "version 9",
                    "version 10",
                    "version 11",
                    "version 12",
                    "version 13",
                    "version 14",
                    "version 15",
                ];
                VERSIONS[version % 16]
            }
            _ => "16 bytes that are no RFC 9562 UUID",
        };
        Self::Version { wanted, found }
    }
}

/// Why a generator made no key. For whoever runs it, or set it up.
///
/// ```
/// use opaque_id_core::{GenerateError, Int64Layout};
///
/// let error = Int64Layout::with_node_bits(20).unwrap_err();
/// assert_eq!(error.to_string(), "a generator can't be set up so: 0 to 16 bits for the node are needed");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// All keys are used up that there are until the clock has moved on: it stands still, was set back,
    /// or keys are asked for faster than their layout has room for.
    #[error("no {kind} is left until the clock has moved on: ask again later")]
    #[non_exhaustive]
    Exhausted {
        /// The kind of key.
        kind: &'static str,
    },
    /// A setting that there can't be.
    #[error("a generator can't be set up so: {wanted} needed")]
    #[non_exhaustive]
    Setting {
        /// What is needed, with "is" or "are".
        wanted: &'static str,
    },
}

/// A value that is not a key of the resource: from a row, or given to `from_key`. Adapters hand it to
/// their ORM as the decode error. Never holds the value.
///
/// ```
/// use opaque_id_core::{Internal, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "invoice", key = i64, form = "uuid")]
/// struct Invoice;
///
/// let error = Internal::<Invoice>::from_key(-1).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "not a key of `invoice`: out of range: an integer from 0 to 2^60 - 1, for the uuid form, is needed",
/// );
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A value of the right size that is not such a key.
    #[error("not a key of `{resource}`: {fault}")]
    #[non_exhaustive]
    Invalid {
        /// The resource's prefix.
        resource: &'static str,
        /// What is wrong.
        fault: KeyFault,
    },
    /// NULL where a key has to be.
    #[error(
        "not a key of `{resource}`: it is NULL; make the field an `Option`, or the column NOT NULL"
    )]
    #[non_exhaustive]
    Null {
        /// The resource's prefix.
        resource: &'static str,
    },
    /// A value of a type that no such key is stored as: text, a fraction, a narrower integer.
    #[error("not a key of `{resource}`: a value of type {found} where {wanted} is needed")]
    #[non_exhaustive]
    ColumnType {
        /// The resource's prefix.
        resource: &'static str,
        /// The value's type, as the driver names it.
        found: String,
        /// What is stored, and the column types for it.
        wanted: &'static str,
    },
    /// The driver could not read the value as what the key is stored as.
    #[error("not a key of `{resource}`: the driver did not read {wanted}")]
    #[non_exhaustive]
    Unreadable {
        /// The resource's prefix.
        resource: &'static str,
        /// What is stored, and the column types for it.
        wanted: &'static str,
        /// The driver's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
}

impl KeyError {
    /// Whether a value can be a key of the resource, in its form.
    #[doc(hidden)]
    #[inline]
    pub fn check<T: OpaqueId>(repr: ReprOf<T>) -> Result<(), Self> {
        match T::Form::check(repr) {
            Ok(()) => Ok(()),
            Err(fault) => Err(Self::invalid::<T>(fault)),
        }
    }

    #[cold]
    fn invalid<T: OpaqueId>(fault: KeyFault) -> Self {
        Self::Invalid {
            resource: T::PREFIX,
            fault,
        }
    }

    /// For adapters: NULL where a key has to be.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn null<T: OpaqueId>() -> Self {
        Self::Null {
            resource: T::PREFIX,
        }
    }

    /// For adapters: a value of a type that drivers would convert, or take for something else.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn column_type<T: OpaqueId>(found: impl Into<String>) -> Self {
        Self::ColumnType {
            resource: T::PREFIX,
            found: found.into(),
            wanted: <ReprOf<T> as Repr>::COLUMN,
        }
    }

    /// For adapters: the driver's error on reading a key.
    #[doc(hidden)]
    #[cold]
    #[must_use]
    pub fn unreadable<T: OpaqueId>(source: Box<dyn StdError + Send + Sync>) -> Self {
        Self::Unreadable {
            resource: T::PREFIX,
            wanted: <ReprOf<T> as Repr>::COLUMN,
            source,
        }
    }
}
