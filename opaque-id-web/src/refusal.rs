//! The answer to a refused id or a missing row, and the event in the log.

use http::StatusCode;
use opaque_id_core::{IdError, OpaqueId, RequestError};
use thiserror::Error;

/// The answer for a row that does not exist: 404 with the same bytes as for a refused id in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not found")]
pub struct NotFound;

impl From<NotFound> for Refusal {
    fn from(_: NotFound) -> Self {
        Self { resource: None, reason: IdError::NoRow, pointer: None }
    }
}

/// A refused id or cursor. Its response is a problem (RFC 9457) that does not depend on the reason: in a URL
/// 404, like [`NotFound`]; in a body 422 with a JSON pointer to the id.
///
/// Creating it logs resource and reason as an event of `tracing` with the target `opaque_id`.
///
/// ```
/// use opaque_id_web::Refusal;
/// use opaque_id_core::OpaqueId;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "team")]
/// struct Team;
///
/// // The body's team could be opened, but it has no row:
/// let refusal = Refusal::no_row_in_body::<Team>("/team");
/// assert_eq!(refusal.pointer(), Some("/team"));
/// assert_eq!(refusal.status(), 422);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("refused: {reason}")]
pub struct Refusal {
    resource: Option<&'static str>,
    reason: IdError,
    pointer: Option<String>,
}

impl Refusal {
    /// Refuses an id in a URL or a header, or without a place in a request.
    #[must_use]
    pub fn in_url<T: OpaqueId>(reason: impl Into<IdError>) -> Self {
        Self::new(Some(T::PREFIX), reason.into(), None)
    }

    /// Refuses an id in a body, at an RFC 6901 pointer such as `/team` or `/tags/0`.
    #[must_use]
    pub fn in_body<T: OpaqueId>(reason: impl Into<IdError>, pointer: impl Into<String>) -> Self {
        Self::new(Some(T::PREFIX), reason.into(), Some(pointer.into()))
    }

    /// Refuses an id in a body that opened but has no row, with the same response.
    #[must_use]
    pub fn no_row_in_body<T: OpaqueId>(pointer: impl Into<String>) -> Self {
        Self::in_body::<T>(IdError::NoRow, pointer)
    }

    /// Refuses an id of any resource in a URL that is not UTF-8.
    #[must_use]
    pub fn not_utf8() -> Self {
        Self::new(None, IdError::NotText, None)
    }

    pub(crate) fn new(
        resource: Option<&'static str>,
        reason: IdError,
        pointer: Option<String>,
    ) -> Self {
        tracing::info!(target: "opaque_id", resource, reason = %reason, "refused");
        Self { resource, reason, pointer }
    }

    /// Returns the status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self.pointer {
            None => StatusCode::NOT_FOUND,
            Some(_) => StatusCode::UNPROCESSABLE_ENTITY,
        }
    }

    /// Returns the prefix of the expected resource, or `None` if it is unknown.
    #[must_use]
    pub fn resource(&self) -> Option<&'static str> {
        self.resource
    }

    /// Returns the reason. Keep it out of the response.
    #[must_use]
    pub fn reason(&self) -> IdError {
        self.reason
    }

    /// Returns the place of the id in a body as a JSON pointer (RFC 6901).
    #[must_use]
    pub fn pointer(&self) -> Option<&str> {
        self.pointer.as_deref()
    }
}

impl From<RequestError> for Refusal {
    fn from(error: RequestError) -> Self {
        Self::new(Some(error.resource()), error.problem().into(), Some(error.pointer()))
    }
}

/// An error of the server: there is no keyring.
///
/// The response is 500 without details. Creating it logs the remedy at the level ERROR with the target
/// `opaque_id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("internal error of the server, whose log says more")]
pub struct NoKeyring(pub(crate) ());

impl NoKeyring {
    pub(crate) fn new(remedy: &'static str) -> Self {
        tracing::error!(target: "opaque_id", "{remedy}");
        Self(())
    }
}

/// The rejection of an extractor. It is a response itself.
#[derive(Debug, Error)]
pub enum Rejection<R> {
    /// An id or a cursor was refused.
    #[error(transparent)]
    Refused(Refusal),
    /// The framework's extractor failed, such as on a plain parameter or the content type.
    #[error(transparent)]
    Other(R),
}
