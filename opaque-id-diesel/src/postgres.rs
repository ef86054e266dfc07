//! Columns of `uuid`, `bigint` and `integer`.

use diesel::deserialize::FromSql;
use diesel::pg::{Pg, PgTypeMetadata, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, HasSqlType, Integer, SmallInt, Uuid as SqlUuid};
use opaque_id_core::key::{Repr, Uuid};
use opaque_id_core::resource::ReprOf;
use opaque_id_core::{KeyError, OpaqueId};

use crate::{Id, StoredIn};

// 1 type

impl<T: OpaqueId> HasSqlType<Id<T>> for Pg
where
    ReprOf<T>: StoredIn<Pg>,
    Pg: HasSqlType<<ReprOf<T> as StoredIn<Pg>>::SqlType>,
{
    fn metadata(lookup: &mut Self::MetadataLookup) -> PgTypeMetadata {
        <Pg as HasSqlType<<ReprOf<T> as StoredIn<Pg>>::SqlType>>::metadata(lookup)
    }
}

/// The numbers are in PostgreSQL's `pg_type.dat`. diesel reports the type of the array for an element.
pub(crate) const UUID: u32 = 2950;
const UUID_ARRAY: u32 = 2951;
pub(crate) const INT8: u32 = 20;
const INT8_ARRAY: u32 = 1016;
const INT4: u32 = 23;
const INT4_ARRAY: u32 = 1007;
const INT2: u32 = 21;
const INT2_ARRAY: u32 = 1005;

fn column_type<T: OpaqueId>(value: &PgValue<'_>) -> KeyError {
    let found = format!("with OID {}", value.get_oid());
    KeyError::column_type(T::PREFIX, found, ReprOf::<T>::COLUMN)
}

// 2 write, 3 read

impl StoredIn<Pg> for Uuid {
    type SqlType = SqlUuid;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<SqlUuid, Pg>::to_sql(self, out)
    }

    fn read<T: OpaqueId>(value: PgValue<'_>) -> Result<Self, KeyError> {
        // diesel would accept any 16 bytes as a UUID, including text.
        if !matches!(value.get_oid().get(), UUID | UUID_ARRAY) {
            return Err(column_type::<T>(&value));
        }
        FromSql::<SqlUuid, Pg>::from_sql(value)
            .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, error))
    }
}

macro_rules! integer {
    ($($integer:ty => $sql_type:ty),*) => {$(
        impl StoredIn<Pg> for $integer {
            type SqlType = $sql_type;

            fn write<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
                ToSql::<$sql_type, Pg>::to_sql(self, out)
            }

            // The column may have another width because it was or will be made wider.
            fn read<T: OpaqueId>(value: PgValue<'_>) -> Result<Self, KeyError> {
                let read = match value.get_oid().get() {
                    INT8 | INT8_ARRAY => FromSql::<BigInt, Pg>::from_sql(value),
                    INT4 | INT4_ARRAY => {
                        <i32 as FromSql<Integer, Pg>>::from_sql(value).map(i64::from)
                    }
                    INT2 | INT2_ARRAY => {
                        <i16 as FromSql<SmallInt, Pg>>::from_sql(value).map(i64::from)
                    }
                    _ => return Err(column_type::<T>(&value)),
                };
                let read = read.map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, error));
                Self::from_integer(read?).ok_or_else(|| KeyError::too_large(T::PREFIX))
            }
        }
    )*};
}

integer!(i64 => BigInt, i32 => Integer);
