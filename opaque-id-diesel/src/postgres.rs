//! `uuid` and `bigint`.

use diesel::QueryResult;
use diesel::deserialize::FromSql;
use diesel::pg::{Pg, PgTypeMetadata, PgValue};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, HasSqlType, Uuid as SqlUuid};
use opaque_id_core::{KeyError, OpaqueId, ReprOf, Uuid};

use crate::mapping::map_backend;
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

/// PostgreSQL's numbers of the types, in its `pg_type.dat`.
const UUID: u32 = 2950;
const INT8: u32 = 20;

// diesel would take any 16 bytes for a UUID, of text as well.
fn check_type<T: OpaqueId>(value: &PgValue<'_>, wanted: u32) -> Result<(), KeyError> {
    match value.get_oid().get() {
        oid if oid == wanted => Ok(()),
        oid => Err(KeyError::column_type::<T>(format!("with OID {oid}"))),
    }
}

// 2 write, 3 read

impl StoredIn<Pg> for Uuid {
    type SqlType = SqlUuid;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<SqlUuid, Pg>::to_sql(self, out)
    }

    fn read<T: OpaqueId>(value: PgValue<'_>) -> Result<Self, KeyError> {
        check_type::<T>(&value, UUID)?;
        FromSql::<SqlUuid, Pg>::from_sql(value).map_err(KeyError::unreadable::<T>)
    }
}

impl StoredIn<Pg> for i64 {
    type SqlType = BigInt;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        ToSql::<BigInt, Pg>::to_sql(self, out)
    }

    fn read<T: OpaqueId>(value: PgValue<'_>) -> Result<Self, KeyError> {
        check_type::<T>(&value, INT8)?;
        FromSql::<BigInt, Pg>::from_sql(value).map_err(KeyError::unreadable::<T>)
    }
}

// 6 mapping

map_backend!(Pg, Postgres, UuidRow);

#[derive(diesel::QueryableByName)]
struct UuidRow {
    #[diesel(sql_type = BigInt)]
    id: i64,
    #[diesel(sql_type = SqlUuid)]
    uuid: Uuid,
}

impl UuidRow {
    fn into_pair(self) -> QueryResult<(i64, Uuid)> {
        Ok((self.id, self.uuid))
    }
}
