//! Answers as RFC 9457 has them.

use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};

pub(crate) const PROBLEM_JSON: &str = "application/problem+json";

/// Answers with the members that every problem has, and with `more` members, which are JSON and start with a comma.
pub(crate) fn problem(status: StatusCode, title: &str, more: &str) -> Response {
    let status_code = status.as_u16();
    let body =
        format!(r#"{{"type":"about:blank","title":"{title}","status":{status_code}{more}}}"#);
    (status, [(CONTENT_TYPE, PROBLEM_JSON)], body).into_response()
}

pub(crate) fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
