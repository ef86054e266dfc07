//! This crate's `Internal<T>`, and the macros that write an adapter's.
//!
//! Rust's orphan rule forbids an adapter to implement an ORM's trait for a type of this crate. Features for
//! ORMs would give this crate a new major version for each of theirs. So `internal_id!` writes the newtype
//! and the common impls, an adapter adds its ORM's traits, and its derive sets `OpaqueId::Internal` to that
//! type. The macro is an API between separately versioned crates.
//!
//! An internal id contains the stored value (`Uuid` or an integer), not the key. So its order is the
//! database's, and an adapter delegates to the driver's impls for that type.

use crate::private::{MayEnter, RawKeyOf};
use crate::resource::{OpaqueId, ReprOf};

#[doc(hidden)]
#[macro_export]
macro_rules! internal_id {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident;) => {
        $(#[$attribute])*
        #[repr(transparent)]
        $visibility struct $name<T: $crate::resource::OpaqueId>(
            $crate::resource::ReprOf<T>,
            ::core::marker::PhantomData<fn() -> T>,
        );

        impl<T: $crate::resource::OpaqueId> $name<T> {
            /// Converts a key that the application or the database generated into an internal id.
            ///
            /// # Errors
            /// [`KeyError::Invalid`](crate::KeyError::Invalid) if the resource's form has no room for the
            /// key. In the uuid form, this is an integer outside of 0 to 2^60 - 1, or a time after the year
            /// 4199.
            pub fn from_key(key: T::Key) -> ::core::result::Result<Self, $crate::error::KeyError> {
                $crate::resource::InternalId::from_repr($crate::key::Key::into_repr(key))
            }

            /// Returns the raw key. It reveals the order, count and time that external ids hide. Keep it
            /// inside the application.
            #[must_use]
            pub fn expose_key(self) -> T::Key {
                <T::Key as $crate::key::Key>::from_checked(self.0)
            }

            /// Generates a key that is greater than every earlier one of its kind in this process.
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            #[must_use]
            pub fn generate() -> Self
            where
                T::Key: $crate::generator::Generate,
            {
                Self::from_key(<T::Key as $crate::generator::Generate>::generate())
                    .expect("the clock is not past the year 4199")
            }

            /// Generates a random key: a UUIDv4 (RFC 9562, section 5.4) of 122 random bits.
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            #[must_use]
            pub fn random() -> Self
            where
                T: $crate::resource::OpaqueId<Key = $crate::key::Uuid>,
            {
                Self($crate::__private::random_uuid(), ::core::marker::PhantomData)
            }

            /// Generates a UUIDv7 that is greater than every earlier UUIDv7 of this process, for a resource
            /// with UUIDs of several versions.
            ///
            /// # Panics
            /// If the operating system's random number generator fails.
            #[must_use]
            pub fn generate_v7() -> Self
            where
                T: $crate::resource::OpaqueId<Key = $crate::key::Uuid>,
            {
                let key = <$crate::key::Uuid7 as $crate::generator::Generate>::generate();
                Self($crate::key::Key::into_repr(key), ::core::marker::PhantomData)
            }

            /// Returns when the key was generated, with the key's precision. External ids hide the time. Keep
            /// it inside the application.
            #[must_use]
            pub fn expose_time(self) -> ::std::time::SystemTime
            where
                T::Key: $crate::key::TimeKey,
            {
                $crate::key::TimeKey::time(self.expose_key())
            }
        }

        impl<T: $crate::resource::OpaqueId> $crate::__private::Private for $name<T> {}

        impl<T: $crate::resource::OpaqueId> $crate::__private::IsInternal for $name<T> {}

        impl<T: $crate::resource::OpaqueId> $crate::resource::InternalId for $name<T> {
            type Resource = T;

            #[inline]
            fn from_repr(
                repr: $crate::resource::ReprOf<T>,
            ) -> ::core::result::Result<Self, $crate::error::KeyError> {
                match <T::Form as $crate::form::FormOf<T::Key>>::check(repr) {
                    Ok(()) => Ok(Self(repr, ::core::marker::PhantomData)),
                    Err(problem) => Err($crate::error::KeyError::invalid(T::PREFIX, problem)),
                }
            }

            #[inline]
            fn from_checked(repr: $crate::resource::ReprOf<T>) -> Self {
                Self(repr, ::core::marker::PhantomData)
            }

            #[inline]
            fn as_repr(&self) -> &$crate::resource::ReprOf<T> {
                &self.0
            }
        }

        impl<T: $crate::resource::SealedResource>
            $crate::__private::IntoView<$crate::__private::External<T>> for $name<T>
        {
            #[inline]
            fn into_view(
                self,
                keyring: &$crate::__private::Keyring,
            ) -> $crate::__private::External<T> {
                keyring.seal(self)
            }
        }

        $crate::value_traits!($name: $crate::resource::OpaqueId);

        impl<T: $crate::resource::OpaqueId> ::core::cmp::PartialOrd for $name<T> {
            fn partial_cmp(&self, other: &Self) -> ::core::option::Option<::core::cmp::Ordering> {
                Some(self.cmp(other))
            }
        }

        /// Orders internal ids as the database orders their keys.
        impl<T: $crate::resource::OpaqueId> ::core::cmp::Ord for $name<T> {
            fn cmp(&self, other: &Self) -> ::core::cmp::Ordering {
                self.0.cmp(&other.0)
            }
        }

        /// Names the resource and hides the key: `Internal<user>(..)`. After
        /// [`reveal_in_logs`]($crate::keyring::reveal_in_logs) it shows the id sealed for logs.
        impl<T: $crate::resource::OpaqueId> ::core::fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $crate::__private::debug_id::<T>(self.0, f)
            }
        }

        $crate::__private::never_leaves! {
            [T: $crate::resource::OpaqueId] [$name<T>]
            [$crate::__private::InternalIdOf<T>: $crate::__private::MayLeave]
        }
        $crate::__private::from_internal_id!($name: $crate::key::Uuid, i64, i32, u32, ::std::vec::Vec<u8>);

        $crate::__private::internal_id_arbitrary!($name);
        $crate::__private::internal_id_proptest!($name);
    };
}

/// Compares and copies by the first field, independently of the parameter.
#[doc(hidden)]
#[macro_export]
macro_rules! value_traits {
    ($name:ident: $bound:path) => {
        impl<T: $bound> ::core::marker::Copy for $name<T> {}

        impl<T: $bound> ::core::clone::Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T: $bound> ::core::cmp::PartialEq for $name<T> {
            fn eq(&self, other: &Self) -> bool {
                self.0 == other.0
            }
        }

        impl<T: $bound> ::core::cmp::Eq for $name<T> {}

        impl<T: $bound> ::core::hash::Hash for $name<T> {
            fn hash<H: ::core::hash::Hasher>(&self, state: &mut H) {
                ::core::hash::Hash::hash(&self.0, state);
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! from_internal_id {
    ($name:ident: $($raw:ty),*) => {$(
        /// Never applies. The compiler's error states how an internal id becomes a raw key.
        impl<T: $crate::resource::OpaqueId> ::core::convert::From<$name<T>> for $raw
        where
            $crate::__private::InternalIdOf<T>: $crate::__private::MayBeRaw,
        {
            fn from(_: $name<T>) -> Self {
                <$crate::__private::InternalIdOf<T> as $crate::__private::MayBeRaw>::never()
            }
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! into_internal_id {
    ($name:ident: $([$($param:ident)?] $from:ty),*) => {$(
        /// Applies to a [`Uuid`]($crate::key::Uuid) if the resource has `key = Uuid`, and in an adapter to
        /// the core's internal id and to newtypes. Otherwise the compiler's error states how a raw key
        /// becomes an internal id.
        impl<T: $crate::resource::OpaqueId, $($param)?> ::core::convert::From<$from> for $name<T>
        where
            $crate::__private::RawKeyOf<T, T::Key>:
                $crate::__private::MayEnter<$from, Repr = $crate::resource::ReprOf<T>>,
        {
            fn from(id: $from) -> Self {
                let repr = <$crate::__private::RawKeyOf<T, T::Key> as $crate::__private::MayEnter<_>>::enter(id);
                Self(repr, ::core::marker::PhantomData)
            }
        }
    )*};
}

#[doc(hidden)]
#[macro_export]
macro_rules! adapter_internal_id {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident;) => {
        $crate::internal_id! { $(#[$attribute])* $visibility struct $name; }

        $crate::__private::into_internal_id!($name: [N] N);

        /// Converts into the core's own type, for crates without an ORM.
        impl<T: $crate::resource::OpaqueId> ::core::convert::From<$name<T>> for $crate::__private::Internal<T> {
            fn from(id: $name<T>) -> Self {
                $crate::resource::InternalId::from_checked(id.0)
            }
        }
    };
}

internal_id! {
    /// An internal id of a resource: the stored key. It cannot leave the application by accident. This type
    /// is for crates without an ORM; an adapter's own type goes to the database, and the two convert with
    /// `From`.
    ///
    /// It is as large as its key and has the database's order. It converts from and to a raw key only by
    /// [`from_key`](Self::from_key) and [`expose_key`](Self::expose_key), and `Debug` hides the key. The
    /// impls of `Serialize`, `Deserialize` and `Display` below never apply: with them, the compiler's error
    /// states the alternative.
    ///
    /// ```
    /// use opaque_id_core::{Internal, OpaqueId};
    ///
    /// #[derive(OpaqueId)]
    /// #[opaque_id(prefix = "order", key = i64)]
    /// struct Order;
    ///
    /// let id = Internal::<Order>::from_key(42)?;
    /// assert_eq!(format!("{id:?}"), "Internal<order>(..)");
    /// assert_eq!(id.expose_key(), 42);
    /// assert_eq!(size_of_val(&id), 8);
    /// # Ok::<(), opaque_id_core::KeyError>(())
    /// ```
    pub struct Internal;
}

into_internal_id!(Internal: [] crate::key::Uuid, [] i64, [] i32, [] u32, [] Vec<u8>);

impl<T: OpaqueId> MayEnter<Internal<T>> for RawKeyOf<T, T::Key> {
    type Repr = ReprOf<T>;

    fn enter(id: Internal<T>) -> ReprOf<T> {
        id.0
    }
}

/// Implements `Display` and serde's traits for an internal id under a bound that nothing satisfies.
#[doc(hidden)]
#[macro_export]
macro_rules! never_leaves {
    ([$($param:tt)*] [$id:ty] [$($bound:tt)*]) => {
        /// Never applies.
        impl<$($param)*> ::core::fmt::Display for $id
        where
            $($bound)*
        {
            fn fmt(&self, _: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::unreachable!()
            }
        }

        $crate::__private::never_leaves_by_serde! { [$($param)*] [$id] [$($bound)*] }
    };
}

/// Implements serde's traits under a bound that nothing satisfies.
#[cfg(feature = "serde")]
#[doc(hidden)]
#[macro_export]
macro_rules! never_leaves_by_serde {
    ([$($param:tt)*] [$id:ty] [$($bound:tt)*]) => {
        /// Never applies.
        impl<$($param)*> $crate::__private::serde_core::Serialize for $id
        where
            $($bound)*
        {
            fn serialize<__S: $crate::__private::serde_core::Serializer>(
                &self,
                _: __S,
            ) -> ::core::result::Result<__S::Ok, __S::Error> {
                ::core::unreachable!()
            }
        }

        /// Never applies.
        impl<'de, $($param)*> $crate::__private::serde_core::Deserialize<'de> for $id
        where
            $($bound)*
        {
            fn deserialize<__D: $crate::__private::serde_core::Deserializer<'de>>(
                _: __D,
            ) -> ::core::result::Result<Self, __D::Error> {
                ::core::unreachable!()
            }
        }
    };
}

#[cfg(not(feature = "serde"))]
#[doc(hidden)]
#[macro_export]
macro_rules! never_leaves_by_serde {
    ($($id:tt)*) => {};
}

#[cfg(feature = "arbitrary1")]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_arbitrary {
    ($name:ident) => {
        /// Generates any key that the resource can have.
        impl<'a, T: $crate::resource::OpaqueId> $crate::__private::arbitrary1::Arbitrary<'a>
            for $name<T>
        {
            fn arbitrary(
                source: &mut $crate::__private::arbitrary1::Unstructured<'a>,
            ) -> $crate::__private::arbitrary1::Result<Self> {
                source.arbitrary().map($crate::__private::id_from_bits)
            }

            fn size_hint(depth: usize) -> (usize, ::core::option::Option<usize>) {
                <u128 as $crate::__private::arbitrary1::Arbitrary>::size_hint(depth)
            }
        }
    };
}

#[cfg(not(feature = "arbitrary1"))]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_arbitrary {
    ($name:ident) => {};
}

#[cfg(feature = "proptest1")]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_proptest {
    ($name:ident) => {
        /// Generates any key of the resource. A failing case shrinks toward the smallest key.
        impl<T: $crate::resource::OpaqueId> $crate::__private::proptest1::arbitrary::Arbitrary
            for $name<T>
        {
            type Parameters = ();
            type Strategy = $crate::__private::proptest1::strategy::Map<
                <u128 as $crate::__private::proptest1::arbitrary::Arbitrary>::Strategy,
                fn(u128) -> Self,
            >;

            fn arbitrary_with((): ()) -> Self::Strategy {
                $crate::__private::proptest1::strategy::Strategy::prop_map(
                    $crate::__private::proptest1::arbitrary::any::<u128>(),
                    $crate::__private::id_from_bits,
                )
            }
        }
    };
}

#[cfg(not(feature = "proptest1"))]
#[doc(hidden)]
#[macro_export]
macro_rules! internal_id_proptest {
    ($name:ident) => {};
}
