use sqlx::{Connection, PgConnection};

use super::{
    CheckError, ForeignKey, Judgement, Key, Report, Stored, is_id_name, is_id_text, report,
    text_fault,
};

/// One column of one constraint.
#[derive(sqlx::FromRow)]
struct Row {
    constraint_name: String,
    table_name: String,
    column_name: String,
    type_name: String,
    base_type: String,
    /// Of text, if it is declared.
    length: Option<i32>,
    sequence: Option<String>,
    referenced_table: Option<String>,
    referenced_column: Option<String>,
    definition: String,
}

const ROWS: &str = "
    SELECT con.conname::text AS constraint_name, cl.relname::text AS table_name,
        a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS type_name,
        t.typname::text AS base_type, nullif(a.atttypmod, -1) - 4 AS length,
        pg_get_serial_sequence(quote_ident(cl.relname), a.attname) AS sequence,
        ref.relname::text AS referenced_table, refa.attname::text AS referenced_column,
        pg_get_constraintdef(con.oid) AS definition
    FROM pg_constraint con
    JOIN pg_class cl ON cl.oid = con.conrelid
    JOIN pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = con.conkey[1]
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_class ref ON ref.oid = con.confrelid
    LEFT JOIN pg_attribute refa ON refa.attrelid = con.confrelid AND refa.attnum = con.confkey[1]
    WHERE con.contype IN ('p', 'f') AND cardinality(con.conkey) = 1
        AND cl.relnamespace = current_schema()::regnamespace
    ORDER BY cl.relname, a.attnum";

pub(super) async fn check(url: &str) -> Result<Report, CheckError> {
    let mut connection = PgConnection::connect(url).await?;
    let rows: Vec<Row> = sqlx::query_as(ROWS).fetch_all(&mut connection).await?;
    connection.close().await?;
    let foreign_keys = rows.iter().filter_map(foreign_key).collect();
    Ok(report(rows.iter().map(key).collect(), foreign_keys))
}

fn key(row: &Row) -> Key {
    let (to_bytes, to_integer) = match row.base_type.as_str() {
        "bytea" => (
            alter(
                row,
                "uuid",
                &format!("encode({}, 'hex')::uuid", quote(&row.column_name)),
            ),
            Vec::new(),
        ),
        // The application knows a ULID's text; PostgreSQL does not.
        "text" | "varchar" | "bpchar" | "citext" if row.length != Some(26) => (
            alter(row, "uuid", &format!("{}::uuid", quote(&row.column_name))),
            alter(
                row,
                "bigint",
                &format!("{}::bigint", quote(&row.column_name)),
            ),
        ),
        "int2" | "int4" => (Vec::new(), alter(row, "bigint", &quote(&row.column_name))),
        _ => (Vec::new(), Vec::new()),
    };
    Key {
        place: (row.table_name.clone(), row.column_name.clone()),
        found: row.type_name.clone(),
        judgement: judge(row),
        to_bytes,
        to_integer,
    }
}

fn judge(row: &Row) -> Judgement {
    let column = &row.column_name;
    match row.base_type.as_str() {
        "uuid" => Judgement::Right(Stored::Bytes),
        "int8" => Judgement::Right(Stored::Integer),
        "int2" | "int4" => Judgement::Wrong(
            Stored::Integer,
            "integer keys are `bigint`; this one ends too early".into(),
        ),
        "bytea" if is_id_name(column) => Judgement::Wrong(
            Stored::Bytes,
            "`uuid` holds 16 bytes and no other number of them".into(),
        ),
        "text" | "varchar" | "bpchar" | "citext"
            if is_id_text(column, row.length.map(i64::from)) =>
        {
            Judgement::Wrong(Stored::Bytes, text_fault(row.base_type == "citext"))
        }
        _ => Judgement::NoId,
    }
}

fn foreign_key(row: &Row) -> Option<ForeignKey> {
    let (table, name) = (quote(&row.table_name), quote(&row.constraint_name));
    Some(ForeignKey {
        from: (row.table_name.clone(), row.column_name.clone()),
        to: (
            row.referenced_table.clone()?,
            row.referenced_column.clone()?,
        ),
        drop: format!("ALTER TABLE {table} DROP CONSTRAINT {name};"),
        add: format!(
            "ALTER TABLE {table} ADD CONSTRAINT {name} {};",
            row.definition
        ),
    })
}

fn alter(row: &Row, ty: &str, using: &str) -> Vec<String> {
    let (table, column) = (quote(&row.table_name), quote(&row.column_name));
    let alter = format!("ALTER TABLE {table} ALTER COLUMN {column} TYPE {ty} USING {using};");
    let sequence = row.sequence.as_ref();
    let sequence = sequence.map(|sequence| format!("ALTER SEQUENCE {sequence} AS bigint;"));
    [alter].into_iter().chain(sequence).collect()
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
