//! Columns of `BINARY(16)`, `BIGINT` and `INT`, also unsigned, on MySQL and MariaDB.

use std::io::Write as _;

use diesel::deserialize::{self, FromSql};
use diesel::mysql::{Mysql, MysqlType, MysqlValue};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, HasSqlType, Integer, Unsigned};
use opaque_id_core::key::{Key, Repr, Uuid};
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{KeyError, OpaqueId};

use crate::{Id, Internal, StoredIn};

// 1 type

impl<T: OpaqueId> HasSqlType<Id<T>> for Mysql
where
    ReprOf<T>: StoredIn<Mysql>,
    Mysql: HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>,
{
    fn metadata(lookup: &mut Self::MetadataLookup) -> MysqlType {
        match <Mysql as HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>>::metadata(lookup) {
            // If asked for bytes, diesel's own driver also accepts text. If asked for a string, it reports
            // the actual type.
            MysqlType::Blob => MysqlType::String,
            other => other,
        }
    }
}

fn column_type<T: OpaqueId>(value: &MysqlValue<'_>) -> KeyError {
    let found = format!("{:?}", value.value_type());
    KeyError::column_type(T::PREFIX, found, ReprOf::<T>::COLUMN)
}

// 2 write, 3 read

impl StoredIn<Mysql> for Uuid {
    type SqlType = Binary;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Mysql>) -> serialize::Result {
        ToSql::<Binary, Mysql>::to_sql(self.as_bytes().as_slice(), out)
    }

    fn read<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
        // diesel would accept 16 characters of text as a key.
        if value.value_type() != MysqlType::Blob {
            return Err(column_type::<T>(&value));
        }
        <Self as StoredIn<Mysql>>::read_plain::<T>(value)
    }

    // A plain column is requested as bytes.
    fn read_plain<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
        Self::from_slice(value.as_bytes())
            .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, Box::new(error)))
    }
}

macro_rules! integer {
    ($($integer:ty => $sql_type:ty),*) => {$(
        impl StoredIn<Mysql> for $integer {
            type SqlType = $sql_type;

            fn write<'b>(&'b self, out: &mut Output<'b, '_, Mysql>) -> serialize::Result {
                ToSql::<$sql_type, Mysql>::to_sql(self, out)
            }

            // The column may have another width because it was or will be made wider. diesel would cut off a
            // fraction.
            fn read<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
                let unsigned_bits = match value.value_type() {
                    MysqlType::Tiny | MysqlType::Short | MysqlType::Long | MysqlType::LongLong => 0,
                    MysqlType::UnsignedTiny => 8,
                    MysqlType::UnsignedShort => 16,
                    MysqlType::UnsignedLong => 32,
                    MysqlType::UnsignedLongLong => 64,
                    _ => return Err(column_type::<T>(&value)),
                };
                let read = <i64 as FromSql<BigInt, Mysql>>::from_sql(value)
                    .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, error))?;
                // diesel reads an unsigned integer as a signed one of the same bits.
                let read = match unsigned_bits {
                    0 => Some(read),
                    bits => i64::try_from(read.cast_unsigned() & (u64::MAX >> (64 - bits))).ok(),
                };
                read.and_then(Self::from_integer).ok_or_else(|| KeyError::too_large(T::PREFIX))
            }
        }
    )*};
}

integer!(i64 => BigInt, i32 => Integer, u32 => Unsigned<Integer>);

/// `diesel print-schema` writes this type for `BIGINT UNSIGNED`.
impl<T: OpaqueId<Key: Key<Repr = i64>>> ToSql<Unsigned<BigInt>, Mysql> for Internal<T> {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Mysql>) -> serialize::Result {
        let key = u64::try_from(*self.as_repr()).map_err(|_| KeyError::negative(T::PREFIX))?;
        out.write_all(&key.to_ne_bytes())?;
        Ok(IsNull::No)
    }
}

impl<T: OpaqueId<Key: Key<Repr = i64>>> FromSql<Unsigned<BigInt>, Mysql> for Internal<T> {
    fn from_sql(value: MysqlValue<'_>) -> deserialize::Result<Self> {
        FromSql::<Id<T>, Mysql>::from_sql(value)
    }
}
