//! actix-web's own extractors with a keyring for the ids in them.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use actix_web::dev::Payload;
use actix_web::web::{self, Bytes};
use actix_web::{Error, FromRequest, HttpMessage, HttpRequest, HttpResponse, Responder};
use futures_util::StreamExt;
use opaque_id_core::Keyring;
use opaque_id_web::actix::keyring;
use opaque_id_web::{FormContent, JsonContent, Place, RequestOldIds, extract};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

/// actix-web's [`Path`](web::Path) with ids as [`Opened`](crate::Opened) or `External`, next to plain
/// parameters. `Option<Path<_>>` is `None` for every error, including a refused id.
///
/// # Errors
/// 404 for a refused id. Other errors are actix-web's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path<T>(
    /// The path's content.
    pub T,
);

/// actix-web's [`Query`](web::Query) with ids as [`Opened`](crate::Opened) or `External`. A repeated name is
/// a list, `?id=a&id=b`. An empty value of an `Option` of an `Opened`, a number or a `bool` is `None`. Neither
/// applies inside of `#[serde(flatten)]`.
///
/// # Errors
/// 404 for a refused id. Other errors are actix-web's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<T>(
    /// The query's content.
    pub T,
);

/// actix-web's [`Form`](web::Form) with ids as in [`Json`], and lists and empty values as in [`Query`].
///
/// # Errors
/// 422 for a refused id, with a JSON pointer to its field. Other errors are actix-web's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form<T>(
    /// The form's content.
    pub T,
);

/// actix-web's [`Json`](web::Json) with ids as [`Opened`](crate::Opened) or `External`, also as a response.
///
/// # Errors
/// 422 for a refused id, with a JSON pointer to it. Other errors are actix-web's own. serde reports no places
/// inside of `#[serde(flatten)]` and of enums that are untagged or tagged internally. There the pointer is
/// that of the value around the id.
///
/// ```
/// use actix_web::post;
/// use opaque_id_actix::{Json, Opened};
/// use opaque_id_core::OpaqueId;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// #[derive(serde::Deserialize)]
/// struct NewTeam {
///     name: String,
///     members: Vec<Opened<User>>, // refused: {"pointer":"/members/1", …}
/// }
///
/// #[post("/teams")]
/// async fn create(Json(team): Json<NewTeam>) -> String {
///     format!("{} has {} members", team.name, team.members.len())
/// }
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<T>(
    /// The body's content.
    pub T,
);

opaque_id_web::__deref! { Path Query Form Json }

macro_rules! into_inner {
    ($($name:ident)*) => {$(
        impl<T> $name<T> {
            /// Returns the content.
            #[must_use]
            pub fn into_inner(self) -> T {
                self.0
            }
        }
    )*};
}

into_inner! { Path Query Form Json }

impl<T: Serialize> Responder for Json<T> {
    type Body = <web::Json<T> as Responder>::Body;

    fn respond_to(self, request: &HttpRequest) -> HttpResponse<Self::Body> {
        web::Json(self.0).respond_to(request)
    }
}

type Extracting<T> = Pin<Box<dyn Future<Output = Result<T, Error>>>>;

macro_rules! url_extractors {
    ($($name:ident, $content:ident, |$theirs:ident| $value:expr;)*) => {$(
        impl<T: DeserializeOwned + 'static> FromRequest for $name<T> {
            type Error = Error;
            type Future = Extracting<Self>;

            fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
                let request = request.clone();
                Box::pin(async move {
                    // actix-web's extractor opens the ids when its future is made, so this must happen in the
                    // scope.
                    let theirs = async || web::$name::<$content<T>>::extract(&request).await;
                    let (keyring, old_ids) = request_context(&request)?;
                    let failed = match extract(keyring, old_ids, Place::Url, theirs()).await {
                        Ok(theirs) => {
                            let $theirs = theirs.into_inner();
                            return Ok(Self($value));
                        }
                        Err(failed) => failed,
                    };
                    let (error, refused) = failed.again(theirs()).await;
                    Err(refused.map_or(error, Error::from))
                })
            }
        }
    )*};
}

macro_rules! body_extractors {
    ($($name:ident, $content:ident;)*) => {$(
        impl<T: DeserializeOwned + 'static> FromRequest for $name<T> {
            type Error = Error;
            type Future = Extracting<Self>;

            fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
                let (request, payload) = (request.clone(), payload.take());
                Box::pin(async move {
                    let (mut payload, read) = recorded(payload);
                    let theirs = |payload: &mut Payload| {
                        web::$name::<$content<T>>::from_request(&request, payload)
                    };
                    let (keyring, old_ids) = request_context(&request)?;
                    let failed = match extract(keyring, old_ids, Place::Body, theirs(&mut payload)).await {
                        Ok(theirs) => return Ok(Self(theirs.into_inner().0)),
                        Err(failed) => failed,
                    };
                    let mut payload = Payload::from(read.take().concat());
                    let (error, refused) = failed.again(theirs(&mut payload)).await;
                    Err(refused.map_or(error, Error::from))
                })
            }
        }
    )*};
}

type Plain<T> = T;

url_extractors! {
    Path, Plain, |theirs| theirs;
    Query, FormContent, |theirs| theirs.0;
}

body_extractors! {
    Form, FormContent;
    Json, JsonContent;
}

fn request_context(request: &HttpRequest) -> Result<(Keyring, Option<RequestOldIds>), Error> {
    Ok((keyring(request)?, request.extensions().get().cloned()))
}

fn recorded(payload: Payload) -> (Payload, Rc<RefCell<Vec<Bytes>>>) {
    let read = Rc::<RefCell<Vec<Bytes>>>::default();
    let record = read.clone();
    let stream = payload.inspect(move |chunk| {
        record.borrow_mut().extend(chunk.as_ref().ok().cloned());
    });
    (Payload::Stream { payload: Box::pin(stream) }, read)
}
