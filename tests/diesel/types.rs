//! The types of keys on each database, and diesel's types for reading them.

use std::fmt;

use diesel::backend::Backend;
use diesel::deserialize::{self, FromSql, FromSqlRow};
use diesel::sql_types::is_nullable::NotNull;
use diesel::sql_types::{Array, BigInt, Binary, Integer, Nullable, SqlType, Unsigned};
use opaque_id_core::OpaqueId;
use opaque_id_core::key::Uuid;
use opaque_id_diesel::{Id, Internal};

/// The SQL type of a type in diesel.
pub(crate) trait ReadAs {
    type Sql;
}

macro_rules! read_as {
    ($([$($generics:tt)*] $type:ty => $sql:ty;)*) => {
        $(impl<$($generics)*> ReadAs for $type {
            type Sql = $sql;
        })*
    };
}

read_as! {
    [] i32 => Integer;
    [] u32 => Unsigned<Integer>;
    [] i64 => BigInt;
    [] Uuid => diesel::sql_types::Uuid;
    [] Bytes => Binary;
    [T: OpaqueId] Internal<T> => Id<T>;
    [T: ReadAs<Sql: SqlType<IsNull = NotNull>>] Option<T> => Nullable<T::Sql>;
    [T: ReadAs<Sql: SqlType<IsNull = NotNull>>] Vec<T> => Array<T::Sql>;
}

/// A UUID on databases without such a type. It is shown like one.
#[derive(FromSqlRow)]
pub(crate) struct Bytes(Vec<u8>);

impl<DB: Backend> FromSql<Binary, DB> for Bytes
where
    Vec<u8>: FromSql<Binary, DB>,
{
    fn from_sql(bytes: DB::RawValue<'_>) -> deserialize::Result<Self> {
        FromSql::from_sql(bytes).map(Self)
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Uuid::from_slice(&self.0) {
            Ok(uuid) => fmt::Display::fmt(&uuid, f),
            Err(_) => fmt::Debug::fmt(&self.0, f),
        }
    }
}

macro_rules! postgres_keys {
    ($read:ident, $wanted:expr) => {
        ::opaque_id_tests::read_keys!(
            $read, $wanted;
            I32 i32 => Internal<Number>, I64 i64 => Internal<Team>, Uuid Uuid => Internal<Legacy>;
            lists I32 i32 => Internal<Number>, I64 i64 => Internal<Team>,
            Uuid Uuid => Internal<Legacy>
        )
    };
}

macro_rules! mysql_keys {
    ($read:ident, $wanted:expr) => {
        ::opaque_id_tests::read_keys!(
            $read, $wanted;
            I32 i32 => Internal<Number>, U32 u32 => Internal<UnsignedNumber>,
            I64 i64 => Internal<Team>, Uuid Bytes => Internal<Legacy>
        )
    };
}

macro_rules! sqlite_keys {
    ($read:ident, $wanted:expr) => {
        ::opaque_id_tests::read_keys!(
            $read, $wanted;
            I32 i32 => Internal<Number>, I64 i64 => Internal<Team>, Uuid Bytes => Internal<Legacy>
        )
    };
}

pub(crate) use {mysql_keys, postgres_keys, sqlite_keys};
