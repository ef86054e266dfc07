//! Engines with another database's dialect on several servers: a lock on one server does not hold on the
//! others.

use core::fmt;

use crate::dialect::Dialect;
use crate::statement::{Cell, Column, Statement};

/// A database engine that uses another one's dialect: see `docs/ENGINES.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Engine {
    /// CockroachDB.
    Cockroach,
    /// YugabyteDB.
    Yugabyte,
    /// Citus.
    Citus,
    /// Amazon Aurora DSQL.
    Dsql,
    /// TiDB.
    Tidb,
    /// Vitess, and PlanetScale's service.
    Vitess,
    /// MariaDB Galera.
    Galera,
    /// MySQL Group Replication in multi-primary mode.
    GroupReplication,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cockroach => "CockroachDB",
            Self::Yugabyte => "YugabyteDB",
            Self::Citus => "Citus",
            Self::Dsql => "Aurora DSQL",
            Self::Tidb => "TiDB",
            Self::Vitess => "Vitess",
            Self::Galera => "MariaDB Galera",
            Self::GroupReplication => "MySQL Group Replication in multi-primary mode",
        })
    }
}

impl Engine {
    pub(crate) fn ask(dialect: Dialect) -> Statement {
        let (sql, columns): (_, &[_]) = match dialect {
            Dialect::MySql => (
                "SHOW GLOBAL VARIABLES WHERE Variable_name = 'version' OR \
                 (Variable_name = 'wsrep_on' AND Value = 'ON') OR \
                 (Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF')",
                &[Column::Text, Column::Text],
            ),
            // Citus and Aurora DSQL are recognized by their tables.
            _ => (
                "SELECT version() UNION ALL SELECT CAST(relname AS text) FROM pg_catalog.pg_class \
                 WHERE relname IN ('pg_dist_node', 'iam_pg_role_mappings')",
                &[Column::Text],
            ),
        };
        Statement::new(sql, Vec::new(), columns)
    }

    pub(crate) fn from_rows(rows: &[Vec<Cell>]) -> Option<Self> {
        const MARKS: [(&str, Engine); 8] = [
            ("CockroachDB", Engine::Cockroach),
            ("-YB-", Engine::Yugabyte),
            ("pg_dist_node", Engine::Citus),
            ("iam_pg_role_mappings", Engine::Dsql),
            ("TiDB", Engine::Tidb),
            ("Vitess", Engine::Vitess),
            ("wsrep_on", Engine::Galera),
            ("group_replication_single_primary_mode", Engine::GroupReplication),
        ];
        let has = |mark: &str| {
            let mut cells = rows.iter().flatten();
            cells.any(|cell| matches!(cell, Cell::Text(text) if text.contains(mark)))
        };
        MARKS.into_iter().find(|(mark, _)| has(mark)).map(|(_, engine)| engine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_recognized_by_their_answers() {
        let of = |rows: &[&[&str]]| {
            let text = |text: &&str| Cell::Text((*text).to_owned());
            let rows: Vec<Vec<_>> = rows.iter().map(|row| row.iter().map(text).collect()).collect();
            Engine::from_rows(&rows)
        };
        assert_eq!(of(&[&["PostgreSQL 18.0 (Debian 18.0-1) on x86_64-pc-linux-gnu"]]), None);
        assert_eq!(of(&[&["version", "11.8.3-MariaDB-log"]]), None);
        assert_eq!(of(&[&["version", "9.7.0"]]), None);
        for (rows, engine) in [
            (&[&["CockroachDB CCL v25.4.0 (x86_64-pc-linux-gnu)"][..]][..], Engine::Cockroach),
            (&[&["PostgreSQL 15.12-YB-2025.1.0.0-b0 on x86_64"]], Engine::Yugabyte),
            (&[&["PostgreSQL 17.6 on x86_64"], &["pg_dist_node"]], Engine::Citus),
            (&[&["PostgreSQL 16"], &["iam_pg_role_mappings"]], Engine::Dsql),
            (&[&["version", "8.0.11-TiDB-v8.5.3"]], Engine::Tidb),
            (&[&["version", "8.4.6-Vitess"]], Engine::Vitess),
            (&[&["version", "11.8.3-MariaDB"], &["wsrep_on", "ON"]], Engine::Galera),
            (
                &[&["group_replication_single_primary_mode", "OFF"], &["version", "9.7.0"]],
                Engine::GroupReplication,
            ),
        ] {
            assert_eq!(of(rows), Some(engine));
        }
    }
}
