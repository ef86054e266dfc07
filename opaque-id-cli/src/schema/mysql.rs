use sqlx::{Connection, MySqlConnection};

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
    column_type: String,
    data_type: String,
    /// Of text and bytes.
    length: Option<i64>,
    collation_name: Option<String>,
    is_nullable: String,
    extra: String,
    referenced_table: Option<String>,
    referenced_column: Option<String>,
    update_rule: Option<String>,
    delete_rule: Option<String>,
}

/// The casts are there because some servers say `VARBINARY` of these views' columns.
const ROWS: &str = "
    SELECT CAST(k.constraint_name AS CHAR) AS constraint_name, CAST(k.table_name AS CHAR) AS table_name,
        CAST(k.column_name AS CHAR) AS column_name, CAST(c.column_type AS CHAR) AS column_type,
        CAST(c.data_type AS CHAR) AS data_type, CAST(c.character_maximum_length AS SIGNED) AS length,
        CAST(c.collation_name AS CHAR) AS collation_name, CAST(c.is_nullable AS CHAR) AS is_nullable,
        CAST(c.extra AS CHAR) AS extra, CAST(k.referenced_table_name AS CHAR) AS referenced_table,
        CAST(k.referenced_column_name AS CHAR) AS referenced_column,
        CAST(r.update_rule AS CHAR) AS update_rule, CAST(r.delete_rule AS CHAR) AS delete_rule
    FROM information_schema.key_column_usage k
    JOIN information_schema.columns c ON c.table_schema = k.table_schema
        AND c.table_name = k.table_name AND c.column_name = k.column_name
    LEFT JOIN information_schema.referential_constraints r
        ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name
        AND r.table_name = k.table_name
    WHERE k.table_schema = DATABASE()
        AND (k.constraint_name = 'PRIMARY' OR k.referenced_table_name IS NOT NULL)
        AND (SELECT COUNT(*) FROM information_schema.key_column_usage o
             WHERE o.table_schema = k.table_schema AND o.table_name = k.table_name
                 AND o.constraint_name = k.constraint_name) = 1
    ORDER BY k.table_name, c.ordinal_position";

pub(super) async fn check(url: &str) -> Result<Report, CheckError> {
    let mut connection = MySqlConnection::connect(url).await?;
    let rows: Vec<Row> = sqlx::query_as(ROWS).fetch_all(&mut connection).await?;
    connection.close().await?;
    let foreign_keys = rows.iter().filter_map(foreign_key).collect();
    Ok(report(rows.iter().map(key).collect(), foreign_keys))
}

fn key(row: &Row) -> Key {
    let (table, column) = (quote(&row.table_name), quote(&row.column_name));
    let binary = modify(row, "BINARY(16)");
    let (to_bytes, to_integer) = match row.data_type.as_str() {
        // The application knows a ULID's text; the database does not.
        "char" | "varchar" if row.length != Some(26) => (
            vec![
                modify(row, &format!("VARBINARY({})", row.length.unwrap_or(36))),
                format!("UPDATE {table} SET {column} = UNHEX(REPLACE({column}, '-', ''));"),
                binary,
            ],
            vec![modify(row, "BIGINT")],
        ),
        // Refused by the server if there are more than 16 bytes.
        "varbinary" | "uuid" => (vec![binary], Vec::new()),
        "binary" if row.length > Some(16) => (vec![binary], Vec::new()),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => {
            (Vec::new(), vec![modify(row, "BIGINT")])
        }
        _ => (Vec::new(), Vec::new()),
    };
    Key {
        place: (row.table_name.clone(), row.column_name.clone()),
        found: match &row.collation_name {
            Some(collation) => format!("{} COLLATE {collation}", row.column_type),
            None => row.column_type.clone(),
        },
        judgement: judge(row),
        to_bytes,
        to_integer,
    }
}

fn judge(row: &Row) -> Judgement {
    let column = &row.column_name;
    let unsigned = row.column_type.contains("unsigned");
    match row.data_type.as_str() {
        "binary" if row.length == Some(16) => Judgement::Right(Stored::Bytes),
        "bigint" if !unsigned => Judgement::Right(Stored::Integer),
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Judgement::Wrong(
            Stored::Integer,
            "integer keys are `BIGINT`, signed: drivers refuse others, or read them wrongly".into(),
        ),
        "uuid" => Judgement::Wrong(
            Stored::Bytes,
            "MariaDB's `UUID` goes as text to drivers; `BINARY(16)` works with all of them".into(),
        ),
        "binary" | "varbinary" | "tinyblob" | "blob" if is_id_name(column) => Judgement::Wrong(
            Stored::Bytes,
            "keys have 16 bytes, `BINARY(16)`, and no other number of them".into(),
        ),
        "char" | "varchar" if is_id_text(column, row.length) => {
            let collation = row.collation_name.as_deref().unwrap_or_default();
            Judgement::Wrong(Stored::Bytes, text_fault(collation.contains("_ci")))
        }
        _ => Judgement::NoId,
    }
}

fn foreign_key(row: &Row) -> Option<ForeignKey> {
    let (table, name) = (quote(&row.table_name), quote(&row.constraint_name));
    let (to_table, to_column) = (
        row.referenced_table.clone()?,
        row.referenced_column.clone()?,
    );
    let add = format!(
        "ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({}) REFERENCES {} ({}) ON UPDATE {} ON DELETE {};",
        quote(&row.column_name),
        quote(&to_table),
        quote(&to_column),
        row.update_rule.as_deref().unwrap_or("RESTRICT"),
        row.delete_rule.as_deref().unwrap_or("RESTRICT"),
    );
    Some(ForeignKey {
        from: (row.table_name.clone(), row.column_name.clone()),
        to: (to_table, to_column),
        drop: format!("ALTER TABLE {table} DROP FOREIGN KEY {name};"),
        add,
    })
}

fn modify(row: &Row, ty: &str) -> String {
    let null = if row.is_nullable == "YES" {
        "NULL"
    } else {
        "NOT NULL"
    };
    let extra = if row.extra.contains("auto_increment") {
        " AUTO_INCREMENT"
    } else {
        ""
    };
    format!(
        "ALTER TABLE {} MODIFY {} {ty} {null}{extra};",
        quote(&row.table_name),
        quote(&row.column_name)
    )
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
