use std::collections::BTreeMap;

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, SqliteConnection};

use super::{
    CheckError, Finding, ForeignKey, Judgement, Key, Report, Stored, is_id_name, is_id_text,
    report, text_fault,
};

#[derive(sqlx::FromRow)]
struct Table {
    name: String,
    sql: String,
}

#[derive(sqlx::FromRow)]
struct Column {
    name: String,
    #[sqlx(rename = "type")]
    ty: String,
    notnull: bool,
    pk: i64,
}

#[derive(sqlx::FromRow)]
struct Reference {
    id: i64,
    from: String,
    table: String,
    /// None for the other table's primary key.
    to: Option<String>,
}

type Columns = BTreeMap<String, Vec<Column>>;

pub(super) async fn check(url: &str) -> Result<Report, CheckError> {
    let options: SqliteConnectOptions = url.parse()?;
    let mut connection = options.read_only(true).connect().await?;
    let tables: Vec<Table> = sqlx::query_as(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name",
    )
    .fetch_all(&mut connection)
    .await?;
    let mut keys = Vec::new();
    let mut foreign_keys = Vec::new();
    let mut primary_keys = BTreeMap::new();
    let mut columns = Columns::new();
    for table in &tables {
        let of_table: Vec<Column> = sqlx::query_as("SELECT * FROM pragma_table_info(?)")
            .bind(&table.name)
            .fetch_all(&mut connection)
            .await?;
        let mut primary = of_table.iter().filter(|column| column.pk > 0);
        if let (Some(key), None) = (primary.next(), primary.next()) {
            primary_keys.insert(table.name.clone(), key.name.clone());
            keys.push((table, key.name.clone()));
        }
        columns.insert(table.name.clone(), of_table);
    }
    for table in &tables {
        let references: Vec<Reference> = sqlx::query_as(
            "SELECT id, \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?)",
        )
        .bind(&table.name)
        .fetch_all(&mut connection)
        .await?;
        for reference in &references {
            let of_one_column = references
                .iter()
                .filter(|other| other.id == reference.id)
                .count()
                == 1;
            let to = reference.to.as_ref().or(primary_keys.get(&reference.table));
            if let (true, Some(to)) = (of_one_column, to) {
                keys.push((table, reference.from.clone()));
                foreign_keys.push(ForeignKey {
                    from: (table.name.clone(), reference.from.clone()),
                    to: (reference.table.clone(), to.clone()),
                    drop: "PRAGMA foreign_keys = OFF;".into(),
                    add: "PRAGMA foreign_keys = ON;".into(),
                });
            }
        }
    }

    let mut judged = Vec::new();
    let mut seen = Vec::new();
    for (table, name) in keys {
        let place = (table.name.clone(), name);
        let column = columns[&table.name]
            .iter()
            .find(|column| column.name == place.1);
        let Some(column) = column.filter(|_| !seen.contains(&place)) else {
            continue;
        };
        judged.push(Key {
            found: match column.ty.as_str() {
                "" => "of no type".into(),
                ty => ty.to_owned(),
            },
            judgement: judge(&mut connection, table, column).await?,
            to_bytes: Vec::new(),
            to_integer: Vec::new(),
            place: place.clone(),
        });
        seen.push(place);
    }
    let mut report = report(judged, foreign_keys);
    report.before.dedup();
    report.after.dedup();
    rebuild(&mut connection, &tables, &columns, &mut report.findings).await?;
    connection.close().await?;
    Ok(report)
}

/// By the rules for affinity, in their order; see "Datatypes In SQLite", section 3.1.
async fn judge(
    connection: &mut SqliteConnection,
    table: &Table,
    column: &Column,
) -> Result<Judgement, CheckError> {
    let ty = column.ty.to_uppercase();
    Ok(if ty.contains("INT") {
        Judgement::Right(Stored::Integer)
    } else if ty == "UUID_TEXT" {
        // What SeaORM calls the column of a 16-byte key when it makes the table of an entity. It holds
        // blobs as they are.
        Judgement::Right(Stored::Bytes)
    } else if ["CHAR", "CLOB", "TEXT"]
        .iter()
        .any(|text| ty.contains(text))
    {
        if is_id_text(&column.name, length(&ty)) {
            Judgement::Wrong(
                Stored::Bytes,
                text_fault(table.sql.to_uppercase().contains("NOCASE")),
            )
        } else {
            Judgement::NoId
        }
    } else if ty.contains("BLOB") || ty.is_empty() {
        return of_blob(connection, table, column).await;
    } else if ["UUID", "GUID", "ULID", "BINARY"]
        .iter()
        .any(|name| ty.contains(name))
    {
        Judgement::Wrong(
            Stored::Bytes,
            "to SQLite this is a numeric type, which turns text that looks like a number into one"
                .into(),
        )
    } else {
        Judgement::NoId
    })
}

async fn of_blob(
    connection: &mut SqliteConnection,
    table: &Table,
    column: &Column,
) -> Result<Judgement, CheckError> {
    if !is_id_name(&column.name) {
        return Ok(Judgement::NoId);
    }
    let (quoted, name) = (quote(&table.name), quote(&column.name));
    let count = format!(
        "SELECT count(*) FROM {quoted} WHERE typeof({name}) NOT IN ('blob', 'null') OR length({name}) <> 16"
    );
    let wrong: i64 = sqlx::query_scalar(AssertSqlSafe(count))
        .fetch_one(connection)
        .await?;
    let faults = [
        (wrong > 0).then(|| {
            format!(
                "rows that hold something other than 16 bytes: {wrong}; `CHECK (length({name}) = 16)` \
                 would refuse them"
            )
        }),
        (column.pk > 0 && !column.notnull).then(|| "it takes NULL; write NOT NULL".to_owned()),
    ];
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    Ok(match faults.is_empty() {
        true => Judgement::Right(Stored::Bytes),
        false => Judgement::Wrong(Stored::Bytes, faults.join("; ")),
    })
}

/// SQLite changes no column's type: the table is made anew, as "Making Other Kinds Of Table Schema Changes"
/// of its documentation has it. The statements stand with the first finding of a table.
async fn rebuild(
    connection: &mut SqliteConnection,
    tables: &[Table],
    columns: &Columns,
    findings: &mut [Finding],
) -> Result<(), CheckError> {
    for table in tables {
        let mut sql = Some(table.sql.clone());
        let mut selected = Vec::new();
        for column in &columns[&table.name] {
            let name = quote(&column.name);
            let finding = findings
                .iter()
                .find(|finding| (&finding.table, &finding.column) == (&table.name, &column.name));
            let Some(finding) = finding else {
                selected.push(name);
                continue;
            };
            let ty = match (finding.stored, column.pk > 0 && !column.notnull) {
                (Stored::Integer, _) => "INTEGER",
                (Stored::Bytes, false) => "BLOB",
                (Stored::Bytes, true) => "BLOB NOT NULL",
            };
            sql = sql
                // The application knows a ULID's text; the database does not.
                .filter(|_| length(&column.ty) != Some(26))
                .and_then(|sql| retype(&sql, column, ty));
            selected.push(match finding.stored {
                Stored::Integer => name,
                Stored::Bytes => {
                    format!("iif(typeof({name}) = 'text', unhex(replace({name}, '-', '')), {name})")
                }
            });
        }
        // Where only rows are wrong, or the table is written in a way of its own, it takes a person.
        let Some(sql) = sql.filter(|sql| *sql != table.sql) else {
            continue;
        };
        let old = quote(&table.name);
        let new = quote(&format!("{}_new", table.name));
        let Some((_, body)) = sql.split_once('(') else {
            continue;
        };
        let others: Vec<String> = sqlx::query_scalar(
            "SELECT sql || ';' FROM sqlite_schema
             WHERE tbl_name = ? AND type IN ('index', 'trigger') AND sql IS NOT NULL",
        )
        .bind(&table.name)
        .fetch_all(&mut *connection)
        .await?;
        let first = findings
            .iter_mut()
            .find(|finding| finding.table == table.name);
        if let Some(first) = first {
            first.mend = vec![
                format!("CREATE TABLE {new} ({body};"),
                format!(
                    "INSERT INTO {new} SELECT {} FROM {old};",
                    selected.join(", ")
                ),
                format!("DROP TABLE {old};"),
                format!("ALTER TABLE {new} RENAME TO {old};"),
            ];
            first.mend.extend(others);
        }
    }
    Ok(())
}

/// `CREATE TABLE` with another type for a column; what follows the type stays.
fn retype(sql: &str, column: &Column, ty: &str) -> Option<String> {
    let name = &column.name;
    let names = [
        name.clone(),
        quote(name),
        format!("`{name}`"),
        format!("[{name}]"),
    ];
    names.iter().find_map(|name| {
        let from = format!("{name} {}", column.ty);
        let position = sql.find(&from)?;
        let before = &sql[..position];
        let starts = before.ends_with(|c: char| c.is_whitespace() || c == '(' || c == ',');
        starts.then(|| format!("{before}{name} {ty}{}", &sql[position + from.len()..]))
    })
}

/// 36 of `CHAR(36)`.
fn length(ty: &str) -> Option<i64> {
    let (_, length) = ty.split_once('(')?;
    length.split_once(')')?.0.trim().parse().ok()
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
