//! `Internal<T>` with diesel's traits, and the SQL type `Id<T>`.

use std::fmt;
use std::marker::PhantomData;

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::expression::AsExpression;
use diesel::query_builder::QueryId;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, Integer, SingleValue, SqlOrd, SqlType, is_nullable};
use opaque_id_core::key::Repr;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{KeyError, OpaqueId, adapter_internal_id};

adapter_internal_id! {
    /// An internal id of a resource. It goes to the database through diesel and nowhere else. [`Id`] has an
    /// example.
    ///
    /// It is a value for columns of the type [`Id<T>`](Id), and of the types that `diesel print-schema`
    /// writes: `Uuid` (PostgreSQL), `Binary` (MySQL, SQLite), `BigInt`, `Integer`, `Unsigned<BigInt>` and
    /// `Unsigned<Integer>` (MySQL). It has the database's order. It converts from and to a raw key only by
    /// [`from_key`](Self::from_key) and [`expose_key`](Self::expose_key), and `Debug` hides the key, even in
    /// `debug_query`. The impls of `Serialize`, `Deserialize` and `Display` below never apply: with them, the
    /// compiler's error states the alternative.
    #[derive(AsExpression, FromSqlRow)]
    #[diesel(sql_type = Id<T>)]
    #[diesel(sql_type = Binary)]
    #[diesel(sql_type = BigInt)]
    #[diesel(sql_type = Integer)]
    #[cfg_attr(feature = "mysql", diesel(sql_type = diesel::sql_types::Unsigned<BigInt>))]
    #[cfg_attr(feature = "mysql", diesel(sql_type = diesel::sql_types::Unsigned<Integer>))]
    #[cfg_attr(feature = "postgres", diesel(sql_type = diesel::sql_types::Uuid))]
    pub struct Internal;
}

// 1 type

/// The SQL type of a column with keys of a resource, for `table!`.
///
/// The same `table!` works for every backend. Comparing a column with an id of another resource does not
/// compile; with the SQL types `Uuid` or `Binary` it would. The code that `table!` writes is public, so the
/// resource must be public too. The [crate](crate) has an example.
pub struct Id<T>(PhantomData<fn() -> T>);

impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Id")
    }
}

impl<T: 'static> SqlType for Id<T> {
    type IsNull = is_nullable::NotNull;
}

impl<T: 'static> SingleValue for Id<T> {}

impl<T: 'static> SqlOrd for Id<T> {}

impl<T: 'static> QueryId for Id<T> {
    type QueryId = Self;
    const HAS_STATIC_QUERY_ID: bool = true;
}

/// A backend's way of storing a key.
///
/// Only this crate implements it. Use it as a bound in code that is generic over the backend:
///
/// ```
/// use diesel::backend::Backend;
/// use diesel::deserialize::FromSql;
/// use opaque_id_diesel::resource::ReprOf;
/// use opaque_id_diesel::{Id, Internal, OpaqueId, StoredIn};
///
/// fn readable<T: OpaqueId, DB: Backend>()
/// where
///     ReprOf<T>: StoredIn<DB>,
/// {
///     fn assert<ST, DB: Backend, V: FromSql<ST, DB>>() {}
///     assert::<Id<T>, DB, Internal<T>>();
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "opaque-id-diesel stores no `{Self}` in `{DB}`",
    note = "enable the feature `postgres`, `mysql` or `sqlite` of opaque-id-diesel, also in [dev-dependencies] if only tests use that backend"
)]
pub trait StoredIn<DB: Backend>: Repr {
    /// The backend's own type of the column.
    type SqlType: SqlType;

    #[doc(hidden)]
    fn write<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result;

    #[doc(hidden)]
    fn read<T: OpaqueId>(value: DB::RawValue<'_>) -> Result<Self, KeyError>;

    /// Reads a column of [`SqlType`](Self::SqlType).
    #[doc(hidden)]
    fn read_plain<T: OpaqueId>(value: DB::RawValue<'_>) -> Result<Self, KeyError> {
        Self::read::<T>(value)
    }
}

// 2 write

impl<T: OpaqueId, DB: Backend> ToSql<Id<T>, DB> for Internal<T>
where
    ReprOf<T>: StoredIn<DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.0.write(out)
    }
}

// 3 read

impl<T: OpaqueId, DB: Backend> FromSql<Id<T>, DB> for Internal<T>
where
    ReprOf<T>: StoredIn<DB>,
{
    fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(Self::from_repr(ReprOf::<T>::read::<T>(value)?)?)
    }

    // diesel reports NULL, because its own error shows that the struct of a left join is missing.
}

/// `diesel print-schema` writes such columns.
macro_rules! plain_column {
    ($sql_type:ty) => {
        impl<T: OpaqueId, DB: Backend> ToSql<$sql_type, DB> for Internal<T>
        where
            ReprOf<T>: StoredIn<DB, SqlType = $sql_type>,
        {
            fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
                ToSql::<Id<T>, DB>::to_sql(self, out)
            }
        }

        impl<T: OpaqueId, DB: Backend> FromSql<$sql_type, DB> for Internal<T>
        where
            ReprOf<T>: StoredIn<DB, SqlType = $sql_type>,
        {
            fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
                Ok(Self::from_repr(ReprOf::<T>::read_plain::<T>(value)?)?)
            }
        }
    };
}

plain_column!(Binary);
plain_column!(BigInt);
plain_column!(Integer);
#[cfg(feature = "mysql")]
plain_column!(diesel::sql_types::Unsigned<Integer>);
#[cfg(feature = "postgres")]
plain_column!(diesel::sql_types::Uuid);

// 4 list: diesel's `eq_any` accepts any type with a single value

// 5 key: diesel asks nothing of a primary key
