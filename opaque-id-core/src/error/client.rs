//! Errors for clients: a text that is not an id, an id that does not open, an old id that is not accepted.

use thiserror::Error;

use super::invalid::{IdProblem, Invalid, Problem};
use crate::key_id::KeyId;
use crate::metrics;

/// An error for a text that a client sent as an id, a cursor, a token or an old id. The message is for the log: an application
/// answers "not found", whatever the reason, and [`http_status`](Self::http_status) returns that status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IdError {
    /// Not an id at all.
    #[error("not a `{resource}` id: {problem}")]
    #[non_exhaustive]
    Malformed {
        /// The prefix of the expected resource.
        resource: &'static str,
        /// What is wrong.
        problem: Invalid,
    },
    /// Not a cursor, a position or a grant of the resource.
    #[error("not a `{resource}` {kind}: {}", token_problem(resource, kind, *problem))]
    #[non_exhaustive]
    MalformedToken {
        /// The prefix of the expected resource.
        resource: &'static str,
        /// What is expected: `cursor`, `position` or `grant`, as in its text.
        kind: &'static str,
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
    /// It has the prefix of none of several resources, or no prefix.
    #[error("expected an id that starts with {}", listed(prefixes))]
    #[non_exhaustive]
    OtherPrefix {
        /// The prefixes of the resources.
        prefixes: &'static [&'static str],
    },
    /// It is a number, say, or percent-encoded bytes that are not UTF-8.
    #[error("not a string of UTF-8")]
    NotText,
    /// Not an id of a resource that is [known at run time](crate::keyring::RuntimeResource).
    #[error("invalid id: {0}")]
    InvalidId(Invalid),
    /// The key has no id in a resource that is [known at run time](crate::keyring::RuntimeResource).
    #[error("invalid key: {0}")]
    InvalidKey(Invalid),
    /// It is well formed, and does not open.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is a genuine grant whose time is over.
    #[error("the grant has expired")]
    Expired,
    /// It is an old id, and these have ended.
    #[error("old ids of `{resource}` ({old_form}) are no longer accepted")]
    #[non_exhaustive]
    OldIdsEnded {
        /// The prefix of the resource.
        resource: &'static str,
        /// The name of the old id's form.
        old_form: &'static str,
    },
    /// It is an old id of a key that the API has never shown.
    #[error("an old id of a `{resource}` ({old_form}) that was never shown")]
    #[non_exhaustive]
    NeverShown {
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
    /// It opens, and no row has it. Crates of frameworks return it.
    #[error("no such row")]
    NoRow,
}

/// The status of the answer to a refused id: the same as for a row that does not exist.
const NOT_FOUND: u16 = 404;

impl IdError {
    #[cold]
    pub(crate) fn new(resource: &'static str, problem: Invalid) -> Self {
        match problem.0 {
            Problem::Id(IdProblem::OtherPrefix) => Self::OtherResource { resource },
            _ => Self::Malformed { resource, problem },
        }
    }

    #[cold]
    pub(crate) fn token(resource: &'static str, kind: &'static str, problem: Invalid) -> Self {
        Self::MalformedToken { resource, kind, problem }.counted(resource)
    }

    /// Counts what was refused, for metrics.
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

    /// Returns the HTTP status of the answer: always 404, as for an id whose row does not exist. So a client learns nothing
    /// from the status of a refusal. An application may tell a client that a grant has [expired](Self::Expired).
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }

    /// Returns the HTTP status of the answer for APIs that report malformed ids: 400 for a malformed id or token,
    /// and 404 for all others.
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
        Problem::Id(IdProblem::OtherPrefix | IdProblem::NoPrefix) => {
            format!("it does not start with `{resource}_{kind}_`")
        }
        problem => problem.to_string(),
    }
}

/// Writes `user_`, `team_` or `order_`.
fn listed(prefixes: &[&str]) -> String {
    let names: Vec<_> = prefixes.iter().map(|prefix| format!("`{prefix}_`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// An error for a well-formed id that no row can have. It is also a part of [`IdError`]; the message is for the log likewise.
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

    /// Returns the HTTP status of the answer: always 404, as for an id whose row does not exist.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }
}
