//! The layer that lets `Opened` accept old ids, and marks responses to them as deprecated.

use core::any::{Any, TypeId};
use core::fmt;
use core::task::{Context, Poll};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::Response;
use opaque_id_core::Keyring;
use opaque_id_core::old_ids::{OldIdError, OldIds};
use opaque_id_core::resource::SealedResource;
use tower_layer::Layer;
use tower_service::Service;

/// A layer below which [`Opened`](crate::Opened) accepts old ids as well: what an API showed before it showed external ids.
///
/// Handlers do not change. A response to an accepted old id has the headers `Deprecation` (RFC 9745), `Sunset` (RFC 8594)
/// and, if the acceptor names a page, `Link` with `rel="deprecation"`, unless its status is 4xx: a refusal is the same for
/// all ids. In a body, an old id may be a JSON number.
///
/// `docs/MOVING.md` has all steps of moving an API, of which this is one.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use axum::{Router, routing::get};
/// use opaque_id_axum::{OldIdsLayer, Opened, Path};
/// use opaque_id_core::old_ids::OldIds;
/// use opaque_id_core::{IdRange, Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64)]
/// struct Order;
///
/// /// `GET /orders/order_…`, and until half a year from now `GET /orders/42`
/// async fn show(Path(Opened(id)): Path<Opened<Order>>) {}
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let now = SystemTime::now();
/// let last = Internal::<Order>::from_key(5_012)?; // SELECT max(id) FROM orders, when new ids went live
/// let orders = OldIds::<Order>::builder(
///     IdRange::all().up_to(last),
///     now..now + Duration::from_secs(183 * 86_400),
/// )
/// .integers()
/// .documentation("https://shop.example/docs/ids")
/// .build(&keyring)?;
///
/// let app: Router = Router::new()
///     .route("/orders/{id}", get(show))
///     .layer(OldIdsLayer::new().of(orders))
///     .with_state(keyring);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct OldIdsLayer(Arc<HashMap<TypeId, OfResource>>);

#[derive(Clone)]
struct OfResource {
    acceptor: Arc<dyn Any + Send + Sync>,
    headers: HeaderMap,
}

impl OldIdsLayer {
    /// Creates a layer that accepts no old ids.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the acceptor of a resource. Keep an [`Arc`] of it for its [`counts`](OldIds::counts).
    #[must_use]
    pub fn of<T: SealedResource>(mut self, acceptor: impl Into<Arc<OldIds<T>>>) -> Self {
        let acceptor = acceptor.into();
        let of_resource = OfResource { headers: headers(&acceptor), acceptor };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), of_resource);
        self
    }
}

fn headers<T: SealedResource>(acceptor: &OldIds<T>) -> HeaderMap {
    let period = acceptor.period();
    let since = period.start.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let link = acceptor
        .documentation()
        .map(|address| format!(r#"<{address}>; rel="deprecation"; type="text/html""#));
    let headers = [
        (HeaderName::from_static("deprecation"), Some(format!("@{}", since.as_secs()))),
        (HeaderName::from_static("sunset"), Some(httpdate::fmt_http_date(period.end))),
        (header::LINK, link),
    ];
    let headers = headers.into_iter().filter_map(|(name, value)| {
        let value = HeaderValue::try_from(value?).expect("checked by the acceptor's `build`");
        Some((name, value))
    });
    headers.collect()
}

impl fmt::Debug for OldIdsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldIdsLayer").finish_non_exhaustive()
    }
}

/// The acceptors of a request, in its extensions.
#[derive(Clone)]
pub(crate) struct OfScope(Arc<OfRequest>);

struct OfRequest {
    layer: OldIdsLayer,
    /// Those of a layer around this one.
    outer: Option<OfScope>,
    /// The headers of the first old id that was accepted.
    headers: OnceLock<HeaderMap>,
}

impl OfScope {
    /// Accepts a new or an old id, if the resource has an acceptor.
    pub(crate) fn accept<T: SealedResource>(
        &self,
        text: &str,
        keyring: &Keyring,
    ) -> Option<Result<T::Internal, OldIdError>> {
        let Self(request) = self;
        let Some(of_resource) = request.layer.0.get(&TypeId::of::<T>()) else {
            return request.outer.as_ref()?.accept::<T>(text, keyring);
        };
        let acceptor: &OldIds<T> = (*of_resource.acceptor).downcast_ref()?;
        let accepted = acceptor.open(text, keyring).map(|accepted| {
            if accepted.old_form.is_some() {
                request.headers.get_or_init(|| of_resource.headers.clone());
            }
            accepted.id
        });
        Some(accepted)
    }
}

impl<S> Layer<S> for OldIdsLayer {
    type Service = OldIdsService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        OldIdsService { layer: self.clone(), inner }
    }
}

/// The service of the layer [`OldIdsLayer`].
#[derive(Clone, Debug)]
pub struct OldIdsService<S> {
    layer: OldIdsLayer,
    inner: S,
}

impl<S> Service<Request> for OldIdsService<S>
where
    S: Service<Request, Response = Response, Future: Send + 'static>,
{
    type Response = Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request) -> Self::Future {
        let extensions = request.extensions_mut();
        let of_request = Arc::new(OfRequest {
            layer: self.layer.clone(),
            outer: extensions.remove(),
            headers: OnceLock::new(),
        });
        extensions.insert(OfScope(of_request.clone()));
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = response.await?;
            // A refusal, 404 or 422, must not show whether an id was an old one that was ever shown.
            if !response.status().is_client_error()
                && let Some(headers) = of_request.headers.get()
            {
                for (name, value) in headers {
                    let name = name.clone();
                    // A response can have several links.
                    match name {
                        header::LINK => drop(response.headers_mut().append(name, value.clone())),
                        name => drop(response.headers_mut().entry(name).or_insert(value.clone())),
                    }
                }
            }
            Ok(response)
        })
    }
}
