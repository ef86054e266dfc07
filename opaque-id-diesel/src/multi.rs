//! Keys in the connections of `#[derive(diesel::MultiConnection)]`.

use std::marker::PhantomData;

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql};
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{SqlType, is_nullable};
use opaque_id_core::OpaqueId;
use opaque_id_core::key::Uuid;

use crate::StoredIn;

/// The SQL type of 16-byte keys in a `MultiConnection`, whose backends have different ones.
#[derive(Debug)]
pub struct UuidKey;

impl SqlType for UuidKey {
    type IsNull = is_nullable::NotNull;
}

impl<DB> ToSql<UuidKey, DB> for Uuid
where
    DB: Backend,
    Self: StoredIn<DB>,
{
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, DB>) -> serialize::Result {
        self.write(out)
    }
}

macro_rules! uuid_key {
    ($($feature:literal: $backend:ty;)*) => {$(
        #[cfg(feature = $feature)]
        impl diesel::sql_types::HasSqlType<UuidKey> for $backend {
            fn metadata(lookup: &mut Self::MetadataLookup) -> Self::TypeMetadata {
                use diesel::sql_types::HasSqlType;

                <Self as HasSqlType<<Uuid as StoredIn<Self>>::SqlType>>::metadata(lookup)
            }
        }
    )*};
}

uuid_key! {
    "mysql": diesel::mysql::Mysql;
    "postgres": diesel::pg::Pg;
    "sqlite": diesel::sqlite::Sqlite;
}

/// A key of a resource that its own backend reads.
#[derive(Debug)]
pub struct Read<T, R>(pub R, PhantomData<fn() -> T>);

impl<T: OpaqueId, R: StoredIn<DB>, ST, DB: Backend> FromSql<ST, DB> for Read<T, R> {
    fn from_sql(value: DB::RawValue<'_>) -> deserialize::Result<Self> {
        Ok(Self(R::read::<T>(value)?, PhantomData))
    }
}

/// Lets the ids of all resources be stored by the backend of a `#[derive(diesel::MultiConnection)]`.
///
/// Call it once, where the derive's `MultiBackend` is in scope. Columns are `Id<T>` or, for integers, `BigInt` or `Integer`.
/// Mapping tables, sequences and packs need a connection of one database.
///
/// ```
/// use diesel::prelude::*;
/// use opaque_id_diesel::{Internal, OpaqueId};
///
/// #[derive(diesel::MultiConnection)]
/// enum AnyConnection {
///     Sqlite(SqliteConnection),
///     // Postgresql(PgConnection) and Mysql(MysqlConnection), with their features
/// }
///
/// opaque_id_diesel::multi_backend!(MultiBackend);
///
/// #[derive(OpaqueId, Queryable, Insertable)]
/// #[opaque_id(prefix = "user")]
/// # #[diesel(table_name = users)]
/// pub struct User {
///     id: Internal<User>,
///     name: String,
/// }
///
/// diesel::table! {
///     use diesel::sql_types::*;
///     use opaque_id_diesel::Id;
///     use super::User;
///     users (id) {
///         id -> Id<User>,
///         name -> Text,
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut connection = AnyConnection::establish("sqlite://:memory:")?;
/// # diesel::sql_query("CREATE TABLE users (id BLOB PRIMARY KEY, name TEXT NOT NULL)").execute(&mut connection)?;
/// let ada = User { id: Internal::generate(), name: "Ada".to_owned() };
/// diesel::insert_into(users::table).values(&ada).execute(&mut connection)?;
/// let found: User = users::table.find(ada.id).first(&mut connection)?;
/// assert_eq!(found.name, "Ada");
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! multi_backend {
    ($backend:ty) => {
        const _: () = {
            use $crate::__multi::diesel::{
                backend::Backend,
                serialize::{IsNull, Output, Result as Written},
                sql_types::{BigInt, HasSqlType, Integer},
            };
            use $crate::__multi::{Read, UuidKey};
            use $crate::{KeyError, OpaqueId, StoredIn, resource::ReprOf};

            impl HasSqlType<UuidKey> for $backend {
                fn metadata(lookup: &mut Self::MetadataLookup) -> Self::TypeMetadata {
                    Self::lookup_sql_type::<UuidKey>(lookup)
                }
            }

            impl<T: OpaqueId> HasSqlType<$crate::Id<T>> for $backend
            where
                ReprOf<T>: StoredIn<$backend>,
                $backend: HasSqlType<<ReprOf<T> as StoredIn<$backend>>::SqlType>,
            {
                fn metadata(lookup: &mut Self::MetadataLookup) -> Self::TypeMetadata {
                    <Self as HasSqlType<<ReprOf<T> as StoredIn<Self>>::SqlType>>::metadata(lookup)
                }
            }

            macro_rules! stored {
                ($repr:ty => $sql_type:ident) => {
                    impl StoredIn<$backend> for $repr {
                        type SqlType = $sql_type;

                        fn write<'b>(&'b self, out: &mut Output<'b, '_, $backend>) -> Written {
                            out.set_value(($sql_type, self));
                            Ok(IsNull::No)
                        }

                        fn read<T: OpaqueId>(
                            value: <$backend as Backend>::RawValue<'_>,
                        ) -> ::core::result::Result<Self, KeyError> {
                            let read = value.from_sql::<Read<T, Self>, $sql_type>();
                            read.map(|read| read.0).map_err($crate::__multi::error::<T>)
                        }
                    }
                };
            }
    stored!(i32 => Integer);
    stored!(i64 => BigInt);
    stored!($crate::key::Uuid => UuidKey);
        };
    };
}

/// Unwraps an error of a backend.
#[must_use]
pub fn error<T: OpaqueId>(
    error: Box<dyn std::error::Error + Send + Sync>,
) -> opaque_id_core::KeyError {
    match error.downcast::<opaque_id_core::KeyError>() {
        Ok(error) => *error,
        Err(other) => opaque_id_core::KeyError::unreadable(T::PREFIX, "a key", other),
    }
}
