//! diesel returns neither the last insert id nor an error's number. So a call searches again after an insert,
//! and asks the server for the error. While a call of diesel-async runs, its connection is marked as broken,
//! so pools close a dropped call's connection.

use diesel::deserialize::{self, FromSql};
use diesel::mysql::{Mysql, MysqlType, MysqlValue};
use diesel::result::DatabaseErrorInformation;
use diesel::sql_types::BigInt;
use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::{Cell, Column, Statement};

use super::run::{Question, UnknownFailure, supported_backend};

supported_backend!(Mysql, MySql, cell, failure);

/// The English prefixes of some errors' messages.
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

/// The message may be in another language, and diesel does not keep the number.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    let message = MESSAGES.iter().find(|(start, _)| error.message().starts_with(start));
    if let Some((_, failure)) = message {
        return UnknownFailure::Known(*failure);
    }
    // TiDB marks each conflict with this text.
    if error.message().ends_with("[try again later]") {
        return UnknownFailure::Known(Failure::Conflict);
    }
    UnknownFailure::Ask(Question {
        // The server cannot prepare the first two. Warnings of MySQL precede the error.
        ask: vec![
            Statement::batch("GET DIAGNOSTICS @opaque_id_errno = NUMBER"),
            Statement::batch(
                "GET DIAGNOSTICS CONDITION @opaque_id_errno @opaque_id_errno = MYSQL_ERRNO",
            ),
            Statement::new(
                "SELECT CAST(@opaque_id_errno AS SIGNED) LIMIT 1",
                Vec::new(),
                &[Column::Integer],
            ),
        ],
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
