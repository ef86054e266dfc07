//! sqlx's traits for a newtype of an internal id.

/// The names that the macros use.
pub mod driver {
    pub use sqlx::encode::IsNull;
    pub use sqlx::error::BoxDynError;
    #[cfg(feature = "postgres")]
    pub use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
    pub use sqlx::{Database, Decode, Encode, Type};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __newtype {
    ([$($param:tt)*] [$($bound:tt)*] [$name:ty] [$inner:ty]) => {
        impl<$($param)* __DB: $crate::__driver::Database> $crate::__driver::Type<__DB> for $name
        where
            $inner: $crate::__driver::Type<__DB>,
            $($bound)*
        {
            fn type_info() -> __DB::TypeInfo {
                <$inner as $crate::__driver::Type<__DB>>::type_info()
            }

            fn compatible(ty: &__DB::TypeInfo) -> bool {
                <$inner as $crate::__driver::Type<__DB>>::compatible(ty)
            }
        }

        impl<'__q, $($param)* __DB: $crate::__driver::Database> $crate::__driver::Encode<'__q, __DB>
            for $name
        where
            $inner: $crate::__driver::Encode<'__q, __DB>,
            $($bound)*
        {
            fn encode_by_ref(
                &self,
                buf: &mut $crate::ArgumentBuffer<'__q, __DB>,
            ) -> ::core::result::Result<$crate::__driver::IsNull, $crate::__driver::BoxDynError> {
                $crate::__driver::Encode::<'__q, __DB>::encode_by_ref(&self.0, buf)
            }

            fn produces(&self) -> ::core::option::Option<__DB::TypeInfo> {
                $crate::__driver::Encode::<'__q, __DB>::produces(&self.0)
            }

            fn size_hint(&self) -> ::core::primitive::usize {
                $crate::__driver::Encode::<'__q, __DB>::size_hint(&self.0)
            }
        }

        impl<'__r, $($param)* __DB: $crate::__driver::Database> $crate::__driver::Decode<'__r, __DB>
            for $name
        where
            $inner: $crate::__driver::Decode<'__r, __DB>,
            $($bound)*
        {
            fn decode(
                value: __DB::ValueRef<'__r>,
            ) -> ::core::result::Result<Self, $crate::__driver::BoxDynError> {
                <$inner as $crate::__driver::Decode<'__r, __DB>>::decode(value).map(Self)
            }
        }

        $crate::__newtype_array! { [$($param)*] [$($bound)*] [$name] [$inner] }
    };
}

/// The bound has a lifetime because the compiler would refuse an unsatisfied bound without parameters, and
/// PostgreSQL has no `u32`.
#[cfg(feature = "postgres")]
#[doc(hidden)]
#[macro_export]
macro_rules! __newtype_array {
    ([$($param:tt)*] [$($bound:tt)*] [$name:ty] [$inner:ty]) => {
        impl<$($param)*> $crate::__driver::PgHasArrayType for $name
        where
            for<'__a> &'__a $inner: $crate::__driver::PgHasArrayType,
            $($bound)*
        {
            fn array_type_info() -> $crate::__driver::PgTypeInfo {
                <&$inner as $crate::__driver::PgHasArrayType>::array_type_info()
            }

            fn array_compatible(ty: &$crate::__driver::PgTypeInfo) -> ::core::primitive::bool {
                <&$inner as $crate::__driver::PgHasArrayType>::array_compatible(ty)
            }
        }
    };
}

/// Only PostgreSQL has arrays.
#[cfg(not(feature = "postgres"))]
#[doc(hidden)]
#[macro_export]
macro_rules! __newtype_array {
    ($($newtype:tt)*) => {};
}
