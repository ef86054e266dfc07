//! `uuid`, `bigint` and `integer`.

use diesel::deserialize::{self, FromSql};
use diesel::pg::{Pg, PgTypeMetadata, PgValue};
use diesel::result::DatabaseErrorInformation;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, HasSqlType, Integer, SmallInt, Text, Uuid as SqlUuid};
use opaque_id_core::key::{Repr, Uuid};
use opaque_id_core::resource::ReprOf;
use opaque_id_core::{KeyError, OpaqueId};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::Cell;

use crate::run::{UnknownFailure, supported_backend};
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

/// PostgreSQL's numbers of the types, from its `pg_type.dat`. diesel gives an element of an array the type of the array.
const UUID: u32 = 2950;
const UUID_ARRAY: u32 = 2951;
const INT8: u32 = 20;
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
        // diesel would take any 16 bytes for a UUID, of text as well.
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

            // The column may have been made wider, or is to become wider.
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

// 6 mapping

supported_backend!(Pg, Postgres, cell, failure);

/// diesel does not keep the SQLSTATE, and the message's language is the server's. In every language, only a deadlock has
/// a hint and a detail of a line per process. A lock timeout and the end of a session have neither, and are only recognized in English.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    let is_deadlock =
        error.hint().is_some() && error.details().is_some_and(|details| details.contains('\n'));
    UnknownFailure::Known(match error.message() {
        _ if is_deadlock => Failure::Conflict,
        "canceling statement due to lock timeout" => Failure::LockTimeout,
        // An administrator, a crash or an idle timeout ends a session. The driver may notice it only after the next call.
        message if message.starts_with("terminating connection ") => Failure::Disconnected,
        message if message.starts_with("nextval: reached maximum value") => Failure::Duplicate,
        // Citus writes neither a hint nor a detail.
        message if message.contains("was involved in a distributed deadlock") => Failure::Conflict,
        // Aurora DSQL writes its code into the message.
        message if message.ends_with("(OC000)") || message.ends_with("(OC001)") => {
            Failure::Conflict
        }
        _ => Failure::Other,
    })
}

/// PostgreSQL's numbers of the types `bytea` and `text`.
const BYTEA: u32 = 17;
const TEXT: u32 = 25;

fn cell(value: PgValue<'_>) -> deserialize::Result<Cell> {
    Ok(match value.get_oid().get() {
        INT8 => Cell::Integer(FromSql::<BigInt, Pg>::from_sql(value)?),
        UUID => Cell::Uuid(FromSql::<SqlUuid, Pg>::from_sql(value)?),
        BYTEA => Cell::Bytes(FromSql::<Binary, Pg>::from_sql(value)?),
        TEXT => Cell::Text(FromSql::<Text, Pg>::from_sql(value)?),
        oid => {
            return Err(format!(
                "expected int8, uuid, bytea or text, found the type with OID {oid}"
            )
            .into());
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_timeout_and_the_end_of_a_session_are_recognized() {
        let failure = |message: &str| failure(&message.to_owned());
        assert!(matches!(
            failure("canceling statement due to lock timeout"),
            UnknownFailure::Known(Failure::LockTimeout)
        ));
        assert!(matches!(
            failure("terminating connection due to administrator command"),
            UnknownFailure::Known(Failure::Disconnected)
        ));
    }
}
