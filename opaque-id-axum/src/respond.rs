//! An application's own answer to refusals.

use std::future::{Ready, ready};

use axum::middleware::{MapResponseLayer, map_response};
use axum::response::{IntoResponse, Response};
use opaque_id_web::Refusal;

/// Returns a layer that answers each refusal, and each [`NotFound`](crate::NotFound), in an envelope of your own.
///
/// It replaces the whole response, and so the headers that a layer between it and the handler has added: add it before
/// those, such as CORS.
///
/// ```
/// use axum::{Json, Router};
/// use opaque_id_axum::map_refusal;
///
/// let app: Router = Router::new().layer(map_refusal(|refusal| {
///     let error = refusal.pointer().unwrap_or("nothing there"); // refusal.reason() is for the log
///     (refusal.status(), Json([("error", error.to_owned())]))
/// }));
/// ```
pub fn map_refusal<R, B>(
    answer: impl Fn(&Refusal) -> R + Clone,
) -> MapResponseLayer<impl Fn(Response<B>) -> Ready<Response> + Clone, (), ()>
where
    R: IntoResponse,
    Response<B>: IntoResponse,
{
    map_response(move |response: Response<B>| {
        ready(match response.extensions().get() {
            Some(refusal) => answer(refusal).into_response(),
            None => response.into_response(),
        })
    })
}
