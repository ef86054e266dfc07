//! Old ids of an API, accepted until a date.

use core::fmt;
use core::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::error::{IdError, Invalid, KeyringError, OpenError};
use crate::external::External;
use crate::form::short::has_short_id;
use crate::form::{Form, Mapped, MappedUuid, Short, Text, TextBuffer};
use crate::key::{Key, Repr, Ulid};
use crate::keyring::Keyring;
use crate::metrics;
use crate::range::IdRange;
use crate::resource::{InternalId, ReprOf, SealedResource};

/// Opens the external ids of a resource and, until a date, the old ids that the API showed before: UUIDs,
/// integers, ULIDs, TypeIDs, or texts of any other form.
///
/// It accepts an old id only
/// - in a usual spelling: UUIDs as [`Uuid::parse_str`], integers as [`i64`'s
///   `FromStr`](i64#impl-FromStr-for-i64), ULIDs in either case. TypeIDs and texts of other
///   [forms](OldIdsBuilder::form) have one spelling;
/// - before the date;
/// - of a key that the API has ever shown, up to a round number. Without this bound any client could ask for
///   all numbers and learn the new ids of all rows, including future ones. Any client can find out the bound,
///   so it must not reveal the number of rows.
///
/// Always answer with new ids. [`counts`](Self::counts) shows which old ids are still in use. With axum,
/// `opaque_id_axum::OldIdsLayer` does all of it.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// use opaque_id_core::old_ids::OldIds;
/// use opaque_id_core::{IdError, IdRange, Internal, Keyring, MasterSecret, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "order", key = i64)]
/// struct Order;
///
/// let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
/// let now = SystemTime::now();
/// let half_a_year = Duration::from_secs(183 * 86_400);
/// let last = Internal::<Order>::from_key(5_012)?; // SELECT max(id) FROM orders, when new ids went live
///
/// let orders = OldIds::<Order>::builder(IdRange::all().up_to(last), now..now + half_a_year) // fixed dates in an application
///     .integers()
///     .build(&keyring)?;
///
/// let new = keyring.seal(Internal::<Order>::from_key(42)?).to_string();
/// assert_eq!(orders.open("42", &keyring)?.id, orders.open(&new, &keyring)?.id);
/// assert!(orders.open("4 2", &keyring).is_err());
/// assert!(orders.open("6000", &keyring).is_ok()); // 5012, rounded up
/// assert!(matches!(orders.open("6001", &keyring), Err(IdError::NeverShown { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct OldIds<T: SealedResource> {
    shown: IdRange<T::Internal>,
    period: Range<SystemTime>,
    documentation: Option<String>,
    forms: Vec<OldForm<ReprOf<T>>>,
    new: AtomicU64,
}

/// A builder for an [`OldIds`].
#[must_use = "a builder does nothing until `build`"]
pub struct OldIdsBuilder<T: SealedResource> {
    old_ids: OldIds<T>,
    is_bound_exact: bool,
}

/// An id that an [`OldIds`] has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenedId<I> {
    /// The internal id.
    pub id: I,
    /// The name of the old id's form, or `None` for a new id.
    pub old_form: Option<&'static str>,
}

/// The counts of one form of ids in an [`OldIds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// The name of the old form, or `None` for new ids.
    pub old_form: Option<&'static str>,
    /// The number of accepted ids.
    pub accepted: u64,
    /// The number of old ids that were refused because of the date.
    pub ended: u64,
    /// The number of old ids that were refused because the API never showed their keys.
    pub not_shown: u64,
}

/// HTTP's dates end with the year 9999.
const YEAR_9999: Duration = Duration::from_secs(253_370_764_800);

type Read<R> = Box<dyn Fn(&str, &Keyring) -> Option<R> + Send + Sync>;
type Write<R> = Box<dyn Fn(R) -> String + Send + Sync>;

struct OldForm<R> {
    name: &'static str,
    read: Read<R>,
    /// `None` if a tag shows that a text is an old id and not a new one.
    write: Option<Write<R>>,
    accepted: AtomicU64,
    ended: AtomicU64,
    not_shown: AtomicU64,
}

impl<T: SealedResource> OldIds<T> {
    /// Returns a builder for old ids with keys in the range `shown`. They are deprecated from the start of
    /// the period and refused from its end on.
    ///
    /// The range has all keys that the API has ever shown: `IdRange::all().up_to(last)` for keys in the order
    /// of their creation, or [`created_in`](IdRange::created_in) up to a time. Keys that cannot be
    /// enumerated, such as UUIDv4, need no bound: `IdRange::all()`.
    ///
    /// A last integer and the sequence of a structured key are rounded up to one significant digit, such as
    /// 5012 to 6000, and to 10 at least. Otherwise clients could find out the bound, and so the number of
    /// rows. Later rows up to the bound have old ids too. [`exact_bound`](OldIdsBuilder::exact_bound) turns
    /// the rounding off. A time is not rounded: choose a round one.
    pub fn builder(shown: IdRange<T::Internal>, period: Range<SystemTime>) -> OldIdsBuilder<T> {
        let old_ids =
            Self { shown, period, documentation: None, forms: Vec::new(), new: AtomicU64::new(0) };
        OldIdsBuilder { old_ids, is_bound_exact: false }
    }

    /// Opens a new id or reads an old one.
    ///
    /// # Errors
    /// [`IdError`]. Answer a client "not found" in all cases.
    pub fn open(&self, text: &str, keyring: &Keyring) -> Result<OpenedId<T::Internal>, IdError> {
        self.open_at(SystemTime::now(), text, keyring)
    }

    /// Opens an id as [`open`](Self::open) does, at another time.
    ///
    /// # Errors
    /// The same as [`open`](Self::open).
    pub fn open_at(
        &self,
        now: SystemTime,
        text: &str,
        keyring: &Keyring,
    ) -> Result<OpenedId<T::Internal>, IdError> {
        let refused: IdError = match T::Form::parse(T::PREFIX, text).map(External::<T>::new) {
            Err(problem) => IdError::new(T::PREFIX, problem),
            Ok(id) if keyring.has(id.key_id()) => {
                match self.read(text, keyring).next() {
                    None => {
                        let id = keyring.open(id)?;
                        self.new.fetch_add(1, Ordering::Relaxed);
                        return Ok(OpenedId { id, old_form: None });
                    }
                    Some((form, _)) if form.write.is_none() => {
                        let refused = OpenError::NotGenuine.into();
                        let opened = self.open_old(now, text, keyring, refused);
                        if opened.is_ok() {
                            keyring.count_genuine(id.key_id());
                        }
                        return opened.map_err(|error| error.counted(T::PREFIX));
                    }
                    // `build` misses an overlap of keys that it does not compare.
                    Some(_) => {
                        let resource = T::PREFIX;
                        return Err(IdError::Ambiguous { resource }.counted(resource));
                    }
                }
            }
            Ok(id) => OpenError::UnknownKeyId { key_id: id.key_id() }.into(),
        };
        self.open_old(now, text, keyring, refused).map_err(|error| error.counted(T::PREFIX))
    }

    fn read<'a>(
        &'a self,
        text: &'a str,
        keyring: &'a Keyring,
    ) -> impl Iterator<Item = (&'a OldForm<ReprOf<T>>, T::Internal)> {
        let read =
            move |form: &OldForm<_>| T::Internal::from_repr((form.read)(text, keyring)?).ok();
        self.forms.iter().filter_map(move |form| Some((form, read(form)?)))
    }

    fn open_old(
        &self,
        now: SystemTime,
        text: &str,
        keyring: &Keyring,
        refused: IdError,
    ) -> Result<OpenedId<T::Internal>, IdError> {
        let resource = T::PREFIX;
        let mut read = self.read(text, keyring);
        let Some((form, id)) = read.next() else {
            return Err(refused);
        };
        if read.any(|(_, other)| other != id) {
            return Err(IdError::Ambiguous { resource });
        }
        let old_form = form.name;
        if now >= self.period.end {
            form.ended.fetch_add(1, Ordering::Relaxed);
            return Err(IdError::OldIdsEnded { resource, old_form });
        }
        if !self.shown.contains(id) {
            form.not_shown.fetch_add(1, Ordering::Relaxed);
            return Err(IdError::NeverShown { resource, old_form });
        }
        form.accepted.fetch_add(1, Ordering::Relaxed);
        metrics::accepted_old(resource, old_form);
        Ok(OpenedId { id, old_form: Some(old_form) })
    }

    /// Returns the counts of each form since it was built: new ids first, then the old forms.
    pub fn counts(&self) -> impl Iterator<Item = Counts> + '_ {
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let new = Counts { old_form: None, accepted: get(&self.new), ended: 0, not_shown: 0 };
        let old = self.forms.iter().map(move |form| Counts {
            old_form: Some(form.name),
            accepted: get(&form.accepted),
            ended: get(&form.ended),
            not_shown: get(&form.not_shown),
        });
        core::iter::once(new).chain(old)
    }

    /// Returns the period from the deprecation (header `Deprecation`, RFC 9745) to the end of old ids (header
    /// `Sunset`, RFC 8594).
    #[must_use]
    pub fn period(&self) -> Range<SystemTime> {
        self.period.clone()
    }

    /// Returns the address of the page about the change, for the header `Link`.
    #[must_use]
    pub fn documentation(&self) -> Option<&str> {
        self.documentation.as_deref()
    }
}

impl<T: SealedResource> OldIdsBuilder<T> {
    /// Accepts texts of any form: `read` returns the key of a text, and `write` the text of a key. A text
    /// must be what `write` returns, so `read` may be lenient.
    ///
    /// The key is the stored value: a `Uuid`, or an integer of the resource's width. Texts must not look like
    /// new ids. [`build`](Self::build) checks this with some keys only, and an ambiguous text is refused.
    ///
    /// [Sqids](https://docs.rs/sqids), and likewise hashids by [harsh](https://docs.rs/harsh):
    ///
    /// ```
    /// use opaque_id_core::old_ids::OldIdsBuilder;
    /// # use opaque_id_core::OpaqueId;
    /// # #[derive(OpaqueId)]
    /// # #[opaque_id(prefix = "order", key = i64)]
    /// # struct Order;
    ///
    /// fn with_sqids(builder: OldIdsBuilder<Order>, sqids: sqids::Sqids) -> OldIdsBuilder<Order> {
    ///     let writer = sqids.clone();
    ///     let read = move |text: &str| match sqids.decode(text)[..] {
    ///         [number] => number.try_into().ok(),
    ///         _ => None,
    ///     };
    ///     let write = move |key: i64| {
    ///         let number = u64::try_from(key).ok();
    ///         number.and_then(|number| writer.encode(&[number]).ok()).unwrap_or_default()
    ///     };
    ///     builder.form("sqid", read, write)
    /// }
    /// ```
    pub fn form(
        self,
        name: &'static str,
        read: impl Fn(&str) -> Option<ReprOf<T>> + Send + Sync + 'static,
        write: impl Fn(ReprOf<T>) -> String + Send + Sync + 'static,
    ) -> Self {
        let write = Arc::new(write);
        let canonical = Arc::clone(&write);
        let read = move |text: &str, _: &Keyring| read(text).filter(|key| canonical(*key) == text);
        self.add(name, Box::new(read), Some(Box::new(move |key| write(key))))
    }

    fn add(
        mut self,
        name: &'static str,
        read: Read<ReprOf<T>>,
        write: Option<Write<ReprOf<T>>>,
    ) -> Self {
        self.old_ids.forms.push(OldForm {
            name,
            read,
            write,
            accepted: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            not_shown: AtomicU64::new(0),
        });
        self
    }

    /// Sets the address (a URI of RFC 3986) of the page about the change.
    pub fn documentation(mut self, address: impl Into<String>) -> Self {
        self.old_ids.documentation = Some(address.into());
        self
    }

    /// Keeps the exact end of the range. Any client can find it out.
    pub fn exact_bound(mut self) -> Self {
        self.is_bound_exact = true;
        self
    }

    /// Builds the [`OldIds`].
    ///
    /// # Errors
    /// [`KeyringError::AmbiguousOldIds`] if old ids cannot be distinguished from the new ids of this keyring,
    /// and [`KeyringError::OldIds`] if there is nothing to accept, or if the period or the address does not
    /// fit into headers.
    pub fn build(self, keyring: &Keyring) -> Result<OldIds<T>, KeyringError> {
        let mut old_ids = self.old_ids;
        let resource = T::PREFIX;
        let refuse =
            |expected| Err(KeyringError::OldIds { resource, problem: Invalid::setting(expected) });
        if !self.is_bound_exact {
            old_ids.shown = old_ids.shown.rounded_up();
        }
        if old_ids.forms.is_empty() || old_ids.shown.is_empty() {
            return refuse("name a form of old ids, and a range of keys that is not empty");
        }
        let Range { start, end } = old_ids.period;
        if start < UNIX_EPOCH || end < start || end >= UNIX_EPOCH + YEAR_9999 {
            return refuse(
                "their period must start in 1970 or later, and end after its start and before the year 9999",
            );
        }
        let is_of_addresses = |c: char| c.is_ascii_graphic() && !"<>\"\\^`{|}".contains(c);
        if !old_ids
            .documentation()
            .is_none_or(|address| !address.is_empty() && address.chars().all(is_of_addresses))
        {
            return refuse("the address of their documentation must be a URI (RFC 3986)");
        }
        let shown = [old_ids.shown.first(), old_ids.shown.last()];
        let [first, last] = shown.map(|id| *id.as_repr());
        for form in &old_ids.forms {
            let texts =
                form.write.iter().flat_map(|write| [first, last, T::Key::EXAMPLE].map(write));
            for text in texts {
                // `FromStr` would count refusals.
                let Ok(id) = T::Form::parse(T::PREFIX, &text) else {
                    continue;
                };
                let key_id = External::<T>::new(id).key_id();
                if keyring.has(key_id) {
                    let old_form = form.name;
                    return Err(KeyringError::AmbiguousOldIds { resource, old_form, key_id });
                }
            }
        }
        Ok(old_ids)
    }
}

impl<T: SealedResource<Key: Key<Repr = Uuid>>> OldIdsBuilder<T> {
    /// Accepts UUIDs: with hyphens or without, in either case, in braces, and as a URN.
    pub fn uuids(self) -> Self {
        let read = |text: &str, _: &Keyring| Uuid::try_parse(text).ok();
        let write = |uuid| MappedUuid::write("", uuid, &mut TextBuffer::new()).to_owned();
        self.add("uuid", Box::new(read), Some(Box::new(write)))
    }

    /// Accepts ULIDs in either case.
    pub fn ulids(self) -> Self {
        let read =
            |text: &str, _: &Keyring| text.to_ascii_uppercase().parse().ok().map(Ulid::into_repr);
        let write = |uuid| Ulid::from(uuid).to_string();
        self.add("ulid", Box::new(read), Some(Box::new(write)))
    }

    /// Accepts TypeIDs with this prefix.
    ///
    /// A TypeID with the resource's own prefix looks like an id of the text form with key id 0. Give the
    /// sealing secret the key id 1, and use no secret with key id 0 until old ids have ended. Or use the
    /// tagged form.
    pub fn type_ids(self, prefix: &'static str) -> Self {
        let read = move |text: &str| Mapped::parse(prefix, text).ok();
        let write = move |uuid| Mapped::write(prefix, uuid, &mut TextBuffer::new()).to_owned();
        self.form("typeid", read, write)
    }
}

impl<T> OldIdsBuilder<T>
where
    T: SealedResource,
    ReprOf<T>: Into<i64>,
{
    /// Accepts integers in decimal digits, with a sign and leading zeros or without.
    pub fn integers(self) -> Self {
        let read = |text: &str, _: &Keyring| text.parse().ok().and_then(Repr::from_integer);
        let write = |key: ReprOf<T>| Into::<i64>::into(key).to_string();
        self.add("integer", Box::new(read), Some(Box::new(write)))
    }
}

impl<T: SealedResource<Form = Short>> OldIdsBuilder<T>
where
    ReprOf<T>: Into<i64>,
{
    /// Accepts ids of the text form for a resource that has moved to the short form, including ids of
    /// integers that have shorter ids.
    pub fn text_form(self) -> Self {
        let read = |text: &str, keyring: &Keyring| {
            let key = keyring.read::<T, Text>(Text::parse(T::PREFIX, text).ok()?)?;
            has_short_id(key).then_some(key)
        };
        self.add(Text::NAME, Box::new(read), None)
    }
}

impl<T: SealedResource> fmt::Debug for OldIds<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let forms: Vec<_> = self.forms.iter().map(|form| form.name).collect();
        f.debug_struct("OldIds")
            .field("resource", &T::PREFIX)
            .field("forms", &forms)
            .field("period", &self.period)
            .finish_non_exhaustive()
    }
}

impl<T: SealedResource> fmt::Debug for OldIdsBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OldIdsBuilder").field("old_ids", &self.old_ids).finish_non_exhaustive()
    }
}
