//! Requests with external ids for models with internal ones.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use thiserror::Error;

use crate::error::OpenError;
use crate::external::External;
use crate::extractor;
use crate::form::TextBuffer;
use crate::keyring::Keyring;
use crate::resource::{InternalId, SealedResource, stand_in};

/// A request that becomes a model by opening its ids.
///
/// Derive it on the request, `#[derive(IntoModel)] #[model(into = NewUser)]`. Implement it by hand for
/// requests that the derive cannot describe.
///
/// An external id of a sealed resource becomes its internal id, also in `Option`, `Vec`, `Box`, an array, a
/// set, and as a key of a map. Fields can have
/// [more containers](crate::manual#messages-and-generic-types).
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not become `{M}` by opening its ids",
    label = "this part of a request",
    note = "an `External<T>` becomes an `Internal<T>` of the same resource, in `Option`, `Vec`, `Box`, arrays, sets, maps and tuples of a derived request as well; a request becomes the model that its `#[model(into = …)]` names",
    note = "everything else must have the same type in the model: or write `#[model(with = f)]`, where `f` takes the opened value",
    note = "an id of a mapped resource is a row of its table: look it up with `UuidMap::find_all`"
)]
pub trait IntoModel<M> {
    /// Opens the ids. [`Keyring::accept`] does the same by inference.
    ///
    /// # Errors
    /// [`RequestError`] at the first id that does not open.
    fn into_model(self, keyring: &Keyring) -> Result<M, RequestError>;
}

/// An error for an id in a request that no row can have.
///
/// Tell the client the field, but not the reason: that is for the log.
///
/// The [`manual`](crate::manual#requests) has an example.
#[derive(Debug, PartialEq, Eq, Error)]
#[error("the `{resource}` id at `{}` does not open: {problem}", self.pointer())]
pub struct RequestError {
    resource: &'static str,
    problem: OpenError,
    /// The innermost segment comes first.
    path: Vec<Segment>,
}

#[derive(Debug, PartialEq, Eq)]
enum Segment {
    Field(&'static str),
    Index(usize),
}

impl RequestError {
    /// Returns the place of the id as a JSON pointer (RFC 6901) with serde's names, such as `/teamIds/1`.
    #[must_use]
    pub fn pointer(&self) -> String {
        self.path.iter().rev().map(ToString::to_string).collect()
    }

    /// Returns the prefix of the id's resource.
    #[must_use]
    pub fn resource(&self) -> &'static str {
        self.resource
    }

    /// Returns the reason why the id does not open. It is for the log.
    #[must_use]
    pub fn problem(&self) -> OpenError {
        self.problem
    }

    pub(crate) fn at(mut self, index: usize) -> Self {
        self.path.push(Segment::Index(index));
        self
    }

    /// Adds the field of the error to its path. The derive calls it.
    #[doc(hidden)]
    #[must_use]
    pub fn in_field(mut self, name: &'static str) -> Self {
        self.path.push(Segment::Field(name));
        self
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(f, "/{}", name.replace('~', "~0").replace('/', "~1")),
            Self::Index(index) => write!(f, "/{index}"),
        }
    }
}

impl Keyring {
    /// Converts a request into a model by opening all ids. The model's type follows from the use of the
    /// result.
    ///
    /// It neither looks up rows nor controls access: check both as before.
    ///
    /// # Errors
    /// [`RequestError`] at the first id that does not open. It contains the place of the id. Answer 422.
    pub fn accept<R: IntoModel<M>, M>(&self, request: R) -> Result<M, RequestError> {
        request.into_model(self)
    }
}

/// Opens the id as any type of internal ids of the resource: this crate's, an adapter's, or a newtype.
impl<T: SealedResource, I: InternalId<Resource = T>> IntoModel<I> for External<T> {
    fn into_model(self, keyring: &Keyring) -> Result<I, RequestError> {
        let id = keyring.open(self).or_else(|problem| {
            let number = extractor::current().and_then(|extractor| {
                (extractor.stand_in)(T::PREFIX, self.encode(&mut TextBuffer::new()))
            });
            let refused = RequestError { resource: T::PREFIX, problem, path: Vec::new() };
            number.map(stand_in::<T>).ok_or(refused)
        });
        id.map(InternalId::convert)
    }
}

impl<R: IntoModel<M>, M> IntoModel<Option<M>> for Option<R> {
    fn into_model(self, keyring: &Keyring) -> Result<Option<M>, RequestError> {
        self.map(|request| request.into_model(keyring)).transpose()
    }
}

impl<R: IntoModel<M>, M> IntoModel<Vec<M>> for Vec<R> {
    fn into_model(self, keyring: &Keyring) -> Result<Vec<M>, RequestError> {
        let models = self
            .into_iter()
            .enumerate()
            .map(|(index, request)| request.into_model(keyring).map_err(|error| error.at(index)));
        models.collect()
    }
}

impl<R: IntoModel<M>, M, const N: usize> IntoModel<[M; N]> for [R; N] {
    fn into_model(self, keyring: &Keyring) -> Result<[M; N], RequestError> {
        let models: Vec<M> = Vec::from(self).into_model(keyring)?;
        Ok(models.try_into().unwrap_or_else(|_| unreachable!("as many as there were")))
    }
}

/// An error names the whole collection, because a set has no order and a map's key has no place of its own.
macro_rules! unordered {
    ($($of:ident<R $(=> $V:ident)? $(; $S:ident: $hasher:path)?>: $($bound:path),+;)*) => {$(
        impl<R, M, $($V,)? $($S)?> IntoModel<$of<M, $($V,)? $($S)?>> for $of<R, $($V,)? $($S)?>
        where
            R: IntoModel<M>,
            M: $($bound +)+,
            $($S: $hasher + Default)?
        {
            fn into_model(self, keyring: &Keyring) -> Result<$of<M, $($V,)? $($S)?>, RequestError> {
                self.into_iter().map(|item| unordered!(@open item keyring $($V)?)).collect()
            }
        }
    )*};
    (@open $item:ident $keyring:ident) => { $item.into_model($keyring) };
    (@open $item:ident $keyring:ident $V:ident) => { Ok(($item.0.into_model($keyring)?, $item.1)) };
}

unordered! {
    HashSet<R; S: BuildHasher>: Eq, Hash;
    BTreeSet<R>: Ord;
    HashMap<R => V; S: BuildHasher>: Eq, Hash;
    BTreeMap<R => V>: Ord;
}

impl<R: IntoModel<M>, M> IntoModel<Box<M>> for Box<R> {
    fn into_model(self, keyring: &Keyring) -> Result<Box<M>, RequestError> {
        (*self).into_model(keyring).map(Box::new)
    }
}
