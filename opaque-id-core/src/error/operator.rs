//! Errors for the operator.

use core::error::Error as StdError;
use core::fmt;

use thiserror::Error;

use super::invalid::Invalid;
use crate::key_id::KeyId;

/// An error for the operator at start: the secrets do not form a keyring, or the keyring cannot serve these
/// resources and old ids. It never contains any part of a secret. `Debug` shows the message and its causes,
/// because `main` prints a returned error by `Debug`.
#[derive(Error)]
#[non_exhaustive]
pub enum KeyringError {
    /// The environment variable is not set.
    #[error(
        "{variable} is not set; expected comma-separated `key_id:64 hex digits` entries, the first of \
         which seals (`opaque-id keygen` generates one)"
    )]
    #[non_exhaustive]
    NotSet {
        /// The variable's name.
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
        /// The messages of the [`UnwrapSecrets`](crate::keyring::UnwrapSecrets)'s error and of its causes,
        /// without texts that look like a secret.
        problem: String,
    },
    /// Other users than the owner and its group have access to the file, or the group can write it. Run
    /// `chmod 600` on it. If a container platform sets this mode, use
    /// [`Keyring::from_shared_file`](crate::Keyring::from_shared_file) or
    /// `--shared-keys-file`.
    #[error(
        "others have access to {source_name}, whose mode is {mode:03o}: run `chmod 600` on it, or use `Keyring::from_shared_file` (`--shared-keys-file`)"
    )]
    #[non_exhaustive]
    Shared {
        /// The file's path.
        source_name: String,
        /// The nine bits of its permissions.
        mode: u32,
    },
    /// Two resources have the same domain and different kinds of keys. Their ids must not share subkeys.
    #[error(
        "the domain `{domain}` belongs to {expected} keys, but `{resource}` uses it for {found} keys: set `domain = \"…\"` to another name in its `#[opaque_id(…)]`"
    )]
    #[non_exhaustive]
    Domain {
        /// The domain.
        domain: &'static str,
        /// The second resource's prefix.
        resource: &'static str,
        /// The first resource's kind of keys.
        expected: &'static str,
        /// The second resource's kind of keys.
        found: &'static str,
    },
    /// Two resources have the same prefix. Give one another `prefix = "…"` in its `#[opaque_id(…)]`. If
    /// clients have its ids, set its present prefix as its `domain`. If both are one resource, derive
    /// `OpaqueId` once.
    #[error(
        "two resources have the prefix `{prefix}`: give one of them another `prefix = \"…\"`, or derive `OpaqueId` once"
    )]
    #[non_exhaustive]
    Prefix {
        /// The prefix.
        prefix: &'static str,
    },
    /// The tagged ids of a resource look like the cursors of another one. Give that resource another prefix
    /// or form.
    #[error(
        "tagged ids of `{resource}_cursor` look like cursors of `{resource}`: give it another `prefix = \"…\"` or form"
    )]
    #[non_exhaustive]
    CursorPrefix {
        /// The prefix of the resource with these cursors.
        resource: &'static str,
    },
    /// An entry is invalid.
    #[error("invalid entry {entry} of {source_name}: {problem}")]
    #[non_exhaustive]
    Entry {
        /// The variable's name or the file's path.
        source_name: String,
        /// The entry's number, from 1.
        entry: usize,
        /// The fault of the entry.
        problem: Invalid,
    },
    /// There is no entry.
    #[error("{source_name} has no entry (`opaque-id keygen` generates one)")]
    #[non_exhaustive]
    NoEntry {
        /// The variable's name or the file's path.
        source_name: String,
    },
    /// The builder has no sealing secret.
    #[error("no sealing secret: call `sealing(key_id, secret)` once")]
    NoSealingSecret,
    /// A builder has two sealing secrets.
    #[error("two sealing secrets: keep one `sealing` and pass the other to `opening`")]
    TwoSealingSecrets,
    /// A builder's secret is invalid.
    #[error("invalid secret with key id {key_id}: {problem}")]
    #[non_exhaustive]
    Secret {
        /// The key id as the caller gave it.
        key_id: u8,
        /// The fault of the secret.
        problem: Invalid,
    },
    /// The secret that has sealed until now is missing. Keep it behind the new one until its ids are no
    /// longer used, or restart to retire it at once. `opaque-id keys --plan-rotation` prints the steps.
    #[error(
        "the secret with key id {key_id} has sealed until now, but is missing: keep it behind the new one (see `opaque-id keys --plan-rotation`)"
    )]
    #[non_exhaustive]
    SealingSecretMissing {
        /// The secret's key id.
        key_id: KeyId,
    },
    /// A key id has another secret than before, so ids with this key id would no longer open. Give a new
    /// secret another key id (`opaque-id keygen --key-id …`).
    #[error(
        "key id {key_id} has another secret than before: give a new secret another key id (`opaque-id keygen --key-id …`)"
    )]
    #[non_exhaustive]
    OtherSecret {
        /// The key id.
        key_id: KeyId,
    },
    /// None of the secrets has been used with the application's rows before. Restore the former secrets. If
    /// the rows are new, forget the check values.
    #[error(
        "expected a secret with check value {expected}, found {found}: restore the secrets that were used with these rows"
    )]
    #[non_exhaustive]
    NotRecognized {
        /// The remembered check values.
        expected: String,
        /// The check values of the secrets.
        found: String,
    },
    /// These old ids can never be accepted.
    #[error("old ids of `{resource}` cannot be accepted: {problem}")]
    #[non_exhaustive]
    OldIds {
        /// The resource's prefix.
        resource: &'static str,
        /// The fault of the old ids.
        problem: Invalid,
    },
    /// Old ids look like new ids of a secret. Until old ids have ended, use secrets with other key ids
    /// (`opaque-id keygen --key-id …`), or set `form = "tagged"`.
    #[error(
        "old ids of `{resource}` ({old_form}) look like new ids with key id {key_id}: use secrets with other key ids, or `form = \"tagged\"`"
    )]
    #[non_exhaustive]
    AmbiguousOldIds {
        /// The resource's prefix.
        resource: &'static str,
        /// The name of the old ids' form.
        old_form: &'static str,
        /// The key id that no secret may have.
        key_id: KeyId,
    },
    /// Reading the secrets panicked in the thread of a [`Watch`](crate::keyring::Watch).
    #[error("reading the secrets panicked; see the message of the panic")]
    Panicked,
}

impl fmt::Debug for KeyringError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)?;
        let mut causes = core::iter::successors(self.source(), |cause| StdError::source(*cause));
        causes.try_for_each(|cause| write!(f, ": {cause}"))
    }
}

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

pub(crate) fn redacted_with_causes(error: &dyn StdError) -> String {
    let causes = core::iter::successors(Some(error), |&error| error.source());
    let messages: Vec<_> = causes.map(ToString::to_string).collect();
    redact(&messages.join(": "))
}

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
