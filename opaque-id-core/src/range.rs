//! Ranges of internal ids.
//!
//! A made-up id without a tag opens to some key, and its place in a list reveals the rows around it. So a
//! range accepts only a `Position`.

use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use crate::form::FormOf;
use crate::key::{FixedBits, Key, Repr, TimeKey};
use crate::resource::{AuthenticatedResource, InternalId, OpaqueId, ReprOf};

type KeyOf<I> = <<I as InternalId>::Resource as OpaqueId>::Key;

/// A position in a list of a resource's rows, just before or after an internal id. A client cannot make it
/// up.
///
/// It comes from a [`Cursor`](crate::Cursor), from an internal id whose external id carries a tag
/// ([`AuthenticatedResource`]), or from a row that the application has read. Other conversions do not
/// compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position<I>(I);

impl<I: InternalId> Position<I> {
    /// Returns the position of a row that the application has read. Nothing checks that the row exists, so
    /// review every call of this function.
    #[must_use]
    pub fn from_row(id: I) -> Self {
        Self(id)
    }

    /// Returns the internal id, for a handwritten `WHERE id > ?`.
    #[must_use]
    pub fn id(self) -> I {
        self.0
    }
}

impl<I: InternalId<Resource: AuthenticatedResource>> From<I> for Position<I> {
    fn from(id: I) -> Self {
        Self(id)
    }
}

/// A range of a resource's internal ids for `WHERE id BETWEEN first AND last`: for pages by key, and for the
/// rows of a period.
///
/// Every method narrows the range. In an empty range the first id is greater than the last, and `BETWEEN`
/// finds nothing.
///
/// The [`manual`](crate::manual#pages-and-times) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdRange<I> {
    first: I,
    last: I,
}

impl<I: InternalId> IdRange<I> {
    /// Returns the range of all ids that the resource can have.
    #[must_use]
    pub fn all() -> Self {
        let (first, last) = limits::<I>();
        Self::between(first, last)
    }

    /// Returns the part after a position, such as the previous page's last row, or the whole range without
    /// one.
    #[must_use]
    pub fn starting_after<P: Into<Position<I>>>(self, position: Option<P>) -> Self {
        let Some(Position(id)) = position.map(Into::into) else { return self };
        let next = id.as_repr().after(fixed::<I>());
        next.map_or_else(Self::empty, |next| self.narrowed(next, *self.last.as_repr()))
    }

    /// Returns the part before a position, such as the next page's first row, or the whole range without one.
    /// To get the page before the position, order by id descending. In a list that always descends, this
    /// gives the next page.
    #[must_use]
    pub fn ending_before<P: Into<Position<I>>>(self, position: Option<P>) -> Self {
        let Some(Position(id)) = position.map(Into::into) else { return self };
        let previous = id.as_repr().before(fixed::<I>());
        previous.map_or_else(Self::empty, |last| self.narrowed(*self.first.as_repr(), last))
    }

    /// Returns the part up to and including a position.
    #[must_use]
    pub fn up_to(self, position: impl Into<Position<I>>) -> Self {
        let Position(last) = position.into();
        self.narrowed(*self.first.as_repr(), *last.as_repr())
    }

    /// Returns the part with keys that have a [`time`](TimeKey::time) in a range.
    #[must_use]
    pub fn created_in(self, range: impl RangeBounds<SystemTime>) -> Self
    where
        KeyOf<I>: TimeKey,
    {
        self.within(KeyOf::<I>::bounds(range))
    }

    /// Returns the part with keys in a range of a layout: [`Uuid6::bounds`](TimeKey::bounds),
    /// [`Uuid8Layout::bounds`](crate::layout::Uuid8Layout::bounds),
    /// [`Int64Layout::bounds`](crate::layout::Int64Layout::bounds) or
    /// [`Shards::bounds`](crate::layout::Shards::bounds).
    #[must_use]
    pub fn within<K: Into<KeyOf<I>>>(self, keys: RangeInclusive<K>) -> Self {
        let (first, last) = keys.into_inner();
        self.narrowed(first.into().into_repr(), last.into().into_repr())
    }

    /// Returns the smallest id of the range, the first operand of `BETWEEN`.
    #[must_use]
    // Method resolution would prefer diesel's blanket `first` to a method by reference.
    pub fn first(self) -> I {
        self.first
    }

    /// Returns the largest id of the range, the second operand of `BETWEEN`.
    #[must_use]
    pub fn last(self) -> I {
        self.last
    }

    /// Returns whether the range contains no id.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// Returns whether the range contains an id.
    #[must_use]
    pub fn contains(self, id: I) -> bool {
        self.first <= id && id <= self.last
    }

    pub(crate) fn rounded_up(self) -> Self {
        let (_, max) = limits::<I>();
        let last = <KeyOf<I> as Key>::rounded_up(*self.last.as_repr()).min(max);
        match self.is_empty() {
            true => self,
            false => Self::between(*self.first.as_repr(), last),
        }
    }

    fn narrowed(self, first: ReprOf<I::Resource>, last: ReprOf<I::Resource>) -> Self {
        let first = first.max(*self.first.as_repr());
        let last = last.min(*self.last.as_repr());
        match first <= last {
            true => Self::between(first, last),
            false => Self::empty(),
        }
    }

    fn empty() -> Self {
        let (first, last) = limits::<I>();
        Self::between(last, first)
    }

    fn between(first: ReprOf<I::Resource>, last: ReprOf<I::Resource>) -> Self {
        let id =
            |repr| I::from_repr(repr).expect("it lies between two keys, and has their fixed bits");
        Self { first: id(first), last: id(last) }
    }
}

fn fixed<I: InternalId>() -> FixedBits<ReprOf<I::Resource>> {
    <<I::Resource as OpaqueId>::Form as FormOf<KeyOf<I>>>::FIXED
}

fn limits<I: InternalId>() -> (ReprOf<I::Resource>, ReprOf<I::Resource>) {
    Repr::range(fixed::<I>())
}
