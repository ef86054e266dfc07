//! Pages of a list by key: what to query for one, and what to answer.

use core::fmt;

use crate::cursor::Cursor;
use crate::keyring::Keyring;
use crate::range::{IdRange, Position};
use crate::resource::{InternalId, OpaqueId};

/// A request for one page of a list that is ordered by its primary key: the range, the order and the limit of its
/// query.
///
/// Query `WHERE id BETWEEN first AND last ORDER BY id … LIMIT …` by [`range`](Self::range),
/// [`is_descending`](Self::is_descending) and [`fetch`](Self::fetch), and pass all rows to [`finish`](Self::finish).
/// A list that is ordered by another column first cannot be paged by it.
///
/// ```
/// use opaque_id_core::page::{PageRequest, Start};
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// The database's part of the request.
/// fn query(table: &[Internal<User>], request: &PageRequest<Internal<User>>) -> Vec<Internal<User>> {
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
/// let request = PageRequest::newest_first(2, Start::First);
/// let page = request.finish(&keyring, query(&table, &request), |id| *id);
/// assert_eq!(page.rows, [table[4], table[3]]);
///
/// let next = page.next.ok_or("three rows are left")?; // the client sends it
/// let request = PageRequest::newest_first(2, Start::After(keyring.open_cursor(next)?));
/// let page = request.finish(&keyring, query(&table, &request), |id| *id);
/// assert_eq!(page.rows, [table[2], table[1]]);
/// assert!(page.has_more && page.previous.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageRequest<I> {
    range: IdRange<I>,
    limit: u16,
    is_newest_first: bool,
    start: Start<I>,
}

/// Where a page starts in its list.
///
/// ```
/// use opaque_id_core::page::Start;
/// use opaque_id_core::{Cursor, Internal, Keyring, OpaqueId, OpenError};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users?after=user_cursor_…`
/// fn start(keyring: &Keyring, after: Option<Cursor<User>>) -> Result<Start<Internal<User>>, OpenError> {
///     Ok(match after {
///         Some(cursor) => Start::After(keyring.open_cursor(cursor)?),
///         None => Start::First,
///     })
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Start<I> {
    /// With the list's first row.
    First,
    /// After a position, in the list's order: the next page.
    After(Position<I>),
    /// So that it ends before a position, in the list's order: the previous page.
    EndBefore(Position<I>),
}

impl<I: InternalId> PageRequest<I> {
    /// Requests a page of at most `limit` rows of a list that ascends by its ids. A limit of 0 is 1.
    #[must_use]
    pub fn oldest_first(limit: u16, start: Start<I>) -> Self {
        Self::new(limit, start, false)
    }

    /// Requests a page of at most `limit` rows of a list that descends by its ids. A limit of 0 is 1.
    #[must_use]
    pub fn newest_first(limit: u16, start: Start<I>) -> Self {
        Self::new(limit, start, true)
    }

    fn new(limit: u16, start: Start<I>, is_newest_first: bool) -> Self {
        let all = IdRange::all();
        let range = match (start, is_newest_first) {
            (Start::First, _) => all,
            (Start::After(at), false) | (Start::EndBefore(at), true) => {
                all.starting_after(Some(at))
            }
            (Start::After(at), true) | (Start::EndBefore(at), false) => all.ending_before(Some(at)),
        };
        Self { range, limit: limit.max(1), is_newest_first, start }
    }

    /// Returns the range of the rows, for `BETWEEN`. Its methods narrow it, such as to a period.
    #[must_use]
    pub fn range(&self) -> IdRange<I> {
        self.range
    }

    /// Returns whether the query must order by the id descending. For a previous page this is the reverse of the list's
    /// order; [`finish`](Self::finish) returns the rows in the list's order.
    #[must_use]
    pub fn is_descending(&self) -> bool {
        self.is_newest_first != matches!(self.start, Start::EndBefore(_))
    }

    /// Returns the `LIMIT` of the query: one row more than the page has, which shows that there is another page.
    #[must_use]
    pub fn fetch(&self) -> u32 {
        u32::from(self.limit) + 1
    }

    /// Converts the rows of the query into the page. `id` returns a row's id.
    #[must_use]
    pub fn finish<R>(
        &self,
        keyring: &Keyring,
        mut rows: Vec<R>,
        id: impl Fn(&R) -> I,
    ) -> Page<R, I::Resource> {
        let has_more = rows.len() > usize::from(self.limit);
        rows.truncate(usize::from(self.limit));
        let (is_after, is_before) = match self.start {
            Start::First => (false, has_more),
            Start::After(_) => (true, has_more),
            Start::EndBefore(_) => {
                rows.reverse();
                (has_more, true)
            }
        };
        let cursor = |row: &R| keyring.seal_cursor(id(row));
        Page {
            next: rows.last().filter(|_| is_before).map(cursor),
            previous: rows.first().filter(|_| is_after).map(cursor),
            has_more,
            rows,
        }
    }
}

/// A page of a list: its rows in the list's order, and the cursors of its neighbors.
///
/// [`PageRequest::finish`] returns it. It does not implement serde's `Serialize`, as rows are models: put its fields into
/// the API's own type.
///
/// ```
/// use opaque_id_core::page::{PageRequest, Start};
/// use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let request = PageRequest::oldest_first(20, Start::First);
/// let page = request.finish(&keyring, vec![Internal::<User>::generate()], |id| *id);
/// assert!(!page.has_more && page.next.is_none() && page.previous.is_none());
/// # Ok::<(), opaque_id_core::KeyringError>(())
/// ```
pub struct Page<R, T: OpaqueId> {
    /// The rows, at most as many as the limit.
    pub rows: Vec<R>,
    /// Whether the list continues in the direction of the request: beyond the last row, or before the first row of a
    /// page that ends before a cursor.
    pub has_more: bool,
    /// The cursor after the last row, if the list continues there.
    pub next: Option<Cursor<T>>,
    /// The cursor before the first row, unless the page is known to be the list's first.
    pub previous: Option<Cursor<T>>,
}

impl<R: fmt::Debug, T: OpaqueId> fmt::Debug for Page<R, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Page")
            .field("rows", &self.rows)
            .field("has_more", &self.has_more)
            .field("next", &self.next)
            .field("previous", &self.previous)
            .finish()
    }
}
