//! `Internal<T>` with sqlx's traits.

use opaque_id_core::key::Repr;
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{KeyError, OpaqueId, adapter_internal_id};
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
#[cfg(feature = "postgres")]
use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
use sqlx::{Database, Decode, Encode, Type, TypeInfo, ValueRef};

use crate::compat::ArgumentBuffer;

adapter_internal_id! {
    /// An internal id of a resource. It goes to the database through sqlx and nowhere else.
    ///
    /// It binds and decodes as its stored key (16 bytes or an integer), in `Option`, in `FromRow` and in the
    /// macros' type overrides, on every database with a driver for `Uuid` or the integer. It has the
    /// database's order. It converts from and to a raw key only by [`from_key`](Self::from_key) and
    /// [`expose_key`](Self::expose_key), and `Debug` hides the key. The impls of `Serialize`, `Deserialize`
    /// and `Display` below never apply: with them, the compiler's error states the alternative.
    pub struct Internal;
}

// 1 type

impl<T: OpaqueId, DB: Database> Type<DB> for Internal<T>
where
    ReprOf<T>: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <ReprOf<T> as Type<DB>>::type_info()
    }

    /// An error of `decode` can name the resource.
    fn compatible(_: &DB::TypeInfo) -> bool {
        true
    }
}

// 2 write

impl<'q, T: OpaqueId, DB: Database> Encode<'q, DB> for Internal<T>
where
    ReprOf<T>: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buf: &mut ArgumentBuffer<'q, DB>) -> Result<IsNull, BoxDynError> {
        self.0.encode_by_ref(buf)
    }

    fn produces(&self) -> Option<DB::TypeInfo> {
        self.0.produces()
    }

    fn size_hint(&self) -> usize {
        self.0.size_hint()
    }
}

// 3 read

impl<'r, T: OpaqueId, DB: Database> Decode<'r, DB> for Internal<T>
where
    ReprOf<T>: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        // SQLite's driver would read NULL as 0, and every driver but PostgreSQL's would read 16 characters as
        // a UUID.
        if value.is_null() {
            return Err(KeyError::null(T::PREFIX).into());
        }
        let ty = value.type_info().into_owned();
        if !ReprOf::<T>::is_column_type(ty.name()) {
            return Err(KeyError::column_type(T::PREFIX, ty.name(), ReprOf::<T>::COLUMN).into());
        }
        let repr = ReprOf::<T>::decode(value)
            .map_err(|error| KeyError::unreadable(T::PREFIX, ReprOf::<T>::COLUMN, error))?;
        match repr.unwrapped(ty.name()) {
            Some(repr) => Ok(Self::from_repr(repr)?),
            None => Err(KeyError::too_large(T::PREFIX).into()),
        }
    }
}

// 4 list, an array of PostgreSQL: `= ANY($1)` accepts a `Vec` or a slice

#[cfg(feature = "postgres")]
impl<T: OpaqueId> PgHasArrayType for Internal<T>
where
    ReprOf<T>: PgHasArrayType,
{
    fn array_type_info() -> PgTypeInfo {
        <ReprOf<T> as PgHasArrayType>::array_type_info()
    }

    // A narrow array has another type than the one that is written.
    fn array_compatible(ty: &PgTypeInfo) -> bool {
        TypeInfo::name(ty).strip_suffix("[]").is_some_and(ReprOf::<T>::is_column_type)
    }
}

// 5 key: sqlx asks nothing of a primary key
