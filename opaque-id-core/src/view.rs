//! Views: what an API shows of a value, with external ids where the value has internal ones.

use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::collections::HashMap;

use crate::keyring::Keyring;

/// A value that becomes a view: what an API shows of it.
///
/// Derive it on the view, `#[derive(View)] #[view(from = User)]`; the derive writes this impl for the model. Implement it
/// by hand for views that the derive has no words for, such as generic ones.
///
/// An internal id of a sealed resource becomes its external id. What is in an `Option`, a `Vec`, a `Box`, or a key of a
/// `HashMap` becomes a view in the same.
///
/// ```
/// use opaque_id_core::{External, Internal, IntoView, Keyring, OpaqueId};
///
/// #[derive(OpaqueId)]
/// #[opaque_id(prefix = "user")]
/// struct User {
///     id: Internal<User>,
/// }
///
/// struct Page<T> {
///     items: Vec<T>,
///     is_last: bool,
/// }
///
/// impl<M: IntoView<V>, V> IntoView<Page<V>> for Page<M> {
///     fn into_view(self, keyring: &Keyring) -> Page<V> {
///         Page { items: self.items.into_view(keyring), is_last: self.is_last }
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not become `{V}` in a view",
    label = "the model has a `{Self}` for it",
    note = "an `Internal<T>` becomes an `External<T>` of the same resource, inside `Option`, `Vec`, `Box` and as the keys of a `HashMap` as well; a model becomes a view that has `#[derive(View)] #[view(from = …)]`",
    note = "everything else must have the same type in the view: or write `#[view(with = f)]`, where `f` takes `&` of the model, or implement `IntoView` by hand",
    note = "an id of a mapped resource is a row of its table: mark the field with `#[view(given)]`, and convert all rows by `UuidMap::view_all`"
)]
pub trait IntoView<V> {
    /// Converts the value, sealing its ids. [`Keyring::view`] does the same by inference.
    fn into_view(self, keyring: &Keyring) -> V;
}

impl Keyring {
    /// Converts a model into a view, or a `Vec` of models into a `Vec` of views, sealing all ids. The view's type
    /// follows from where the result goes, such as `Json<UserView>`.
    ///
    /// It allocates nothing but the containers.
    ///
    /// The [`manual`](crate::manual#views) has an example.
    pub fn view<M: IntoView<V>, V>(&self, model: M) -> V {
        model.into_view(self)
    }
}

impl<M: IntoView<V>, V> IntoView<Option<V>> for Option<M> {
    fn into_view(self, keyring: &Keyring) -> Option<V> {
        self.map(|model| model.into_view(keyring))
    }
}

impl<M: IntoView<V>, V> IntoView<Vec<V>> for Vec<M> {
    fn into_view(self, keyring: &Keyring) -> Vec<V> {
        self.into_iter().map(|model| model.into_view(keyring)).collect()
    }
}

impl<M: IntoView<V>, V> IntoView<Box<V>> for Box<M> {
    fn into_view(self, keyring: &Keyring) -> Box<V> {
        Box::new((*self).into_view(keyring))
    }
}

/// The keys are ids; the values stay as they are.
impl<K, L, V, S> IntoView<HashMap<L, V, S>> for HashMap<K, V, S>
where
    K: IntoView<L>,
    L: Eq + Hash,
    S: BuildHasher + Default,
{
    fn into_view(self, keyring: &Keyring) -> HashMap<L, V, S> {
        self.into_iter().map(|(key, value)| (key.into_view(keyring), value)).collect()
    }
}

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

impl<M: IntoView<V>, V> FillByView<M, V> for &&Filling<M, V> {
    fn fill(&self, field: M, keyring: &Keyring) -> V {
        field.into_view(keyring)
    }
}

/// The fields have the same type.
pub trait FillAsItIs<T> {
    /// Fills the field.
    fn fill(&self, field: T, keyring: &Keyring) -> T;
}

impl<T> FillAsItIs<T> for &Filling<T, T> {
    fn fill(&self, field: T, _: &Keyring) -> T {
        field
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

/// A part of other views, which is filled from fields with a prefix. The derive implements it.
pub trait ViewPart {
    /// Its fields, in their order.
    type Fields;
    /// Puts them together.
    fn from_fields(fields: Self::Fields) -> Self;
}

/// A [`ViewPart`]'s field by its number.
pub trait PartField<const NUMBER: usize> {
    /// The field's type.
    type Type;
}
