//! Errors of old ids: for clients, and for the developer at start.

use thiserror::Error;

use super::client::{NOT_FOUND, OpenError, ParseError};
use crate::key_id::KeyId;
use crate::metrics;

/// An error for a text that is neither a new nor an accepted old id of a resource. The message is for the log: the answer
/// to the client is "not found", whatever the reason.
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
