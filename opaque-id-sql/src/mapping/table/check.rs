//! The checks of a table's columns, its index and its server.

use core::convert::Infallible;
use std::sync::atomic::Ordering;

use super::Table;
use crate::call::Session;
use crate::catalog::{MissingIndex, NO_INDEX, bare_name, primary_key, schema, sqlite_schema};
use crate::dialect::Dialect;
use crate::engine::Engine;
use crate::mapping::ddl::{self, Index};
use crate::mapping::error::MappingError;
use crate::statement::{Answer, Cell, Column, Statement};

/// SQLite's type of the greatest UUID of an empty table, and the type that a check reports for a missing table.
const EMPTY: &str = "null";

impl Table {
    /// Checks the table before the first statement of a process. A clone may record the check at any time.
    pub(in crate::mapping) async fn check(
        &self,
        session: &Session,
        dialect: Dialect,
    ) -> Result<(), MappingError<Infallible>> {
        // PostgreSQL compares UUIDs only with UUIDs. A view has no index.
        let can_differ = dialect != Dialect::Postgres || !self.is_of_rows;
        if !can_differ || self.shared.is_column_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        match session.run(self.wrong_columns(dialect)).await {
            Answer::Rows(rows) if !rows.is_empty() => match &rows[0][..] {
                [Cell::Text(column), Cell::Text(found)] if found != EMPTY => {
                    Err(self.wrong_column(column, found.clone()))
                }
                _ => Ok(()),
            },
            _ => {
                self.column_is_checked();
                Ok(())
            }
        }
    }

    pub(in crate::mapping) fn column_is_checked(&self) {
        self.shared.is_column_checked.store(true, Ordering::Relaxed);
    }

    /// Refuses a server that writes on several nodes, because these do not share the locks of a hashed index.
    pub(in crate::mapping) async fn check_server(
        &self,
        session: &Session,
        dialect: Dialect,
    ) -> Result<(), MappingError<Infallible>> {
        if dialect == Dialect::Sqlite || self.shared.is_server_checked.load(Ordering::Relaxed) {
            return Ok(());
        }
        if let Answer::Rows(rows) = session.run(Engine::ask(dialect)).await
            && let Some(engine) = Engine::from_rows(&rows)
        {
            return Err(MappingError::Cluster { engine });
        }
        self.shared.is_server_checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Finds a column with another type than [`create_sql`](Self::create_sql) gives it, and that type. With
    /// another type of the UUIDs, MySQL and SQLite compare and find nothing. With another type of the
    /// integers, MySQL converts any value to an integer. A column of SQLite has values of any type: the
    /// greatest is a blob if one is, and [`NULL`](EMPTY) if there is none. For a mapping table the statement
    /// also reports a missing [index](NO_INDEX).
    fn wrong_columns(&self, dialect: Dialect) -> Statement {
        let sql = || {
            if dialect == Dialect::Sqlite && self.is_of_rows {
                let ([name, _, uuid], column) = (self.names(dialect), self.uuid);
                return format!(
                    "SELECT '{column}', typeof(m.uuid) FROM (SELECT max(m.{uuid}) AS uuid FROM {name} AS m) AS m WHERE typeof(m.uuid) <> 'blob'"
                );
            }
            let index = self.no_index(dialect);
            if dialect == Dialect::Postgres {
                return index;
            }
            // Another call checks a table that does not exist yet.
            let table = bare_name(self.name);
            let missing = |tables: &str| {
                let from = if dialect == Dialect::MySql { " FROM DUAL" } else { "" };
                format!("SELECT '', '{EMPTY}'{from} WHERE NOT EXISTS (SELECT 1 FROM {tables})")
            };
            if dialect == Dialect::Sqlite {
                let (of, _) = sqlite_schema(self.name);
                let tables = format!("{of}sqlite_master WHERE name = '{table}' COLLATE NOCASE");
                return format!("{index} UNION ALL {}", missing(&tables));
            }
            // sqlx 0.8 reads no text from the column itself, because its collation is binary.
            let index = if self.is_of_rows { String::new() } else { format!(" UNION ALL {index}") };
            let (schema, Self { id, uuid, .. }) = (schema(self.name), self);
            let missing = missing(&format!(
                "information_schema.TABLES WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = '{table}'"
            ));
            // `VARBINARY(32)` and `VARBINARY(36)` have texts of UUIDs.
            format!(
                "SELECT COLUMN_NAME, CAST(COLUMN_TYPE AS CHAR) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND \
                 TABLE_NAME = '{table}' AND (COLUMN_NAME = '{uuid}' AND COLUMN_TYPE <> 'binary(16)' AND \
                 NOT (DATA_TYPE = 'varbinary' AND CHARACTER_MAXIMUM_LENGTH >= 16 AND CHARACTER_MAXIMUM_LENGTH NOT IN (32, 36)) OR COLUMN_NAME = '{id}' AND \
                 DATA_TYPE NOT IN ('tinyint', 'smallint', 'mediumint', 'int', 'bigint')){index} UNION ALL {missing}{}",
                dialect.all_rows()
            )
        };
        Statement::new(
            self.text(dialect, "check column", false, sql),
            Vec::new(),
            &[Column::Text, Column::Text],
        )
    }

    /// Returns the columns of missing indexes over whole values of all rows. The integers need a unique index
    /// too, because a counter that is behind would otherwise give one integer to two UUIDs. A view has none.
    fn no_index(&self, dialect: Dialect) -> String {
        let columns = match self.index {
            Index::Unique => ddl::unique_columns(self.resource.is_some()),
            Index::Hashed => "hash",
        };
        let of_uuids = self.no_index_over(dialect, columns, !self.is_hashed());
        let of_integers = match dialect {
            Dialect::Postgres | Dialect::MySql => self.no_index_over(dialect, "id", true),
            Dialect::Sqlite => self.no_rowid(),
        };
        format!("{of_uuids} UNION ALL {of_integers}")
    }

    fn no_index_over(&self, dialect: Dialect, columns: &str, is_unique: bool) -> String {
        // Statements on MySQL name the index of the UUIDs.
        let name =
            (dialect == Dialect::MySql && columns != "id").then(|| self.index.name(self.name));
        let named = name.as_ref().map(|name| format!(" named {name}")).unwrap_or_default();
        let missing = MissingIndex {
            label: &format!("{columns}{named}"),
            table: self.name,
            columns,
            is_unique,
            is_arbiter: is_unique && columns != "id",
            name: name.as_deref(),
        };
        missing.sql(dialect)
    }

    /// On SQLite the integers are the table's `INTEGER PRIMARY KEY`. That has no index, and a `BIGINT PRIMARY
    /// KEY` has one.
    fn no_rowid(&self) -> String {
        let ((of, schema), table) = (sqlite_schema(self.name), bare_name(self.name));
        let key = primary_key(self.name);
        format!(
            "SELECT 'id (INTEGER PRIMARY KEY)', '{NO_INDEX}' FROM {of}sqlite_master AS t WHERE t.type = 'table' \
             AND t.name = '{table}' COLLATE NOCASE AND (EXISTS (SELECT 1 FROM pragma_index_list('{table}'{schema}) WHERE origin = 'pk') \
             OR {key} IS NOT 'id')"
        )
    }

    fn wrong_column(&self, column: &str, found: String) -> MappingError<Infallible> {
        if found == NO_INDEX {
            return MappingError::Index { table: self.name, columns: column.to_owned() };
        }
        let column = if column.eq_ignore_ascii_case(self.id) { self.id } else { self.uuid };
        MappingError::Column { table: self.name, column, found }
    }
}
