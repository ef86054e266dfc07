use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use crate::form::FormOf;
use crate::internal::InternalId;
use crate::key::{Key, Repr, TimeKey};
use crate::resource::{OpaqueId, ReprOf};

type KeyOf<I> = <<I as InternalId>::Resource as OpaqueId>::Key;

/// A range of a resource's internal ids, for `WHERE id BETWEEN first AND last`: pages by key, and all rows
/// of a time.
///
/// The statement is the same whether there is a cursor or not, so it is prepared once. Every step narrows
/// the range; an empty one has a first id that is greater than its last, and `BETWEEN` finds nothing.
///
/// ```
/// use opaque_id_core::{External, IdRange, Internal, Keyring, OpaqueId};
/// use std::time::{Duration, SystemTime};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users?starting_after=user_…`
/// fn page(
///     keyring: &Keyring,
///     starting_after: Option<External<User>>,
/// ) -> Result<IdRange<Internal<User>>, opaque_id_core::OpenError> {
///     let after = starting_after.map(|id| keyring.open(id)).transpose()?;
///     Ok(IdRange::all().starting_after(after)) // … WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 20
/// }
///
/// # let keyring = Keyring::builder().sealing(0, [7; 32]).build()?;
/// let (first, second) = (Internal::<User>::generate(), Internal::<User>::generate());
/// let range = page(&keyring, Some(keyring.seal(first)))?;
/// assert!(!range.contains(first) && range.contains(second));
///
/// let today = SystemTime::now() - Duration::from_secs(86_400)..;
/// assert!(range.made_in(today).contains(second));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IdRange<I> {
    first: I,
    last: I,
}

impl<I: InternalId> IdRange<I> {
    /// All ids that the resource can have.
    #[must_use]
    pub fn all() -> Self {
        let (first, last) = limits::<I>();
        Self::between(first, last)
    }

    /// The part after an id, such as the last one of the page before; all of it if there is none.
    #[must_use]
    pub fn starting_after(self, id: Option<I>) -> Self {
        match id {
            None => self,
            Some(id) => match id.as_repr().after(fixed::<I>()) {
                Some(next) => self.narrowed(next, *self.last.as_repr()),
                None => Self::empty(),
            },
        }
    }

    /// The part before an id, such as the first one of the page after; all of it if there is none. For the
    /// page itself, order by id descending.
    #[must_use]
    pub fn ending_before(self, id: Option<I>) -> Self {
        match id {
            None => self,
            Some(id) => match id.as_repr().before(fixed::<I>()) {
                Some(previous) => self.narrowed(*self.first.as_repr(), previous),
                None => Self::empty(),
            },
        }
    }

    /// The part whose keys' [`time`](TimeKey::time) lies in a range.
    #[must_use]
    pub fn made_in(self, range: impl RangeBounds<SystemTime>) -> Self
    where
        KeyOf<I>: TimeKey,
    {
        self.within(KeyOf::<I>::bounds(range))
    }

    /// The part whose keys lie in a range: bounds that a layout gave, such as
    /// [`Uuid6::bounds`](crate::TimeKey::bounds), [`Uuid8Layout::bounds`](crate::Uuid8Layout::bounds),
    /// [`Int64Layout::bounds`](crate::Int64Layout::bounds) or [`Shards::bounds`](crate::Shards::bounds).
    #[must_use]
    pub fn within<K: Into<KeyOf<I>>>(self, keys: RangeInclusive<K>) -> Self {
        let (first, last) = keys.into_inner();
        self.narrowed(first.into().into_repr(), last.into().into_repr())
    }

    /// The smallest id of the range, the first that `BETWEEN` takes.
    #[must_use]
    // By value: diesel's `first` for everything would go before one by reference.
    pub fn first(self) -> I {
        self.first
    }

    /// The largest id of the range, the second that `BETWEEN` takes.
    #[must_use]
    pub fn last(self) -> I {
        self.last
    }

    /// Whether no id lies in the range.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// Whether an id lies in the range.
    #[must_use]
    pub fn contains(self, id: I) -> bool {
        self.first <= id && id <= self.last
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
        Self {
            first: id(first),
            last: id(last),
        }
    }
}

fn fixed<I: InternalId>() -> crate::key::FixedBits<ReprOf<I::Resource>> {
    <<I::Resource as OpaqueId>::Form as FormOf<KeyOf<I>>>::FIXED
}

fn limits<I: InternalId>() -> (ReprOf<I::Resource>, ReprOf<I::Resource>) {
    Repr::range(fixed::<I>())
}
