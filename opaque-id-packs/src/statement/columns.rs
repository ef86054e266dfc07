//! The statements on a column of an ordinary table, with its blind index and its plaintext.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Column, Statement};

use super::builder::Builder;
use super::builder::Parameter::{Bytes, Id, Integer, List};
use crate::column::{ColumnName, Quoted};
use crate::id_column::IdColumn;
use crate::index::FINGERPRINT;
use crate::stored::StoredRow;

/// The most bodies that a statement of a walk reads or writes.
pub(crate) const PAGE_ROWS: i64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueSource {
    Plaintext,
    /// The encrypted values of rows without plaintext. A plaintext is the newer value.
    Encrypted,
    /// All encrypted values that begin with another header.
    AllEncrypted,
    /// The fingerprints of rows without a value.
    Index,
}

impl ValueSource {
    /// Returns the condition on the row `c`.
    fn condition(self, quoted: &Quoted) -> String {
        let column = (self == Self::Index).then_some(&quoted.column);
        let needs_plaintext = matches!(self, Self::Encrypted | Self::Index);
        let plaintext = quoted.plaintext.as_ref().filter(|_| needs_plaintext);
        let empty = column.into_iter().chain(plaintext);
        empty.map(|column| format!(" AND c.{column} IS NULL")).collect()
    }
}

/// The columns that a conversion writes, in rows that still have the value that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// The fingerprint only. The value was read from this column.
    Index(ValueSource),
    /// Clears a fingerprint that is not the value's.
    NoIndex(ValueSource),
    /// The encrypted value and the fingerprint, in place of the plaintext.
    Encrypted,
    /// The plaintext, in place of the encrypted value.
    Plaintext,
}

#[derive(Clone)]
pub(crate) struct ConvertedRow {
    pub(crate) id: u128,
    pub(crate) fingerprint: Vec<u8>,
    pub(crate) new: Vec<u8>,
    /// The value that was read.
    pub(crate) read: Vec<u8>,
}

impl ConvertedRow {
    /// The length of the new value takes the place of the version.
    fn list_item(&self) -> StoredRow {
        let len = i64::try_from(self.new.len()).unwrap_or(i64::MAX);
        StoredRow::new(self.id, len, [&*self.fingerprint, &self.new, &self.read].concat())
    }
}

impl Builder<'_> {
    /// Replaces a value that is still the one that was read. A mark in place of a value has no fingerprint.
    pub(crate) fn replace_value(
        self,
        column: &ColumnName,
        id: u128,
        from: &[u8],
        to: &[u8],
        is_mark: bool,
    ) -> Statement {
        let Quoted { table, id: key, column, index, .. } = column.quoted(self.dialect);
        let index =
            index.filter(|_| is_mark).map_or(String::new(), |index| format!(", {index} = NULL"));
        let sql = format!(
            "{} {table} SET {column} = :bytes2{index} WHERE {key} = :id0 AND {column} = :bytes1",
            self.update(false)
        );
        self.statement(&sql, &[Id(id), Bytes(from), Bytes(to)], &[])
    }

    /// Reads a page of values of one of the columns, from an id on, each with its fingerprint, or with no bytes for a missing one. Only
    /// some sources need the header.
    pub(crate) fn read_values(
        self,
        column: &ColumnName,
        source: ValueSource,
        from: u128,
        header: &[u8],
    ) -> Statement {
        let quoted = column.quoted(self.dialect);
        let mut value = self.value_of(&quoted, source);
        if self.dialect == Dialect::Sqlite
            && quoted.plaintext.is_some()
            && source != ValueSource::AllEncrypted
        {
            // The bytes of a text would be UTF-16 in a database of that encoding. A byte that is no text is an error instead.
            value = format!("CASE WHEN CAST('a' AS BLOB) = x'61' THEN {value} ELSE x'ff' END");
        }
        let index = quoted.index.as_ref().map_or_else(
            || self.no_body().to_owned(),
            |index| format!("COALESCE(c.{index}, {})", self.no_body()),
        );
        let Quoted { table, id, .. } = &quoted;
        let has = column_of(&quoted, source);
        let (mut parameters, mut is_stale) = (vec![Id(from), Integer(PAGE_ROWS)], String::new());
        if source == ValueSource::AllEncrypted {
            parameters.push(Bytes(header));
            is_stale = format!(" AND {}", super::is_stale(&has));
        }
        let sql = format!(
            "SELECT {key}, {value}, {index} FROM {table} AS c \
             WHERE c.{id} >= {first} AND {has} IS NOT NULL{condition}{is_stale} ORDER BY c.{id} LIMIT :int1",
            key = self.read_id(&format!("c.{id}")),
            first = self.first_id(),
            condition = source.condition(&quoted),
        );
        let columns = match self.table.ids {
            IdColumn::Uuid => &[Column::Uuid, Column::Bytes, Column::Bytes],
            IdColumn::Integer => &[Column::Integer, Column::Bytes, Column::Bytes],
        };
        self.statement(&sql, &parameters, columns)
    }

    /// Writes rows that still have the value that was read.
    pub(crate) fn convert(
        self,
        column: &ColumnName,
        write: Write,
        rows: &[ConvertedRow],
    ) -> Statement {
        let quoted = column.quoted(self.dialect);
        let start = FINGERPRINT + 1;
        let len =
            if self.dialect == Dialect::Postgres { "CAST(l.version AS int4)" } else { "l.version" };
        let part = |range: String| format!("COALESCE(SUBSTR(l.body, {range}), {})", self.no_body());
        let new = part(format!("{start}, {len}"));
        let read = part(format!("{start} + {len}"));
        let index = quoted.index.as_ref().map(|index| (index, part(format!("1, {FINGERPRINT}"))));
        let plaintext = quoted.plaintext.as_ref();
        let (mut sets, mut condition) = (Vec::new(), String::new());
        match (write, index) {
            (Write::Plaintext, _) | (_, None) => {}
            (Write::NoIndex(_), Some((index, fingerprint))) => {
                condition = format!(" AND c.{index} <> {fingerprint}");
                sets.push((index, "NULL".to_owned()));
            }
            (_, Some(index)) => sets.push(index),
        }
        let source = match write {
            Write::Index(source) | Write::NoIndex(source) => source,
            Write::Encrypted => {
                sets.push((&quoted.column, new));
                sets.extend(plaintext.map(|plaintext| (plaintext, "NULL".to_owned())));
                ValueSource::Plaintext
            }
            Write::Plaintext => {
                sets.push((&quoted.column, "NULL".to_owned()));
                // An application that writes plaintext again may have been faster.
                sets.extend(plaintext.map(|plaintext| {
                    let new = self.text(&new, plaintext, column.is_json);
                    if self.dialect == Dialect::Postgres {
                        // It reads JSON's `null` as NULL.
                        condition = format!(" AND {new} IS DISTINCT FROM NULL");
                    }
                    (plaintext, format!("COALESCE(c.{plaintext}, {new})"))
                }));
                ValueSource::AllEncrypted
            }
        };
        let alias = if self.is_mysql() { "c." } else { "" };
        let sets = sets.into_iter().map(|(name, value)| format!("{alias}{name} = {value}"));
        let sets = sets.collect::<Vec<_>>().join(", ");
        let update = self.update(write == Write::Plaintext || quoted.index.is_some());
        let (rows_of, value) = (self.list(0), self.value_of(&quoted, source));
        let Quoted { table, id, .. } = &quoted;
        condition += &source.condition(&quoted);
        let sql = match self.dialect {
            Dialect::MySql => format!(
                "{update} {rows_of} AS l STRAIGHT_JOIN {table} AS c ON c.{id} = l.id SET {sets} WHERE {value} = {read}{condition}"
            ),
            // Without a limit, PostgreSQL expects more rows and reads the whole table.
            _ => format!(
                "{update} {table} AS c SET {sets} FROM (SELECT * FROM {rows_of} AS l LIMIT {PAGE_ROWS}) AS l WHERE c.{id} = l.id AND {value} = {read}{condition}"
            ),
        };
        let rows: Vec<_> = rows.iter().map(ConvertedRow::list_item).collect();
        self.statement(&sql, &[List(&rows)], &[])
    }

    /// Finds a value of a column without fingerprints. It also checks the types: PostgreSQL would write bytes into a text as digits, and
    /// MySQL would convert them to its characters.
    pub(crate) fn other_values(self, column: &ColumnName) -> Statement {
        let Quoted { table, column: body, index, .. } = column.quoted(self.dialect);
        let is_other = index.as_ref().map_or_else(
            || "1 = 0".to_owned(),
            |index| {
                format!(
                    "LENGTH({index}) <> {FINGERPRINT} AND NOT EXISTS (SELECT 1 FROM {table} WHERE LENGTH({index}) = {FINGERPRINT})"
                )
            },
        );
        let is_text = match self.dialect {
            Dialect::MySql => {
                let (schema, table) = column.schema_and_table();
                let schema = schema.map_or("DATABASE()".to_owned(), |schema| format!("'{schema}'"));
                let names = [Some(&body), index.as_ref()].into_iter().flatten();
                let names = names.map(|name| name.replace('`', "'")).collect::<Vec<_>>().join(", ");
                format!(
                    "EXISTS (SELECT 1 FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND TABLE_NAME = '{table}' \
                     AND COLUMN_NAME IN ({names}) AND DATA_TYPE NOT REGEXP 'blob|binary')"
                )
            }
            _ => format!("(1 = 0 AND {body} = {})", self.no_body()),
        };
        let sql = format!(
            "SELECT CAST(1 AS {}) FROM {table} WHERE {is_other} OR {is_text} LIMIT 1",
            self.bigint()
        );
        self.statement(&sql, &[], &[Column::Integer])
    }

    /// Finds a foreign key to the plaintext. Its `ON UPDATE` could empty other tables.
    pub(crate) fn references(self, column: &ColumnName) -> Option<Statement> {
        let plaintext = column.plaintext.as_ref()?;
        let Quoted { table, .. } = column.quoted(self.dialect);
        let (schema, name) = column.schema_and_table();
        let from = match self.dialect {
            Dialect::Postgres => format!(
                "pg_catalog.pg_constraint AS k JOIN pg_catalog.pg_attribute AS a ON a.attrelid = k.confrelid AND a.attnum = ANY (k.confkey) \
                 WHERE k.contype = 'f' AND k.confrelid = CAST('{table}' AS regclass) AND a.attname = '{plaintext}'"
            ),
            Dialect::MySql => {
                let schema = schema.map_or("DATABASE()".to_owned(), |schema| format!("'{schema}'"));
                format!(
                    "information_schema.KEY_COLUMN_USAGE WHERE REFERENCED_TABLE_SCHEMA = {schema} AND REFERENCED_TABLE_NAME = '{name}' \
                     AND REFERENCED_COLUMN_NAME = '{plaintext}'"
                )
            }
            _ => {
                let schema = schema.unwrap_or("main");
                format!(
                    "{schema}.sqlite_schema AS m JOIN pragma_foreign_key_list(m.name, '{schema}') AS k WHERE m.type = 'table' \
                     AND k.\"table\" = '{name}' COLLATE NOCASE AND k.\"to\" = '{plaintext}' COLLATE NOCASE"
                )
            }
        };
        let sql = format!("SELECT CAST(1 AS {}) FROM {from} LIMIT 1", self.bigint());
        Some(self.statement(&sql, &[], &[Column::Integer]))
    }

    /// Counts values in plaintext, encrypted values, and values without a fingerprint.
    pub(crate) fn count_unconverted(self, column: &ColumnName) -> Statement {
        let Quoted { table, column, index, plaintext, .. } = column.quoted(self.dialect);
        let plaintext = plaintext.unwrap_or_else(|| "NULL".to_owned());
        let unindexed = index.map_or_else(
            || "0".to_owned(),
            |index| {
                format!(
                    "COALESCE(SUM(CASE WHEN {index} IS NULL AND ({column} IS NOT NULL OR {plaintext} IS NOT NULL) THEN 1 ELSE 0 END), 0)"
                )
            },
        );
        let bigint = self.bigint();
        let sql = format!(
            "SELECT CAST(COUNT({plaintext}) AS {bigint}), CAST(COUNT({column}) AS {bigint}), CAST({unindexed} AS {bigint}) FROM {table}"
        );
        self.statement(&sql, &[], &[Column::Integer; 3])
    }

    /// Returns the beginning of an UPDATE that refuses a value for which a column has no room. Outside of strict mode, MySQL and MariaDB
    /// would cut it off. A unique column of SQLite can delete the conflicting row, but `OR ABORT` also changes the statements of triggers.
    fn update(self, is_unique: bool) -> &'static str {
        match self.dialect {
            Dialect::MySql => {
                "/*M! SET STATEMENT sql_mode = 'STRICT_ALL_TABLES' FOR */ \
                 UPDATE /*+ SET_VAR(sql_mode = 'STRICT_ALL_TABLES') */"
            }
            Dialect::Sqlite if is_unique => "UPDATE OR ABORT",
            _ => "UPDATE",
        }
    }

    fn read_id(self, id: &str) -> String {
        match (self.table.ids, self.dialect) {
            (IdColumn::Integer, Dialect::Postgres) => format!("CAST({id} AS int8)"),
            (IdColumn::Integer, Dialect::MySql) => format!("CAST({id} AS SIGNED)"),
            _ => id.to_owned(),
        }
    }

    /// Returns the bytes of a value: the bytes of the column, or the plaintext in UTF-8. Bytes are compared without a collation.
    fn value_of(self, quoted: &Quoted, source: ValueSource) -> String {
        let value = column_of(quoted, source);
        match (source, self.dialect) {
            (ValueSource::Encrypted | ValueSource::AllEncrypted | ValueSource::Index, _) => value,
            // The text of a `bytea` would be hexadecimal digits. A byte that is no text is an error instead.
            (_, Dialect::Postgres) => format!(
                "CASE WHEN {} = 'bytea' THEN decode('ff', 'hex') ELSE convert_to(CAST({value} AS text), 'UTF8') END",
                base_type(&value)
            ),
            // In a binary string, MariaDB would replace bytes that are not UTF-8.
            (_, Dialect::MySql) => format!(
                "IF(CHARSET({value}) = 'binary', CAST({value} AS BINARY), CAST(CONVERT({value} USING utf8mb4) AS BINARY))"
            ),
            _ => format!("CAST(CAST({value} AS TEXT) AS BLOB)"),
        }
    }

    /// Returns bytes in UTF-8 as a value of the row `c` in a column of texts, of JSON, or of a type that is read from a text.
    fn text(self, bytes: &str, plaintext: &str, is_json: bool) -> String {
        match self.dialect {
            // PostgreSQL assigns a text to columns of texts only. Members of JSON become values of any type.
            Dialect::Postgres => {
                let (name, text) =
                    (plaintext.trim_matches('"'), format!("convert_from({bytes}, 'UTF8')"));
                let value = match is_json {
                    true => format!("CAST({text} AS json)"),
                    false => format!(
                        "CASE WHEN {} IN ('json', 'jsonb') THEN CAST({text} AS json) ELSE to_json({text}) END",
                        base_type(&format!("c.{plaintext}"))
                    ),
                };
                format!(
                    "(json_populate_record(c.*, json_build_object('{name}', {value}))).{plaintext}"
                )
            }
            // Without a collation of its own, it does not mix with a text of another character set.
            Dialect::MySql => format!("CONVERT({bytes} USING utf8mb4) COLLATE utf8mb4_bin"),
            _ => format!("CAST({bytes} AS TEXT)"),
        }
    }
}

/// Returns PostgreSQL's name of a value's type. `COALESCE` turns a domain into its base type, and the setting
/// `quote_all_identifiers` adds quotes.
fn base_type(value: &str) -> String {
    format!("TRIM(BOTH '\"' FROM CAST(pg_typeof(COALESCE({value}, NULL)) AS text))")
}

fn column_of(quoted: &Quoted, source: ValueSource) -> String {
    let name = match source {
        ValueSource::Encrypted | ValueSource::AllEncrypted => Some(&quoted.column),
        ValueSource::Plaintext => quoted.plaintext.as_ref(),
        ValueSource::Index => quoted.index.as_ref(),
    };
    name.map_or_else(|| "NULL".to_owned(), |name| format!("c.{name}"))
}
