use core::fmt;

#[cfg(feature = "tokens")]
use opaque_id_core::page::Listing;
use opaque_id_core::page::{Page, PageRequest, Start};
#[cfg(feature = "tokens")]
use opaque_id_core::resource::InternalId;
use opaque_id_core::{Cursor, Keyring, OpaqueId, Position};
#[cfg(feature = "tokens")]
use serde_core::{Serialize, de::DeserializeOwned};
use thiserror::Error;

use crate::refusal::{Refusal, Rejection};

pub(crate) const LIMIT: &str = "limit";
pub(crate) const STARTING_AFTER: &str = "starting_after";
pub(crate) const ENDING_BEFORE: &str = "ending_before";

/// Proxies refuse longer headers.
const MAX_HEADER: usize = 3_072;

/// The page that a client requests: `?limit=20&starting_after=user_cursor_…`, or `ending_before`.
///
/// `DEFAULT` is the limit of a request without one, and `MAX` the highest limit. Other extractors read the
/// other parameters.
///
/// The handler chooses the order, queries the rows, and passes them to [`PageRequest::finish`]:
///
/// ```
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
/// use opaque_id_web::{Links, PageQuery};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users`: at most 50 a page, 10 unless the client says how many.
/// fn list(keyring: &Keyring, query: PageQuery<User, 10, 50>) -> (Links, Vec<String>) {
///     let request = query.descending();
///     // SELECT id FROM users WHERE id BETWEEN {range.first()} AND {range.last()} ORDER BY id DESC LIMIT {fetch()}
///     let rows: Vec<Internal<User>> = Vec::new();
///     let page = request.finish(rows, |id| keyring.seal_cursor(*id));
///     let ids = page.rows.iter().map(|id| keyring.seal(*id).to_string());
///     (query.links(&page), ids.collect())
/// }
/// ```
///
/// # Rejections
/// 404 for a refused cursor, and [`InvalidPage`] otherwise.
pub struct PageQuery<T: OpaqueId, const DEFAULT: u16 = 20, const MAX: u16 = 100>(
    Parameters<Position<T::Internal>>,
);

/// The requested page of a [`Listing`]: `?limit=20&starting_after=user_position_…`, or `ending_before`. The
/// handler opens the position, because it knows the list and its filter.
///
#[cfg_attr(feature = "tokens", doc = "```")]
#[cfg_attr(not(feature = "tokens"), doc = "```ignore")]
/// use opaque_id_core::page::Listing;
/// use opaque_id_core::{Internal, Keyring, OpaqueId};
/// use opaque_id_web::{Links, ListingQuery, Refusal};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User {
///     id: Internal<User>,
///     name: String,
/// }
///
/// /// `GET /users`, ordered by name: at most 100 a page, 20 unless the client says how many.
/// fn list(keyring: &Keyring, query: ListingQuery) -> Result<(Links, Vec<String>), Refusal> {
///     let by_name = Listing::<Internal<User>, String>::new("users by name", &()).expect("`()` is JSON");
///     let request = query.ascending(keyring, &by_name)?;
///     // `PageSql::new(dialect, "id", &request).column("name")` of an adapter writes the SQL.
///     let rows: Vec<User> = Vec::new();
///     let page = request.finish(rows, |user| by_name.seal(keyring, &user.name, user.id));
///     let page = page.transpose().expect("the database limits names");
///     let ids = page.rows.iter().map(|user| keyring.seal(user.id).to_string());
///     Ok((query.links(&page), ids.collect()))
/// }
/// ```
///
/// # Rejections
/// [`InvalidPage`]. [`ascending`](Self::ascending) and [`descending`](Self::descending) refuse positions with
/// 404.
#[derive(Debug)]
pub struct ListingQuery<const DEFAULT: u16 = 20, const MAX: u16 = 100>(Parameters<String>);

#[derive(Debug)]
struct Parameters<P> {
    limit: u16,
    start: Start<P>,
    others: String,
}

/// An error for invalid parameters of a page: a problem (RFC 9457) with status 400.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidPage {
    /// The limit is not a number or is out of bounds.
    #[error("expected a `limit` from 1 to {max}")]
    #[non_exhaustive]
    Limit {
        /// The highest limit.
        max: u16,
    },
    /// The request has two cursors.
    #[error("expected one of `starting_after` and `ending_before`, found both")]
    TwoCursors,
    /// A parameter is repeated.
    #[error("expected one `{name}`, found several")]
    #[non_exhaustive]
    Repeated {
        /// The parameter's name.
        name: &'static str,
    },
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> PageQuery<T, DEFAULT, MAX> {
    /// Reads the query of a URL and opens its cursor.
    ///
    /// # Errors
    /// [`Rejection`] of a refused cursor or of an [`InvalidPage`].
    pub fn read(query: &str, keyring: &Keyring) -> Result<Self, Rejection<InvalidPage>> {
        let asked = Parameters::read::<DEFAULT, MAX>(query).map_err(Rejection::Other)?;
        let Parameters { limit, start, others } = asked;
        let open = |text: String| {
            let cursor: Cursor<T> = text.parse().map_err(Refusal::in_url::<T>)?;
            keyring.open_cursor(cursor).map_err(Refusal::in_url::<T>)
        };
        let start = start.try_map(open).map_err(Rejection::Refused)?;
        Ok(Self(Parameters { limit, start, others }))
    }

    /// Requests the page of a list that ascends by its ids.
    #[must_use]
    pub fn ascending(&self) -> PageRequest<Position<T::Internal>> {
        PageRequest::ascending(self.0.limit, self.0.start)
    }

    /// Requests the page of a list that descends by its ids.
    #[must_use]
    pub fn descending(&self) -> PageRequest<Position<T::Internal>> {
        PageRequest::descending(self.0.limit, self.0.start)
    }

    /// Returns the links to the page's neighbors, unless the header would be longer than 3 kB. Proxies refuse
    /// long headers, and without the query's other parameters the links would lead to another list.
    #[must_use]
    pub fn links<R>(&self, page: &Page<R, Cursor<T>>) -> Links {
        self.0.links(page)
    }
}

impl<const DEFAULT: u16, const MAX: u16> ListingQuery<DEFAULT, MAX> {
    /// Reads the query of a URL.
    ///
    /// # Errors
    /// [`InvalidPage`] if a parameter is invalid.
    pub fn read(query: &str) -> Result<Self, InvalidPage> {
        Parameters::read::<DEFAULT, MAX>(query).map(Self)
    }

    /// Returns the links to the page's neighbors, like [`PageQuery::links`].
    #[must_use]
    pub fn links<R>(&self, page: &Page<R, String>) -> Links {
        self.0.links(page)
    }
}

#[cfg(feature = "tokens")]
impl<const DEFAULT: u16, const MAX: u16> ListingQuery<DEFAULT, MAX> {
    /// Requests the page of a list with ascending columns and ids.
    ///
    /// # Errors
    /// [`Refusal`] if the position is not one of this list.
    pub fn ascending<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        keyring: &Keyring,
        listing: &Listing<I, V>,
    ) -> Result<PageRequest<(V, I)>, Refusal> {
        Ok(PageRequest::ascending(self.0.limit, self.start(keyring, listing)?))
    }

    /// Requests the page of a list with descending columns and ids.
    ///
    /// # Errors
    /// The same as [`ascending`](Self::ascending).
    pub fn descending<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        keyring: &Keyring,
        listing: &Listing<I, V>,
    ) -> Result<PageRequest<(V, I)>, Refusal> {
        Ok(PageRequest::descending(self.0.limit, self.start(keyring, listing)?))
    }

    fn start<I: InternalId, V: Serialize + DeserializeOwned>(
        &self,
        keyring: &Keyring,
        listing: &Listing<I, V>,
    ) -> Result<Start<(V, I)>, Refusal> {
        let open = |text: &String| {
            let opened = listing.open(keyring, text);
            opened.map_err(Refusal::in_url::<I::Resource>)
        };
        self.0.start.as_ref().try_map(open)
    }
}

impl Parameters<String> {
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

impl<P> Parameters<P> {
    fn links<R, C: fmt::Display>(&self, page: &Page<R, C>) -> Links {
        let link = |name: &str, position: Option<&C>, relation: &str| {
            position.map(|position| {
                let and = if self.others.is_empty() { "" } else { "&" };
                format!(r#"<?{}{and}{name}={position}>; rel="{relation}""#, self.others)
            })
        };
        let next = link(STARTING_AFTER, page.next.as_ref(), "next");
        let previous = link(ENDING_BEFORE, page.previous.as_ref(), "prev");
        let links: Vec<String> = next.into_iter().chain(previous).collect();
        let header = Some(links.join(", "));
        Links(header.filter(|header| (1..=MAX_HEADER).contains(&header.len())))
    }
}

impl<T: OpaqueId, const DEFAULT: u16, const MAX: u16> fmt::Debug for PageQuery<T, DEFAULT, MAX> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PageQuery").field(&self.0).finish()
    }
}

/// The header `Link` (RFC 8288) of a page: `rel="next"` and `rel="prev"` if there are such pages, with the
/// request's other parameters.
///
/// The targets are relative to the request's URL, such as `<?limit=20&starting_after=user_cursor_…>`. So they
/// are correct behind every proxy and in nested routers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Links(Option<String>);

impl Links {
    /// Returns the header's value, or `None` if there is no link.
    #[must_use]
    pub fn header(&self) -> Option<&str> {
        self.0.as_deref()
    }
}
