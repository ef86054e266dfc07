//! An application's own answer to refusals.

use std::rc::Rc;

use actix_web::body::{BoxBody, EitherBody, MessageBody};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::error::InternalError;
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpResponse};
use opaque_id_web::Refusal;

/// Returns a middleware that answers each refusal, and each [`NotFound`](crate::NotFound), in an envelope of your own.
///
/// It replaces the whole response, and so the headers that a middleware between it and the handler has added: add it before
/// those, such as CORS.
///
/// ```
/// use actix_web::{App, HttpResponse, ResponseError};
/// use opaque_id_actix::map_refusal;
///
/// let app = App::new().wrap(map_refusal(|refusal| {
///     let error = refusal.pointer().unwrap_or("nothing there"); // refusal.reason() is for the log
///     HttpResponse::build(refusal.status_code()).json([("error", error)])
/// }));
/// ```
pub fn map_refusal<S, B>(
    answer: impl Fn(&Refusal) -> HttpResponse + 'static,
) -> impl Transform<
    S,
    ServiceRequest,
    Response = ServiceResponse<EitherBody<B, BoxBody>>,
    Error = Error,
    InitError = (),
>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    let answer = Rc::new(answer);
    from_fn(move |request: ServiceRequest, next: Next<B>| {
        let answer = answer.clone();
        async move {
            let response = match next.call(request).await {
                Ok(response) => response,
                // Of another middleware: actix-web makes a response of it further out.
                Err(error) => {
                    let answered =
                        error.error_response().extensions().get().map(|refusal| answer(refusal));
                    return Err(match answered {
                        Some(answered) => InternalError::from_response(error, answered).into(),
                        None => error,
                    });
                }
            };
            let answered = response.response().extensions().get().map(|refusal| answer(refusal));
            Ok(match answered {
                Some(answered) => response.into_response(answered).map_into_right_body(),
                None => response.map_into_left_body(),
            })
        }
    })
}
