//! Problem responses (RFC 9457).

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{ErrorResponse, IntoResponse, Response};
use opaque_id_axum::Rejection;
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

/// Names a fault of a body.
pub(crate) fn in_body(pointer: &'static str, detail: &'static str) -> Problem {
    let mut problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, None);
    problem.errors.push(InBody { pointer, detail });
    problem
}

/// A refusal has its own answer.
pub(crate) fn rejected(rejection: Rejection<JsonRejection>) -> ErrorResponse {
    match rejection {
        Rejection::Refused(refusal) => refusal.into(),
        Rejection::Other(other) => Problem::new(other.status(), other.body_text()).into(),
    }
}

/// A database's error may contain keys, so it is logged and not sent.
pub(crate) fn internal(error: DbErr) -> Problem {
    eprintln!("{error:?}");
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, None)
}

impl IntoResponse for RotationError {
    fn into_response(self) -> Response {
        let status = match self {
            Self::Full | Self::Last => StatusCode::CONFLICT,
            Self::Keyring(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        Problem::new(status, self.to_string()).into_response()
    }
}
