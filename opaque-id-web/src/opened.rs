//! Ids that serde opens.
//!
//! serde reaches ids at any depth of an application's types, and has no place for a keyring, nor for an error that is more than a
//! text. A wire type for each of the application's types would need a derive that repeats serde's attributes. So extractors run
//! the framework's own with the keyring in a thread-local, which is exchanged around each poll, so that no other task sees it, and which
//! receives the reason of a refusal. The core likewise notes in the thread which external id serde has refused last. An id in an
//! extractor of another crate finds no keyring: an error names the extractors.

use core::fmt;
use core::marker::PhantomData;
use core::mem::{self, swap};
use core::pin::pin;
use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;

use opaque_id_core::__private::{set_is_extractor, take_refused};
use opaque_id_core::form::FormOf;
use opaque_id_core::key::Repr;
use opaque_id_core::resource::{InternalId, ReprOf, SealedResource};
use opaque_id_core::{External, IdError, Keyring};
use serde_core::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_core::{Deserialize, Deserializer};
use serde_path_to_error::{Path, Segment, Track};

use crate::old_ids::OfRequest;
use crate::refusal::Refusal;

/// An id that the extractor has opened: the internal id of the resource's adapter.
///
/// It can stand wherever serde finds a string: alone, in tuples, structs, `Option`, lists and keys of maps, next to plain
/// values. It is deserialized by our extractors only, as they have the keyring. Below the layer
/// [`OldIdsLayer`](crate::OldIdsLayer) it is also opened from old ids.
///
/// ```
/// use opaque_id_core::OpaqueId;
/// use opaque_id_web::Opened;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users?friend=user_…`
/// #[derive(serde::Deserialize)]
/// struct Filter {
///     friend: Option<Opened<User>>,
///     year: u16,
/// }
/// ```
///
/// With the features `utoipa5`, `utoipa6` and `schemars1` it has the schema of `External<T>`.
pub struct Opened<T: SealedResource>(
    /// The internal id.
    pub T::Internal,
);

opaque_id_core::value_traits!(Opened: SealedResource);

impl<T: SealedResource> Opened<T> {
    fn from_text(text: &str, scope: &Scope) -> Result<Self, IdError> {
        let old_ids = scope.old_ids.as_ref();
        if let Some(accepted) = old_ids.and_then(|old| old.accept::<T>(text, &scope.keyring)) {
            return Ok(Self(accepted?));
        }
        let id: External<T> = text.parse()?;
        Ok(Self(scope.keyring.open(id)?))
    }

    /// A number is an old id, if it is an id at all.
    fn from_number(number: &str, scope: &Scope) -> Result<Self, IdError> {
        let old_ids = scope.old_ids.as_ref().ok_or(IdError::NotText)?;
        let accepted = old_ids.accept::<T>(number, &scope.keyring);
        Ok(Self(accepted.ok_or(IdError::NotText)??))
    }
}

/// The keyring for deserialized ids. serde has no place for it, so it is in the thread while an extractor is polled.
#[derive(Debug)]
struct Scope {
    keyring: Keyring,
    old_ids: Option<OfRequest>,
    /// Whether a refused id becomes one that no row has, instead of an error.
    is_again: bool,
    /// The numbers of the refused ids, by the prefix of the expected resource and their texts.
    stand_ins: HashMap<(&'static str, String), u32>,
    /// serde's errors are texts, so what was refused is kept here.
    refused: Option<Record>,
    place: Place,
    /// Where a [`Placed`] value could not be deserialized, as a JSON pointer.
    pointer: String,
}

/// The prefix of the expected resource, and why its id was refused.
type Record = (&'static str, IdError);

/// Where a request has what an extractor reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the path or the query, where every value is a text.
    Url,
    /// In the body.
    Body,
}

thread_local! {
    static SCOPE: RefCell<Option<Scope>> = const { RefCell::new(None) };
}

/// Runs a framework's extractor so that ids are opened in it.
///
/// # Errors
/// [`Failed`], whose [`again`](Failed::again) has the reason.
pub async fn extract<T, E>(
    keyring: Keyring,
    old_ids: Option<OfRequest>,
    place: Place,
    extractor: impl Future<Output = Result<T, E>>,
) -> Result<T, Failed<E>> {
    let scope = Scope {
        keyring,
        old_ids,
        is_again: false,
        stand_ins: HashMap::new(),
        refused: None,
        place,
        pointer: String::new(),
    };
    let (extracted, scope) = scope.run(extractor).await;
    extracted.map_err(|error| Failed { error, scope })
}

/// An extractor that failed, by an id or otherwise.
#[derive(Debug)]
pub struct Failed<E> {
    error: E,
    scope: Scope,
}

impl<E> Failed<E> {
    /// Returns the error, and the refusal of an id unless something else is wrong.
    ///
    /// If only ids were refused, the same extractor runs again, as if they were right. Other errors of a request must be the same
    /// for genuine and for refused ids, or they would say which id is genuine. So the ids of the second run are equal if their texts are,
    /// or if they open to the same row.
    pub async fn again<T>(
        self,
        extractor: impl Future<Output = Result<T, E>>,
    ) -> (E, Option<Refusal>) {
        let Self { error, mut scope } = self;
        let Some((resource, reason)) = scope.refused.take() else {
            return (error, None);
        };
        let pointer = (scope.place == Place::Body).then(|| mem::take(&mut scope.pointer));
        scope.is_again = true;
        match scope.run(extractor).await {
            (Err(other), Scope { refused: None, .. }) => (other, None),
            _ => (error, Some(Refusal::new(Some(resource), reason, pointer))),
        }
    }
}

impl Scope {
    /// Returns the scope as well, with the id that was refused last.
    async fn run<F: Future>(self, extractor: F) -> (F::Output, Self) {
        /// Exchanges the thread's scope, and does so again at the end, after a panic as well.
        struct Entered<'a>(&'a mut Option<Scope>);

        impl<'a> Entered<'a> {
            fn new(scope: &'a mut Option<Scope>) -> Self {
                set_is_extractor(true);
                SCOPE.with_borrow_mut(|current| swap(current, scope));
                Self(scope)
            }
        }

        impl Drop for Entered<'_> {
            fn drop(&mut self) {
                set_is_extractor(false);
                SCOPE.with_borrow_mut(|current| swap(current, self.0));
            }
        }

        let mut scope = Some(self);
        let mut extractor = pin!(extractor);
        let output = poll_fn(|context| {
            let _entered = Entered::new(&mut scope);
            // Of another task on this thread.
            let _ = take_refused();
            extractor.as_mut().poll(context)
        })
        .await;
        let mut scope = scope.expect("it was exchanged back");
        scope.refused = scope.refused.or_else(take_refused);
        (output, scope)
    }
}

/// A value of a body: the refusal of an id in it has the id's place, as far as serde knows it.
#[derive(Debug)]
pub struct Placed<T>(
    /// The value.
    pub T,
);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut track = Track::new();
        let value =
            T::deserialize(serde_path_to_error::Deserializer::new(deserializer, &mut track));
        value.map(Self).inspect_err(|_| {
            SCOPE.with_borrow_mut(|scope| {
                if let Some(scope) = scope {
                    scope.pointer = pointer(&track.path());
                }
            });
        })
    }
}

fn pointer(path: &Path) -> String {
    let mut pointer = String::new();
    for segment in path {
        let name = match segment {
            Segment::Seq { index } => index.to_string(),
            Segment::Map { key: name } | Segment::Enum { variant: name } => {
                name.replace('~', "~0").replace('/', "~1")
            }
            Segment::Unknown => break,
        };
        pointer.push('/');
        pointer.push_str(&name);
    }
    pointer
}

struct OpenedVisitor<T>(PhantomData<fn() -> T>);

impl<T: SealedResource> OpenedVisitor<T> {
    fn visit<E: Error>(
        text: &str,
        open: impl FnOnce(&str, &Scope) -> Result<Opened<T>, IdError>,
    ) -> Result<Opened<T>, E> {
        SCOPE.with_borrow_mut(|scope| {
            let scope = scope.as_mut().ok_or_else(|| {
                E::custom("no keyring: extract ids by `Path`, `Query`, `Form` or `Json` of opaque-id-axum or opaque-id-actix")
            })?;
            let expected = || (T::PREFIX, text.to_owned());
            // A refused id is counted once.
            if scope.is_again && let Some(number) = scope.stand_ins.get(&expected()) {
                return Ok(stand_in(*number));
            }
            open(text, scope).or_else(|reason| {
                let next = u32::try_from(scope.stand_ins.len()).map_err(E::custom)?;
                let number = *scope.stand_ins.entry(expected()).or_insert(next);
                if scope.is_again {
                    return Ok(stand_in(number));
                }
                scope.refused = Some((T::PREFIX, reason));
                Err(E::custom(format_args!("not an id of a `{}`", T::PREFIX)))
            })
        })
    }
}

/// Returns one of the last keys of a resource, which no row has: the last bits of a key are not fixed.
fn stand_in<T: SealedResource>(number: u32) -> Opened<T> {
    let (_, last) = ReprOf::<T>::range(<T::Form as FormOf<T::Key>>::FIXED);
    let block = last.to_plaintext(0) - (u128::from(number) << ReprOf::<T>::TAG_BITS);
    Opened(T::Internal::from_checked(ReprOf::<T>::from_plaintext(block, 0).unwrap_or(last)))
}

macro_rules! refuse {
    ($($visit:ident: $type:ty;)*) => {$(
        fn $visit<E: Error>(self, _: $type) -> Result<Opened<T>, E> {
            Self::visit("", |_, _| Err(IdError::NotText))
        }
    )*};
}

/// Visits every type, so that a body's number is refused as a malformed id is.
impl<'de, T: SealedResource> Visitor<'de> for OpenedVisitor<T> {
    type Value = Opened<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an id of a `{}`", T::PREFIX)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Opened<T>, E> {
        Self::visit(text, Opened::from_text)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Opened<T>, E> {
        Self::visit(&number.to_string(), Opened::from_number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Opened<T>, E> {
        Self::visit(&number.to_string(), Opened::from_number)
    }

    refuse! {
        visit_bool: bool;
        visit_f64: f64;
    }

    fn visit_unit<E: Error>(self) -> Result<Opened<T>, E> {
        Self::visit("", |_, _| Err(IdError::NotText))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Opened<T>, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Self::visit("", |_, _| Err(IdError::NotText))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Opened<T>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Self::visit("", |_, _| Err(IdError::NotText))
    }
}

impl<'de, T: SealedResource> Deserialize<'de> for Opened<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // A URL's 042 is the text and not the number, whatever a framework makes of it.
        let is_in_url = |scope: &Option<Scope>| matches!(scope, Some(it) if it.place == Place::Url);
        match SCOPE.with_borrow(is_in_url) {
            true => deserializer.deserialize_str(OpenedVisitor(PhantomData)),
            false => deserializer.deserialize_any(OpenedVisitor(PhantomData)),
        }
    }
}

impl<T: SealedResource> fmt::Debug for Opened<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Opened").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::task::{Context, Poll, Waker};

    use opaque_id_core::{Internal, MasterSecret, OpaqueId};
    use serde_core::de::IntoDeserializer;
    use serde_core::de::value::Error;

    use super::*;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "user")]
    struct User;

    fn open(text: &str) -> Result<Opened<User>, Error> {
        Opened::deserialize(IntoDeserializer::<Error>::into_deserializer(text))
    }

    fn keyring() -> Keyring {
        let keyring = Keyring::builder().sealing(0, MasterSecret::generate());
        keyring.build().expect("a good secret")
    }

    fn poll<F: Future>(extractor: F) -> Poll<F::Output> {
        pin!(extractor).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn no_keyring_stays_in_the_thread() {
        let keyring = keyring();
        let id = keyring.seal(Internal::<User>::generate()).to_string();
        let in_scope = || extract(keyring.clone(), None, Place::Url, ready(open(&id)));
        // The ready future was made outside of the scope.
        assert!(matches!(poll(in_scope()), Poll::Ready(Err(_))));
        let opened = extract(keyring.clone(), None, Place::Url, async { open(&id) });
        assert!(matches!(poll(opened), Poll::Ready(Ok(_))));
        assert!(open(&id).is_err(), "after an extractor");

        let waits = extract(keyring.clone(), None, Place::Url, async {
            assert!(open(&id).is_ok());
            pending::<Result<(), Error>>().await
        });
        assert!(poll(waits).is_pending());
        assert!(open(&id).is_err(), "after one that waited and was dropped");

        let panics = extract::<(), Error>(keyring.clone(), None, Place::Url, async {
            assert!(open(&id).is_ok());
            panic!("in an extractor")
        });
        assert!(catch_unwind(AssertUnwindSafe(|| poll(panics).is_ready())).is_err());
        assert!(open(&id).is_err(), "after one that panicked");
    }
}
