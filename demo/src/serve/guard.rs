//! Protection against other sites.
//!
//! The app shows raw keys and has buttons for its secrets. So it listens on loopback, checks `Host` against
//! DNS rebinding, and checks `Origin`, because every browser sends it across sites.

use axum::extract::Request;
use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::problem::Problem;

const HEADERS: [(HeaderName, &str); 5] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
];

/// Refuses requests that another site causes a browser to send.
pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let mut response = if is_own(request.headers()) {
        next.run(request).await
    } else {
        let detail =
            "expected a request to this machine, from this page or from no page".to_owned();
        Problem::new(StatusCode::FORBIDDEN, detail).into_response()
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_own(headers: &HeaderMap) -> bool {
    let host = headers.get(header::HOST);
    let Some(host) = host.and_then(|host| host.to_str().ok()) else {
        return false;
    };
    // Any port is allowed because the server may be behind a tunnel.
    let is_loopback = host
        .parse()
        .is_ok_and(|host: Authority| matches!(host.host(), "localhost" | "127.0.0.1" | "[::1]"));
    let own = format!("http://{host}");
    let origin = headers.get(header::ORIGIN);
    is_loopback && origin.is_none_or(|origin| *origin == own)
}
