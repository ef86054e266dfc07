//! Errors for clients: a text that is not an id, an id that does not open.

use thiserror::Error;

use super::invalid::{IdProblem, Invalid, Problem};
use crate::key_id::KeyId;
use crate::metrics;

/// An error for a text or byte string that is not an id, a cursor or a token of the resource. The message is for the
/// client that sent it; [`http_status`](Self::http_status) returns the status of the answer.
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
}

/// The status of the answer to a refused id: the same as for a row that does not exist.
pub(super) const NOT_FOUND: u16 = 404;

impl ParseError {
    #[cold]
    pub(crate) fn new(resource: &'static str, problem: Invalid) -> Self {
        match problem.0 {
            Problem::Id(IdProblem::OtherPrefix) => Self::OtherResource { resource },
            _ => Self::Malformed { resource, problem },
        }
    }

    #[cold]
    pub(crate) fn counted(self) -> Self {
        match self {
            Self::Malformed { resource, .. } | Self::MalformedToken { resource, .. } => {
                metrics::refused(resource, "malformed");
            }
            Self::OtherResource { resource } => metrics::refused(resource, "other_resource"),
        }
        self
    }

    #[cold]
    pub(crate) fn token(resource: &'static str, kind: &'static str, problem: Invalid) -> Self {
        Self::MalformedToken { resource, kind, problem }.counted()
    }

    /// Returns the HTTP status of the answer: always 404, as [`OpenError::http_status`] does, and as for an id
    /// whose row does not exist. So a client learns nothing from the status of a refusal.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }

    /// Returns the HTTP status of the answer for APIs that report malformed ids: 400 for a malformed id or token,
    /// and 404 for an id of another resource.
    #[must_use]
    pub const fn http_status_by_shape(&self) -> u16 {
        match self {
            Self::Malformed { .. } | Self::MalformedToken { .. } => 400,
            Self::OtherResource { .. } => NOT_FOUND,
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

/// An error for a well-formed id that no row can have. The message is for the log: the answer to the client is "not
/// found", whatever the reason.
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

/// An error for a [position](crate::page::Listing) or a [grant](crate::Keyring::grant).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TokenError {
    /// It is not such a token at all.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It was tampered with, it is for another purpose or list, or its secret is retired.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is a genuine grant whose time is over.
    #[error("the grant has expired")]
    Expired,
}

impl TokenError {
    /// Returns the HTTP status of the answer: always 404, as for a row that does not exist. An application may tell the client that
    /// a grant has [expired](Self::Expired).
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
    }
}

/// An error for a text that is an id of none of several resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AnyIdError {
    /// It has the prefix of no variant, or none.
    #[error("expected an id that starts with {}", listed(prefixes))]
    #[non_exhaustive]
    Prefix {
        /// The prefixes of the variants.
        prefixes: &'static [&'static str],
    },
    /// It is malformed.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// It was tampered with, or its secret is retired.
    #[error(transparent)]
    Open(#[from] OpenError),
}

impl AnyIdError {
    /// Returns the HTTP status of the answer: always 404, as for a row that does not exist.
    #[must_use]
    pub const fn http_status(&self) -> u16 {
        NOT_FOUND
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
