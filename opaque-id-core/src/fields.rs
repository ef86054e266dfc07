//! The derives' rules for the fields of views and requests. The types of the fields choose the rule.

use core::marker::PhantomData;

use crate::keyring::Keyring;
use crate::parts::{Parts, Requests, Views};
use crate::request::{IntoModel, RequestError};
use crate::view::IntoView;

/// The choice of how to fill a view's field `V` from the model's field `M`. Method resolution tries the
/// traits in order, because each is implemented for one reference less than the one before.
#[derive(Debug)]
pub struct Filling<M, V>(PhantomData<fn(M) -> V>);

impl<M, V> Filling<M, V> {
    /// Takes the types of the model's field from a reference to it.
    #[must_use]
    pub fn of(_: &M) -> Self {
        Self(PhantomData)
    }
}

/// Fills a field that becomes a view.
pub trait FillByView<M, V> {
    /// Fills the field.
    fn fill(&self, field: M, keyring: &Keyring) -> V;
}

impl<M: IntoView<V>, V> FillByView<M, V> for &&&Filling<M, V> {
    fn fill(&self, field: M, keyring: &Keyring) -> V {
        field.into_view(keyring)
    }
}

/// Fills a field of the same type.
pub trait FillAsItIs<T> {
    /// Fills the field.
    fn fill(&self, field: T, keyring: &Keyring) -> T;
}

impl<T> FillAsItIs<T> for &&Filling<T, T> {
    fn fill(&self, field: T, _: &Keyring) -> T {
        field
    }
}

/// Fills a field that has parts which become views.
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

/// Does not compile, with the message of [`IntoView`].
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

/// The choice of how to open a request's field, like `Filling`.
#[derive(Debug)]
pub struct Opening<R>(PhantomData<fn(R)>);

impl<R> Opening<R> {
    /// Takes the type of the request's field from a reference to it.
    #[must_use]
    pub fn of(_: &R) -> Self {
        Self(PhantomData)
    }
}

/// Opens a field with ids in its parts. It precedes `OpenByModel`, because models have no maps with only
/// their keys opened.
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

/// Opens a field of ids.
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

/// Passes on a field without ids.
pub trait OpenNothing<R> {
    /// Passes the field on.
    ///
    /// # Errors
    /// It never fails.
    fn open(&self, field: R, keyring: &Keyring) -> Result<R, RequestError>;
}

impl<R> OpenNothing<R> for Opening<R> {
    fn open(&self, field: R, _: &Keyring) -> Result<R, RequestError> {
        Ok(field)
    }
}
