/// The SQL dialect of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// Returns the end of a `CREATE TABLE` of this crate. On MySQL and MariaDB it names InnoDB, because with
    /// another default engine, such as MyRocks, a UUID could get two integers.
    #[doc(hidden)]
    #[must_use]
    pub const fn engine_clause(self) -> &'static str {
        match self {
            Self::MySql => " ENGINE=InnoDB",
            Self::Postgres | Self::Sqlite => "",
        }
    }

    /// Returns the end of a query of several rows. Without it MySQL and MariaDB cut off an answer at
    /// `sql_select_limit` without an error.
    #[doc(hidden)]
    #[must_use]
    pub const fn all_rows(self) -> &'static str {
        match self {
            Self::MySql => " LIMIT 18446744073709551615",
            Self::Postgres | Self::Sqlite => "",
        }
    }

    /// Classifies an error's code: the SQLSTATE on PostgreSQL, the error's number on MySQL and MariaDB, and
    /// the extended result code on SQLite.
    #[must_use]
    pub fn failure(self, code: &str) -> Failure {
        match self {
            Self::Postgres => match code {
                // serialization_failure, deadlock_detected; Aurora DSQL's conflicts of rows and of the schema
                "40001" | "40P01" | "OC000" | "OC001" => Failure::Conflict,
                // lock_not_available
                "55P03" => Failure::LockTimeout,
                // unique_violation; sequence_generator_limit_exceeded (the next number is not free either)
                "23505" | "2200H" => Failure::Duplicate,
                // read_only_sql_transaction, statement_completion_unknown (CockroachDB lost a server at COMMIT),
                // cannot_connect_now, too_many_connections
                "25006" | "40003" | "57P03" | "53300" => Failure::Unavailable,
                // admin_shutdown, crash_shutdown, idle_in_transaction_session_timeout, idle_session_timeout
                "57P01" | "57P02" | "25P03" | "57P05" => Failure::Disconnected,
                // connection_exception
                code if code.starts_with("08") => Failure::Disconnected,
                _ => self.refusal(code),
            },
            Self::MySql => match code {
                // ER_LOCK_DEADLOCK; MariaDB's ER_CHECKREAD (a row is newer than the snapshot) and
                // ER_AUTOINC_READ_FAILED (a deadlock for the counter)
                "1213" | "1020" | "1467" => Failure::Conflict,
                // ER_LOCK_WAIT_TIMEOUT
                "1205" => Failure::LockTimeout,
                // On clusters: ER_TRANSACTION_ROLLBACK_DURING_COMMIT, ER_ERROR_DURING_COMMIT, and
                // ER_AUTO_INCREMENT_CONFLICT
                "3101" | "1180" | "1869" => Failure::Conflict,
                // On TiDB: a conflict at COMMIT with a row that was read FOR UPDATE, a COMMIT that was rolled
                // back, a change of the schema, a write conflict
                "8002" | "8022" | "8028" | "9007" => Failure::Conflict,
                // Also MariaDB's HA_ERR_AUTOINC_ERANGE (the next number does not fit)
                "1062" | "1586" | "1859" | "167" => Failure::Duplicate,
                // ER_UNKNOWN_COM_ERROR (a Galera node that is not ready), ER_OPTION_PREVENTS_STATEMENT (read-only),
                // ER_RUN_HOOK_ERROR (a group without majority), ER_READ_ONLY_MODE,
                // ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_CON_COUNT_ERROR
                "1047" | "1290" | "3100" | "1836" | "1792" | "1040" => Failure::Unavailable,
                // ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED, ER_CLIENT_INTERACTION_TIMEOUT (wait_timeout)
                "1053" | "1927" | "4031" => Failure::Disconnected,
                _ => self.refusal(code),
            },
            Self::Sqlite => match code.parse::<u32>() {
                // SQLITE_BUSY, SQLITE_LOCKED and their extended codes
                Ok(code) if matches!(code & 0xff, 5 | 6) => Failure::Conflict,
                // SQLITE_CONSTRAINT_PRIMARYKEY, SQLITE_CONSTRAINT_UNIQUE
                Ok(1555 | 2067) => Failure::Duplicate,
                _ => self.refusal(code),
            },
        }
    }

    /// Recognizes errors that are about one row.
    fn refusal(self, code: &str) -> Failure {
        let class = code.get(..2).filter(|_| self == Self::Postgres).unwrap_or("-");
        let is_of = |(_, postgres, mysql, sqlite): &&(_, &str, &str, &str)| {
            let codes = match self {
                Self::Postgres => postgres,
                Self::MySql => mysql,
                Self::Sqlite => sqlite,
            };
            codes.split_whitespace().any(|known| known == code || known == class)
        };
        let reason = REFUSALS.iter().find(is_of).map(|(reason, ..)| *reason);
        // The standard leaves these classes to users. X and Y are an engine's own.
        let is_users =
            class.starts_with(|first| matches!(first, '6' | '8'..='9' | 'I'..='W' | 'Z'));
        reason.or(is_users.then_some(RAISED)).map_or(Failure::Other, Failure::Refused)
    }
}

/// The reason of a refusal by a constraint.
pub const CONSTRAINT: &str = "a constraint refuses it";
/// The reason of a refusal because of a column's type.
pub const TYPE: &str = "it is no value of a column's type or character set";
const RAISED: &str = "a trigger or function raises an error";

/// The reasons of refusals, with the codes or classes of PostgreSQL, and the codes of MySQL and MariaDB, and of SQLite.
const REFUSALS: [(&str, &str, &str, &str); 8] = [
    ("a column is too short for it", "22001", "1406", ""),
    ("it is out of the range of a column's type", "22003", "1264 1690", ""),
    ("a column accepts no NULL", "23502", "1048 1263 1364", "1299"),
    ("the row or its entry in an index would be too large", "54000", "1118", "18"),
    (CONSTRAINT, "23 44", "1216 1217 1369 1451 1452 3819 4025", "275 787"),
    ("no partition accepts the row", "", "1526", ""),
    (RAISED, "38 39 45 P0", "1644", "1811"),
    (TYPE, "22", "1265 1292 1300 1366 1367 1411 1525 1977 3140 3854", "20 3091"),
];

/// The meaning of a database's error for a retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A conflict with another transaction.
    Conflict,
    /// A lock was held longer than the session waits.
    LockTimeout,
    /// A unique index already has the key.
    Duplicate,
    /// The server does not accept writes.
    Unavailable,
    /// The connection is gone.
    Disconnected,
    /// The table cannot take one of the rows, for this reason. It does not repeat the server's message, because
    /// that may have the value.
    Refused(&'static str),
    /// A retry would fail again.
    Other,
}

impl Failure {
    /// Returns how the caller can retry.
    #[must_use]
    pub fn retry(self) -> Option<Retry> {
        match self {
            Self::Conflict | Self::LockTimeout => Some(Retry::Again),
            Self::Unavailable | Self::Disconnected => Some(Retry::Elsewhere),
            Self::Duplicate | Self::Refused(_) | Self::Other => None,
        }
    }
}

/// How to retry your failed transaction, including one that failed at COMMIT, by an adapter's function
/// `retry`.
///
/// The transaction must be one that may run twice: if the connection breaks at COMMIT, its outcome is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Retry {
    /// Another transaction conflicted. Roll back, wait for some milliseconds and run the whole transaction
    /// again.
    Again,
    /// The server does not accept writes now, or the connection is gone. Run the whole transaction again on
    /// another connection, to another server if there are several.
    Elsewhere,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_and_closed_connections_are_retried() {
        for (dialect, codes, retry) in [
            (Dialect::Postgres, "40001 OC000 OC001", Retry::Again),
            (Dialect::MySql, "8002 8022 8028 9007", Retry::Again),
            (Dialect::Postgres, "40003 25P03 57P05 53300", Retry::Elsewhere),
            (Dialect::MySql, "4031 1040", Retry::Elsewhere),
        ] {
            for code in codes.split(' ') {
                assert_eq!(dialect.failure(code).retry(), Some(retry), "{code}");
            }
        }
    }

    #[test]
    fn a_refusal_is_about_a_row_and_no_missing_right() {
        for (dialect, row, other) in [
            (Dialect::Postgres, "22001", "42501"),
            (Dialect::Postgres, "U0001", "XX000"),
            (Dialect::Postgres, "45000", "53100"),
            (Dialect::MySql, "1406", "1142"),
            (Dialect::Sqlite, "1811", "8"),
        ] {
            assert!(matches!(dialect.failure(row), Failure::Refused(_)), "{row}");
            assert_eq!(dialect.failure(other), Failure::Other);
        }
    }
}
