//! The query parameters of a page, and its links.

use core::fmt;

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use opaque_id_core::page::{Listing, Page, PageRequest, Start};
use opaque_id_core::resource::InternalId;
use opaque_id_core::{Cursor, Keyring, OpaqueId, Position};
use serde_core::Serialize;
use serde_core::de::DeserializeOwned;
use thiserror::Error;

use crate::extract::keyring;
use crate::opened::refused;
use crate::problem::{json, problem};
use crate::refusal::{Record, Refusal, Rejection};

pub(crate) const LIMIT: &str = "limit";
pub(crate) const STARTING_AFTER: &str = "starting_after";
pub(crate) const ENDING_BEFORE: &str = "ending_before";

/// How many bytes of other parameters links repeat, each of them twice.
const MAX_OTHERS: usize = 2_048;

/// The page that a client requests: `?limit=20&starting_after=user_cursor_…`, or `ending_before`.
///
/// `DEFAULT` is the limit of a request without one, and `MAX` the highest. Parameters with other names are left to other
/// extractors, such as [`Query`](crate::Query).
///
/// The handler chooses the order by [`ascending`](Self::ascending) or [`descending`](Self::descending), queries
/// the rows, and passes them to [`PageRequest::finish`]:
///
/// ```
/// use axum::Json;
/// use axum::extract::State;
/// use opaque_id_axum::{Links, PageQuery};
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users`: at most 50 a page, 10 unless the client says how many.
/// async fn list(State(keyring): State<Keyring>, query: PageQuery<User, 10, 50>) -> (Links, Json<Vec<String>>) {
///     let request = query.descending();
///     // SELECT id FROM users WHERE id BETWEEN {range.first()} AND {range.last()} ORDER BY id DESC LIMIT {fetch()}
///     let rows: Vec<Internal<User>> = Vec::new();
///     let page = request.finish(rows, |id| keyring.seal_cursor(*id));
///     let ids = page.rows.iter().map(|id| keyring.seal(*id).to_string());
///     (query.links(&page), Json(ids.collect()))
/// }
/// ```
///
/// # Rejections
/// 404 for a refused cursor, and [`InvalidPage`] otherwise.
pub struct PageQuery<T: OpaqueId, const DEFAULT: u16 = 20, const MAX: u16 = 100>(
    Asked<Position<T::Internal>>,
);

/// The page of a [`Listing`], which is ordered by other columns before the key: `?limit=20&starting_after=user_position_…`, or
/// `ending_before`. As [`PageQuery`], but the handler opens the position, as it knows the list and its filter.
///
/// ```
/// use axum::extract::State;
/// use axum::response::Result;
/// use opaque_id_axum::{Links, ListingQuery, Query};
/// use opaque_id_core::page::Listing;
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// #[derive(serde::Deserialize, serde::Serialize)]
/// struct Filter {
///     team: Option<String>,
/// }
///
/// /// `GET /users?team=red`: by name, and at most 50 a page.
/// async fn list(
///     State(keyring): State<Keyring>,
///     Query(filter): Query<Filter>,
///     query: ListingQuery<10, 50>,
/// ) -> Result<(Links, String)> {
///     let by_name = Listing::<Internal<User>, String>::new("users by name", &filter).map_err(|e| e.to_string())?;
///     let request = query.ascending(&by_name, &keyring)?;
///     // SELECT … ORDER BY name, id LIMIT {fetch()}, from request.position() on
///     let rows: Vec<(String, Internal<User>)> = Vec::new();
///     let page = request.finish(rows, |(name, id)| by_name.seal(&keyring, name, *id));
///     let page = page.transpose().map_err(|e| e.to_string())?;
///     Ok((query.links(&page), format!("{} users", page.rows.len())))
/// }
/// ```
///
/// # Rejections
/// [`InvalidPage`]. [`ascending`](Self::ascending) and [`descending`](Self::descending) refuse positions, with 404.
#[derive(Debug)]
pub struct ListingQuery<const DEFAULT: u16 = 20, const MAX: u16 = 100>(Asked<String>);

/// What a client asks for.
#[derive(Debug)]
struct Asked<P> {
    limit: u16,
    start: Start<P>,
    /// All parameters but the positions.
    others: String,
}

/// An error for parameters that are not a page. As a response it is a problem (RFC 9457) with status 400.
///
/// ```
/// use axum::response::IntoResponse;
/// use opaque_id_axum::InvalidPage;
///
/// assert_eq!(InvalidPage::TwoCursors.into_response().status(), 400);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidPage {
    /// The limit is not a number, or out of its bounds.
    #[error("expected a `limit` from 1 to {max}")]
    #[non_exhaustive]
    Limit {
        /// The highest limit.
        max: u16,
    },
    /// There are two cursors.
    #[error("expected one of `starting_after` and `ending_before`, found both")]
    TwoCursors,
    /// A parameter is repeated.
    #[error("expected one `{name}`, found several")]
    #[non_exhaustive]
    Repeated {
        /// Its name.
        name: &'static str,
    },
}

impl IntoResponse for InvalidPage {
    fn into_response(self) -> Response {
        let detail = format!(r#","detail":{}"#, json(&self.to_string()));
        problem(StatusCode::BAD_REQUEST, "Bad Request", &detail)
    }
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> PageQuery<T, DEFAULT, MAX> {
    /// Requests the page of a list that ascends by its ids: the oldest row is first, if keys begin with a time.
    #[must_use]
    pub fn ascending(&self) -> PageRequest<Position<T::Internal>> {
        PageRequest::ascending(self.0.limit, self.0.start)
    }

    /// Requests the page of a list that descends by its ids.
    #[must_use]
    pub fn descending(&self) -> PageRequest<Position<T::Internal>> {
        PageRequest::descending(self.0.limit, self.0.start)
    }

    /// Returns the links to the page's neighbors, or none if the query's other parameters are longer than 2 kB, since
    /// proxies refuse long headers. Without the parameters the links would be those of another list.
    #[must_use]
    pub fn links<R>(&self, page: &Page<R, Cursor<T>>) -> Links {
        self.0.links(page)
    }
}

impl<const DEFAULT: u16, const MAX: u16> ListingQuery<DEFAULT, MAX> {
    /// Requests the page of a list whose columns and ids ascend.
    ///
    /// # Errors
    /// [`Refusal`] if the position is not one of this list.
    pub fn ascending<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        listing: &Listing<I, V>,
        keyring: &Keyring,
    ) -> Result<PageRequest<(V, I)>, Refusal> {
        Ok(PageRequest::ascending(self.0.limit, self.start(listing, keyring)?))
    }

    /// Requests the page of a list whose columns and ids descend.
    ///
    /// # Errors
    /// As [`ascending`](Self::ascending).
    pub fn descending<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        listing: &Listing<I, V>,
        keyring: &Keyring,
    ) -> Result<PageRequest<(V, I)>, Refusal> {
        Ok(PageRequest::descending(self.0.limit, self.start(listing, keyring)?))
    }

    /// Returns the links to the page's neighbors, as [`PageQuery::links`].
    #[must_use]
    pub fn links<R>(&self, page: &Page<R, String>) -> Links {
        self.0.links(page)
    }

    fn start<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        listing: &Listing<I, V>,
        keyring: &Keyring,
    ) -> Result<Start<(V, I)>, Refusal> {
        let open = |text: &String| {
            let opened = listing.open(keyring, text);
            opened.map_err(|error| Refusal::in_url(refused::<I::Resource>(error)))
        };
        self.0.start.as_ref().try_map(open)
    }
}

impl Asked<String> {
    fn read<const DEFAULT: u16, const MAX: u16>(query: &str) -> Result<Self, InvalidPage> {
        const { assert!(1 <= DEFAULT && DEFAULT <= MAX, "expected 1 <= DEFAULT <= MAX") };
        let (mut limit, mut after, mut before) = (None, None, None);
        let mut others = form_urlencoded::Serializer::new(String::new());
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let (name, found) = match &*name {
                LIMIT => (LIMIT, &mut limit),
                STARTING_AFTER => (STARTING_AFTER, &mut after),
                ENDING_BEFORE => (ENDING_BEFORE, &mut before),
                _ => {
                    others.append_pair(&name, &value);
                    continue;
                }
            };
            if found.replace(value).is_some() {
                return Err(InvalidPage::Repeated { name });
            }
        }
        let limit = match limit {
            None => DEFAULT,
            Some(text) => {
                let limit = text.parse().ok().filter(|limit| (1..=MAX).contains(limit));
                let limit = limit.ok_or(InvalidPage::Limit { max: MAX })?;
                others.append_pair(LIMIT, &text);
                limit
            }
        };
        let start = match (after, before) {
            (None, None) => Start::First,
            (Some(after), None) => Start::After(after.into_owned()),
            (None, Some(before)) => Start::EndBefore(before.into_owned()),
            (Some(_), Some(_)) => return Err(InvalidPage::TwoCursors),
        };
        Ok(Self { limit, start, others: others.finish() })
    }
}

impl<P> Asked<P> {
    fn links<R, C: fmt::Display>(&self, page: &Page<R, C>) -> Links {
        if self.others.len() > MAX_OTHERS {
            return Links(None);
        }
        let link = |name: &str, position: Option<&C>, relation: &str| {
            position.map(|position| {
                let and = if self.others.is_empty() { "" } else { "&" };
                format!(r#"<?{}{and}{name}={position}>; rel="{relation}""#, self.others)
            })
        };
        let next = link(STARTING_AFTER, page.next.as_ref(), "next");
        let previous = link(ENDING_BEFORE, page.previous.as_ref(), "prev");
        let links: Vec<String> = next.into_iter().chain(previous).collect();
        Links(HeaderValue::try_from(links.join(", ")).ok().filter(|links| !links.is_empty()))
    }
}

fn open_cursor<T: OpaqueId>(
    text: &str,
    keyring: &Keyring,
) -> Result<Position<T::Internal>, Record> {
    let cursor: Cursor<T> = text.parse().map_err(refused::<T>)?;
    keyring.open_cursor(cursor).map_err(refused::<T>)
}

impl<T, S, const DEFAULT: u16, const MAX: u16> FromRequestParts<S> for PageQuery<T, DEFAULT, MAX>
where
    T: OpaqueId,
    S: Send + Sync,
    Keyring: FromRef<S>,
{
    type Rejection = Rejection<InvalidPage>;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let query = parts.uri.query().unwrap_or_default();
        let Asked { limit, start, others } =
            Asked::read::<DEFAULT, MAX>(query).map_err(Rejection::Other)?;
        let keyring = keyring(&parts.extensions, state);
        let start = start.try_map(|text| open_cursor::<T>(&text, &keyring));
        let start = start.map_err(|record| Rejection::Refused(Refusal::in_url(record)))?;
        Ok(Self(Asked { limit, start, others }))
    }
}

impl<S: Send + Sync, const DEFAULT: u16, const MAX: u16> FromRequestParts<S>
    for ListingQuery<DEFAULT, MAX>
{
    type Rejection = InvalidPage;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, InvalidPage> {
        Asked::read::<DEFAULT, MAX>(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> fmt::Debug for PageQuery<T, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageQuery").field(&self.0).finish()
    }
}

/// The header `Link` (RFC 8288) of a page, to put before the body of a response. It has `rel="next"` and `rel="prev"` as far
/// as there are such pages, with the request's other parameters.
///
/// The targets are relative to the request's URL, such as `<?limit=20&starting_after=user_cursor_…>`. So they are right
/// behind every proxy and in nested routers.
///
/// ```
/// use axum::response::IntoResponse;
/// use opaque_id_axum::{Links, PageQuery};
/// use opaque_id_core::page::Page;
/// use opaque_id_core::{Cursor, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// fn respond(query: PageQuery<User>, page: Page<String, Cursor<User>>) -> impl IntoResponse {
///     (query.links(&page), page.rows.join("\n"))
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links(Option<HeaderValue>);

impl IntoResponseParts for Links {
    type Error = core::convert::Infallible;

    fn into_response_parts(self, mut parts: ResponseParts) -> Result<ResponseParts, Self::Error> {
        if let Some(links) = self.0 {
            parts.headers_mut().append(header::LINK, links);
        }
        Ok(parts)
    }
}

impl IntoResponse for Links {
    fn into_response(self) -> Response {
        (self, ()).into_response()
    }
}
