//! axum's traits on these types.

use core::convert::Infallible;
use core::task::{Context, Poll};
use std::pin::Pin;

use axum_core05::extract::{FromRef, FromRequestParts, Request};
use axum_core05::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{Extensions, HeaderName, HeaderValue, StatusCode, header};
use opaque_id_core::{Keyring, OpaqueId};
use serde_core::Serialize;
use tower_layer::Layer;
use tower_service::Service;

use crate::old_ids::{OldIdsLayer, RequestOldIds};
use crate::page::{InvalidPage, Links, ListingQuery, PageQuery};
use crate::problem::{PROBLEM_JSON, Problem};
use crate::refusal::{NoKeyring, NotFound, Refusal, Rejection};
use crate::scope::{self, Lent};
use crate::viewed::{RequestKeyring, Viewed};

/// Returns the keyring that a layer lends, such as an audience's, or else the application's.
pub fn keyring<S>(extensions: &Extensions, state: &S) -> Keyring
where
    Keyring: FromRef<S>,
{
    of_layer(extensions).unwrap_or_else(|| Keyring::from_ref(state))
}

/// Returns the keyring that a layer lends.
///
/// # Errors
/// [`NoKeyring`] if there is no layer, or if it lends none.
pub fn lent(extensions: &Extensions) -> Result<Keyring, NoKeyring> {
    of_layer(extensions).ok_or_else(|| NoKeyring::new(NOT_LENT))
}

fn of_layer(extensions: &Extensions) -> Option<Keyring> {
    extensions.get().and_then(|Lent(keyring)| keyring.clone())
}

const NOT_LENT: &str = "no keyring for this request: add the layer `lend_keyring` around its route, by `.layer(…)` after `.route(…)`, or let `lend_keyring_by` return one";

impl<S: Send + Sync> FromRequestParts<S> for RequestKeyring {
    type Rejection = NoKeyring;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, NoKeyring> {
        lent(&parts.extensions).map(Self)
    }
}

impl IntoResponse for NoKeyring {
    fn into_response(self) -> Response {
        self.problem().into_response()
    }
}

impl<V: Serialize> IntoResponse for Viewed<V> {
    fn into_response(self) -> Response {
        let Some(keyring) = scope::lent() else {
            return NoKeyring::new(NOT_LENT).into_response();
        };
        match serde_json::to_vec(&self.view(&keyring)) {
            Ok(json) => ([(CONTENT_TYPE, "application/json")], json).into_response(),
            Err(error) => {
                tracing::error!(target: "opaque_id", %error, "a view does not become JSON");
                StatusCode::INTERNAL_SERVER_ERROR.into_response()
            }
        }
    }
}

/// Runs the rest of a request. An id that another crate's extractor has deserialized is an error of the
/// server.
///
/// # Errors
/// The errors of `answer`.
pub async fn answer<E>(
    lent: Option<Lent>,
    answer: impl Future<Output = Result<Response, E>>,
) -> Result<Response, E> {
    let (answered, has_no_keyring) = scope::watch(lent, answer).await;
    answered.map(|response| match has_no_keyring && response.status().is_client_error() {
        true => NoKeyring(()).into_response(),
        false => response,
    })
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, [(CONTENT_TYPE, PROBLEM_JSON)], self.body).into_response()
    }
}

impl IntoResponse for NotFound {
    fn into_response(self) -> Response {
        Refusal::from(self).into_response()
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = self.problem().into_response();
        response.extensions_mut().insert(self);
        response
    }
}

impl IntoResponse for InvalidPage {
    fn into_response(self) -> Response {
        self.problem().into_response()
    }
}

impl<R: IntoResponse> IntoResponse for Rejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refusal) => refusal.into_response(),
            Self::Other(other) => other.into_response(),
        }
    }
}

/// Adds the header. Write it before the body of a response.
impl IntoResponseParts for Links {
    type Error = Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Infallible> {
        if let Some(links) = self.header() {
            let links = HeaderValue::try_from(links).expect("a query is percent-encoded");
            parts.headers_mut().append(header::LINK, links);
        }
        Ok(parts)
    }
}

impl IntoResponse for Links {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}

impl<T, S, const DEFAULT: u16, const MAX: u16> FromRequestParts<S> for PageQuery<T, DEFAULT, MAX>
where
    T: OpaqueId,
    S: Send + Sync,
    Keyring: FromRef<S>,
{
    type Rejection = Rejection<InvalidPage>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        Self::read(parts.uri.query().unwrap_or_default(), &keyring(&parts.extensions, state))
    }
}

impl<S: Send + Sync, const DEFAULT: u16, const MAX: u16> FromRequestParts<S>
    for ListingQuery<DEFAULT, MAX>
{
    type Rejection = InvalidPage;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, InvalidPage> {
        Self::read(parts.uri.query().unwrap_or_default())
    }
}

impl<S> Layer<S> for OldIdsLayer {
    type Service = OldIdsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OldIdsService { layer: self.clone(), inner }
    }
}

/// The service of [`OldIdsLayer`].
#[derive(Clone, Debug)]
pub struct OldIdsService<S> {
    layer: OldIdsLayer,
    inner: S,
}

impl<S> Service<Request> for OldIdsService<S>
where
    S: Service<Request, Response = Response, Future: Send + 'static, Error: 'static>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let extensions = request.extensions_mut();
        let old_ids = RequestOldIds::new(&self.layer, extensions.remove());
        extensions.insert(old_ids.clone());
        let response = answer(None, self.inner.call(request));
        Box::pin(async move {
            let mut response = response.await?;
            for (name, value) in old_ids.headers(response.status().as_u16()) {
                let name = HeaderName::from_static(name);
                let value =
                    HeaderValue::try_from(value).expect("checked by `OldIdsBuilder::build`");
                let headers = response.headers_mut();
                // A response can have several links.
                if name == header::LINK || !headers.contains_key(&name) {
                    headers.append(name, value);
                }
            }
            Ok(response)
        })
    }
}
