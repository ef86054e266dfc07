//! Looks up tables and indexes in the databases' catalogs.

use crate::dialect::Dialect;

/// The second column of the row that [`MissingIndex::sql`] reads.
pub const NO_INDEX: &str = "no index";

/// An index over whole values of all rows.
#[derive(Debug)]
pub struct MissingIndex<'a> {
    /// The first column of the row for a missing index.
    pub label: &'a str,
    /// The table, perhaps after a schema and a dot.
    pub table: &'a str,
    /// One or two columns, separated by `, `.
    pub columns: &'a str,
    /// Whether a non-unique index does not suffice.
    pub is_unique: bool,
    /// Whether inserts name it as the arbiter of conflicts. PostgreSQL then refuses a deferrable one.
    pub is_arbiter: bool,
    /// The index's name on MySQL, if statements need it.
    pub name: Option<&'a str>,
}

impl MissingIndex<'_> {
    /// Returns a query of the label and of [`NO_INDEX`] for a table that has no such index. A view has none.
    #[must_use]
    pub fn sql(&self, dialect: Dialect) -> String {
        let Self { label, table, columns, is_unique, is_arbiter, name } = *self;
        let names: Vec<_> = columns.split(", ").map(|name| format!("'{name}'")).collect();
        let (names, n) = (names.join(", "), names.len());
        let if_unique = |sql: String| if is_unique { sql } else { String::new() };
        match dialect {
            Dialect::Postgres => format!(
                "SELECT CAST('{label}' AS text), CAST('{NO_INDEX}' AS text) FROM pg_catalog.pg_class AS c WHERE \
                 c.oid = CAST('{table}' AS regclass) AND c.relkind IN ('r', 'p') AND NOT EXISTS (SELECT 1 FROM pg_catalog.pg_index AS i \
                 WHERE i.indrelid = c.oid AND i.indisvalid AND i.indpred IS NULL{}{} AND {n} = (SELECT count(*) FROM \
                 pg_catalog.pg_attribute AS a WHERE a.attrelid = c.oid AND a.attname IN ({names}) \
                 AND a.attnum IN (i.indkey[0], i.indkey[{}])))",
                if_unique(format!(" AND i.indisunique AND i.indnkeyatts = {n}")),
                if is_arbiter { " AND i.indimmediate" } else { "" },
                n - 1,
            ),
            Dialect::MySql => {
                let is_named =
                    name.map_or(String::new(), |name| format!(" AND s.INDEX_NAME = '{name}'"));
                let (schema, table) = (schema(table), bare_name(table));
                format!(
                    "SELECT '{label}', '{NO_INDEX}' FROM information_schema.TABLES AS t WHERE t.TABLE_SCHEMA = {schema} AND \
                     t.TABLE_NAME = '{table}' AND t.TABLE_TYPE NOT IN ('VIEW', 'TEMPORARY') AND NOT EXISTS (SELECT 1 FROM information_schema.STATISTICS \
                     AS s WHERE s.TABLE_SCHEMA = {schema} AND s.TABLE_NAME = '{table}'{is_named} GROUP BY s.INDEX_NAME HAVING \
                     SUM(s.COLUMN_NAME IN ({names}) AND s.SEQ_IN_INDEX <= {n} AND s.SUB_PART IS NULL) = {n}{})",
                    if_unique(format!(" AND COUNT(*) = {n} AND MAX(s.NON_UNIQUE) = 0")),
                )
            }
            Dialect::Sqlite => {
                let ((of, schema), table) = (sqlite_schema(table), bare_name(table));
                let count = |which: &str| {
                    format!("{n} = (SELECT count(*) FROM pragma_index_info(l.name{schema}){which})")
                };
                format!(
                    "SELECT '{label}', '{NO_INDEX}' FROM {of}sqlite_master AS t WHERE t.type = 'table' AND t.name = '{table}' \
                     COLLATE NOCASE AND NOT EXISTS (SELECT 1 FROM pragma_index_list('{table}'{schema}) AS l WHERE NOT l.partial \
                     AND {}{})",
                    count(&format!(" WHERE name COLLATE NOCASE IN ({names}) AND seqno < {n}")),
                    if_unique(format!(" AND l.\"unique\" AND {}", count(""))),
                )
            }
        }
    }
}

/// Returns SQLite's expression for the columns of a primary key. An `INTEGER PRIMARY KEY` has no index.
#[must_use]
pub fn primary_key(table: &str) -> String {
    let ((_, schema), table) = (sqlite_schema(table), bare_name(table));
    format!(
        "(SELECT group_concat(lower(name)) FROM pragma_table_info('{table}'{schema}) WHERE pk > 0)"
    )
}

/// Returns the schema before a table's name, and as a pragma's last argument.
pub(crate) fn sqlite_schema(table: &str) -> (String, String) {
    match table.split_once('.') {
        Some((schema, _)) => (format!("{schema}."), format!(", '{schema}'")),
        None => (String::new(), String::new()),
    }
}

pub(crate) fn bare_name(table: &str) -> &str {
    table.split_once('.').map_or(table, |(_, table)| table)
}

/// Returns MySQL's expression for the schema of a table.
pub(crate) fn schema(table: &str) -> String {
    let schema = table.split_once('.').map(|(schema, _)| format!("'{schema}'"));
    schema.unwrap_or_else(|| "DATABASE()".to_owned())
}
