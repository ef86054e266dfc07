//! sqlx records that it waits for an answer before it prepares a statement. If a call is dropped during that,
//! or between the header of a packet and its content, the connection is out of step with the server: it
//! hangs, or takes one statement's answer for another's. So statements of calls are sent as
//! text, and the connection of a dropped call does not return to the pool.

use sqlx::MySql;
use sqlx::mysql::{MySqlDatabaseError, MySqlQueryResult};

use super::run::supported_database;

supported_database!(
    MySql,
    MySql,
    MySqlDatabaseError,
    // The number is more precise than the SQLSTATE, except for a trigger's own number.
    |error| match error.code() {
        Some(state) if state.starts_with("45") => Some("1644".to_owned()),
        _ => Some(error.number().to_string()),
    },
    const SENDS_TEXT: bool = true;,
    const RECOVERS: bool = false;,
    fn last_insert_id(result: &MySqlQueryResult) -> Option<u64> {
        Some(result.last_insert_id())
    }
);
