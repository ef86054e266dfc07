//! axum's own extractors with a keyring for the ids in them.

use axum::RequestExt;
use axum::body::{Body, Bytes};
use axum::extract::path::ErrorKind;
use axum::extract::rejection::{FormRejection, JsonRejection, PathRejection, QueryRejection};
use axum::extract::{
    DefaultBodyLimit, FromRef, FromRequest, FromRequestParts, OptionalFromRequest,
    OptionalFromRequestParts, Request,
};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Extensions, Method};
use axum::response::{IntoResponse, Response};
use opaque_id_core::Keyring;
use opaque_id_web::axum::keyring;
use opaque_id_web::{FormContent, JsonContent, Place, Refusal, Rejection, RequestOldIds, extract};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

/// axum's [`Path`](axum::extract::Path) with ids as [`Opened`](crate::Opened) or `External`, next to plain
/// parameters.
///
/// The keyring comes from the router's state, `Keyring: FromRef<S>`, unless the layer
/// [`lend_keyring`](crate::lend_keyring) lends another one.
///
/// # Rejections
/// 404 for a refused id, and for a path that is not UTF-8. Other rejections are axum's own: 400 for a plain
/// parameter, 500 if the type does not fit the route.
///
/// ```
/// use axum::{Router, routing::get};
/// use opaque_id_axum::{Opened, Path};
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "team", key = i64)]
/// struct Team;
///
/// #[derive(serde::Deserialize)]
/// struct Member {
///     team: Opened<Team>,
///     user: Opened<User>,
///     year: u16,
/// }
///
/// async fn show(Path(member): Path<Member>) {
///     let (team, user): (Internal<Team>, Internal<User>) = (member.team.0, member.user.0);
/// }
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let app: Router = Router::new()
///     .route("/teams/{team}/members/{user}/{year}", get(show))
///     .with_state(keyring);
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
///
/// Without a keyring in the state, a handler does not compile:
///
/// ```compile_fail,E0277
/// # use axum::{Router, routing::get};
/// # use opaque_id_axum::{Opened, Path};
/// # use opaque_id_core::OpaqueId;
/// # #[derive(OpaqueId)]
/// # #[opaque_id(prefix = "user")]
/// # struct User;
/// async fn show(Path(id): Path<Opened<User>>) {}
///
/// let app: Router = Router::new().route("/users/{id}", get(show));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Path<T>(
    /// The path's content.
    pub T,
);

/// axum's [`Query`](axum::extract::Query) with ids as [`Opened`](crate::Opened) or `External`. A repeated
/// name is a list, `?id=a&id=b`. An empty value of an `Option` of an `Opened`, a number or a `bool` is `None`.
/// Neither applies inside of `#[serde(flatten)]`.
///
/// # Rejections
/// 404 for a refused id. Other rejections are axum's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Query<T>(
    /// The query's content.
    pub T,
);

/// axum's [`Form`](axum::extract::Form) with ids as in [`Json`], and lists and empty values as in [`Query`].
///
/// # Rejections
/// 422 for a refused id in a body, with a JSON pointer to its field, and 404 in the query of a GET request.
/// Other rejections are axum's own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Form<T>(
    /// The form's content.
    pub T,
);

/// axum's [`Json`](axum::Json) with ids as [`Opened`](crate::Opened) or `External`, also as a response.
///
/// # Rejections
/// 422 for a refused id, with a JSON pointer to it. Other rejections are axum's own. serde reports no places
/// inside of `#[serde(flatten)]` and of enums that are untagged or tagged internally. There the pointer is
/// that of the value around the id.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json<T>(
    /// The body's content.
    pub T,
);

opaque_id_web::__deref! { Path Query Form Json }

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

macro_rules! parts_extractors {
    ($($trait:ident for $name:ident, $output:ty, $rejection:ident, $theirs:ty, $into:expr, $refused:expr;)*) => {$(
        impl<T, S> $trait<S> for $name<T>
        where
            T: DeserializeOwned + Send + 'static,
            S: Send + Sync,
            Keyring: FromRef<S>,
        {
            type Rejection = Rejection<$rejection>;

            async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<$output, Self::Rejection> {
                let (keyring, old_ids) = request_context(&parts.extensions, state);
                let theirs = <$theirs as $trait<S>>::from_request_parts;
                let failed = match extract(keyring, old_ids, Place::Url, theirs(parts, state)).await {
                    Ok(theirs) => return Ok($into(theirs)),
                    Err(failed) => failed,
                };
                let (rejection, refused) = failed.again(theirs(parts, state)).await;
                let refused = refused.or_else(|| $refused(&rejection));
                Err(refused.map_or(Rejection::Other(rejection), Rejection::Refused))
            }
        }
    )*};
}

macro_rules! body_extractors {
    ($($name:ident, $rejection:ident, $content:ident, $place:expr;)*) => {$(
        impl<T, S> FromRequest<S> for $name<T>
        where
            T: DeserializeOwned,
            S: Send + Sync,
            Keyring: FromRef<S>,
        {
            type Rejection = Rejection<$rejection>;

            async fn from_request(request: Request, state: &S) -> Result<Self, Self::Rejection> {
                let (keyring, old_ids) = request_context(request.extensions(), state);
                let (parts, body) = request.with_limited_body().into_parts();
                let body = match Bytes::from_request(with_body(&parts, body), state).await {
                    Ok(body) => body,
                    Err(rejection) => return Err(Rejection::Other(rejection.into())),
                };
                let place = $place(&parts.method);
                let theirs = <axum::extract::$name<$content<T>> as FromRequest<S>>::from_request;
                let theirs = |body: Body| theirs(with_body(&parts, body), state);
                let failed = match extract(keyring, old_ids, place, theirs(body.clone().into())).await {
                    Ok(theirs) => return Ok(Self(theirs.0.0)),
                    Err(failed) => failed,
                };
                let (rejection, refused) = failed.again(theirs(body.into())).await;
                Err(refused.map_or(Rejection::Other(rejection), Rejection::Refused))
            }
        }
    )*};
}

fn request_context<S>(extensions: &Extensions, state: &S) -> (Keyring, Option<RequestOldIds>)
where
    Keyring: FromRef<S>,
{
    (keyring(extensions, state), extensions.get().cloned())
}

parts_extractors! {
    FromRequestParts for Path, Self, PathRejection, axum::extract::Path<T>,
        |theirs: axum::extract::Path<T>| Self(theirs.0), not_utf8;
    FromRequestParts for Query, Self, QueryRejection, axum::extract::Query<FormContent<T>>,
        |theirs: axum::extract::Query<FormContent<T>>| Self(theirs.0.0), |_| None;
    OptionalFromRequestParts for Path, Option<Self>, PathRejection, axum::extract::Path<T>,
        |theirs: Option<axum::extract::Path<T>>| theirs.map(|theirs| Self(theirs.0)), not_utf8;
}

body_extractors! {
    Form, FormRejection, FormContent, |method| match method {
        &Method::GET | &Method::HEAD => Place::Url,
        _ => Place::Body,
    };
    Json, JsonRejection, JsonContent, |_| Place::Body;
}

impl<T, S> OptionalFromRequest<S> for Json<T>
where
    T: DeserializeOwned,
    S: Send + Sync,
    Keyring: FromRef<S>,
{
    type Rejection = Rejection<JsonRejection>;

    async fn from_request(request: Request, state: &S) -> Result<Option<Self>, Self::Rejection> {
        match request.headers().contains_key(CONTENT_TYPE) {
            true => <Self as FromRequest<S>>::from_request(request, state).await.map(Some),
            false => Ok(None),
        }
    }
}

/// `Opened` ids do not work in axum-extra's typed path because the path prints its ids.
#[cfg(feature = "axum-extra012")]
impl<T: axum_extra012::routing::TypedPath> axum_extra012::routing::TypedPath for Path<T> {
    const PATH: &'static str = T::PATH;
}

#[cfg(feature = "axum-extra012")]
impl<T: core::fmt::Display> core::fmt::Display for Path<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

/// Axum need not parse a path that cannot have a genuine id.
fn not_utf8(rejection: &PathRejection) -> Option<Refusal> {
    match rejection {
        PathRejection::FailedToDeserializePathParams(failed)
            if matches!(failed.kind(), ErrorKind::InvalidUtf8InPathParam { .. }) =>
        {
            Some(Refusal::not_utf8())
        }
        _ => None,
    }
}

/// The body is already limited.
fn with_body(parts: &Parts, body: Body) -> Request {
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = parts.uri.clone();
    if let Some(content_type) = parts.headers.get(CONTENT_TYPE) {
        let headers = request.headers_mut();
        headers.insert(CONTENT_TYPE, content_type.clone());
    }
    DefaultBodyLimit::disable().apply(&mut request);
    request
}
