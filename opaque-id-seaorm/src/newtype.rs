//! SeaORM's traits for a newtype of an internal id.

/// The names that the macros use.
pub mod driver {
    #[cfg(feature = "postgres")]
    pub use sea_orm::TryGetableArray;
    pub use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, Value, ValueType, ValueTypeErr};
    pub use sea_orm::{
        ActiveValue, ColIdx, DbErr, IntoActiveValue, QueryResult, TryFromU64, TryGetError,
        TryGetable,
    };

    #[cfg(feature = "postgres")]
    pub use crate::compat::NotU8;
}

#[doc(hidden)]
#[macro_export]
macro_rules! __newtype {
    ([$($param:tt)*] [$($bound:tt)*] [$name:ty] [$inner:ty]) => {
        impl<$($param)*> $crate::__driver::ValueType for $name where $($bound)* {
            fn try_from(
                value: $crate::__driver::Value,
            ) -> ::core::result::Result<Self, $crate::__driver::ValueTypeErr> {
                <$inner as $crate::__driver::ValueType>::try_from(value).map(Self)
            }

            fn type_name() -> ::std::string::String {
                <$inner as $crate::__driver::ValueType>::type_name()
            }

            fn array_type() -> $crate::__driver::ArrayType {
                <$inner as $crate::__driver::ValueType>::array_type()
            }

            fn column_type() -> $crate::__driver::ColumnType {
                <$inner as $crate::__driver::ValueType>::column_type()
            }
        }

        impl<$($param)*> $crate::__driver::Nullable for $name where $($bound)* {
            fn null() -> $crate::__driver::Value {
                <$inner as $crate::__driver::Nullable>::null()
            }
        }

        impl<$($param)*> ::core::convert::From<$name> for $crate::__driver::Value where $($bound)* {
            fn from(id: $name) -> Self {
                ::core::convert::Into::into(id.0)
            }
        }

        impl<$($param)*> $crate::__driver::IntoActiveValue<$name> for $name where $($bound)* {
            fn into_active_value(self) -> $crate::__driver::ActiveValue<Self> {
                $crate::__driver::ActiveValue::Set(self)
            }
        }

        impl<$($param)*> $crate::__driver::TryGetable for $name where $($bound)* {
            fn try_get_by<__I: $crate::__driver::ColIdx>(
                row: &$crate::__driver::QueryResult,
                index: __I,
            ) -> ::core::result::Result<Self, $crate::__driver::TryGetError> {
                <$inner as $crate::__driver::TryGetable>::try_get_by(row, index).map(Self)
            }
        }

        impl<$($param)*> $crate::__driver::TryFromU64 for $name where $($bound)* {
            fn try_from_u64(
                last_insert_id: ::core::primitive::u64,
            ) -> ::core::result::Result<Self, $crate::__driver::DbErr> {
                <$inner as $crate::__driver::TryFromU64>::try_from_u64(last_insert_id).map(Self)
            }
        }

        $crate::__newtype_array! { [$($param)*] [$($bound)*] [$name] [$inner] }
    };
}

#[cfg(feature = "postgres")]
#[doc(hidden)]
#[macro_export]
macro_rules! __newtype_array {
    ([$($param:tt)*] [$($bound:tt)*] [$name:ty] [$inner:ty]) => {
        impl<$($param)*> $crate::__driver::NotU8 for $name where $($bound)* {}

        impl<$($param)*> $crate::__driver::TryGetableArray for $name where $($bound)* {
            fn try_get_by<__I: $crate::__driver::ColIdx>(
                row: &$crate::__driver::QueryResult,
                index: __I,
            ) -> ::core::result::Result<::std::vec::Vec<Self>, $crate::__driver::TryGetError> {
                let ids = <$inner as $crate::__driver::TryGetableArray>::try_get_by(row, index)?;
                ::core::result::Result::Ok(::core::iter::Iterator::collect(
                    ::core::iter::Iterator::map(::core::iter::IntoIterator::into_iter(ids), Self),
                ))
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
