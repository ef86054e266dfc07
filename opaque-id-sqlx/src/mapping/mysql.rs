//! MySQL and MariaDB return a number.
//!
//! sqlx notes that it waits for an answer before it prepares a statement. A call that is dropped while it is prepared, or between
//! the header of a packet and its content, leaves the connection out of step: it hangs, or takes one statement's answer for
//! another's. So statements of maps and sequences are sent as text, and the connection of a dropped call does not return to the pool.

use sqlx::MySql;
use sqlx::mysql::{MySqlDatabaseError, MySqlQueryResult};

use super::run::supported_database;

supported_database!(
    MySql,
    MySql,
    MySqlDatabaseError,
    // The number, as the SQLSTATE is less precise.
    |error| Some(error.number().to_string()),
    // If a call is dropped while sqlx prepares a statement, the connection is out of step with the server: it may
    // wait forever, or take an answer for another statement's.
    const SENDS_TEXT: bool = true;,
    // The same happens if it is dropped between the header of a packet and its content.
    const RECOVERS: bool = false;,
    fn last_insert_id(result: &MySqlQueryResult) -> Option<u64> {
        Some(result.last_insert_id())
    }
);
