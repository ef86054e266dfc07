//! `BINARY(16)` and `BIGINT`, on MySQL and MariaDB.

use std::sync::Arc;

use diesel::deserialize::{self, FromSql};
use diesel::mysql::{Mysql, MysqlType, MysqlValue};
use diesel::result::DatabaseErrorInformation;
use diesel::serialize::{self, Output, ToSql};
use diesel::sql_types::{BigInt, Binary, HasSqlType};
use opaque_id_core::key::{Repr, Uuid};
use opaque_id_core::resource::ReprOf;
use opaque_id_core::{KeyError, OpaqueId};
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{Cell, Column, Statement};

use crate::run::{Question, UnknownFailure, supported_backend};
use crate::{Id, StoredIn};

// 1 type

impl<T: OpaqueId> HasSqlType<Id<T>> for Mysql
where
    ReprOf<T>: StoredIn<Mysql>,
    Mysql: HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>,
{
    fn metadata(lookup: &mut Self::MetadataLookup) -> MysqlType {
        match <Mysql as HasSqlType<<ReprOf<T> as StoredIn<Mysql>>::SqlType>>::metadata(lookup) {
            // Asked for bytes, diesel's own driver takes text for them and does not tell; asked for a string, it
            // tells which of both it is.
            MysqlType::Blob => MysqlType::String,
            other => other,
        }
    }
}

// diesel would take 16 characters of text for a key, and cut a fraction off.
fn check_type<T: OpaqueId>(value: &MysqlValue<'_>, expected: MysqlType) -> Result<(), KeyError> {
    match value.value_type() {
        ty if ty == expected => Ok(()),
        ty => Err(KeyError::column_type(
            T::PREFIX,
            format!("{ty:?}"),
            ReprOf::<T>::COLUMN,
        )),
    }
}

// 2 write, 3 read

impl StoredIn<Mysql> for Uuid {
    type SqlType = Binary;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Mysql>) -> serialize::Result {
        ToSql::<Binary, Mysql>::to_sql(self.as_bytes().as_slice(), out)
    }

    fn read<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
        check_type::<T>(&value, MysqlType::Blob)?;
        <Self as StoredIn<Mysql>>::read_plain::<T>(value)
    }

    // A plain column is asked for as bytes.
    fn read_plain<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
        Self::from_slice(value.as_bytes())
            .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, Box::new(error)))
    }
}

impl StoredIn<Mysql> for i64 {
    type SqlType = BigInt;

    fn write<'b>(&'b self, out: &mut Output<'b, '_, Mysql>) -> serialize::Result {
        ToSql::<BigInt, Mysql>::to_sql(self, out)
    }

    fn read<T: OpaqueId>(value: MysqlValue<'_>) -> Result<Self, KeyError> {
        check_type::<T>(&value, MysqlType::LongLong)?;
        FromSql::<BigInt, Mysql>::from_sql(value)
            .map_err(|error| KeyError::unreadable(T::PREFIX, Self::COLUMN, error))
    }
}

// 6 mapping

supported_backend!(Mysql, MySql, cell, failure);

/// Asks the server, as diesel keeps neither the number nor a language in which the message would be known.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    let statement = |sql: &str, columns, is_batch| Statement {
        sql: Arc::from(sql),
        values: Vec::new(),
        columns,
        is_batch,
    };
    let starts_with = |starts: &[&str]| {
        let message = error.message();
        starts.iter().any(|start| message.starts_with(start))
    };
    let conflicts = [
        "Deadlock found",
        "Plugin instructed the server to rollback",
        "Got error 149",
    ];
    let unavailable = [
        "WSREP has not yet prepared node",
        "The MySQL server is running with the --",
    ];
    UnknownFailure::Ask(Question {
        // It cannot be prepared.
        get: statement(
            "GET DIAGNOSTICS CONDITION 1 @opaque_id_errno = MYSQL_ERRNO",
            &[],
            true,
        ),
        read: statement(
            "SELECT CAST(@opaque_id_errno AS SIGNED)",
            &[Column::Integer],
            false,
        ),
        clear: statement("SET @opaque_id_errno = NULL", &[], true),
        otherwise: if starts_with(&conflicts) {
            Failure::Conflict
        } else if starts_with(&unavailable) {
            Failure::Unavailable
        } else {
            Failure::Other
        },
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
