//! Pages of a list.

#[cfg(feature = "tokens")]
mod listing;

#[cfg(feature = "tokens")]
pub use self::listing::Listing;
use crate::range::{IdRange, Position};
use crate::resource::InternalId;

/// A request for one page of a list: its start, and the order and limit of its query.
///
/// For a list that is ordered by its primary key, `P` is a [`Position`]. Query `WHERE id BETWEEN first AND
/// last ORDER BY id … LIMIT …` by [`range`](Self::range), [`is_descending`](Self::is_descending) and
/// [`fetch`](Self::fetch), and pass all rows to [`finish`](Self::finish). A [`Listing`] is ordered by other
/// columns first.
///
/// ```
/// use opaque_id_core::page::{PageRequest, Start};
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId, Position};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// The database's part of the request.
/// fn query(table: &[Internal<User>], request: &PageRequest<Position<Internal<User>>>) -> Vec<Internal<User>> {
///     let mut rows = table.to_vec();
///     rows.retain(|id| request.range().contains(*id));
///     rows.sort();
///     if request.is_descending() {
///         rows.reverse();
///     }
///     rows.truncate(request.fetch() as usize);
///     rows
/// }
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let table: Vec<_> = (0..5).map(|_| Internal::<User>::generate()).collect();
///
/// let request = PageRequest::descending(2, Start::First);
/// let page = request.finish(query(&table, &request), |id| keyring.seal_cursor(*id));
/// assert_eq!(page.rows, [table[4], table[3]]);
///
/// let next = page.next.ok_or("three rows are left")?; // the client sends it
/// let request = PageRequest::descending(2, Start::After(keyring.open_cursor(next)?));
/// let page = request.finish(query(&table, &request), |id| keyring.seal_cursor(*id));
/// assert_eq!(page.rows, [table[2], table[1]]);
/// assert!(page.has_more && page.previous.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest<P> {
    limit: u16,
    list_descends: bool,
    start: Start<P>,
}

/// The start of a page in its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start<P> {
    /// The list's first row.
    First,
    /// The next page: it starts after a position in the list's order.
    After(P),
    /// The previous page: it ends before a position in the list's order.
    EndBefore(P),
    /// The list's last page.
    Last,
}

impl<P> Start<P> {
    /// Borrows the position.
    #[must_use]
    pub fn as_ref(&self) -> Start<&P> {
        match self {
            Self::First => Start::First,
            Self::After(position) => Start::After(position),
            Self::EndBefore(position) => Start::EndBefore(position),
            Self::Last => Start::Last,
        }
    }

    /// Converts the position, such as by opening a client's cursor.
    ///
    /// # Errors
    /// The errors of `open`.
    pub fn try_map<Q, E>(self, open: impl FnOnce(P) -> Result<Q, E>) -> Result<Start<Q>, E> {
        Ok(match self {
            Self::First => Start::First,
            Self::After(position) => Start::After(open(position)?),
            Self::EndBefore(position) => Start::EndBefore(open(position)?),
            Self::Last => Start::Last,
        })
    }
}

impl<P> PageRequest<P> {
    /// Requests a page of at most `limit` rows of an ascending list. If keys begin with a time, the oldest
    /// row is first. A limit of 0 is 1.
    #[must_use]
    pub fn ascending(limit: u16, start: Start<P>) -> Self {
        Self { limit: limit.max(1), list_descends: false, start }
    }

    /// Requests a page of at most `limit` rows of a list that descends in all its columns and the id. A limit
    /// of 0 is 1.
    #[must_use]
    pub fn descending(limit: u16, start: Start<P>) -> Self {
        Self { limit: limit.max(1), list_descends: true, start }
    }

    /// Returns whether the query must be ordered descending. For a previous and for the last page this is the
    /// reverse of the list's order.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.list_descends != matches!(self.start, Start::EndBefore(_) | Start::Last)
    }

    /// Returns the position after which the query starts, in the query's order. Returns `None` for the first
    /// and the last page.
    #[must_use]
    pub fn position(&self) -> Option<&P> {
        match &self.start {
            Start::First | Start::Last => None,
            Start::After(position) | Start::EndBefore(position) => Some(position),
        }
    }

    /// Returns the `LIMIT` of the query: one row more than the page, to show whether there is another page.
    #[must_use]
    pub fn fetch(&self) -> u32 {
        u32::from(self.limit) + 1
    }

    /// Converts the rows of the query into the page. `seal` returns a row's cursor or position:
    /// [`Keyring::seal_cursor`](crate::Keyring::seal_cursor) or [`Listing::seal`].
    #[must_use]
    pub fn finish<R, C>(&self, mut rows: Vec<R>, seal: impl Fn(&R) -> C) -> Page<R, C> {
        let has_more = rows.len() > usize::from(self.limit);
        rows.truncate(usize::from(self.limit));
        let (is_after, is_before) = match self.start {
            Start::First => (false, has_more),
            Start::After(_) => (true, has_more),
            Start::EndBefore(_) => {
                rows.reverse();
                (has_more, true)
            }
            Start::Last => {
                rows.reverse();
                (has_more, false)
            }
        };
        Page {
            next: rows.last().filter(|_| is_before).map(&seal),
            previous: rows.first().filter(|_| is_after).map(&seal),
            has_more,
            rows,
        }
    }
}

impl<I: InternalId> PageRequest<Position<I>> {
    /// Returns the range of the rows for `BETWEEN`. Its methods narrow it.
    #[must_use]
    pub fn range(&self) -> IdRange<I> {
        match (self.position(), self.is_descending()) {
            (None, _) => IdRange::all(),
            (position, false) => IdRange::all().starting_after(position.copied()),
            (position, true) => IdRange::all().ending_before(position.copied()),
        }
    }
}

/// A page of a list: its rows in the list's order, and the cursors or positions of its neighbors.
///
/// It does not implement serde's `Serialize` because rows are models: put its fields into the API's own type.
#[derive(Debug)]
pub struct Page<R, C> {
    /// The rows, no more than the limit.
    pub rows: Vec<R>,
    /// The flag says that the list continues in the direction of the request: beyond the last row, or before
    /// the first row for the last page and a page that ends before a position.
    pub has_more: bool,
    /// The cursor or position for the page after the last row, if there is one.
    pub next: Option<C>,
    /// The cursor or position for the page before the first row, unless this is known to be the first page.
    pub previous: Option<C>,
}

impl<R, C, E> Page<R, Result<C, E>> {
    /// Returns the page, or the error of a [`Listing::seal`], as [`Option::transpose`] does.
    ///
    /// # Errors
    /// The error of the next or the previous page.
    pub fn transpose(self) -> Result<Page<R, C>, E> {
        let Self { rows, has_more, next, previous } = self;
        Ok(Page { rows, has_more, next: next.transpose()?, previous: previous.transpose()? })
    }
}
