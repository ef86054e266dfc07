//! Middlewares around an application's handlers.

use std::error::Error as StdError;
use std::rc::Rc;

use actix_web::body::{BoxBody, EitherBody, MessageBody, to_bytes};
use actix_web::dev::{Service, ServiceRequest, ServiceResponse, Transform};
use actix_web::error::InternalError;
use actix_web::middleware::{Next, from_fn};
use actix_web::{Error, HttpResponse};
use opaque_id_web::actix::answer;
use opaque_id_web::{Refusal, assert_no_raw_id};

/// Returns a middleware that answers each refusal and each [`NotFound`](crate::NotFound) in an envelope of
/// your own.
///
/// It replaces the whole response. Add it before middlewares that add headers, for instance CORS.
pub fn map_refusal<S, B>(
    respond: impl Fn(&Refusal) -> HttpResponse + 'static,
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
    let respond = Rc::new(respond);
    from_fn(move |request: ServiceRequest, next: Next<B>| {
        let respond = respond.clone();
        async move {
            let response = match answer(next.call(request)).await {
                Ok(response) => response,
                // The error comes from another middleware. actix-web converts it into a response further out.
                Err(error) => {
                    let theirs = error.error_response();
                    let answered = theirs.extensions().get().map(|refusal| respond(refusal));
                    let response = answered.unwrap_or(theirs);
                    return Err(InternalError::from_response(error, response).into());
                }
            };
            let answered = response.response().extensions().get().map(|refusal| respond(refusal));
            Ok(match answered {
                Some(answered) => response.into_response(answered).map_into_right_body(),
                None => response.map_into_left_body(),
            })
        }
    })
}

/// Returns a middleware for tests. It panics if the body or a header of a response has a raw UUIDv7 or ULID,
/// or one of these values as a whole word, such as the integer key of a row.
///
/// `actix_web::test::call_service` panics. A server closes the connection, and its standard error has the
/// message. UUIDs of other versions are not found. It reads whole bodies: add it before one that compresses,
/// and not around a route that streams without end.
pub fn panic_on_raw_ids<S, B, V: ToString>(
    values: impl IntoIterator<Item = V>,
) -> impl Transform<S, ServiceRequest, Response = ServiceResponse<BoxBody>, Error = Error, InitError = ()>
where
    S: Service<ServiceRequest, Response = ServiceResponse<B>, Error = Error> + 'static,
    B: MessageBody + 'static,
{
    let values: Rc<[String]> = values.into_iter().map(|value| value.to_string()).collect();
    from_fn(move |request: ServiceRequest, next: Next<B>| {
        let values = values.clone();
        async move {
            let (request, response) = next.call(request).await?.into_parts();
            let (head, body) = response.into_parts();
            let body = to_bytes(body).await.map_err(Into::<Box<dyn StdError>>::into)?;
            let headers = head.headers().iter().map(|(_, value)| value.as_bytes());
            headers.chain([&*body]).for_each(|text| assert_no_raw_id(text, &values));
            Ok(ServiceResponse::new(request, head.set_body(BoxBody::new(body))))
        }
    })
}
