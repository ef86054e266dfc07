//! diesel's traits for a newtype of an internal id.

/// The names that the macros use.
pub mod driver {
    pub use diesel::backend::Backend;
    pub use diesel::deserialize::{self, FromSql, Queryable};
    pub use diesel::expression::{AsExpression, TypedExpressionType};
    pub use diesel::serialize::{self, Output, ToSql};
    pub use diesel::sql_types::{SingleValue, SqlType};
}

#[doc(hidden)]
#[macro_export]
macro_rules! __newtype {
    ([$($param:tt)*] [$($bound:tt)*] [$name:ty] [$inner:ty]) => {
        $crate::__newtype_expression! { [] [$($param)*] [$($bound)*] [$name] [$inner] }
        $crate::__newtype_expression! { ['__a,] [$($param)*] [$($bound)*] [&'__a $name] [$inner] }
        $crate::__newtype_expression! { ['__a, '__b,] [$($param)*] [$($bound)*] [&'__b &'__a $name] [$inner] }

        impl<$($param)* __ST, __DB: $crate::__driver::Backend> $crate::__driver::ToSql<__ST, __DB>
            for $name
        where
            $inner: $crate::__driver::ToSql<__ST, __DB>,
            $($bound)*
        {
            fn to_sql<'__b>(
                &'__b self,
                out: &mut $crate::__driver::Output<'__b, '_, __DB>,
            ) -> $crate::__driver::serialize::Result {
                $crate::__driver::ToSql::<__ST, __DB>::to_sql(&self.0, out)
            }
        }

        impl<$($param)* __ST, __DB: $crate::__driver::Backend> $crate::__driver::FromSql<__ST, __DB>
            for $name
        where
            $inner: $crate::__driver::FromSql<__ST, __DB>,
            $($bound)*
        {
            fn from_sql(value: __DB::RawValue<'_>) -> $crate::__driver::deserialize::Result<Self> {
                <$inner as $crate::__driver::FromSql<__ST, __DB>>::from_sql(value).map(Self)
            }
        }

        impl<$($param)* __ST: $crate::__driver::SingleValue, __DB: $crate::__driver::Backend>
            $crate::__driver::Queryable<__ST, __DB> for $name
        where
            Self: $crate::__driver::FromSql<__ST, __DB>,
            $($bound)*
        {
            type Row = Self;

            fn build(row: Self) -> $crate::__driver::deserialize::Result<Self> {
                ::core::result::Result::Ok(row)
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __newtype_expression {
    ([$($lifetime:tt)*] [$($param:tt)*] [$($bound:tt)*] [$of:ty] [$inner:ty]) => {
        impl<$($lifetime)* $($param)* __ST> $crate::__driver::AsExpression<__ST> for $of
        where
            __ST: $crate::__driver::SqlType + $crate::__driver::TypedExpressionType,
            $inner: $crate::__driver::AsExpression<__ST>,
            $($bound)*
        {
            type Expression = <$inner as $crate::__driver::AsExpression<__ST>>::Expression;

            fn as_expression(self) -> Self::Expression {
                $crate::__driver::AsExpression::<__ST>::as_expression(self.0)
            }
        }
    };
}
