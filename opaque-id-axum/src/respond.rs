//! Layers around an application's handlers.

use std::convert::Infallible;
use std::pin::Pin;

use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{FromFnLayer, Next, from_fn};
use axum::response::{IntoResponse, Response};
use opaque_id_core::Keyring;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_web::axum::answer;
use opaque_id_web::{Lent, Refusal, assert_no_raw_id};

type Layer<F> = FromFnLayer<F, (), (Request,)>;
type Responding = Pin<Box<dyn Future<Output = Response> + Send>>;

/// Returns a layer that answers each refusal and each [`NotFound`](crate::NotFound) in an envelope of your
/// own.
///
/// It replaces the whole response. Add it before layers that add headers, for instance CORS.
pub fn map_refusal<R: IntoResponse>(
    respond: impl Fn(&Refusal) -> R + Clone + Send + Sync + 'static,
) -> Layer<impl Fn(Request, Next) -> Responding + Clone> {
    from_fn(move |request, next| -> Responding {
        let respond = respond.clone();
        Box::pin(async move {
            let response = run(None, next, request).await;
            match response.extensions().get() {
                Some(refusal) => respond(refusal).into_response(),
                None => response,
            }
        })
    })
}

/// Returns a layer that lends a keyring, or a [`SharedKeyring`]'s current keyring, to the requests of its
/// routes. [`Viewed`](crate::Viewed), [`RequestKeyring`](crate::RequestKeyring) and the extractors of
/// [`lent`](crate::lent) need it, and the other extractors prefer it to the state's.
///
/// Of two layers around a route, the inner one counts: the one with the first `.layer(…)`.
pub fn lend_keyring(
    keyring: impl Into<SharedKeyring>,
) -> Layer<impl Fn(Request, Next) -> Responding + Clone> {
    let keyring = keyring.into();
    lend_keyring_by(move |_| Some(keyring.current()))
}

/// Returns a layer that lends a keyring per request, such as that of an audience. The function reads the
/// values that a middleware around this layer has put into the request. With `None` the request has no lent
/// keyring, not even that of a layer around this one.
pub fn lend_keyring_by(
    keyring: impl Fn(&Request) -> Option<Keyring> + Clone + Send + Sync + 'static,
) -> Layer<impl Fn(Request, Next) -> Responding + Clone> {
    from_fn(move |mut request: Request, next| -> Responding {
        let lent = Lent(keyring(&request));
        request.extensions_mut().insert(lent.clone());
        Box::pin(run(Some(lent), next, request))
    })
}

/// Returns a layer for tests. It panics if the body or a header of a response has a raw UUIDv7 or ULID, or
/// one of these values as a whole word, such as the integer key of a row.
///
/// It does not find UUIDs of other versions. It reads whole bodies: write its `.layer(…)` before one that
/// compresses, and not around a route that streams without end.
///
/// # Panics
/// In a test that calls the router itself. A server closes the connection, and its standard error has the
/// message.
pub fn panic_on_raw_ids<V: ToString>(
    values: impl IntoIterator<Item = V>,
) -> Layer<impl Fn(Request, Next) -> Responding + Clone> {
    let values: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    from_fn(move |request, next: Next| -> Responding {
        let values = values.clone();
        Box::pin(async move {
            let (head, body) = next.run(request).await.into_parts();
            let body = to_bytes(body, usize::MAX).await.expect("a test's body has no errors");
            let headers = head.headers.values().map(|value| value.as_bytes());
            headers.chain([&*body]).for_each(|text| assert_no_raw_id(text, &values));
            Response::from_parts(head, Body::from(body))
        })
    })
}

async fn run(lent: Option<Lent>, next: Next, request: Request) -> Response {
    let Ok(response) = answer(lent, async { Ok::<_, Infallible>(next.run(request).await) }).await;
    response
}
