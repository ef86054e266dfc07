use core::any::{Any, TypeId};
use core::fmt;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, UNIX_EPOCH};

use opaque_id_core::__private::OldIdResult;
use opaque_id_core::old_ids::{OldIds, OpenedId};
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{External, IdError, Keyring};

/// A layer below which [`Opened`](crate::Opened), `External` and [`Accepted`](crate::Accepted) also accept
/// the old ids that the API showed before.
///
/// A response to an accepted old id has the headers `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and, if its
/// `OldIds` name a page, `Link` with `rel="deprecation"`. A 4xx response does not have them, because a
/// refusal is the same for all ids. In a body, an old id may be a JSON number.
///
/// `docs/MOVING.md` lists all steps of moving an API to external ids.
#[derive(Clone, Default)]
pub struct OldIdsLayer(Arc<HashMap<TypeId, ResourceOldIds>>);

#[derive(Clone)]
struct ResourceOldIds {
    old_ids: Arc<dyn Any + Send + Sync>,
    /// The core does not know the type of the `External`.
    external: fn(&ResourceOldIds, &RequestOldIds, &str, &Keyring) -> OldIdResult,
    headers: Arc<[Header]>,
}

/// A response header: its lower-case name and its value.
pub type Header = (&'static str, String);

impl OldIdsLayer {
    /// Creates a layer that accepts no old ids.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the old ids of a resource. Keep an [`Arc`] of it to read its [`counts`](OldIds::counts).
    #[must_use]
    pub fn of<T: SealedResource>(mut self, old_ids: impl Into<Arc<OldIds<T>>>) -> Self {
        let old_ids = old_ids.into();
        let of_resource = ResourceOldIds {
            headers: headers(&old_ids),
            old_ids,
            external: ResourceOldIds::external::<T>,
        };
        Arc::make_mut(&mut self.0).insert(TypeId::of::<T>(), of_resource);
        self
    }
}

impl ResourceOldIds {
    fn open<T: SealedResource>(
        &self,
        request: &RequestOldIds,
        text: &str,
        keyring: &Keyring,
    ) -> Option<Result<OpenedId<T::Internal>, IdError>> {
        let old_ids: &OldIds<T> = (*self.old_ids).downcast_ref()?;
        let opened = old_ids.open(text, keyring);
        if opened.as_ref().is_ok_and(|opened| opened.old_form.is_some()) {
            request.0.headers.get_or_init(|| self.headers.clone());
        }
        Some(opened)
    }

    fn external<T: SealedResource>(
        &self,
        request: &RequestOldIds,
        text: &str,
        keyring: &Keyring,
    ) -> OldIdResult {
        let id = match self.open::<T>(request, text, keyring)? {
            Ok(OpenedId { old_form: None, .. }) => return None,
            Ok(opened) => Ok(keyring.seal(opened.id)),
            // An external id is opened later, if at all.
            Err(reason) => text.parse::<External<T>>().map_err(|_| reason),
        };
        Some(id.map(|id| Box::new(id) as Box<dyn Any>))
    }
}

fn headers<T: SealedResource>(old_ids: &OldIds<T>) -> Arc<[Header]> {
    let period = old_ids.period();
    let since = period.start.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let link = old_ids
        .documentation()
        .map(|address| ("link", format!(r#"<{address}>; rel="deprecation"; type="text/html""#)));
    let headers = [
        ("deprecation", format!("@{}", since.as_secs())),
        ("sunset", httpdate::fmt_http_date(period.end)),
    ];
    headers.into_iter().chain(link).collect()
}

impl fmt::Debug for OldIdsLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldIdsLayer").finish_non_exhaustive()
    }
}

/// The accepted old ids of a request.
#[derive(Clone)]
pub struct RequestOldIds(Arc<Inner>);

struct Inner {
    layer: OldIdsLayer,
    outer: Option<RequestOldIds>,
    /// The headers of the first accepted old id.
    headers: OnceLock<Arc<[Header]>>,
}

impl RequestOldIds {
    /// Creates the old ids of a layer inside an outer layer.
    #[must_use]
    pub fn new(layer: &OldIdsLayer, outer: Option<Self>) -> Self {
        Self(Arc::new(Inner { layer: layer.clone(), outer, headers: OnceLock::new() }))
    }

    /// Returns the headers of a response with this status. A 4xx has none, because a refusal must not show
    /// whether an id is an old one that was ever shown.
    #[must_use]
    pub fn headers(&self, status: u16) -> &[Header] {
        let headers = self.0.headers.get().filter(|_| !(400..500).contains(&status));
        headers.map(|headers| &**headers).unwrap_or_default()
    }

    pub(crate) fn accept<T: SealedResource>(
        &self,
        text: &str,
        keyring: &Keyring,
    ) -> Option<Result<T::Internal, IdError>> {
        let (request, of_resource) = self.resource(TypeId::of::<T>())?;
        Some(of_resource.open::<T>(request, text, keyring)?.map(|opened| opened.id))
    }

    pub(crate) fn external(&self, resource: TypeId, text: &str, keyring: &Keyring) -> OldIdResult {
        let (request, of_resource) = self.resource(resource)?;
        (of_resource.external)(of_resource, request, text, keyring)
    }

    fn resource(&self, resource: TypeId) -> Option<(&Self, &ResourceOldIds)> {
        match self.0.layer.0.get(&resource) {
            Some(found) => Some((self, found)),
            None => self.0.outer.as_ref()?.resource(resource),
        }
    }
}

impl fmt::Debug for RequestOldIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestOldIds").finish_non_exhaustive()
    }
}
