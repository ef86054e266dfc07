//! Problem responses (RFC 9457).

use http::StatusCode;

use crate::page::InvalidPage;
use crate::refusal::{NoKeyring, NotFound, Refusal};

/// The content type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A response to a client with the content type [`PROBLEM_JSON`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The status, also in the body.
    pub status: StatusCode,
    /// The JSON body.
    pub body: String,
}

impl Problem {
    /// `more` is JSON with further members and starts with a comma.
    fn new(status: StatusCode, title: &str, more: &str) -> Self {
        let code = status.as_u16();
        let body = format!(r#"{{"type":"about:blank","title":"{title}","status":{code}{more}}}"#);
        Self { status, body }
    }
}

impl NotFound {
    /// Returns the response, the same for each refused id in a URL.
    #[must_use]
    pub fn problem(self) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "Not Found", "")
    }
}

impl Refusal {
    /// Returns the response.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let Some(pointer) = self.pointer() else {
            return NotFound.problem();
        };
        let detail = format!("no such `{}`", self.resource().unwrap_or("id"));
        let errors =
            format!(r#","errors":[{{"pointer":{},"detail":{}}}]"#, json(pointer), json(&detail));
        Problem::new(self.status(), "Unprocessable Content", &errors)
    }
}

impl NoKeyring {
    /// Returns the response.
    #[must_use]
    pub fn problem(self) -> Problem {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error", "")
    }
}

impl InvalidPage {
    /// Returns the response.
    #[must_use]
    pub fn problem(&self) -> Problem {
        let detail = format!(r#","detail":{}"#, json(&self.to_string()));
        Problem::new(StatusCode::BAD_REQUEST, "Bad Request", &detail)
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
