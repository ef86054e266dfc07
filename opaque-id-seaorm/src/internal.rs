//! `Internal<T>` with SeaORM's traits.

use opaque_id_core::key::Repr;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{KeyError, OpaqueId, adapter_internal_id};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::SqlxError;
use sea_orm::sea_query::{ArrayType, ColumnType, Nullable, Value, ValueType, ValueTypeErr};
#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
use sea_orm::sqlx::{Row, TypeInfo, ValueRef};
use sea_orm::{
    ActiveValue, ColIdx, DbErr, IntoActiveValue, QueryResult, Set, TryFromU64, TryGetError,
    TryGetable,
};

use crate::compat::no_id;

adapter_internal_id! {
    /// An internal id of a resource. It goes to the database through SeaORM and nowhere else.
    ///
    /// It is a value for models, active models, filters, cursors and migrations, alone and in `Option`,
    /// stored like its key (16 bytes or an integer). It has the database's order. It converts from and to a
    /// raw key only by [`from_key`](Self::from_key) and [`expose_key`](Self::expose_key), and into SeaORM's
    /// own `Value`. `Debug` hides the key, even in models and active models. The impls of `Serialize`,
    /// `Deserialize` and `Display` below never apply: with them, the compiler's error states the alternative.
    pub struct Internal;
}

// 1 type

impl<T: OpaqueId> ValueType for Internal<T>
where
    ReprOf<T>: ValueType,
{
    fn try_from(value: Value) -> Result<Self, ValueTypeErr> {
        let repr = <ReprOf<T> as ValueType>::try_from(value)?;
        Self::from_repr(repr).map_err(|_| ValueTypeErr)
    }

    fn type_name() -> String {
        format!("Internal<{}>", T::PREFIX)
    }

    fn array_type() -> ArrayType {
        <ReprOf<T> as ValueType>::array_type()
    }

    fn column_type() -> ColumnType {
        <ReprOf<T> as ValueType>::column_type()
    }
}

impl<T: OpaqueId> Nullable for Internal<T>
where
    ReprOf<T>: Nullable,
{
    fn null() -> Value {
        <ReprOf<T> as Nullable>::null()
    }
}

// 2 write

impl<T: OpaqueId> From<Internal<T>> for Value
where
    ReprOf<T>: Into<Value>,
{
    fn from(id: Internal<T>) -> Self {
        id.0.into()
    }
}

impl<T: OpaqueId> IntoActiveValue<Internal<T>> for Internal<T>
where
    ReprOf<T>: Into<Value>,
{
    fn into_active_value(self) -> ActiveValue<Self> {
        Set(self)
    }
}

// 3 read

impl<T: OpaqueId> TryGetable for Internal<T>
where
    ReprOf<T>: TryGetable,
{
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Self, TryGetError> {
        let column_type = column_type(row, index);
        let column_type = column_type.as_deref();
        // SeaORM would accept 16 characters of text as a UUID, and 36 on MySQL.
        if let Some(name) = column_type
            && !<ReprOf<T> as Repr>::is_column_type(name)
        {
            let error = KeyError::column_type(T::PREFIX, name, ReprOf::<T>::COLUMN);
            return Err(decode_error(error));
        }
        // SeaORM reads an integer only from a column of its own type.
        let repr = match column_type {
            Some("INT2") => {
                i16::try_get_by(row, index).map(|value| Repr::from_integer(value.into()))
            }
            Some("INT4" | "INT") => {
                i32::try_get_by(row, index).map(|value| Repr::from_integer(value.into()))
            }
            Some(name) if name.ends_with(" UNSIGNED") => u64::try_get_by(row, index)
                .map(|value| value.try_into().ok().and_then(Repr::from_integer)),
            Some("INT8" | "BIGINT") => i64::try_get_by(row, index).map(Repr::from_integer),
            _ => ReprOf::<T>::try_get_by(row, index).map(Some),
        };
        let repr = repr.map_err(|error| match error {
            TryGetError::Null(column) => {
                TryGetError::Null(format!("{column}, a key of `{}`", T::PREFIX))
            }
            TryGetError::DbErr(error) => {
                decode_error(KeyError::unreadable(T::PREFIX, ReprOf::<T>::COLUMN, Box::new(error)))
            }
        })?;
        repr.ok_or_else(|| KeyError::too_large(T::PREFIX))
            .and_then(Self::from_repr)
            .map_err(decode_error)
    }
}

/// `None` for NULL and rows of other drivers.
fn column_type<I: ColIdx>(row: &QueryResult, index: I) -> Option<String> {
    #[cfg(feature = "postgres")]
    if let Some(row) = row.try_as_pg_row() {
        return name_of_type(row.try_get_raw(index.as_sqlx_postgres_index()));
    }
    #[cfg(feature = "mysql")]
    if let Some(row) = row.try_as_mysql_row() {
        return name_of_type(row.try_get_raw(index.as_sqlx_mysql_index()));
    }
    #[cfg(feature = "sqlite")]
    if let Some(row) = row.try_as_sqlite_row() {
        return name_of_type(row.try_get_raw(index.as_sqlx_sqlite_index()));
    }
    let _ = (row, index);
    None
}

#[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
fn name_of_type<'r>(value: Result<impl ValueRef<'r>, SqlxError>) -> Option<String> {
    let value = value.ok().filter(|value| !value.is_null())?;
    Some(value.type_info().name().to_owned())
}

fn decode_error(error: KeyError) -> TryGetError {
    TryGetError::DbErr(no_id("stored value", error))
}

// 4 list, an array of PostgreSQL: `eq_any` accepts a `Vec`

#[cfg(feature = "postgres")]
impl<T: OpaqueId> crate::compat::NotU8 for Internal<T> {}

#[cfg(feature = "postgres")]
impl<T: OpaqueId> sea_orm::TryGetableArray for Internal<T>
where
    Vec<ReprOf<T>>: TryGetable,
{
    fn try_get_by<I: ColIdx>(row: &QueryResult, index: I) -> Result<Vec<Self>, TryGetError> {
        Vec::<ReprOf<T>>::try_get_by(row, index)?
            .into_iter()
            .map(|repr| Self::from_repr(repr).map_err(decode_error))
            .collect()
    }
}

// 5 key

/// A key that a database can auto-increment.
#[diagnostic::on_unimplemented(
    message = "SeaORM would treat this primary key as an auto-incremented integer",
    label = "a key of 16 bytes is not auto-incremented",
    note = "write `#[sea_orm(primary_key, auto_increment = false)]`, or `key = i64` or `i32` if the database generates the keys"
)]
#[doc(hidden)]
pub trait AutoIncremented {}

impl AutoIncremented for i64 {}
impl AutoIncremented for i32 {}
impl AutoIncremented for u32 {}

impl<T: OpaqueId> Internal<T> {
    /// The derive names it for a primary key that SeaORM treats as auto-incremented.
    #[doc(hidden)]
    pub fn __is_auto_incremented()
    where
        ReprOf<T>: AutoIncremented,
    {
    }
}

impl<T: OpaqueId> TryFromU64 for Internal<T>
where
    ReprOf<T>: TryFromU64,
{
    fn try_from_u64(last_insert_id: u64) -> Result<Self, DbErr> {
        let repr = ReprOf::<T>::try_from_u64(last_insert_id)?;
        Self::from_repr(repr).map_err(|error| no_id("last insert id", error))
    }
}
