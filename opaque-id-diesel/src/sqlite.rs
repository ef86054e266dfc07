//! Columns of `BLOB` with 16 bytes and `INTEGER`.

use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, HasSqlType, Integer};
use diesel::sqlite::{Sqlite, SqliteType, SqliteValue};
use opaque_id_core::key::{Repr, Uuid};
use opaque_id_core::resource::ReprOf;
use opaque_id_core::{KeyError, OpaqueId};

use crate::{Id, StoredIn};

// 1 type

impl<T: OpaqueId> HasSqlType<Id<T>> for Sqlite
where
    ReprOf<T>: StoredIn<Sqlite>,
    Sqlite: HasSqlType<<ReprOf<T> as StoredIn<Sqlite>>::SqlType>,
{
    fn metadata(lookup: &mut Self::MetadataLookup) -> SqliteType {
        <Sqlite as HasSqlType<<ReprOf<T> as StoredIn<Sqlite>>::SqlType>>::metadata(lookup)
    }
}

// diesel would accept 16 characters of text as a key, 'abc' as 0 and 1.9 as 1.
fn check_type<T: OpaqueId>(
    value: &SqliteValue<'_, '_, '_>,
    expected: SqliteType,
) -> Result<(), KeyError> {
    match value.value_type() {
        Some(ty) if ty == expected => Ok(()),
        Some(ty) => Err(KeyError::column_type(T::PREFIX, format!("{ty:?}"), ReprOf::<T>::COLUMN)),
        None => Err(KeyError::null(T::PREFIX)),
    }
}

// 2 write, 3 read

impl StoredIn<Sqlite> for Uuid {
    type SqlType = Binary;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
        ToSql::<Binary, Sqlite>::to_sql(self.as_bytes().as_slice(), out)
    }

    fn read<T: OpaqueId>(mut value: SqliteValue<'_, '_, '_>) -> Result<Self, KeyError> {
        check_type::<T>(&value, SqliteType::Binary)?;
        Self::from_slice(value.read_blob())
            .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, Box::new(error)))
    }
}

macro_rules! integer {
    ($($integer:ty => $sql_type:ty),*) => {$(
        impl StoredIn<Sqlite> for $integer {
            type SqlType = $sql_type;

            fn write<'b>(&'b self, out: &mut Output<'b, '_, Sqlite>) -> serialize::Result {
                ToSql::<$sql_type, Sqlite>::to_sql(self, out)
            }

            // SQLite has one type for integers of all sizes.
            fn read<T: OpaqueId>(mut value: SqliteValue<'_, '_, '_>) -> Result<Self, KeyError> {
                check_type::<T>(&value, SqliteType::Long)?;
                Self::from_integer(value.read_long()).ok_or_else(|| KeyError::too_large(T::PREFIX))
            }
        }
    )*};
}

integer!(i64 => BigInt, i32 => Integer);
