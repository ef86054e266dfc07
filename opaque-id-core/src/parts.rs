//! Containers with ids in some of their parts, such as a map from names to ids.
//!
//! On stable Rust, impls for the different cases would overlap. So each has its own marker as its last
//! parameter, and the compiler infers it because only one case fits.

use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;
use std::collections::{BTreeMap, HashMap};

use crate::keyring::Keyring;
use crate::request::{IntoModel, RequestError};
use crate::view::IntoView;

/// The direction from a model to its view. It never fails.
#[derive(Debug)]
pub struct Views;

/// The direction from a request to its model.
#[derive(Debug)]
pub struct Requests;

macro_rules! markers {
    ($($(#[$doc:meta])* $name:ident<$($param:ident),*>;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<$($param),*>(PhantomData<fn() -> ($($param,)*)>);
    )*};
}

markers! {
    Whole<>;
    InParts<H>;
    Same<>;
    Becomes<H>;
    Values<H>;
    Entries<G, H>;
    Each<H>;
}

/// A type that changes into `V` in the direction `D`. `H` is the marker.
pub trait Changed<D, V, H>: Sized {
    /// Converts the value.
    ///
    /// # Errors
    /// [`RequestError`] of a request.
    fn change(self, keyring: &Keyring) -> Result<V, RequestError>;
}

impl<M: IntoView<V>, V> Changed<Views, V, Whole> for M {
    fn change(self, keyring: &Keyring) -> Result<V, RequestError> {
        Ok(self.into_view(keyring))
    }
}

impl<R: IntoModel<M>, M> Changed<Requests, M, Whole> for R {
    fn change(self, keyring: &Keyring) -> Result<M, RequestError> {
        self.into_model(keyring)
    }
}

impl<D, M: Parts<D, V, H>, V, H> Changed<D, V, InParts<H>> for M {
    fn change(self, keyring: &Keyring) -> Result<V, RequestError> {
        self.change_parts(keyring)
    }
}

/// A container that changes in some of its parts.
pub trait Parts<D, V, H>: Sized {
    /// Converts these parts.
    ///
    /// # Errors
    /// [`RequestError`] of a request.
    fn change_parts(self, keyring: &Keyring) -> Result<V, RequestError>;
}

macro_rules! tuples {
    (@to $M:ident) => { $M };
    (@to $M:ident $V:ident) => { $V };
    (@by) => { Same };
    (@by $H:ident) => { Becomes<$H> };
    (@value $value:expr, $keyring:ident, $n:tt) => { $value };
    (@value $value:expr, $keyring:ident, $n:tt $V:ident) => {
        $value.change($keyring).map_err(|error| error.at($n))?
    };
    ($(($($n:tt $M:ident $(-> $V:ident $H:ident)?),+))*) => {$(
        impl<Dir, $($M, $($V, $H,)?)+>
            Parts<Dir, ($(tuples!(@to $M $($V)?),)+), ($(tuples!(@by $($H)?),)+)> for ($($M,)+)
        where
            $($($M: Changed<Dir, $V, $H>,)?)+
        {
            fn change_parts(
                self,
                keyring: &Keyring,
            ) -> Result<($(tuples!(@to $M $($V)?),)+), RequestError> {
                Ok(($(tuples!(@value self.$n, keyring, $n $($V)?),)+))
            }
        }
    )*};
}

tuples! {
    (0 A -> X F, 1 B)
    (0 A, 1 B -> Y G)
    (0 A -> X F, 1 B -> Y G)
    (0 A -> X F, 1 B, 2 C)
    (0 A, 1 B -> Y G, 2 C)
    (0 A, 1 B, 2 C -> Z H)
    (0 A -> X F, 1 B -> Y G, 2 C)
    (0 A -> X F, 1 B, 2 C -> Z H)
    (0 A, 1 B -> Y G, 2 C -> Z H)
    (0 A -> X F, 1 B -> Y G, 2 C -> Z H)
}

/// `IntoView` and `IntoModel` convert maps if only the keys change.
macro_rules! maps {
    ($($map:ident[$($S:ident: $hasher:path)?]: $($key:path),+;)*) => {$(
        impl<D, K, V, W, H, $($S)?> Parts<D, $map<K, W, $($S)?>, Values<H>> for $map<K, V, $($S)?>
        where
            K: $($key +)+,
            V: Changed<D, W, H>,
            $($S: $hasher + Default)?
        {
            fn change_parts(self, keyring: &Keyring) -> Result<$map<K, W, $($S)?>, RequestError> {
                self.into_iter().map(|(key, value)| Ok((key, value.change(keyring)?))).collect()
            }
        }

        impl<D, K, L, V, W, G, H, $($S)?> Parts<D, $map<L, W, $($S)?>, Entries<G, H>>
            for $map<K, V, $($S)?>
        where
            K: Changed<D, L, G>,
            L: $($key +)+,
            V: Changed<D, W, H>,
            $($S: $hasher + Default)?
        {
            fn change_parts(self, keyring: &Keyring) -> Result<$map<L, W, $($S)?>, RequestError> {
                let entries = self.into_iter();
                entries.map(|(key, value)| Ok((key.change(keyring)?, value.change(keyring)?))).collect()
            }
        }
    )*};
}

maps! {
    HashMap[S: BuildHasher]: Eq, Hash;
    BTreeMap[]: Ord;
}

impl<D, M: Parts<D, V, H>, V, H> Parts<D, Option<V>, Each<H>> for Option<M> {
    fn change_parts(self, keyring: &Keyring) -> Result<Option<V>, RequestError> {
        self.map(|item| item.change_parts(keyring)).transpose()
    }
}

impl<D, M: Parts<D, V, H>, V, H> Parts<D, Box<V>, Each<H>> for Box<M> {
    fn change_parts(self, keyring: &Keyring) -> Result<Box<V>, RequestError> {
        (*self).change_parts(keyring).map(Box::new)
    }
}

impl<D, M: Parts<D, V, H>, V, H> Parts<D, Vec<V>, Each<H>> for Vec<M> {
    fn change_parts(self, keyring: &Keyring) -> Result<Vec<V>, RequestError> {
        let items = self.into_iter().enumerate();
        items.map(|(i, item)| item.change_parts(keyring).map_err(|error| error.at(i))).collect()
    }
}
