use diesel::deserialize::{self, FromSql};
use diesel::pg::{Pg, PgValue};
use diesel::result::DatabaseErrorInformation;
use diesel::sql_types::{BigInt, Binary, Text, Uuid as SqlUuid};
use opaque_id_sql::dialect::{Failure, TYPE};
use opaque_id_sql::statement::Cell;

use super::run::{UnknownFailure, supported_backend};
use crate::postgres::{INT8, UUID};

supported_backend!(Pg, Postgres, cell, failure);

/// diesel does not keep the SQLSTATE, and the message is in the server's language. In every language, only a
/// deadlock has a hint and a detail of a line per process. A lock timeout and the end of a session are
/// recognized only in English.
fn failure(error: &(dyn DatabaseErrorInformation + Send + Sync)) -> UnknownFailure {
    let is_deadlock =
        error.hint().is_some() && error.details().is_some_and(|details| details.contains('\n'));
    UnknownFailure::Known(match error.message() {
        _ if is_deadlock => Failure::Conflict,
        "canceling statement due to lock timeout" => Failure::LockTimeout,
        // An administrator, a crash or an idle timeout ends a session. The driver may notice it only after
        // the next call.
        message if message.starts_with("terminating connection ") => Failure::Disconnected,
        message if message.starts_with("nextval: reached maximum value") => Failure::Duplicate,
        message
            if message.starts_with("value too long for type ")
                || message.starts_with("invalid input ")
                || message.ends_with(" out of range")
                || message.contains(" is out of range for type ") =>
        {
            Failure::Refused(TYPE)
        }
        // Citus writes neither a hint nor a detail.
        message if message.contains("was involved in a distributed deadlock") => Failure::Conflict,
        // Aurora DSQL writes its code into the message.
        message if message.ends_with("(OC000)") || message.ends_with("(OC001)") => {
            Failure::Conflict
        }
        _ => Failure::Other,
    })
}

/// The number is in PostgreSQL's `pg_type.dat`.
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
