//! `BINARY(16)`, `BIGINT` and `INT`, also unsigned, on MySQL and MariaDB.
//!
//! diesel returns neither the last insert id nor an error's number, so a call searches again after an insert, and asks the server for
//! the error. While a call of diesel-async runs, its connection is marked as broken, which pools ask for, so a dropped call's
//! connection is closed.

use std::io::Write as _;

use diesel::deserialize::{self, FromSql};
use diesel::mysql::{Mysql, MysqlType, MysqlValue};
use diesel::result::DatabaseErrorInformation;
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, HasSqlType, Integer, Unsigned};
use opaque_id_core::key::{Key, Repr, Uuid};
use opaque_id_core::resource::{InternalId, ReprOf};
use opaque_id_core::{KeyError, OpaqueId};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{Cell, Column, Statement};

use crate::run::{Question, UnknownFailure, supported_backend};
use crate::{Id, Internal, StoredIn};

// 1 type

impl<T: OpaqueId> HasSqlType<Id<T>> for Mysql
where
    ReprOf<T>: StoredIn<Mysql>,
    Mysql: HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>,
{
    fn metadata(lookup: &mut Self::MetadataLookup) -> MysqlType {
        match <Mysql as HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>>::metadata(lookup) {
            // Asked for bytes, diesel's own driver takes text for them and does not tell; asked for a string, it
            // says which of both it is.
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
        // diesel would take 16 characters of text for a key.
        if value.value_type() != MysqlType::Blob {
            return Err(column_type::<T>(&value));
        }
        <Self as StoredIn<Mysql>>::read_plain::<T>(value)
    }

    // A plain column is asked for as bytes.
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

            // The column may have been made wider, or is to become wider. diesel would cut a fraction off.
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

/// For an `i64` in a column of this type, as `diesel print-schema` writes it for `BIGINT UNSIGNED`.
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

// 6 mapping

supported_backend!(Mysql, MySql, cell, failure);

/// How the messages of some errors begin, in English.
const MESSAGES: [(&str, Failure); 15] = [
    ("Deadlock found", Failure::Conflict),
    ("Record has changed since last read", Failure::Conflict),
    ("Failed to read auto-increment value", Failure::Conflict),
    ("Plugin instructed the server to rollback", Failure::Conflict),
    ("Got error 149", Failure::Conflict),
    ("Error while appending streaming replication fragment", Failure::Conflict),
    ("Auto-increment value in UPDATE conflicts", Failure::Conflict),
    ("Lock wait timeout exceeded", Failure::LockTimeout),
    ("WSREP has not yet prepared node", Failure::Unavailable),
    ("The MySQL server is running with the --", Failure::Unavailable),
    ("The MariaDB server is running with the --", Failure::Unavailable),
    ("Error on observer while running replication hook", Failure::Unavailable),
    ("Running in read-only mode", Failure::Unavailable),
    ("Server shutdown in progress", Failure::Disconnected),
    ("Connection was killed", Failure::Disconnected),
];

/// Asks the server if the message is in another language, as diesel does not keep the number.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    let message = MESSAGES.iter().find(|(start, _)| error.message().starts_with(start));
    if let Some((_, failure)) = message {
        return UnknownFailure::Known(*failure);
    }
    // With this TiDB marks each conflict.
    if error.message().ends_with("[try again later]") {
        return UnknownFailure::Known(Failure::Conflict);
    }
    UnknownFailure::Ask(Question {
        // It cannot be prepared.
        get: Statement::batch("GET DIAGNOSTICS CONDITION 1 @opaque_id_errno = MYSQL_ERRNO"),
        read: Statement::new(
            "SELECT CAST(@opaque_id_errno AS SIGNED) LIMIT 1",
            Vec::new(),
            &[Column::Integer],
        ),
        clear: Statement::batch("SET @opaque_id_errno = NULL"),
    })
}

fn cell(value: MysqlValue<'_>) -> deserialize::Result<Cell> {
    Ok(match value.value_type() {
        MysqlType::Tiny
        | MysqlType::Short
        | MysqlType::Long
        | MysqlType::LongLong
        | MysqlType::UnsignedTiny
        | MysqlType::UnsignedShort
        | MysqlType::UnsignedLong
        | MysqlType::UnsignedLongLong => Cell::Integer(FromSql::<BigInt, Mysql>::from_sql(value)?),
        _ => Cell::Bytes(value.as_bytes().to_owned()),
    })
}
