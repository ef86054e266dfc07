//! PostgreSQL: reads the key columns, judges them, and writes the script that converts the wrong ones.
//!
//! The script is one statement, and so one transaction, whichever client runs it: it converts everything or nothing, and checks counts
//! and values inside. A column that something else depends on, such as a view, makes the whole script fail.

use std::collections::BTreeSet;

use sqlx::{Connection, PgConnection};

use crate::columns::{
    Conversion, Draft, ForeignKey, Judgement, Key, NO_SCRIPT, NOT_PLAIN, OLD_ROWS, Stored,
    affected, by_table, drafts, key_columns as identified, leave_connected_alone, report,
    text_problem,
};
use crate::names::{free_name, is_id_name, is_id_text, is_kept, is_plain, quote, text};
use crate::row::row;
use crate::{CheckError, KeyColumn, Report};

row! {
    /// One column of one constraint.
    struct Row {
        constraint_name: String,
        table_name: String,
        /// In quotes if SQL needs them.
        queried_name: String,
        column_name: String,
        type_name: String,
        base_type: String,
        /// For text with a declared length.
        length: Option<i32>,
        sequence: Option<String>,
        referenced_table: Option<String>,
        referenced_column: Option<String>,
        definition: String,
        is_primary: bool,
    }
}

const ROWS: &str = "
    SELECT con.conname::text AS constraint_name, cl.relname::text AS table_name,
        cl.oid::regclass::text AS queried_name, a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS type_name,
        t.typname::text AS base_type, nullif(a.atttypmod, -1) - 4 AS length,
        pg_get_serial_sequence(quote_ident(cl.relname), a.attname) AS sequence,
        CASE WHEN ref.relnamespace = cl.relnamespace THEN ref.relname::text
            ELSE ref.relnamespace::text || '.' || ref.relname END AS referenced_table, refa.attname::text AS referenced_column,
        pg_get_constraintdef(con.oid) AS definition,
        EXISTS (SELECT 1 FROM pg_constraint own WHERE own.conrelid = con.conrelid AND own.contype = 'p'
            AND own.conkey = con.conkey) AS is_primary
    FROM pg_constraint con
    JOIN pg_class cl ON cl.oid = con.conrelid
    JOIN pg_attribute a ON a.attrelid = con.conrelid AND a.attnum = con.conkey[1]
    JOIN pg_type t ON t.oid = a.atttypid
    LEFT JOIN pg_class ref ON ref.oid = con.confrelid
    LEFT JOIN pg_attribute refa ON refa.attrelid = con.confrelid AND refa.attnum = con.confkey[1]
    WHERE con.contype IN ('p', 'f') AND cardinality(con.conkey) = 1
        AND cl.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    ORDER BY cl.relname, a.attnum";

pub(crate) async fn key_columns(url: &str) -> Result<Vec<KeyColumn>, CheckError> {
    let mut connection = PgConnection::connect(url).await?;
    let (_, rows, foreign_keys) = read(&mut connection).await?;
    connection.close().await?;
    let queried = |table: &str| {
        let row = rows.iter().find(|row| row.table_name == table);
        row.map_or(table, |row| &row.queried_name).to_owned()
    };
    Ok(identified(rows.iter().map(key).collect(), &foreign_keys, queried))
}

async fn read(
    connection: &mut PgConnection,
) -> Result<(String, Vec<Row>, Vec<ForeignKey>), CheckError> {
    let schema: Option<String> =
        sqlx::query_scalar("SELECT current_schema()::text").fetch_one(&mut *connection).await?;
    let schema = schema.ok_or(CheckError::NoSchema)?;
    let mut rows: Vec<Row> = sqlx::query_as(ROWS).fetch_all(connection).await?;
    rows.retain(|row| !is_kept(&row.table_name));
    let foreign_keys = rows.iter().filter_map(foreign_key).collect();
    Ok((schema, rows, foreign_keys))
}

pub(crate) async fn check(url: &str) -> Result<Report, CheckError> {
    let mut connection = PgConnection::connect(url).await?;
    let (schema, rows, foreign_keys) = read(&mut connection).await?;
    let (checked, mut drafts) = drafts(rows.iter().map(key).collect(), &foreign_keys);
    for draft in &mut drafts {
        if let Some(row) = row_of(&rows, draft) {
            convert(&mut connection, draft, row).await?;
        }
    }
    leave_connected_alone(&mut drafts, &foreign_keys);
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = current_schema())",
    )
    .fetch_all(&mut connection)
    .await?;
    connection.close().await?;
    let script = script(&drafts, &foreign_keys, &rows, &schema, &tables);
    Ok(report(checked, drafts, script))
}

fn row_of<'r>(rows: &'r [Row], draft: &Draft) -> Option<&'r Row> {
    rows.iter().find(|row| (row.table_name.as_str(), row.column_name.as_str()) == draft.place())
}

fn key(row: &Row) -> Key {
    Key {
        place: (row.table_name.clone(), row.column_name.clone()),
        found: row.type_name.clone(),
        judgement: judge(row),
    }
}

/// Determines how a column's values are converted, and how many cannot be.
async fn convert(
    connection: &mut PgConnection,
    draft: &mut Draft,
    row: &Row,
) -> Result<(), CheckError> {
    let printed =
        [&row.table_name, &row.column_name, &row.constraint_name, &row.definition].into_iter();
    if !printed.chain(&row.sequence).all(|name| is_plain(name)) {
        draft.leave_alone(NOT_PLAIN);
        return Ok(());
    }
    let (table, column) = (quote(&row.table_name), quote(&row.column_name));
    let Some(conversion) = conversion(row, draft.stored) else {
        draft.leave_alone(NO_SCRIPT);
        return Ok(());
    };
    let bad = conversion.bad.clone();
    draft.conversion = Some(conversion);
    let is_key = row.is_primary && draft.stored == Stored::Bytes;
    let digits = is_key.then(|| format!("lower(replace({column}::text, '-', ''))"));
    draft.count(connection, (&table, &column), &bad, digits.as_deref()).await
}

fn conversion(row: &Row, stored: Stored) -> Option<Conversion> {
    let column = quote(&row.column_name);
    match (row.base_type.as_str(), stored) {
        ("bytea", Stored::Bytes) => Some(Conversion {
            ty: "uuid",
            value: format!("encode({column}, 'hex')::uuid"),
            bad: format!("octet_length({column}) <> 16"),
            keeps_rows: true,
        }),
        // Only the application can parse a ULID's text; PostgreSQL cannot.
        ("text" | "varchar" | "bpchar" | "citext", Stored::Bytes) if row.length != Some(26) => {
            Some(Conversion {
                ty: "uuid",
                value: format!("{column}::text::uuid"),
                bad: format!(
                    "{column}::text !~ '^([0-9a-fA-F]{{32}}|[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}})$'"
                ),
                keeps_rows: true,
            })
        }
        ("int2" | "int4", Stored::Integer) => {
            Some(Conversion { ty: "bigint", value: column, bad: "false".into(), keeps_rows: false })
        }
        _ => None,
    }
}

fn script(
    drafts: &[Draft],
    foreign_keys: &[ForeignKey],
    rows: &[Row],
    schema: &str,
    tables: &[String],
) -> Vec<String> {
    let converted = by_table(drafts);
    if converted.is_empty() {
        return Vec::new();
    }
    let affected = affected(drafts, foreign_keys);
    let mut body =
        vec![format!("PERFORM set_config('search_path', {}, true);", text(&quote(schema)))];
    // If a policy hides rows, fail instead of skipping them.
    body.push("PERFORM set_config('row_security', 'off', true);".into());
    let mut locked: BTreeSet<&str> = converted.keys().copied().collect();
    locked.extend(affected.iter().flat_map(|key| [&*key.from.0, &*key.to.0]));
    let locked: Vec<String> = locked.into_iter().map(quote).collect();
    body.push(format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE;", locked.join(", ")));
    let mut alters = Vec::new();
    let mut notes = Vec::new();
    for (name, columns) in &converted {
        let table = quote(name);
        let bad = columns.iter().map(|(_, conversion)| &conversion.bad);
        let bad = bad.filter(|bad| *bad != "false");
        let mut conditions: Vec<String> =
            bad.map(|bad| format!("EXISTS (SELECT 1 FROM {table} WHERE {bad})")).collect();
        if columns.iter().any(|(_, conversion)| conversion.keeps_rows) {
            let is_taken = |name: &str| tables.iter().any(|table| table == name);
            let kept = quote(&free_name(name, MAX_NAME, is_taken));
            body.push(format!("CREATE TABLE {kept} AS TABLE {table};"));
            conditions
                .push(format!("(SELECT count(*) FROM {kept}) <> (SELECT count(*) FROM {table})"));
            notes.push(format!("-- DROP TABLE {kept};"));
        }
        if !conditions.is_empty() {
            body.push(format!(
                "IF {} THEN\n        RAISE EXCEPTION USING MESSAGE = 'nothing was changed: not all rows can be converted';\n    END IF;",
                conditions.join("\n        OR ")
            ));
        }
        for (draft, conversion) in columns {
            let column = quote(&draft.finding.column);
            let Conversion { ty, value, .. } = conversion;
            alters.push(format!(
                "ALTER TABLE {table} ALTER COLUMN {column} TYPE {ty} USING {value};"
            ));
            let sequence = row_of(rows, draft).and_then(|row| row.sequence.as_ref());
            alters.extend(sequence.map(|sequence| format!("ALTER SEQUENCE {sequence} AS bigint;")));
        }
    }
    body.extend(affected.iter().map(|key| key.drop.clone()));
    body.extend(alters);
    body.extend(affected.iter().map(|key| key.add.clone()));
    let body = body.join("\n    ");
    let tag = free_name("", MAX_NAME, |tag| body.contains(&format!("${tag}$")));
    let mut script = vec![
        "-- Stop the application, back up, and run this with psql or any other client. It changes everything or nothing.".to_owned(),
        format!("DO ${tag}$\nBEGIN\n    {body}\nEND\n${tag}$;"),
    ];
    if !notes.is_empty() {
        script.push(OLD_ROWS.into());
    }
    script.extend(notes);
    script
}

/// In bytes.
const MAX_NAME: usize = 63;

fn judge(row: &Row) -> Judgement {
    let column = &row.column_name;
    match row.base_type.as_str() {
        "uuid" => Judgement::Right(Stored::Bytes),
        "int8" => Judgement::Right(Stored::Integer),
        "int4" => Judgement::Right(Stored::Integer32),
        "int2" => Judgement::Wrong(
            Stored::Integer,
            "integer keys must be `integer` or `bigint`; the range of this type is too small"
                .into(),
        ),
        "bytea" if is_id_name(column) => Judgement::Wrong(
            Stored::Bytes,
            "keys must be `uuid`, which stores exactly 16 bytes".into(),
        ),
        "text" | "varchar" | "bpchar" | "citext"
            if is_id_text(column, row.length.map(i64::from)) =>
        {
            Judgement::Wrong(Stored::Bytes, text_problem(row.base_type == "citext"))
        }
        _ => Judgement::NoId,
    }
}

fn foreign_key(row: &Row) -> Option<ForeignKey> {
    let (table, name) = (quote(&row.table_name), quote(&row.constraint_name));
    Some(ForeignKey {
        name: row.constraint_name.clone(),
        from: (row.table_name.clone(), row.column_name.clone()),
        to: (row.referenced_table.clone()?, row.referenced_column.clone()?),
        drop: format!("ALTER TABLE {table} DROP CONSTRAINT {name};"),
        add: format!("ALTER TABLE {table} ADD CONSTRAINT {name} {};", row.definition),
    })
}
