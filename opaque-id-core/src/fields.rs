//! How the derives fill a view's field and open a request's, decided by the types of the fields.

use core::marker::PhantomData;

use crate::keyring::Keyring;
use crate::parts::{Parts, Requests, Views};
use crate::request::{IntoModel, RequestError};
use crate::view::IntoView;

/// How a field of a view is filled, decided by the types of both fields: method resolution tries the traits in their
/// order, as each is implemented for one reference less. `M` is the model's field, `V` the view's.
#[derive(Debug)]
pub struct Filling<M, V>(PhantomData<fn(M) -> V>);

impl<M, V> Filling<M, V> {
    /// Takes the types of the model's field from a reference to it.
    #[must_use]
    pub fn of(_: &M) -> Self {
        Self(PhantomData)
    }
}

/// The field of the model becomes a view.
pub trait FillByView<M, V> {
    /// Fills the field.
    fn fill(&self, field: M, keyring: &Keyring) -> V;
}

impl<M: IntoView<V>, V> FillByView<M, V> for &&&Filling<M, V> {
    fn fill(&self, field: M, keyring: &Keyring) -> V {
        field.into_view(keyring)
    }
}

/// The fields have the same type.
pub trait FillAsItIs<T> {
    /// Fills the field.
    fn fill(&self, field: T, keyring: &Keyring) -> T;
}

impl<T> FillAsItIs<T> for &&Filling<T, T> {
    fn fill(&self, field: T, _: &Keyring) -> T {
        field
    }
}

/// Parts of the field become views.
pub trait FillByParts<M, V, H> {
    /// Fills the field.
    fn fill(&self, field: M, keyring: &Keyring) -> V;
}

impl<M: Parts<Views, V, H>, V, H> FillByParts<M, V, H> for &Filling<M, V> {
    fn fill(&self, field: M, keyring: &Keyring) -> V {
        match field.change_parts(keyring) {
            Ok(view) => view,
            Err(_) => unreachable!("no id is opened"),
        }
    }
}

/// Neither: it does not compile, with the message of [`IntoView`].
pub trait FillNotAtAll<M, V> {
    /// Does not compile.
    fn fill(&self, field: M, keyring: &Keyring) -> V
    where
        M: IntoView<V>;
}

impl<M, V> FillNotAtAll<M, V> for Filling<M, V> {
    fn fill(&self, field: M, keyring: &Keyring) -> V
    where
        M: IntoView<V>,
    {
        field.into_view(keyring)
    }
}

/// How a field of a request is opened, decided by its type, as `Filling` decides for a view.
#[derive(Debug)]
pub struct Opening<R>(PhantomData<fn(R)>);

impl<R> Opening<R> {
    /// Takes the type of the request's field from a reference to it.
    #[must_use]
    pub fn of(_: &R) -> Self {
        Self(PhantomData)
    }
}

/// Parts of the field have ids. It comes before the next, since a map of which only the keys are opened is not what a model has.
pub trait OpenByParts<R, M, H> {
    /// Opens the field.
    ///
    /// # Errors
    /// [`RequestError`].
    fn open(&self, field: R, keyring: &Keyring) -> Result<M, RequestError>;
}

impl<R: Parts<Requests, M, H>, M, H> OpenByParts<R, M, H> for &&Opening<R> {
    fn open(&self, field: R, keyring: &Keyring) -> Result<M, RequestError> {
        field.change_parts(keyring)
    }
}

/// The field has ids.
pub trait OpenByModel<R, M> {
    /// Opens the field.
    ///
    /// # Errors
    /// [`RequestError`].
    fn open(&self, field: R, keyring: &Keyring) -> Result<M, RequestError>;
}

impl<R: IntoModel<M>, M> OpenByModel<R, M> for &Opening<R> {
    fn open(&self, field: R, keyring: &Keyring) -> Result<M, RequestError> {
        field.into_model(keyring)
    }
}

/// The field has none.
pub trait OpenNothing<R> {
    /// Passes the field on.
    ///
    /// # Errors
    /// Never.
    fn open(&self, field: R, keyring: &Keyring) -> Result<R, RequestError>;
}

impl<R> OpenNothing<R> for Opening<R> {
    fn open(&self, field: R, _: &Keyring) -> Result<R, RequestError> {
        Ok(field)
    }
}
