//! Problem responses (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use opaque_id_axum::{NotFound, Refusal, Rejection};
use sea_orm::DbErr;
use serde::Serialize;
use utoipa::ToSchema;

use super::secrets::RotationError;

/// A problem (RFC 9457).
#[derive(Serialize, ToSchema)]
pub(crate) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<String>,
    /// The faults of a body.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(required = false)]
    errors: Vec<InBody>,
}

#[derive(Serialize, ToSchema)]
struct InBody {
    /// A JSON pointer (RFC 6901).
    pointer: &'static str,
    detail: &'static str,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<Option<String>>) -> Self {
        Self {
            kind: "about:blank",
            title: match status {
                // The name comes from RFC 9110, as in opaque-id-axum.
                StatusCode::UNPROCESSABLE_ENTITY => "Unprocessable Content",
                _ => status.canonical_reason().unwrap_or_default(),
            },
            status: status.as_u16(),
            detail: detail.into(),
            errors: Vec::new(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        (status, [(CONTENT_TYPE, "application/problem+json")], Json(self)).into_response()
    }
}

pub(crate) enum Error {
    NotFound(NotFound),
    Refused(Refusal),
    Other(Problem),
}

impl Error {
    pub(crate) fn in_body(pointer: &'static str, detail: &'static str) -> Self {
        let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, None);
        problem.errors.push(InBody { pointer, detail });
        Self::Other(problem)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        match self {
            Self::NotFound(not_found) => not_found.into_response(),
            Self::Refused(refusal) => refusal.into_response(),
            Self::Other(problem) => problem.into_response(),
        }
    }
}

impl From<NotFound> for Error {
    fn from(not_found: NotFound) -> Self {
        Self::NotFound(not_found)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Rejection<JsonRejection>> for Error {
    fn from(rejection: Rejection<JsonRejection>) -> Self {
        match rejection {
            Rejection::Refused(refusal) => Self::Refused(refusal),
            Rejection::Other(other) => Self::Other(Problem::new(other.status(), other.body_text())),
        }
    }
}

/// A database's error may contain keys, so it is logged and not sent.
impl From<DbErr> for Error {
    fn from(error: DbErr) -> Self {
        eprintln!("{error:?}");
        Self::Other(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, None))
    }
}

impl From<RotationError> for Error {
    fn from(error: RotationError) -> Self {
        let status = match error {
            RotationError::Full | RotationError::Last => StatusCode::CONFLICT,
            RotationError::Keyring(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Self::Other(Problem::new(status, error.to_string()))
    }
}
