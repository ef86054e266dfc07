use core::fmt;
use core::marker::PhantomData;
use core::str::FromStr;

use opaque_id_core::__private::stand_in;
use opaque_id_core::resource::SealedResource;
use opaque_id_core::{AnyId, External, IdError, IntoModel, Keyring};
use serde_core::de::{Error, IgnoredAny, MapAccess, SeqAccess, Visitor, value};
use serde_core::{Deserialize, Deserializer};

use crate::old_ids::RequestOldIds;
use crate::scope::{self, Scope, is_text};

/// An id that the extractor has opened: the internal id of the resource's adapter.
///
/// It can be used wherever serde finds a string: alone, in tuples, structs, `Option`, lists and keys of maps,
/// next to plain values. Only our extractors deserialize it, because they have the keyring. Below an
/// [`OldIdsLayer`](crate::OldIdsLayer) it also accepts old ids.
///
/// ```
/// use opaque_id_core::OpaqueId;
/// use opaque_id_web::Opened;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User;
///
/// /// `GET /users?friend=user_…&id=user_…&id=user_…`
/// #[derive(serde::Deserialize)]
/// struct Filter {
///     friend: Option<Opened<User>>, // `friend=` is none
///     #[serde(default)]
///     id: Vec<Opened<User>>,
///     year: u16,
/// }
/// ```
///
/// Inside our extractors it also implements `FromStr`, for crates such as serde_with.
///
/// With the features `utoipa5`, `utoipa6`, `schemars08`, `schemars09` and `schemars1` it has the schema of
/// `External<T>`.
pub struct Opened<T: SealedResource>(
    /// The internal id.
    pub T::Internal,
);

opaque_id_core::value_traits!(Opened: SealedResource);

impl<T: SealedResource> Opened<T> {
    /// Opens a text that no extractor reads, such as a header, a field of a multipart form or a message.
    ///
    /// Below an [`OldIdsLayer`](crate::OldIdsLayer), the extensions of the request have `old_ids`.
    ///
    /// # Errors
    /// [`IdError`]. [`Refusal::in_url`](crate::Refusal::in_url) and
    /// [`Refusal::in_body`](crate::Refusal::in_body) convert it into the answer of an extractor.
    pub fn read(
        text: &str,
        keyring: &Keyring,
        old_ids: Option<&RequestOldIds>,
    ) -> Result<Self, IdError> {
        if let Some(accepted) = old_ids.and_then(|old| old.accept::<T>(text, keyring)) {
            return Ok(Self(accepted?));
        }
        let id: External<T> = text.parse()?;
        Ok(Self(keyring.open(id)?))
    }
}

/// An id of one of several resources ([`AnyId`](opaque_id_core::AnyId)) that the extractor has opened, like
/// [`Opened`], but without old ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenedAny<A: AnyId>(
    /// The internal id.
    pub A,
);

/// A model from a request with `#[derive(IntoModel)]`, with opened ids.
///
/// A refused id in it has the same answer and the same event in the log as an [`Opened`]. An error of
/// [`Keyring::accept`](opaque_id_core::Keyring::accept) in a handler has these only if it is converted into a
/// [`Refusal`](crate::Refusal).
///
/// ```
/// use opaque_id_core::{External, Internal, IntoModel, OpaqueId};
/// use opaque_id_web::Accepted;
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "team")]
/// struct Team;
///
/// struct NewUser {
///     team: Internal<Team>,
/// }
///
/// #[derive(serde::Deserialize, IntoModel)]
/// #[model(into = NewUser)]
/// struct CreateUser {
///     team: External<Team>,
/// }
///
/// // In a handler: `Json(Accepted(new, ..)): Json<Accepted<CreateUser, NewUser>>`
/// fn create(Accepted(new, ..): Accepted<CreateUser, NewUser>) -> NewUser {
///     new
/// }
/// ```
#[derive(Debug)]
pub struct Accepted<R, M>(
    /// The model.
    pub M,
    /// The request's type.
    pub PhantomData<fn() -> R>,
);

impl<'de, R: IntoModel<M> + Deserialize<'de>, M> Deserialize<'de> for Accepted<R, M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        scope::accept(R::deserialize(deserializer)?).map(|model| Self(model, PhantomData))
    }
}

trait Openable: Sized {
    const RESOURCE: Option<&'static str>;

    fn from_text(text: &str, scope: &Scope) -> Result<Self, IdError>;

    fn from_number(_: &str, _: &Scope) -> Result<Self, IdError> {
        Err(IdError::NotText)
    }

    fn stand_in(text: &str, keyring: &Keyring, number: u32) -> Option<Self>;

    fn open<E: Error>(
        text: &str,
        open: impl FnOnce(&str, &Scope) -> Result<Self, IdError>,
    ) -> Result<Self, E> {
        let stand_in = |keyring: &_, number| Self::stand_in(text, keyring, number);
        scope::open(Self::RESOURCE, text, |scope| open(text, scope), stand_in)
    }
}

impl<T: SealedResource> Openable for Opened<T> {
    const RESOURCE: Option<&'static str> = Some(T::PREFIX);

    fn from_text(text: &str, scope: &Scope) -> Result<Self, IdError> {
        Self::read(text, &scope.keyring, scope.old_ids.as_ref())
    }

    fn from_number(number: &str, scope: &Scope) -> Result<Self, IdError> {
        let old_ids = scope.old_ids.as_ref().ok_or(IdError::NotText)?;
        let accepted = old_ids.accept::<T>(number, &scope.keyring);
        Ok(Self(accepted.ok_or(IdError::NotText)??))
    }

    fn stand_in(_: &str, _: &Keyring, number: u32) -> Option<Self> {
        Some(Self(stand_in::<T>(number)))
    }
}

impl<A: AnyId> Openable for OpenedAny<A> {
    const RESOURCE: Option<&'static str> = None;

    fn from_text(text: &str, scope: &Scope) -> Result<Self, IdError> {
        scope.keyring.open_any(text).map(Self)
    }

    fn stand_in(text: &str, keyring: &Keyring, number: u32) -> Option<Self> {
        let of_text = text.rsplit_once('_').map(|(prefix, _)| prefix);
        let mut prefixes = of_text.into_iter().chain(A::PREFIXES.first().copied());
        prefixes
            .find_map(|prefix| A::open_text(keyring, prefix, text, Some(number)).ok()?)
            .map(Self)
    }
}

struct OpenedVisitor<V>(PhantomData<fn() -> V>);

macro_rules! refuse {
    ($($visit:ident: $type:ty;)*) => {$(
        fn $visit<E: Error>(self, _: $type) -> Result<V, E> {
            V::open("", |_, _| Err(IdError::NotText))
        }
    )*};
}

/// A number in a body is refused like a malformed id.
impl<'de, V: Openable> Visitor<'de> for OpenedVisitor<V> {
    type Value = V;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match V::RESOURCE {
            Some(resource) => write!(f, "an id of a `{resource}`"),
            None => f.write_str("an id"),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V, E> {
        V::open(text, V::from_text)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<V, E> {
        V::open(&number.to_string(), V::from_number)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<V, E> {
        V::open(&number.to_string(), V::from_number)
    }

    refuse! {
        visit_bool: bool;
        visit_f64: f64;
    }

    fn visit_unit<E: Error>(self) -> Result<V, E> {
        V::open("", |_, _| Err(IdError::NotText))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<V, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        V::open("", |_, _| Err(IdError::NotText))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<V, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        V::open("", |_, _| Err(IdError::NotText))
    }
}

fn deserialize<'de, V: Openable, D: Deserializer<'de>>(deserializer: D) -> Result<V, D::Error> {
    match is_text() {
        true => deserializer.deserialize_str(OpenedVisitor(PhantomData)),
        false => deserializer.deserialize_any(OpenedVisitor(PhantomData)),
    }
}

macro_rules! openable {
    ($($name:ident: $bound:ident;)*) => {$(
        impl<'de, T: $bound> Deserialize<'de> for $name<T> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserialize(deserializer)
            }
        }

        /// Parses an id in our extractors.
        impl<T: $bound> FromStr for $name<T> {
            type Err = value::Error;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::open(text, Self::from_text)
            }
        }
    )*};
}

openable! {
    Opened: SealedResource;
    OpenedAny: AnyId;
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
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use opaque_id_core::{Internal, Keyring, MasterSecret, OpaqueId};
    use serde_core::de::IntoDeserializer;
    use serde_core::de::value::Error;

    use super::*;
    use crate::scope::{Place, extract};

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
