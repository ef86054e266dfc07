//! Errors for clients.

use thiserror::Error;

use super::invalid::{IdProblem, Invalid, InvalidReason};
use crate::key_id::KeyId;
use crate::metrics;

/// An error for a text that a client sent as an id, a cursor, a token or an old id. The message is for the
/// log. Answer a client "not found" ([`http_status`](Self::http_status)) for every reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// The text is not an id.
    #[error("not a `{resource}` id: {problem}")]
    #[non_exhaustive]
    Malformed {
        /// The resource's prefix.
        resource: &'static str,
        /// The fault of the text.
        problem: Invalid,
    },
    /// The text is not a cursor, a position or a grant of the resource.
    #[error("not a `{resource}` {kind}: {}", token_problem(resource, kind, *problem))]
    #[non_exhaustive]
    MalformedToken {
        /// The resource's prefix.
        resource: &'static str,
        /// `cursor`, `position` or `grant`.
        kind: &'static str,
        /// The fault of the text.
        problem: Invalid,
    },
    /// The id is well formed and has the prefix of another resource.
    #[error("not a `{resource}` id: it is an id of another resource")]
    #[non_exhaustive]
    OtherResource {
        /// The expected resource's prefix.
        resource: &'static str,
    },
    /// The text has none of several resources' prefixes.
    #[error("expected an id that starts with {}", listed(prefixes))]
    #[non_exhaustive]
    OtherPrefix {
        /// The resources' prefixes.
        prefixes: &'static [&'static str],
    },
    /// The value is not a text, such as a number or percent-encoded bytes that are not UTF-8.
    #[error("expected a string of UTF-8")]
    NotText,
    /// The text is not an id of a [`RuntimeResource`](crate::keyring::RuntimeResource).
    #[error("invalid id: {0}")]
    InvalidId(Invalid),
    /// The key has no id in a [`RuntimeResource`](crate::keyring::RuntimeResource).
    #[error("invalid key: {0}")]
    InvalidKey(Invalid),
    /// The id is well formed but does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The grant is genuine but has expired.
    #[error("the grant has expired")]
    Expired,
    /// Old ids are no longer accepted.
    #[error("old ids of `{resource}` ({old_form}) are no longer accepted")]
    #[non_exhaustive]
    OldIdsEnded {
        /// The resource's prefix.
        resource: &'static str,
        /// The name of the old id's form.
        old_form: &'static str,
    },
    /// The API has never shown the old id's key.
    #[error("an old id of a `{resource}` ({old_form}) that was never shown")]
    #[non_exhaustive]
    NeverShown {
        /// The resource's prefix.
        resource: &'static str,
        /// The name of the old id's form.
        old_form: &'static str,
    },
    /// Two old forms read the text as different keys, or it is also a new id. No secret may have its key id
    /// until old ids have ended.
    #[error(
        "a `{resource}` id that two old forms read differently, or that is also a new id: a secret must not have its key id yet"
    )]
    #[non_exhaustive]
    Ambiguous {
        /// The resource's prefix.
        resource: &'static str,
    },
    /// The id opens, and no row has it.
    #[error("no such row")]
    NoRow,
}

const NOT_FOUND: u16 = 404;

impl IdError {
    #[cold]
    pub(crate) fn new(resource: &'static str, problem: Invalid) -> Self {
        match problem.0 {
            InvalidReason::Id(IdProblem::OtherPrefix) => Self::OtherResource { resource },
            _ => Self::Malformed { resource, problem },
        }
    }

    #[cold]
    pub(crate) fn token(resource: &'static str, kind: &'static str, problem: Invalid) -> Self {
        Self::MalformedToken { resource, kind, problem }.counted(resource)
    }

    #[cold]
    pub(crate) fn counted(self, resource: &'static str) -> Self {
        let reason = match self {
            Self::Open(error) => return error.counted(resource).into(),
            Self::OtherResource { .. } | Self::OtherPrefix { .. } => "other_resource",
            Self::OldIdsEnded { .. } => "old_id_ended",
            Self::NeverShown { .. } => "old_id_never_shown",
            Self::Ambiguous { .. } => "old_id_ambiguous",
            _ => "malformed",
        };
        metrics::refused(resource, reason);
        self
    }

    /// Returns the HTTP status of the answer: always 404, as for a missing row, so it reveals nothing. An
    /// application may tell a client that a grant has [expired](Self::Expired).
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }

    /// Returns the HTTP status for APIs that report malformed ids: 400 for a malformed id or token, and 404
    /// for all others.
    #[must_use]
    pub const fn http_status_by_shape(&self) -> u16 {
        match self {
            Self::Malformed { .. } | Self::MalformedToken { .. } => 400,
            _ => NOT_FOUND,
        }
    }
}

fn token_problem(resource: &str, kind: &str, problem: Invalid) -> String {
    match problem.0 {
        InvalidReason::Id(IdProblem::OtherPrefix | IdProblem::NoPrefix) => {
            format!("it does not start with `{resource}_{kind}_`")
        }
        problem => problem.to_string(),
    }
}

fn listed(prefixes: &[&str]) -> String {
    let names: Vec<_> = prefixes.iter().map(|prefix| format!("`{prefix}_`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// An error for a well-formed id that no row can have. The message is for the log.
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
    /// The tag is wrong, or the plaintext is not a key of the resource. The id was altered, guessed, or
    /// sealed with another secret or for another domain or audience.
    #[error(
        "not genuine: altered, guessed, or sealed with another secret or for another domain or audience"
    )]
    NotGenuine,
}

impl OpenError {
    #[cold]
    pub(crate) fn counted(self, resource: &'static str) -> Self {
        let reason = match self {
            Self::UnknownKeyId { .. } => "unknown_key_id",
            Self::NotGenuine => "not_genuine",
        };
        metrics::refused(resource, reason);
        self
    }

    /// Returns the HTTP status of the answer: always 404, as for a missing row.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }
}
