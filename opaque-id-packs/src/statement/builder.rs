//! The parts of statements, and their parameters in each dialect.

use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Column, Statement, Value, hex};

use self::Parameter::{Bytes, Id, Integer, Key, Keys, List};
use super::Statements;
use crate::id_column::IdColumn;
use crate::stored::StoredRow;

pub(super) enum Parameter<'a> {
    Id(u128),
    Integer(i64),
    Bytes(&'a [u8]),
    Key(u128),
    /// A relation `(id, version, body)`. It takes two bind values.
    List(&'a [StoredRow]),
    Keys(&'a [StoredRow]),
}

/// MySQL's placeholders have no numbers, so for MySQL the text has the number of each.
pub(super) type Rendered = (Arc<str>, Arc<[usize]>);

#[derive(Clone, Copy)]
pub(crate) struct Builder<'t> {
    pub(super) table: &'t Statements,
    pub(super) dialect: Dialect,
}

/// The last column is the id of the next pack. Recent rows and the last pack repeat their own id.
pub(super) const fn tiers(id: Column) -> [Column; 5] {
    [Column::Integer, id, Column::Integer, Column::Bytes, id]
}

impl Builder<'_> {
    pub(super) fn name(&self) -> &str {
        &self.table.name
    }

    pub(super) fn is_mysql(self) -> bool {
        self.dialect == Dialect::MySql
    }

    pub(super) fn tiers(self) -> &'static [Column] {
        match self.table.ids {
            IdColumn::Uuid => const { &tiers(Column::Uuid) },
            IdColumn::Integer => const { &tiers(Column::Integer) },
        }
    }

    /// Reads the current row and locks it until the dependent write is committed.
    pub(super) fn wait(self) -> &'static str {
        if self.dialect == Dialect::Sqlite { "" } else { " FOR UPDATE" }
    }

    /// Skips locked rows and locks the others.
    pub(super) fn skip(self) -> &'static str {
        if self.dialect == Dialect::Sqlite { "" } else { " FOR UPDATE SKIP LOCKED" }
    }

    /// SQLite's grammar needs a WHERE before it.
    pub(super) fn upsert(self) -> &'static str {
        match self.is_mysql() {
            true => "ON DUPLICATE KEY UPDATE version = VALUES(version), body = VALUES(body)",
            false => {
                "ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body"
            }
        }
    }

    /// On MySQL the statement fails instead, because the driver counts a skipped row as changed.
    pub(super) fn unless_there(self) -> &'static str {
        if self.is_mysql() { "" } else { "ON CONFLICT (id) DO NOTHING" }
    }

    /// MariaDB's `EMPTY_STRING_IS_NULL` changes a text without characters, and not bytes.
    pub(super) fn no_body(self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "CAST('' AS bytea)",
            _ => "x''",
        }
    }

    pub(super) fn bigint(self) -> &'static str {
        match self.dialect {
            Dialect::Postgres => "int8",
            Dialect::MySql => "SIGNED",
            _ => "integer",
        }
    }

    pub(super) fn number(self, number: u8) -> String {
        format!("CAST({number} AS {})", self.bigint())
    }

    /// The numbers of the tiers of recent rows, of packs and of neither.
    pub(super) fn numbers(self) -> [String; 3] {
        [0, 1, 2].map(|number| self.number(number))
    }

    pub(super) fn list(self, n: usize) -> String {
        self.table.ids.listed(self.dialect, n)
    }

    pub(super) fn pack_of(self, key: &str) -> String {
        let t = self.name();
        format!("(SELECT q.id FROM {t}_packs AS q WHERE q.id <= {key} ORDER BY q.id DESC LIMIT 1)")
    }

    /// Returns the id of the pack after a key's pack, or that pack's own id.
    pub(super) fn next_of(self, key: &str, lock: &str) -> String {
        let t = self.name();
        format!(
            "COALESCE((SELECT n.id FROM {t}_packs AS n WHERE n.id > {key} ORDER BY n.id LIMIT 1{lock}), p.id) AS next"
        )
    }

    /// Returns the id of the pack after the pack `p`. MySQL's servers look up only the neighbors of values.
    /// For the neighbors of another table's rows they read the index from its end on.
    pub(super) fn next(self) -> String {
        self.next_of(if self.is_mysql() { "p.id AND n.id >= :id0" } else { "p.id" }, "")
    }

    /// A part of a union that has an order and a limit. SQLite's grammar needs a relation around it. MariaDB
    /// would write that relation to disk because of its bodies.
    pub(super) fn part(self, [tier, table, body, next]: [&str; 4], condition: &str) -> String {
        let t = self.name();
        match self.is_mysql() {
            true => format!(
                "(SELECT {tier} AS tier, p.id, p.version, {body}, {next} FROM {t}_{table} AS p WHERE {condition})"
            ),
            false => format!(
                "SELECT {tier} AS tier, p.id, p.version, {body}, {next} FROM \
                 (SELECT id, version, body FROM {t}_{table} WHERE {condition}) AS p"
            ),
        }
    }

    pub(super) fn insert_sql(self, table: &str, id: &str, conflict: &str) -> String {
        let t = self.name();
        format!(
            "INSERT INTO {t}_{table} (id, version, body) VALUES ({id}, :int1, :bytes2) {conflict}"
        )
    }

    pub(super) fn insert_all_sql(
        self,
        table: &str,
        rows: &str,
        condition: &str,
        conflict: &str,
    ) -> String {
        let t = self.name();
        format!(
            "INSERT INTO {t}_{table} (id, version, body) \
             SELECT l.id, l.version, l.body FROM {rows} AS l WHERE {condition} {conflict}"
        )
    }

    pub(super) fn update_sql(self, table: &str, id: &str) -> String {
        let t = self.name();
        format!(
            "UPDATE {t}_{table} SET version = :int2, body = :bytes3 WHERE id = {id} AND version = :int1"
        )
    }

    pub(super) fn has(self, key: Option<(u128, i64)>, n: usize) -> String {
        let (t, version) = (self.name(), n + 1);
        key.map_or(String::new(), |_| {
            format!(
                " AND EXISTS (SELECT 1 FROM {t}_keys AS k WHERE k.id = :key{n} AND k.version = :int{version})"
            )
        })
    }

    /// Joins the row of this id, by the table's index. For a plain join, databases without statistics may
    /// read the whole table.
    pub(super) fn lookup(self, table: &str, alias: &str, id: &str) -> String {
        let t = self.name();
        match self.dialect {
            Dialect::Postgres => format!(
                "CROSS JOIN LATERAL (SELECT id, version, body FROM {t}_{table} WHERE id = {id} LIMIT 1) AS {alias}"
            ),
            Dialect::MySql => format!("STRAIGHT_JOIN {t}_{table} AS {alias} ON {alias}.id = {id}"),
            _ => format!("CROSS JOIN {t}_{table} AS {alias} ON {alias}.id = {id}"),
        }
    }

    /// SQLite compares keys of all types, so the first page begins before integers and texts. A wrong type is
    /// then an error and is not skipped.
    pub(super) fn first_id(self) -> &'static str {
        match (self.dialect, self.table.ids) {
            (Dialect::Sqlite, IdColumn::Uuid) => {
                "CASE WHEN :id0 = ZEROBLOB(16) THEN -9e999 ELSE :id0 END"
            }
            _ => ":id0",
        }
    }

    /// The text of a name is built once.
    pub(super) fn named(
        self,
        name: &'static str,
        parameters: &[Parameter<'_>],
        columns: &'static [Column],
        sql: impl FnOnce() -> String,
    ) -> Statement {
        let rendered = self.table.texts.get((name, self.dialect), || self.render(&sql()));
        self.bind(&rendered, parameters, columns)
    }

    pub(super) fn statement(
        self,
        sql: &str,
        parameters: &[Parameter<'_>],
        columns: &'static [Column],
    ) -> Statement {
        self.bind(&self.render(sql), parameters, columns)
    }

    fn bind(
        self,
        (sql, order): &Rendered,
        parameters: &[Parameter<'_>],
        columns: &'static [Column],
    ) -> Statement {
        let (ids, dialect) = (self.table.ids, self.dialect);
        let mut values = Vec::with_capacity(order.len());
        for parameter in parameters {
            match parameter {
                Id(id) => values.push(ids.value(dialect, *id)),
                Key(id) => values.push(IdColumn::Uuid.value(dialect, *id)),
                Integer(number) => values.push(Value::Integer(*number)),
                Bytes(bytes) => values.push(match dialect {
                    Dialect::MySql => Value::Text(hex(bytes)),
                    _ => Value::Bytes(bytes.to_vec()),
                }),
                List(rows) => values.extend(ids.list(dialect, rows)),
                Keys(rows) => values.extend(IdColumn::Uuid.list(dialect, rows)),
            }
        }
        if dialect == Dialect::MySql {
            values = order.iter().map(|i| values[*i].clone()).collect();
        }
        Statement::new(Arc::clone(sql), values, columns)
    }

    /// Replaces `:id0`, `:int1`, `:bytes2` and `:text3` by the dialect's placeholders.
    fn render(self, template: &str) -> Rendered {
        let mut sql = String::with_capacity(template.len());
        let mut order = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once(':') {
            sql += before;
            let digits = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (kind, number) = after.split_at(digits);
            let number = &number[..1];
            rest = &after[digits + 1..];
            let n = number.parse::<usize>().expect("a digit");
            order.push(n);
            let n = n + 1;
            let (kind, ids) = match kind {
                "key" => ("id", IdColumn::Uuid),
                kind => (kind, self.table.ids),
            };
            sql += &match (self.dialect, kind, ids) {
                // Some drivers send bytes as text, and MySQL accepts at most 65,535 bytes of a text as binary.
                (Dialect::MySql, "bytes", _) => "UNHEX(?)".to_owned(),
                (Dialect::MySql, "id", IdColumn::Uuid) => "CAST(? AS BINARY)".to_owned(),
                (Dialect::MySql, ..) => "?".to_owned(),
                (Dialect::Postgres, "id", IdColumn::Uuid) => {
                    format!("CAST(CAST(${n} AS text) AS uuid)")
                }
                (Dialect::Postgres, "id" | "int", _) => format!("CAST(${n} AS int8)"),
                (Dialect::Postgres, "bytes", _) => format!("CAST(${n} AS bytea)"),
                (Dialect::Postgres, ..) => format!("CAST(${n} AS text)"),
                _ => format!("?{n}"),
            };
        }
        sql += rest;
        (sql.into(), order.into())
    }
}
