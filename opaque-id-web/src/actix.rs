//! actix-web's traits on these types.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use actix_web::body::BoxBody;
use actix_web::dev::{Payload, Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::error::Error;
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderName, HeaderValue};
use actix_web::web::{Data, Json};
use actix_web::{CustomizeResponder, FromRequest, HttpMessage, HttpRequest, HttpResponse};
use actix_web::{Responder, ResponseError};
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::{Keyring, OpaqueId};
use serde_core::Serialize;

use crate::old_ids::{OldIdsLayer, RequestOldIds};
use crate::page::{InvalidPage, Links, ListingQuery, PageQuery};
use crate::problem::{PROBLEM_JSON, Problem};
use crate::refusal::{NoKeyring, NotFound, Refusal, Rejection};
use crate::scope;
use crate::viewed::{RequestKeyring, Viewed};

/// Returns the keyring in the request's extensions, such as an audience's, or else the application's: a
/// [`Keyring`] or a [`SharedKeyring`], by itself or in a [`Data`].
///
/// # Errors
/// 500 if there is none, or if the application has one of each type, because the first would not follow the
/// other's secrets.
pub fn keyring(request: &HttpRequest) -> Result<Keyring, Error> {
    fn app_data<T: 'static>(request: &HttpRequest) -> Option<&T> {
        let data = || request.app_data::<Data<T>>().map(|data| &***data);
        request.app_data::<T>().or_else(data)
    }
    if let Some(keyring) = request.extensions().get::<Keyring>() {
        return Ok(keyring.clone());
    }
    let remedy = match (app_data(request), app_data::<SharedKeyring>(request)) {
        (Some(keyring), None) => return Ok(Keyring::clone(keyring)),
        (None, Some(shared)) => return Ok(shared.current()),
        (None, None) => "no keyring: call `App::app_data` with one",
        (Some(_), Some(_)) => {
            "expected one keyring of `App::app_data`, found a `Keyring` and a `SharedKeyring`: remove the `Keyring`"
        }
    };
    Err(NoKeyring::new(remedy).into())
}

impl FromRequest for RequestKeyring {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(keyring(request).map(Self))
    }
}

impl ResponseError for NoKeyring {
    fn error_response(&self) -> HttpResponse {
        self.problem().response()
    }
}

impl<V: Serialize> Responder for Viewed<V> {
    type Body = BoxBody;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse {
        match keyring(request) {
            Ok(keyring) => Json(self.view(&keyring)).respond_to(request).map_into_boxed_body(),
            Err(error) => error.error_response(),
        }
    }
}

/// Runs the rest of a request. An id that another crate's extractor has deserialized is an error of the
/// server.
///
/// # Errors
/// The errors of a middleware, and 500 for such an id.
pub async fn answer<B>(
    answer: impl Future<Output = Result<ServiceResponse<B>, Error>>,
) -> Result<ServiceResponse<B>, Error> {
    let (answered, has_no_keyring) = scope::watch(None, answer).await;
    let status = match &answered {
        Ok(response) => response.status(),
        Err(error) => error.as_response_error().status_code(),
    };
    match has_no_keyring && status.is_client_error() {
        true => Err(NoKeyring(()).into()),
        false => answered,
    }
}

impl Problem {
    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.status.as_u16()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    fn response(self) -> HttpResponse {
        HttpResponse::build(self.status()).content_type(PROBLEM_JSON).body(self.body)
    }
}

impl ResponseError for NotFound {
    fn status_code(&self) -> StatusCode {
        StatusCode::NOT_FOUND
    }

    fn error_response(&self) -> HttpResponse {
        Refusal::from(*self).error_response()
    }
}

impl ResponseError for Refusal {
    fn status_code(&self) -> StatusCode {
        self.problem().status()
    }

    fn error_response(&self) -> HttpResponse {
        let mut response = self.problem().response();
        response.extensions_mut().insert(self.clone());
        response
    }
}

impl ResponseError for InvalidPage {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }

    fn error_response(&self) -> HttpResponse {
        self.problem().response()
    }
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> FromRequest for PageQuery<T, DEFAULT, MAX> {
    type Error = Error;
    type Future = Ready<Result<Self, Error>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let query = |keyring: Keyring| {
            Self::read(request.query_string(), &keyring).map_err(|rejection| match rejection {
                Rejection::Refused(refusal) => refusal.into(),
                Rejection::Other(invalid) => invalid.into(),
            })
        };
        ready(keyring(request).and_then(query))
    }
}

impl<const DEFAULT: u16, const MAX: u16> FromRequest for ListingQuery<DEFAULT, MAX> {
    type Error = InvalidPage;
    type Future = Ready<Result<Self, InvalidPage>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Self::read(request.query_string()))
    }
}

impl Links {
    /// Adds the header to a response.
    pub fn to<R: Responder>(&self, responder: R) -> CustomizeResponder<R> {
        let responder = responder.customize();
        match self.header() {
            Some(links) => responder.append_header((header::LINK, links)),
            None => responder,
        }
    }
}

impl<S, B: 'static> Transform<S, ServiceRequest> for OldIdsLayer
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error, Future: 'static>,
{
    type Response = S::Response;
    type Error = Error;
    type Transform = OldIdsService<S>;
    type InitError = ();
    type Future = Ready<Result<Self::Transform, ()>>;

    fn new_transform(&self, inner: S) -> Self::Future {
        ready(Ok(OldIdsService { layer: self.clone(), inner }))
    }
}

/// The service of [`OldIdsLayer`].
#[derive(Debug)]
pub struct OldIdsService<S> {
    layer: OldIdsLayer,
    inner: S,
}

impl<S, B: 'static> Service<ServiceRequest> for OldIdsService<S>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error, Future: 'static>,
{
    type Response = S::Response;
    type Error = Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Error>>>>;

    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&self, request: ServiceRequest) -> Self::Future {
        let outer = request.extensions_mut().remove();
        let old_ids = RequestOldIds::new(&self.layer, outer);
        request.extensions_mut().insert(old_ids.clone());
        let response = answer(self.inner.call(request));
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
