//! Views with external ids of models with internal ones.

use core::hash::{BuildHasher, Hash};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use crate::keyring::Keyring;

/// A model that becomes a view, the value that an API shows.
///
/// Derive it on the view, `#[derive(View)] #[view(from = User)]`, or let the derive write the view of the
/// model, `#[view(into = UserView)]`. Implement it by hand for views that the derive cannot describe.
///
/// An internal id of a sealed resource becomes its external id, also in `Option`, `Vec`, an array, a set,
/// `Box`, `Arc<[_]>`, `Result`, and as a key of a map. Fields can have
/// [more containers](crate::manual#messages-and-generic-types).
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
    note = "an `Internal<T>` becomes an `External<T>` of the same resource, inside `Option`, `Vec`, `Box`, arrays, sets, maps and tuples of a derived view as well; a model becomes a view that has `#[derive(View)] #[view(from = …)]`",
    note = "everything else must have the same type in the view: or write `#[view(with = f)]`, where `f` takes `&` of the model, or implement `IntoView` by hand",
    note = "an id of a mapped resource is a row of its table: mark the field with `#[view(given)]`, and convert all rows by `UuidMap::view_all`"
)]
pub trait IntoView<V> {
    /// Converts the value by sealing its ids. [`Keyring::view`] does the same by inference.
    fn into_view(self, keyring: &Keyring) -> V;
}

impl Keyring {
    /// Converts a model into a view, or a `Vec` of them, by sealing all ids. The view's type follows from the
    /// use of the result, such as `Json<UserView>`. It allocates only the containers. The
    /// [`manual`](crate::manual#views) has an example.
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

/// Converts the keys.
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

impl<K: IntoView<L>, L: Ord, V> IntoView<BTreeMap<L, V>> for BTreeMap<K, V> {
    fn into_view(self, keyring: &Keyring) -> BTreeMap<L, V> {
        self.into_iter().map(|(key, value)| (key.into_view(keyring), value)).collect()
    }
}

impl<M, V, S> IntoView<HashSet<V, S>> for HashSet<M, S>
where
    M: IntoView<V>,
    V: Eq + Hash,
    S: BuildHasher + Default,
{
    fn into_view(self, keyring: &Keyring) -> HashSet<V, S> {
        self.into_iter().map(|model| model.into_view(keyring)).collect()
    }
}

/// Converts a set. The order of the views reveals nothing.
impl<M: IntoView<V>, V: Ord> IntoView<BTreeSet<V>> for BTreeSet<M> {
    fn into_view(self, keyring: &Keyring) -> BTreeSet<V> {
        self.into_iter().map(|model| model.into_view(keyring)).collect()
    }
}

impl<M: IntoView<V>, V, const N: usize> IntoView<[V; N]> for [M; N] {
    fn into_view(self, keyring: &Keyring) -> [V; N] {
        self.map(|model| model.into_view(keyring))
    }
}

impl<M: IntoView<V> + Clone, V> IntoView<Arc<[V]>> for Arc<[M]> {
    fn into_view(self, keyring: &Keyring) -> Arc<[V]> {
        self.iter().map(|model| model.clone().into_view(keyring)).collect()
    }
}

/// Converts the value.
impl<M: IntoView<V>, V, E> IntoView<Result<V, E>> for Result<M, E> {
    fn into_view(self, keyring: &Keyring) -> Result<V, E> {
        self.map(|model| model.into_view(keyring))
    }
}

/// A part of other views, filled from fields with a prefix. The derive implements it.
pub trait ViewPart {
    /// The fields in their order.
    type Fields;
    /// Assembles the part.
    fn from_fields(fields: Self::Fields) -> Self;
}

/// The type of a [`ViewPart`]'s field by its number.
pub trait PartField<const NUMBER: usize> {
    /// The field's type.
    type Type;
}
