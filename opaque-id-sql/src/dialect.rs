//! The SQL dialects of the databases.

/// The SQL dialect of a database.
///
/// ```
/// use opaque_id_sql::Dialect;
///
/// assert_ne!(Dialect::Postgres, Dialect::Sqlite);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    pub(crate) const COUNT: usize = 3;

    /// Returns whether an error's code reports a conflict with another transaction. The code is the SQLSTATE on
    /// PostgreSQL, the error's number on MySQL and MariaDB, the extended result code on SQLite.
    #[must_use]
    pub fn is_conflict(self, code: &str) -> bool {
        match self {
            // serialization_failure, deadlock_detected, lock_not_available
            Self::Postgres => matches!(code, "40001" | "40P01" | "55P03"),
            // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT; MariaDB's ER_CHECKREAD (a row is newer than the
            // snapshot) and ER_AUTOINC_READ_FAILED (a deadlock for the counter)
            Self::MySql => matches!(code, "1213" | "1205" | "1020" | "1467"),
            // SQLITE_BUSY, SQLITE_LOCKED and what extends them
            Self::Sqlite => matches!(code.parse::<u32>(), Ok(code) if matches!(code & 0xff, 5 | 6)),
        }
    }
}
