//! The statements that read another table page by page, in the order of its keys.

use opaque_id_sql::Dialect;

use super::Result;
use crate::args::FromTable;

/// The number of rows in a page. A transaction locks them.
const ROWS: usize = 250;

pub(super) struct OldTable {
    dialect: Dialect,
    table: String,
    id: String,
    columns: String,
    /// The conditions on `information_schema` for the columns of JSON objects.
    of_object: Option<String>,
}

impl OldTable {
    pub(super) fn new(
        dialect: Dialect,
        table: &str,
        from: &FromTable,
        is_json: bool,
    ) -> Result<Self> {
        let quoted = |name: &str| quoted(dialect, name);
        let id = quoted(&from.id);
        // The key of the next page is a literal of hex digits, so that no data become SQL in any session. The
        // hex digits of a number differ from the digits of its text.
        let is_bytes =
            format!("CHARSET({id}) = 'binary' AND HEX({id}) = HEX(CAST({id} AS BINARY))");
        let key = match dialect {
            Dialect::Postgres => format!("CAST({id} AS text), quote_literal(CAST({id} AS text))"),
            Dialect::MySql => format!(
                "CAST(IF({is_bytes} AND LENGTH({id}) = 16, HEX({id}), {id}) AS CHAR), IF({is_bytes}, CONCAT('x''', HEX({id}), ''''), \
                 CONCAT('_utf8mb4 x''', HEX(CONVERT(CAST({id} AS CHAR) USING utf8mb4)), ''''))"
            ),
            // `|| ''` removes the affinity of the cast. It would turn integers of the column into text.
            _ => format!(
                "CASE typeof({id}) WHEN 'blob' THEN hex({id}) ELSE CAST({id} AS TEXT) END, CASE typeof({id}) \
                 WHEN 'text' THEN 'CAST(x''' || hex({id}) || ''' AS TEXT) || ''''' ELSE quote({id}) END"
            ),
        };
        let value = match (&from.value, is_json) {
            (Some(value), false) => quoted(value),
            (Some(value), true) => {
                let text = if dialect == Dialect::MySql { "CHAR" } else { "TEXT" };
                format!("CAST({} AS {text})", quoted(value))
            }
            (None, true) => object(dialect, &from.columns),
            (None, false) => {
                return Err(
                    "expected --value because the table's values are not JSON, found --columns"
                        .into(),
                );
            }
        };
        let of_object = (dialect == Dialect::MySql && from.value.is_none()).then(|| {
            let (schema, name) = table.split_once('.').unwrap_or(("", table));
            format!(
                "table_schema = COALESCE(NULLIF('{schema}', ''), DATABASE()) AND table_name = '{name}' AND column_name IN ('{}')",
                from.columns.join("', '")
            )
        });
        let table = table.split('.').map(quoted).collect::<Vec<_>>().join(".");
        Ok(Self { dialect, table, id, columns: format!("{key}, {value}"), of_object })
    }

    pub(super) fn count(&self) -> String {
        format!("SELECT count(*) FROM {}", self.table)
    }

    /// Finds columns whose values MySQL and MariaDB change in JSON.
    pub(super) fn changed_in_json(&self) -> Option<String> {
        let of_object = self.of_object.as_ref()?;
        Some(format!(
            "SELECT CAST(column_name AS CHAR), CAST(column_type AS CHAR), NULL FROM information_schema.columns WHERE {of_object} \
             AND (data_type REGEXP 'blob|binary|bit|geom|point|line|polygon' OR column_type LIKE '%zerofill%' \
             OR data_type = 'float' AND VERSION() LIKE '%MariaDB%')"
        ))
    }

    /// Reads and locks the rows after a key, so that they are not changed or deleted before they are written.
    pub(super) fn page(&self, after: Option<&str>) -> String {
        let Self { table, id, columns, .. } = self;
        // Another role may have operators that fit the key's type better than PostgreSQL's own.
        let (greater, order) = match self.dialect {
            Dialect::Postgres => ("OPERATOR(pg_catalog.>)", " USING OPERATOR(pg_catalog.<)"),
            _ => (">", ""),
        };
        let rest = after.map_or(String::new(), |after| format!(" WHERE {id} {greater} {after}"));
        let lock = match self.dialect {
            Dialect::Postgres => " FOR SHARE",
            Dialect::MySql => " LOCK IN SHARE MODE",
            // SQLite's transactions lock the database.
            _ => "",
        };
        // PostgreSQL names the text of the key like the column, and would order by the text.
        let by = format!("{table}.{id}{order}");
        format!("SELECT {columns} FROM {table}{rest} ORDER BY {by} LIMIT {ROWS}{lock}")
    }
}

fn object(dialect: Dialect, columns: &[String]) -> String {
    let quoted = |name: &String| quoted(dialect, name);
    let members = columns.iter().map(|name| format!("'{name}', {}", quoted(name)));
    let members = members.collect::<Vec<_>>().join(", ");
    match dialect {
        // A function has at most 100 arguments.
        Dialect::Postgres => {
            let columns = columns.iter().map(quoted).collect::<Vec<_>>().join(", ");
            format!("CAST((SELECT row_to_json(o) FROM (SELECT {columns}) AS o) AS text)")
        }
        Dialect::MySql => format!("CAST(JSON_OBJECT({members}) AS CHAR)"),
        _ => format!("json_object({members})"),
    }
}

/// Quotes a name. SQLite would take an unknown name in double quotes for a text.
fn quoted(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::Postgres => format!("\"{name}\""),
        _ => format!("`{name}`"),
    }
}
