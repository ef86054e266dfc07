//! Errors: one enum per audience, which is the client, the operator or the developer.

use core::error::Error as StdError;

use thiserror::Error;
use uuid::Uuid;

use crate::key_id::KeyId;
use crate::metrics;
use crate::prefix::{cursor_prefix, prefix_rule};

/// The reason why a text is not an id, a value not a key, or an entry not a secret. It is part of other errors' messages, and
/// never contains the value.
///
/// ```
/// use opaque_id_core::key::{Uuid, Uuid7};
/// use opaque_id_core::{External, MasterSecret, OpaqueId, ParseError};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let Err(ParseError::Malformed { problem, .. }) = "user_7x1nhm".parse::<External<User>>() else {
///     unreachable!()
/// };
/// assert_eq!(problem.to_string(), "expected 26 characters after the prefix, found 6");
///
/// let problem = Uuid7::try_from(Uuid::from_u128(0x6d179ed1fd65480ba47577983c28dd10)).unwrap_err();
/// assert_eq!(problem.to_string(), "expected a UUIDv7, found version 4");
///
/// let problem = MasterSecret::from_hex("c0ffee").unwrap_err();
/// assert_eq!(problem.to_string(), "expected 64 hex digits, found 6 (`opaque-id keygen` generates an entry)");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(transparent)]
pub struct Invalid(pub(crate) Problem);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Id(#[from] IdProblem),
    #[error(transparent)]
    Key(#[from] KeyProblem),
    #[error(transparent)]
    Secret(#[from] SecretProblem),
    #[error(transparent)]
    Text(#[from] TextProblem),
}

impl<P: Into<Problem>> From<P> for Invalid {
    fn from(problem: P) -> Self {
        Self(problem.into())
    }
}

/// Positions count bytes from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum IdProblem {
    /// It starts with another resource's prefix and is otherwise well formed.
    #[error("it is an id of another resource")]
    OtherPrefix,
    #[error("it does not start with the prefix and an underscore")]
    NoPrefix,
    #[error("expected {expected} characters{}, found {found}", after_prefix(*expected))]
    Length { found: usize, expected: usize },
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
}

/// The fault of a text of no known resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum TextProblem {
    /// The text before the last underscore is not a prefix.
    #[error("invalid prefix: expected {}", prefix_rule!())]
    Prefix,
    #[error("it has no prefix: ids start with `prefix_`")]
    NoPrefix,
    #[error("there is white space around it")]
    WhiteSpace,
    /// Neither a text nor a UUID.
    #[error(
        "it is not an external id: those are `prefix_` and 26 or 34 characters, or a UUID of version 8"
    )]
    Unknown,
    /// The name of the kind.
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

/// An error for a text or byte string that is not an id, or not a cursor, of the resource. The message is for the
/// client that sent it; [`http_status`](Self::http_status) returns the status of the answer.
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
/// assert_eq!(error.http_status(), 404);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not an id at all.
    #[error("not a `{resource}` id: {problem}")]
    #[non_exhaustive]
    Malformed {
        /// The prefix of the expected resource.
        resource: &'static str,
        /// What is wrong.
        problem: Invalid,
    },
    /// Not a cursor of the resource.
    #[error("not a `{resource}` cursor: {}", cursor_problem(resource, *problem))]
    #[non_exhaustive]
    MalformedCursor {
        /// The prefix of the expected resource.
        resource: &'static str,
        /// What is wrong.
        problem: Invalid,
    },
    /// A well-formed id with another prefix.
    #[error("not a `{resource}` id: it is an id of another resource")]
    #[non_exhaustive]
    OtherResource {
        /// The prefix of the expected resource.
        resource: &'static str,
    },
}

/// The status of the answer to a refused id: the same as for a row that does not exist.
const NOT_FOUND: u16 = 404;

impl ParseError {
    #[cold]
    pub(crate) fn new(resource: &'static str, problem: Invalid) -> Self {
        match problem.0 {
            Problem::Id(IdProblem::OtherPrefix) => Self::OtherResource { resource },
            _ => Self::Malformed { resource, problem },
        }
    }

    /// Counts the refusal.
    #[cold]
    pub(crate) fn counted(self) -> Self {
        match self {
            Self::Malformed { resource, .. } | Self::MalformedCursor { resource, .. } => {
                metrics::refused(resource, "malformed");
            }
            Self::OtherResource { resource } => metrics::refused(resource, "other_resource"),
        }
        self
    }

    #[cold]
    pub(crate) fn cursor(resource: &'static str, problem: Invalid) -> Self {
        Self::MalformedCursor { resource, problem }
    }

    /// Returns the HTTP status of the answer: always 404, as [`OpenError::http_status`] does, and as for an id
    /// whose row does not exist. So a client learns nothing from the status of a refusal.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }

    /// Returns the HTTP status of the answer for APIs that report malformed ids: 400 for a malformed id or cursor,
    /// and 404 for an id of another resource.
    #[must_use]
    pub const fn http_status_by_shape(&self) -> u16 {
        match self {
            Self::Malformed { .. } | Self::MalformedCursor { .. } => 400,
            Self::OtherResource { .. } => NOT_FOUND,
        }
    }
}

fn cursor_problem(resource: &str, problem: Invalid) -> String {
    match problem.0 {
        Problem::Id(IdProblem::OtherPrefix | IdProblem::NoPrefix) => {
            format!("it does not start with `{}_`", cursor_prefix(resource))
        }
        problem => problem.to_string(),
    }
}

/// An error for a well-formed id that no row can have. The message is for the log: the answer to the client is "not
/// found", whatever the reason.
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
    /// The keyring has no secret with the id's key id: it was retired, or the id is made up.
    #[error("the keyring has no secret with key id {key_id}: it was retired, or the id is made up")]
    #[non_exhaustive]
    UnknownKeyId {
        /// The id's key id.
        key_id: KeyId,
    },
    /// The tag is wrong, or the plaintext is not a key of the resource: the id was altered, guessed, or sealed with
    /// another secret or for another domain.
    #[error("not genuine: altered, guessed, or sealed with another secret or for another domain")]
    InvalidPlaintext,
}

impl OpenError {
    /// Counts the refusal.
    #[cold]
    pub(crate) fn counted(self, resource: &'static str) -> Self {
        let reason = match self {
            Self::UnknownKeyId { .. } => "unknown_key_id",
            Self::InvalidPlaintext => "not_genuine",
        };
        metrics::refused(resource, reason);
        self
    }

    /// Returns the HTTP status of the answer: always 404, as for an id whose row does not exist.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }
}

/// An error for a text that is neither a new nor an accepted old id of a resource. The message is for the log: the answer
/// to the client is "not found", whatever the reason.
///
/// ```
/// use opaque_id_core::old_ids::{OldIdError, OldIds};
/// use opaque_id_core::{Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64)]
/// struct Order;
///
/// fn status(orders: &OldIds<Order>, keyring: &Keyring, text: &str) -> u16 {
///     match orders.open(text, keyring) {
///         Ok(_) => 200,
///         Err(error) => error.http_status(),
///     }
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OldIdError {
    /// It is no id at all, in no form.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It is a new id that does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is an old id, and these have ended.
    #[error("old ids of `{resource}` ({old_form}) are no longer accepted")]
    #[non_exhaustive]
    Ended {
        /// The prefix of the resource.
        resource: &'static str,
        /// The name of the old id's form.
        old_form: &'static str,
    },
    /// It is an old id of a key that the API has never shown.
    #[error("an old id of a `{resource}` ({old_form}) that was never shown")]
    #[non_exhaustive]
    NotShown {
        /// The prefix of the resource.
        resource: &'static str,
        /// The name of the old id's form.
        old_form: &'static str,
    },
    /// Two old forms read it as different keys, or it is also a new id of a secret of the keyring.
    #[error(
        "a `{resource}` id that two old forms read differently, or that is also a new id: no secret may have its key id \
         until old ids have ended"
    )]
    #[non_exhaustive]
    Ambiguous {
        /// The prefix of the resource.
        resource: &'static str,
    },
}

impl OldIdError {
    /// Counts the refusal.
    #[cold]
    pub(crate) fn counted(self, resource: &'static str) -> Self {
        match self {
            Self::Parse(error) => return error.counted().into(),
            Self::Open(error) => return error.counted(resource).into(),
            Self::Ended { .. } => metrics::refused(resource, "old_id_ended"),
            Self::NotShown { .. } => metrics::refused(resource, "old_id_never_shown"),
            Self::Ambiguous { .. } => metrics::refused(resource, "old_id_ambiguous"),
        }
        self
    }

    /// Returns the HTTP status of the answer: always 404, as for an id whose row does not exist.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }
}

/// An error for an [`OldIds`](crate::old_ids::OldIds) that cannot work. It is for the developer, at start.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use opaque_id_core::old_ids::OldIds;
/// use opaque_id_core::{IdRange, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let now = SystemTime::now();
/// let users = OldIds::<User>::builder(IdRange::all(), now..now + Duration::from_secs(86_400));
/// let error = users.type_ids("user").build(&keyring).unwrap_err();
/// assert!(error.to_string().starts_with("old ids of `user` (typeid) look like new ids with key id 0"));
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OldIdsError {
    /// It has no form or no key.
    #[error(
        "an acceptor of `{resource}` has nothing to accept: name a form of old ids, and a range that is not empty"
    )]
    #[non_exhaustive]
    Nothing {
        /// The prefix of the resource.
        resource: &'static str,
    },
    /// The period ends before it starts, or is not within the years 1970 to 9998.
    #[error(
        "the period of old ids of `{resource}` must start in 1970 or later, and end after its start and before the year 9999"
    )]
    #[non_exhaustive]
    Period {
        /// The prefix of the resource.
        resource: &'static str,
    },
    /// The address of the documentation is not a URI.
    #[error("the address of the documentation on old ids of `{resource}` must be a URI (RFC 3986)")]
    #[non_exhaustive]
    Documentation {
        /// The prefix of the resource.
        resource: &'static str,
    },
    /// Old ids cannot be distinguished from new ones.
    #[error(
        "old ids of `{resource}` ({old_form}) look like new ids with key id {key_id}, and the keyring has a secret with it: \
         use secrets with other key ids (`opaque-id keygen --key-id …`) until old ids have ended, or `form = \"tagged\"`"
    )]
    #[non_exhaustive]
    Ambiguous {
        /// The prefix of the resource.
        resource: &'static str,
        /// The name of the old ids' form.
        old_form: &'static str,
        /// The key id that new ids may not have.
        key_id: KeyId,
    },
}

/// An error for secrets that do not form a keyring. It is for the operator, at start. It never contains a secret or
/// any part of one.
///
/// ```
/// use opaque_id_core::Keyring;
///
/// let error = Keyring::from_entries("OPAQUE_ID_KEYS", "0:c0ffee").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "invalid entry 1 of OPAQUE_ID_KEYS: expected 64 hex digits, found 6 (`opaque-id keygen` generates an entry)",
/// );
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The environment variable is not set, or not Unicode.
    #[error(
        "{variable} is not set; expected comma-separated `key_id:64 hex digits` entries, the first of \
         which seals (`opaque-id keygen` generates one)"
    )]
    #[non_exhaustive]
    NotSet {
        /// The variable.
        variable: &'static str,
    },
    /// The file of secrets cannot be read.
    #[error("cannot read {source_name}: {}", advice(source))]
    #[non_exhaustive]
    Unreadable {
        /// The file's path.
        source_name: String,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// The file of secrets is too long.
    #[error("{source_name} is longer than {max} bytes, so it is not a file of secrets")]
    #[non_exhaustive]
    TooLong {
        /// The file's path.
        source_name: String,
        /// The limit, in bytes.
        max: usize,
    },
    /// Wrapped secrets could not be unwrapped.
    #[error("cannot unwrap {source_name}: {problem}")]
    #[non_exhaustive]
    Unwrap {
        /// The file's path.
        source_name: String,
        /// The reason.
        problem: UnwrapError,
    },
    /// Users other than its owner can read or write the file of secrets.
    #[error(
        "others can read or write {source_name}, whose mode is {mode:03o}: run `chmod 600` on it, or, if a container \
         platform mounts it with this mode, use `Keyring::from_shared_file` (`--shared-keys-file`)"
    )]
    #[non_exhaustive]
    Shared {
        /// The file's path.
        source_name: String,
        /// The nine bits of its permissions.
        mode: u32,
    },
    /// Two resources have the same domain and different kinds of keys, whose ids must not share subkeys.
    #[error(
        "the domain `{domain}` belongs to {expected} keys, but `{resource}` uses it for {found} keys: set `domain = \"…\"` to another name in its `#[opaque_id(…)]`"
    )]
    #[non_exhaustive]
    Domain {
        /// The domain.
        domain: &'static str,
        /// The prefix of the second resource.
        resource: &'static str,
        /// The kind of the first resource's keys.
        expected: &'static str,
        /// The kind of the second resource's keys.
        found: &'static str,
    },
    /// An entry is invalid.
    #[error("invalid entry {entry} of {source_name}: {problem}")]
    #[non_exhaustive]
    Entry {
        /// The source of the entries: a variable's name or a file's path.
        source_name: String,
        /// The number of the entry, from 1.
        entry: usize,
        /// What is wrong with it.
        problem: Invalid,
    },
    /// There is no entry.
    #[error("{source_name} has no entry (`opaque-id keygen` generates one)")]
    #[non_exhaustive]
    NoEntry {
        /// The source of the entries.
        source_name: String,
    },
    /// A builder has no sealing secret.
    #[error("no sealing secret: call `sealing(key_id, secret)` once")]
    NoSealingSecret,
    /// A builder has two sealing secrets.
    #[error("two sealing secrets: keep one `sealing` and pass the other to `opening`")]
    TwoSealingSecrets,
    /// A builder's secret is invalid.
    #[error("invalid secret with key id {key_id}: {problem}")]
    #[non_exhaustive]
    Secret {
        /// The key id as given.
        key_id: u8,
        /// What is wrong with it.
        problem: Invalid,
    },
    /// The secret that has sealed until now is missing.
    #[error(
        "the secret with key id {key_id} has sealed until now, but is missing: keep it behind the new one until its ids \
         are no longer used, or restart to retire it at once (`opaque-id keys --plan-rotation` prints the steps)"
    )]
    #[non_exhaustive]
    SealingSecretMissing {
        /// The key id of the secret.
        key_id: KeyId,
    },
    /// A key id has another secret than before.
    #[error(
        "key id {key_id} has another secret than before, so ids with this key id would not open: give a new secret another \
         key id (`opaque-id keygen --key-id …`)"
    )]
    #[non_exhaustive]
    OtherSecret {
        /// The key id.
        key_id: KeyId,
    },
    /// Reading the secrets panicked, in the thread of a [`Watch`](crate::keyring::Watch).
    #[error("reading the secrets panicked; see the message of the panic")]
    Panicked,
}

/// Returns the text without its runs of 48 or more hex digits, which may be a secret in the wrong place.
pub(crate) fn redact(text: &str) -> String {
    let is_hex = |c: char| c.is_ascii_hexdigit();
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_hex) {
        let digits = &rest[start..];
        let len = digits.find(|c| !is_hex(c)).unwrap_or(digits.len());
        shown += &rest[..start];
        match len {
            ..48 => shown += &digits[..len],
            _ => shown += &format!("[{len} hex digits]"),
        }
        rest = &digits[len..];
    }
    shown += rest;
    shown
}

/// The reason why [`UnwrapSecrets`](crate::keyring::UnwrapSecrets) failed: a message for the operator, from which anything that
/// looks like a secret is removed.
///
/// ```
/// use opaque_id_core::keyring::UnwrapError;
///
/// let error: UnwrapError = std::io::Error::other("no answer from the KMS").into();
/// assert_eq!(error.to_string(), "no answer from the KMS");
/// ```
#[derive(Debug, Error)]
#[error("{0}")]
pub struct UnwrapError(String);

impl UnwrapError {
    /// Creates an error from a message or another error, with the errors that caused it.
    #[must_use]
    pub fn new(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        let error = error.into();
        let mut message = error.to_string();
        let mut source = error.source();
        while let Some(error) = source {
            message += &format!(": {error}");
            source = error.source();
        }
        Self(redact(&message))
    }
}

impl From<std::io::Error> for UnwrapError {
    fn from(error: std::io::Error) -> Self {
        Self::new(error)
    }
}

/// What is wrong with the file of secrets, and what to do.
fn advice(error: &std::io::Error) -> String {
    use std::io::ErrorKind;

    match error.kind() {
        ErrorKind::NotFound => {
            "no such file; create it with what `opaque-id keygen` prints, and with mode 600".into()
        }
        ErrorKind::PermissionDenied => {
            "permission denied; run as the file's owner, or as its group with mode 640".into()
        }
        ErrorKind::InvalidData => "expected text, found bytes that are not UTF-8".into(),
        ErrorKind::IsADirectory => "expected a file, found a folder".into(),
        kind => format!("{kind}; check that it is a file of secrets"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum SecretProblem {
    #[error("missing colon; expected `key_id:64 hex digits`")]
    NoColon,
    #[error("the key id must be 0, 1, 2 or 3")]
    KeyId,
    #[error("duplicate key id; an earlier secret has it")]
    RepeatedKeyId,
    #[error("expected 64 hex digits, found {found} (`opaque-id keygen` generates an entry)")]
    Length { found: usize },
    /// From 1, after the colon.
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
    #[error("expected a {expected}, found {}", Version(*found))]
    Version {
        expected: &'static str,
        /// `None` for another variant than RFC 9562's.
        found: Option<u8>,
    },
    /// A value that the key or the form has no room for.
    #[error("{0}")]
    OutOfRange(&'static str),
    #[error("not the text of a {expected}")]
    Text { expected: &'static str },
}

struct Version(Option<u8>);

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(version) => write!(f, "version {version}"),
            None => f.write_str("16 bytes that are not an RFC 9562 UUID"),
        }
    }
}

impl Invalid {
    #[cold]
    pub(crate) fn version(expected: &'static str, uuid: Uuid) -> Self {
        let is_rfc9562 = uuid.get_variant() == uuid::Variant::RFC4122;
        let found = is_rfc9562.then_some(uuid.as_bytes()[6] >> 4);
        KeyProblem::Version { expected, found }.into()
    }
}

/// The reason why a generator could not generate a key or could not be created.
///
/// ```
/// use opaque_id_core::layout::Int64Layout;
///
/// let error = Int64Layout::with_node_bits(20).unwrap_err();
/// assert_eq!(error.to_string(), "invalid generator setting: the node takes 0 to 16 bits");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// Every key for the current clock tick has been used: the clock has stopped, was set back, or keys are
    /// requested faster than their layout has room for.
    #[error("{kind}s are exhausted until the clock advances; try again later")]
    #[non_exhaustive]
    Exhausted {
        /// The kind of key.
        kind: &'static str,
    },
    /// A setting is invalid.
    #[error("invalid generator setting: {rule}")]
    #[non_exhaustive]
    Setting {
        /// The rule that the setting breaks.
        rule: &'static str,
    },
}

/// An error for a value that is not a key of the resource: one read from a row, or passed to `from_key`. Adapters
/// return it to their ORM as the decode error. It never contains the value.
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
///     "invalid key for `invoice`: the uuid form needs an integer from 0 to 2^60 - 1",
/// );
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The value has the right size but is not a key of the resource.
    #[error("invalid key for `{resource}`: {problem}")]
    #[non_exhaustive]
    Invalid {
        /// The resource's prefix.
        resource: &'static str,
        /// What is wrong.
        problem: Invalid,
    },
    /// The value is NULL.
    #[error(
        "invalid key for `{resource}`: it is NULL; make the field an `Option`, or the column NOT NULL"
    )]
    #[non_exhaustive]
    Null {
        /// The resource's prefix.
        resource: &'static str,
    },
    /// The value has a type that the key is never stored as: text, a fraction, a smaller integer.
    #[error("invalid key for `{resource}`: expected {expected}, found a value of type {found}")]
    #[non_exhaustive]
    ColumnType {
        /// The resource's prefix.
        resource: &'static str,
        /// The value's type, as the driver names it.
        found: String,
        /// What the key is stored as, and the column types for it.
        expected: &'static str,
    },
    /// The driver could not read the value as the type that the key is stored as.
    #[error("invalid key for `{resource}`: the driver could not read {expected}")]
    #[non_exhaustive]
    Unreadable {
        /// The resource's prefix.
        resource: &'static str,
        /// What the key is stored as, and the column types for it.
        expected: &'static str,
        /// The driver's own error.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// For adapters.
#[doc(hidden)]
impl KeyError {
    #[cold]
    #[must_use]
    pub fn invalid(resource: &'static str, problem: Invalid) -> Self {
        Self::Invalid { resource, problem }
    }

    #[cold]
    #[must_use]
    pub fn null(resource: &'static str) -> Self {
        Self::Null { resource }
    }

    /// Creates the error for an integer that a row has and the key's type has no room for.
    #[cold]
    #[must_use]
    pub fn too_large(resource: &'static str) -> Self {
        let problem = KeyProblem::OutOfRange(
            "the integer does not fit; `key = i64` has room for all below 2^63, and external ids stay the same",
        );
        Self::invalid(resource, problem.into())
    }

    /// Creates the error for a negative integer and an unsigned column.
    #[cold]
    #[must_use]
    pub fn negative(resource: &'static str) -> Self {
        let problem = KeyProblem::OutOfRange("an unsigned column has no negative integers");
        Self::invalid(resource, problem.into())
    }

    /// Creates the error for a value of a type that drivers would convert or misinterpret.
    #[cold]
    #[must_use]
    pub fn column_type(
        resource: &'static str,
        found: impl Into<String>,
        expected: &'static str,
    ) -> Self {
        Self::ColumnType {
            resource,
            found: found.into(),
            expected,
        }
    }

    /// Creates the error for a key that the driver could not read.
    #[cold]
    #[must_use]
    pub fn unreadable(
        resource: &'static str,
        expected: &'static str,
        source: Box<dyn StdError + Send + Sync>,
    ) -> Self {
        Self::Unreadable {
            resource,
            expected,
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_do_not_repeat_the_drivers() {
        let driver = std::io::Error::other("Duplicate entry '123456'");
        let error = KeyError::unreadable("user", "16 bytes", Box::new(driver));
        assert!(!error.to_string().contains("123456"));
        let source = error.source().expect("the driver's error");
        assert!(source.to_string().contains("123456"));
    }
}
