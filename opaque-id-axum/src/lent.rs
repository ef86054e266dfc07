//! Extractors for routers of any state. The layer [`lend_keyring`](crate::lend_keyring) lends the keyring.
//!
//! Without the layer around a route, each request is 500, and an event in the log, at the level ERROR with
//! the target `opaque_id`, names the layer. The compiler does not notice a missing layer, so use the
//! extractors of the crate's root if the state is yours.

use axum::extract::{
    FromRequest, FromRequestParts, OptionalFromRequest, OptionalFromRequestParts, Request,
};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use opaque_id_core::{Keyring, OpaqueId};
use opaque_id_web::axum::lent;
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;

use crate::extract;

macro_rules! structs {
    ($($name:ident)*) => {$(
        #[doc = concat!("[`", stringify!($name), "`](crate::", stringify!($name), "), with the keyring of the layer.")]
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $name<T>(
            /// The content.
            pub T,
        );
    )*};
}

macro_rules! extractors {
    ($($trait:ident for $name:ident: $method:ident($request:ident: $type:ty), $extensions:expr, $output:ty, $into:expr;)*) => {$(
        impl<T: DeserializeOwned + Send + 'static, S: Send + Sync> $trait<S> for $name<T> {
            type Rejection = Response;

            async fn $method($request: $type, _: &S) -> Result<$output, Response> {
                let keyring = lent($extensions).map_err(IntoResponse::into_response)?;
                let theirs = <extract::$name<T> as $trait<Keyring>>::$method($request, &keyring);
                theirs.await.map($into).map_err(IntoResponse::into_response)
            }
        }
    )*};
}

structs! { Path Query Form Json }

opaque_id_web::__deref! { Path Query Form Json }

extractors! {
    FromRequestParts for Path: from_request_parts(parts: &mut Parts), &parts.extensions, Self, |it| Self(it.0);
    FromRequestParts for Query: from_request_parts(parts: &mut Parts), &parts.extensions, Self, |it| Self(it.0);
    FromRequest for Form: from_request(request: Request), request.extensions(), Self, |it| Self(it.0);
    FromRequest for Json: from_request(request: Request), request.extensions(), Self, |it| Self(it.0);
    OptionalFromRequestParts for Path: from_request_parts(parts: &mut Parts), &parts.extensions, Option<Self>,
        |it| it.map(|it| Self(it.0));
    OptionalFromRequest for Json: from_request(request: Request), request.extensions(), Option<Self>,
        |it| it.map(|it| Self(it.0));
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

/// [`PageQuery`](crate::PageQuery) with the keyring of the layer.
#[derive(Debug)]
pub struct PageQuery<T: OpaqueId, const DEFAULT: u16 = 20, const MAX: u16 = 100>(
    /// The query.
    pub crate::PageQuery<T, DEFAULT, MAX>,
);

impl<T: OpaqueId, S: Send + Sync, const DEFAULT: u16, const MAX: u16> FromRequestParts<S>
    for PageQuery<T, DEFAULT, MAX>
{
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Response> {
        let keyring = lent(&parts.extensions).map_err(IntoResponse::into_response)?;
        let query = crate::PageQuery::from_request_parts(parts, &keyring).await;
        query.map(Self).map_err(IntoResponse::into_response)
    }
}
