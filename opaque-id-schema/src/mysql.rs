//! MySQL and MariaDB: the check and its script.
//!
//! On Galera a schema change on any node ends the queries that read the schema, so they run up to `ATTEMPTS`
//! times.
//!
//! # How a script stops
//!
//! These databases cannot roll back a change to a table, and some clients continue after an error or spread
//! statements over several connections. So each statement of the script first checks whether all earlier ones
//! succeeded:
//!
//! 1. `@opaque_id_ok` is 0, then the result of one condition: there are no `OBSTACLES`, unconvertible values,
//!    equal keys or orphans. If the condition itself fails, it stays 0.
//! 2. `guarded` statements copy each table to a free name (`…_before_opaque_id`); `ensure` compares the
//!    counts. `ensure` sets the variable to 0 before it evaluates its condition, so an error also means 0.
//! 3. Foreign keys are dropped. A column of texts goes through `VARBINARY` to `BINARY(16)`, and so
//!    does a longer `BINARY`. After each step a query on `information_schema` checks whether it happened.
//! 4. The script adds the foreign keys again, even after a failure.
//!
//! Another connection has none of these variables: they are NULL there, and nothing runs.

use sqlx::mysql::MySqlDatabaseError;
use sqlx::{Connection, MySqlConnection};

use crate::columns::{
    Ask, COMPLICATED, Conversion, Draft, ForeignKey, Judgment, Key, NAME, NO_SCRIPT, NOT_PLAIN,
    OLD_ROWS, StoredType, TYPE, Values, affected, by_table, count_equal, drafts,
    key_columns as identified, leave_connected_alone,
};
use crate::maps::{self, Index, Part};
use crate::names::{free_name, is_id_name, is_left_out, is_plain};
use crate::row::row;
use crate::{CheckError, Finding, KeyColumn, Report};

row! {
    struct Row {
        constraint_name: Option<String>,
        table_name: String,
        column_name: String,
        column_type: String,
        data_type: String,
        length: Option<i64>,
        collation_name: Option<String>,
        is_nullable: bool,
        extra: String,
        comment: String,
        has_default: bool,
        is_view: bool,
        engine: Option<String>,
        referenced_table: Option<String>,
        referenced_column: Option<String>,
        update_rule: Option<String>,
        delete_rule: Option<String>,
        /// It refers to another table's column, alone or with others, and that column does not refer back.
        refers: bool,
    }
}

/// Some servers report `VARBINARY` for the columns of these views, so the query has casts. MariaDB compares
/// names without case, and two tables may differ only in case, so it has `BINARY`.
const ROWS: &str = "
    SELECT CAST(k.constraint_name AS CHAR) AS constraint_name, CAST(c.table_name AS CHAR) AS table_name,
        CAST(c.column_name AS CHAR) AS column_name, CAST(c.column_type AS CHAR) AS column_type,
        CAST(c.data_type AS CHAR) AS data_type, CAST(c.character_maximum_length AS SIGNED) AS length,
        CAST(c.collation_name AS CHAR) AS collation_name, c.is_nullable = 'YES' AS is_nullable,
        CAST(LOWER(c.extra) AS CHAR) AS extra, CAST(c.column_comment AS CHAR) AS comment,
        c.column_default IS NOT NULL AND c.column_default <> 'NULL' AS has_default,
        t.table_type LIKE '%VIEW' AS is_view, CAST(t.engine AS CHAR) AS engine,
        CAST(IF(k.referenced_table_schema = k.table_schema, k.referenced_table_name,
            CONCAT(k.referenced_table_schema, '.', k.referenced_table_name)) AS CHAR) AS referenced_table,
        CAST(k.referenced_column_name AS CHAR) AS referenced_column,
        CAST(r.update_rule AS CHAR) AS update_rule, CAST(r.delete_rule AS CHAR) AS delete_rule,
        (BINARY c.table_name, c.column_name) IN (SELECT BINARY f.table_name, f.column_name FROM information_schema.key_column_usage f
            LEFT JOIN information_schema.key_column_usage back ON back.table_schema = f.referenced_table_schema
                AND back.table_name = f.referenced_table_name AND back.column_name = f.referenced_column_name
                AND back.referenced_table_schema = f.table_schema AND back.referenced_table_name = f.table_name
            WHERE f.table_schema = DATABASE() AND BINARY f.referenced_table_name <> f.table_name AND back.table_name IS NULL) AS refers
    FROM information_schema.columns c
    JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name
        AND BINARY t.table_name = c.table_name
    LEFT JOIN (
        SELECT constraint_name, table_schema, table_name, MAX(column_name) AS column_name,
            MAX(referenced_table_schema) AS referenced_table_schema, MAX(referenced_table_name) AS referenced_table_name,
            MAX(referenced_column_name) AS referenced_column_name
        FROM information_schema.key_column_usage
        WHERE table_schema = DATABASE() AND (constraint_name = 'PRIMARY' OR referenced_table_name IS NOT NULL)
        GROUP BY constraint_name, table_schema, table_name, BINARY table_name HAVING COUNT(*) = 1
    ) k ON k.table_name = c.table_name AND BINARY k.table_name = c.table_name AND k.column_name = c.column_name
    LEFT JOIN information_schema.referential_constraints r
        ON r.constraint_schema = k.table_schema AND r.constraint_name = k.constraint_name AND r.table_name = k.table_name
        AND BINARY r.table_name = k.table_name
    WHERE c.table_schema = DATABASE()
    ORDER BY c.table_name, BINARY c.table_name, c.ordinal_position, k.constraint_name";

const INDEXES: &str = "
    SELECT CAST(table_name AS CHAR) AS `table`, MAX(non_unique) = 0 AS is_unique, CAST(GROUP_CONCAT(CONCAT(COALESCE(column_name, ''),
        COALESCE(CONCAT('(', sub_part, ')'), '')) ORDER BY seq_in_index) AS CHAR) AS `columns`
    FROM information_schema.statistics WHERE table_schema = DATABASE() GROUP BY table_name, BINARY table_name, index_name";

/// A `MODIFY` would break the tables with triggers, foreign keys of several columns or to and from
/// other schemas, constraints, generated columns, full-text indexes, indexes on expressions, system
/// versioning, or partitions.
const OBSTACLES: &str = "
    SELECT CAST(event_object_table AS CHAR) AS name FROM information_schema.triggers WHERE event_object_schema = DATABASE()
    UNION
    SELECT CAST(table_name AS CHAR) FROM information_schema.table_constraints
    WHERE table_schema = DATABASE() AND constraint_type = 'CHECK'
    UNION
    SELECT CAST(table_name AS CHAR) FROM information_schema.columns
    WHERE table_schema = DATABASE() AND generation_expression <> ''
    UNION
    SELECT CAST(table_name AS CHAR) FROM information_schema.statistics
    WHERE table_schema = DATABASE() AND (index_type NOT IN ('BTREE', 'HASH') OR column_name IS NULL)
    UNION
    SELECT CAST(table_name AS CHAR) FROM information_schema.tables
    WHERE table_schema = DATABASE() AND table_type NOT IN ('BASE TABLE', 'VIEW')
    UNION
    SELECT CAST(table_name AS CHAR) FROM information_schema.partitions
    WHERE table_schema = DATABASE() AND partition_name IS NOT NULL
    UNION
    SELECT CAST(k.table_name AS CHAR) FROM information_schema.key_column_usage k
    WHERE k.table_schema = DATABASE() AND (k.referenced_table_schema <> k.table_schema
        OR k.referenced_table_name IS NOT NULL AND k.ordinal_position > 1)
    UNION
    SELECT CAST(k.referenced_table_name AS CHAR) FROM information_schema.key_column_usage k
    WHERE k.referenced_table_schema = DATABASE() AND (k.referenced_table_schema <> k.table_schema
        OR k.ordinal_position > 1)";

const ATTEMPTS: u32 = 10;

pub(crate) async fn check(url: &str, exclude: &[String]) -> Result<Report, CheckError> {
    repeat(async || read_and_check(url, exclude).await).await
}

pub(crate) async fn key_columns(url: &str, samples: bool) -> Result<Vec<KeyColumn>, CheckError> {
    repeat(async || read_key_columns(url, samples).await).await
}

async fn repeat<T>(read: impl AsyncFn() -> Result<T, CheckError>) -> Result<T, CheckError> {
    let mut attempt = 1;
    loop {
        match read().await {
            Err(CheckError::Database(error)) if is_deadlock(&error) && attempt < ATTEMPTS => {
                attempt += 1;
            }
            read => return read,
        }
    }
}

const ER_LOCK_DEADLOCK: u16 = 1213;

fn is_deadlock(error: &sqlx::Error) -> bool {
    let error = error.as_database_error();
    let error = error.and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>());
    error.is_some_and(|error| error.number() == ER_LOCK_DEADLOCK)
}

async fn read_key_columns(url: &str, samples: bool) -> Result<Vec<KeyColumn>, CheckError> {
    let mut connection = connect(url).await?;
    let (database, all) = read(&mut connection).await?;
    let (rows, foreign_keys) = candidates(&all);
    let queried = |table: &str| format!("{database}.{table}");
    let is_key = |row: &&&Row| {
        row.constraint_name.is_some() && (row.referenced_table.is_some() || !row.refers)
    };
    let keys = rows.iter().filter(is_key).map(|row| key(row, Values::Ids)).collect();
    let all = Vec::from_iter(all.iter().map(|row| (&row.table_name, &row.column_name)));
    let columns =
        identified(&mut connection, keys, &foreign_keys, queried, &all, |(table, column)| {
            let column = quote(column);
            let digit = format!("SUBSTR(HEX({column}), 13, 1)");
            samples.then(|| [quote(table), column, digit])
        });
    let columns = columns.await?;
    connection.close().await?;
    Ok(columns)
}

/// No setting of the server hides or changes rows or names on this connection.
async fn connect(url: &str) -> Result<MySqlConnection, CheckError> {
    let mut connection = MySqlConnection::connect(url).await?;
    let settings =
        "SET sql_select_limit = 18446744073709551615, group_concat_max_len = 65536, sql_mode = ''";
    sqlx::raw_sql(settings).execute(&mut connection).await?;
    Ok(connection)
}

/// A column has a row for each of its constraints.
async fn read(connection: &mut MySqlConnection) -> Result<(String, Vec<Row>), CheckError> {
    let database: Option<String> =
        sqlx::query_scalar("SELECT CAST(DATABASE() AS CHAR)").fetch_one(&mut *connection).await?;
    let database = database.ok_or(CheckError::NoSchema)?;
    Ok((database, sqlx::query_as(ROWS).fetch_all(connection).await?))
}

fn candidates(all: &[Row]) -> (Vec<&Row>, Vec<ForeignKey>) {
    let is_candidate = |row: &&Row| is_key(row) || is_text(row) || is_bytes(row);
    let rows = all.iter().filter(|row| !row.is_view && !is_left_out(&row.table_name));
    let rows: Vec<_> = rows.filter(is_candidate).collect();
    let foreign_keys = rows.iter().filter_map(|row| foreign_key(row)).collect();
    (rows, foreign_keys)
}

async fn read_and_check(url: &str, exclude: &[String]) -> Result<Report, CheckError> {
    let mut connection = connect(url).await?;
    let (_, all) = read(&mut connection).await?;
    let (rows, foreign_keys) = candidates(&all);
    let mut columns: Vec<&Row> = all.iter().collect();
    columns.dedup_by_key(|row| (&row.table_name, &row.column_name));
    let mut keys = Vec::new();
    for &row in &rows {
        let mut values = Values::None;
        if is_text(row) || is_bytes(row) {
            let [table, column] = [&row.table_name, &row.column_name].map(|name| quote(name));
            // Bytes may be text, and most regular expressions are not for bytes.
            let is_id = format!(
                "CONVERT({column} USING latin1) REGEXP '^({UUID}|[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{{26}})$'"
            );
            values = connection.values(&table, &column, &is_id, is_key(row)).await?;
        }
        keys.extend((is_key(row) || matches!(values, Values::Ids)).then(|| key(row, values)));
    }
    let (mut report, mut drafts) = drafts(keys, &foreign_keys, exclude);
    let obstacles: Vec<String> = sqlx::query_scalar(OBSTACLES).fetch_all(&mut connection).await?;
    for draft in &mut drafts {
        convert(&mut connection, draft, &rows, &columns, &obstacles).await?;
    }
    let indexes: Vec<Index> = sqlx::query_as(INDEXES).fetch_all(&mut connection).await?;
    for key in affected(&drafts, &foreign_keys) {
        let is_unique = |index: &Index| {
            index.is_unique && index.table == key.to.0 && index.columns.as_ref() == Some(&key.to.1)
        };
        let orphans = connection.number(format!("SELECT {}", orphans(key))).await?;
        let problem = match indexes.iter().any(is_unique) {
            true if orphans > 0 => "references rows that do not exist",
            true if key.add.is_empty() => "has rules that this role may not see",
            true => continue,
            // MySQL adds such a foreign key only in a session that allows it.
            false => "references a column without a unique index",
        };
        for draft in drafts.iter_mut().filter(|draft| draft.finding.table == key.from.0) {
            draft.leave_alone(format!("{}.{} {problem}", key.from.0, key.from.1));
        }
    }
    leave_connected_alone(&mut drafts, &foreign_keys);
    connection.close().await?;
    report.script = script(&drafts, &foreign_keys, &rows, &columns);
    report.findings = drafts.into_iter().map(|draft| draft.finding).collect();
    report.findings.extend(other_engines(&columns));
    let parts = columns.iter().filter(|column| column.engine.is_some()).map(|column| Part {
        table: &column.table_name,
        column: &column.column_name,
        found: &column.column_type,
        is_nullable: column.is_nullable,
        reuses: false,
    });
    report.findings.extend(maps::findings(parts, &indexes, ["bigint", "binary(16)"], exclude));
    Ok(report)
}

/// The locks of another engine may differ from InnoDB's: with MyRocks' locks one UUID gets two integers.
fn other_engines(columns: &[&Row]) -> impl Iterator<Item = Finding> {
    let tables = columns.chunk_by(|a, b| a.table_name == b.table_name);
    tables.filter_map(|columns| {
        let Row { table_name, column_name, engine, .. } = columns.first()?;
        let engine = engine.as_ref().filter(|engine| *engine != "InnoDB")?;
        let columns = columns.iter().map(|column| (&column.table_name, &column.column_name));
        maps::is_ours(table_name, columns).then(|| Finding {
            table: table_name.clone(),
            column: column_name.clone(),
            found: format!("stored by {engine}"),
            problem: "maps, sequences and packs rely on InnoDB's locks".to_owned(),
            unconvertible: 0,
            query: None,
            left_alone: Some(format!(
                "stop the application and run ALTER TABLE {} ENGINE=InnoDB",
                quote(table_name)
            )),
        })
    })
}

fn is_key(row: &Row) -> bool {
    row.constraint_name.is_some() || is_id_name(&row.column_name)
}

fn is_text(row: &Row) -> bool {
    row.data_type.ends_with("char") || row.data_type.ends_with("text")
}

fn is_bytes(row: &Row) -> bool {
    row.data_type.ends_with("binary") || row.data_type.ends_with("blob")
}

fn key(row: &Row, values: Values) -> Key {
    Key {
        place: (row.table_name.clone(), row.column_name.clone()),
        found: match &row.collation_name {
            Some(collation) => format!("{} COLLATE {collation}", row.column_type),
            None => row.column_type.clone(),
        },
        is_declared: row.constraint_name.is_some(),
        judgment: judge(row, values),
    }
}

fn row_of<'r>(rows: &[&'r Row], draft: &Draft) -> Option<&'r Row> {
    rows.iter()
        .copied()
        .find(|row| (row.table_name.as_str(), row.column_name.as_str()) == draft.place())
}

fn orphans(key: &ForeignKey) -> String {
    let [table, to_table] = [&key.from.0, &key.to.0].map(|name| quote(name));
    let [column, to_column] = [&key.from.1, &key.to.1].map(|name| quote(name));
    format!(
        "(SELECT COUNT(*) FROM {table} c LEFT JOIN {to_table} p ON c.{column} = p.{to_column} \
         WHERE c.{column} IS NOT NULL AND p.{to_column} IS NULL)"
    )
}

async fn convert(
    connection: &mut MySqlConnection,
    draft: &mut Draft,
    rows: &[&Row],
    columns: &[&Row],
    obstacles: &[String],
) -> Result<(), CheckError> {
    let Some(row) = row_of(rows, draft) else {
        return Ok(());
    };
    let of_table = columns.iter().filter(|column| column.table_name == row.table_name);
    let constraints = rows.iter().filter_map(|row| row.constraint_name.as_ref());
    let names = of_table.map(|column| &column.column_name).chain(constraints);
    let mut names = names.chain([&row.table_name]);
    if !names.all(|name| is_plain(name)) {
        draft.leave_alone(NOT_PLAIN);
        return Ok(());
    }
    let Some(conversion) = conversion(row, draft.stored) else {
        draft.leave_alone(NO_SCRIPT);
        return Ok(());
    };
    if row.extra.contains("generated") || row.has_default || !is_plain(&row.comment) {
        draft.leave_alone("it has a default or is generated; convert it manually");
    }
    // In these character sets even ASCII takes more than one byte.
    let is_wide = row
        .collation_name
        .as_ref()
        .is_some_and(|name| ["ucs2", "utf16", "utf32"].iter().any(|set| name.starts_with(set)));
    if obstacles.contains(&row.table_name) || is_wide {
        draft.leave_alone(COMPLICATED);
    }

    let (table, column) = (quote(&row.table_name), quote(&row.column_name));
    let bad = conversion.bad.clone();
    if draft.finding.left_alone.is_none() {
        draft.conversion = Some(conversion);
    }
    let digits = (is_text(row) && is_primary(rows, row)).then(|| digits(&column));
    draft.count(connection, (&table, &column), &bad, digits.as_deref()).await
}

fn is_primary(rows: &[&Row], row: &Row) -> bool {
    let of_column = |other: &&&Row| {
        (&other.table_name, &other.column_name) == (&row.table_name, &row.column_name)
    };
    let mut constraints = rows.iter().filter(of_column);
    constraints.any(|other| other.constraint_name.as_deref() == Some("PRIMARY"))
}

/// The digits are equal for two texts of the same 16 bytes.
fn digits(column: &str) -> String {
    format!("LOWER(REPLACE({column}, '-', ''))")
}

fn conversion(row: &Row, stored: StoredType) -> Option<Conversion> {
    let column = quote(&row.column_name);
    let bytes =
        |bad: String| Conversion { ty: "BINARY(16)", value: String::new(), bad, keeps_rows: true };
    match (row.data_type.as_str(), stored) {
        // Only the application can parse a ULID's text.
        ("char" | "varchar", StoredType::Bytes) if row.length != Some(26) => Some(Conversion {
            value: format!("UNHEX(REPLACE({column}, '-', ''))"),
            ..bytes(format!(
                "NOT (CHAR_LENGTH({column}) IN (32, 36) AND {column} REGEXP '^({UUID})$')"
            ))
        }),
        ("uuid", StoredType::Bytes) => Some(bytes("FALSE".into())),
        // Zeros fill up the values of a longer type, such as Hibernate's `BINARY(255)`.
        ("binary", StoredType::Bytes) if row.length > Some(16) => Some(Conversion {
            value: format!("SUBSTR({column}, 1, 16)"),
            ..bytes(format!("HEX(SUBSTR({column}, 17)) REGEXP '[^0]'"))
        }),
        ("varbinary" | "binary", StoredType::Bytes) => {
            Some(bytes(format!("LENGTH({column}) <> 16")))
        }
        ("tinyint" | "smallint" | "mediumint" | "int", StoredType::Integer) => Some(Conversion {
            ty: "BIGINT",
            value: String::new(),
            bad: "FALSE".into(),
            keeps_rows: false,
        }),
        _ => None,
    }
}

const UUID: &str = "[0-9a-fA-F]{32}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

fn script(
    drafts: &[Draft],
    foreign_keys: &[ForeignKey],
    rows: &[&Row],
    columns: &[&Row],
) -> Vec<String> {
    let converted = by_table(drafts);
    if converted.is_empty() {
        return Vec::new();
    }
    let affected = affected(drafts, foreign_keys);
    // The role of the check may not have seen all triggers and constraints.
    let names: Vec<_> = converted.keys().map(|name| text(name)).collect();
    let names = names.join(", ");
    let mut convertible = vec![format!(
        "(SELECT COUNT(*) FROM ({OBSTACLES}) AS obstacles WHERE name IN ({names})) = 0"
    )];
    let mut copies = Vec::new();
    let mut alters = Vec::new();
    let mut notes = Vec::new();
    for (name, drafts) in &converted {
        let table = quote(name);
        for (draft, conversion) in drafts {
            let Some(row) = row_of(rows, draft) else {
                continue;
            };
            let column = quote(&draft.finding.column);
            let bad = &conversion.bad;
            convertible.push(format!("(SELECT COUNT(*) FROM {table} WHERE {bad}) = 0"));
            // If the client continues after an error, a statement that ran may still have failed.
            let is_type = |ty: &str| {
                ensure(&format!(
                    "EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = DATABASE()
        AND table_name = {} AND column_name = {} AND data_type = '{ty}')",
                    text(name),
                    text(&draft.finding.column)
                ))
            };
            let modify = |ty: &str| guarded("@opaque_id_ok", &modify(row, ty));
            if !conversion.value.is_empty() {
                if is_text(row) && is_primary(rows, row) {
                    let same = count_equal(&digits(&column), &table);
                    convertible.push(format!("({same}) = 0"));
                }
                let kept = columns
                    .iter()
                    .filter(|other| other.table_name == *name && other.extra.contains("on update"))
                    .map(|other| format!(", {0} = {0}", quote(&other.column_name)));
                let kept = kept.collect::<String>();
                alters.push(modify(&format!("VARBINARY({})", row.length.unwrap_or(36))));
                alters.push(is_type("varbinary"));
                let value = &conversion.value;
                let update = format!(
                    "UPDATE {table} SET {column} = {value}{kept} WHERE LENGTH({column}) <> 16"
                );
                alters.push(guarded("@opaque_id_ok", &update));
            }
            if conversion.keeps_rows && row.data_type != "uuid" {
                alters.push(ensure(&format!(
                    "(SELECT COUNT(*) FROM {table} WHERE LENGTH({column}) <> 16) = 0"
                )));
            }
            alters.push(modify(conversion.ty));
            alters.push(is_type(match draft.stored {
                StoredType::Bytes => "binary",
                _ => "bigint",
            }));
        }
        if drafts.iter().any(|(_, conversion)| conversion.keeps_rows) {
            let is_table = |name: &str| {
                let mut tables = columns.iter().map(|column| &column.table_name);
                tables.any(|table| table.eq_ignore_ascii_case(name))
            };
            let kept = quote(&free_name(name, MAX_NAME, is_table));
            let columns: Vec<String> = columns
                .iter()
                .filter(|column| column.table_name == *name && !column.extra.contains(" generated"))
                .map(|column| quote(&column.column_name))
                .collect();
            let columns = columns.join(", ");
            let create = format!("CREATE TABLE {kept} LIKE {table}");
            let insert = format!("INSERT INTO {kept} ({columns}) SELECT {columns} FROM {table}");
            copies.extend([create, insert].map(|sql| guarded("@opaque_id_ok", &sql)));
            copies.push(ensure(&format!(
                "(SELECT COUNT(*) FROM {kept}) = (SELECT COUNT(*) FROM {table})"
            )));
            notes.push(format!("-- DROP TABLE {kept};"));
        }
    }
    convertible.extend(affected.iter().map(|key| format!("{} = 0", orphans(key))));

    let mut script = vec![
        "-- Stop the application, back up, and run this with mysql, mariadb or another client on one connection.".to_owned(),
        "SET NAMES utf8mb4;".into(),
        "SET @opaque_id_mode = @@SESSION.sql_mode, @opaque_id_safe = @@SESSION.sql_safe_updates;"
            .into(),
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO', SESSION sql_safe_updates = 0;"
            .into(),
        "SET @opaque_id_ok = 0;".into(),
        format!("SET @opaque_id_ok = {};", convertible.join("\n    AND ")),
    ];
    script.extend(copies);
    script.push("SET @opaque_id_begun = @opaque_id_ok;".into());
    let exists = |key: &ForeignKey, count: u8| {
        let (table, name) = (text(&key.from.0), text(&key.name));
        ensure(&format!(
            "(SELECT COUNT(*) FROM information_schema.referential_constraints
        WHERE constraint_schema = DATABASE() AND table_name = {table} AND constraint_name = {name}) = {count}"
        ))
    };
    for key in &affected {
        script.push(guarded("@opaque_id_ok", &key.drop));
        script.push(exists(key, 0));
    }
    script.extend(alters);
    for key in &affected {
        script.push(guarded("@opaque_id_begun", &key.add));
        script.push(exists(key, 1));
    }
    script.extend([
        "SET SESSION sql_mode = @opaque_id_mode, SESSION sql_safe_updates = @opaque_id_safe;".to_owned(),
        "SELECT CASE WHEN @opaque_id_ok THEN 'done' WHEN @opaque_id_begun THEN 'STOPPED HALF-WAY: the old rows are in the …_before_opaque_id tables'
    WHEN @opaque_id_begun = 0 THEN 'nothing was changed: not all rows can be converted, or a table has a trigger or constraint that the check did not see'
    ELSE 'UNKNOWN: the connection was lost; compare the tables with the …_before_opaque_id tables' END AS opaque_id;".into(),
    ]);
    if !notes.is_empty() {
        script.push(OLD_ROWS.into());
    }
    script.extend(notes);
    script
}

/// `free_name` counts bytes, so its names are never too long.
const MAX_NAME: usize = 64;

fn guarded(variable: &str, sql: &str) -> String {
    let sql = text(sql.trim_end_matches(';'));
    format!("SET @opaque_id_sql = IF({variable}, {sql}, 'DO 0');\n{RUN}")
}

fn ensure(condition: &str) -> String {
    let sql = text(&format!("SET @opaque_id_ok = ({condition})"));
    format!("SET @opaque_id_sql = IF(@opaque_id_ok, {sql}, 'DO 0');\nSET @opaque_id_ok = 0;\n{RUN}")
}

const RUN: &str =
    "PREPARE opaque_id FROM @opaque_id_sql; EXECUTE opaque_id; DEALLOCATE PREPARE opaque_id;";

fn judge(row: &Row, values: Values) -> Judgment {
    let column = &row.column_name;
    match row.data_type.as_str() {
        "binary" if row.length == Some(16) => Judgment::Right(StoredType::Bytes),
        "bigint" => Judgment::Right(StoredType::Integer),
        "int" if row.column_type.contains("unsigned") => Judgment::Right(StoredType::Unsigned32),
        "int" => Judgment::Right(StoredType::Integer32),
        "tinyint" | "smallint" | "mediumint" => Judgment::Wrong(
            StoredType::Integer,
            "integer keys must be `INT` or `BIGINT`; the range of this type is too small".into(),
        ),
        "uuid" => Judgment::Wrong(
            StoredType::Bytes,
            "drivers receive MariaDB's `UUID` as text; `BINARY(16)` works with all drivers".into(),
        ),
        "binary" | "varbinary" | "tinyblob" | "blob" if is_id_name(column) => {
            Judgment::Wrong(StoredType::Bytes, "keys must be exactly 16 bytes, `BINARY(16)`".into())
        }
        "binary" | "varbinary" | "tinyblob" | "blob" => Judgment::Unknown(NAME),
        _ if is_text(row) => {
            let collation = row.collation_name.as_deref().unwrap_or_default();
            Judgment::for_text(column, row.length, values, collation.contains("_ci"))
        }
        _ => Judgment::Unknown(TYPE),
    }
}

fn foreign_key(row: &Row) -> Option<ForeignKey> {
    let constraint = row.constraint_name.as_ref()?;
    let (table, name) = (quote(&row.table_name), quote(constraint));
    let (to_table, to_column) = (row.referenced_table.clone()?, row.referenced_column.clone()?);
    let rules = row.update_rule.as_ref().zip(row.delete_rule.as_ref());
    let add = rules.map_or_else(String::new, |(update, delete)| {
        format!(
            "ALTER TABLE {table} ADD CONSTRAINT {name} FOREIGN KEY ({}) REFERENCES {} ({}) ON UPDATE {update} ON DELETE {delete};",
            quote(&row.column_name),
            quote(&to_table),
            quote(&to_column),
        )
    });
    Some(ForeignKey {
        name: constraint.clone(),
        from: (row.table_name.clone(), row.column_name.clone()),
        to: (to_table, to_column),
        drop: format!("ALTER TABLE {table} DROP FOREIGN KEY {name};"),
        add,
    })
}

fn modify(row: &Row, ty: &str) -> String {
    let null = if row.is_nullable { "NULL" } else { "NOT NULL" };
    let extra = |word: &str, sql| if row.extra.contains(word) { sql } else { "" };
    let comment = match row.comment.as_str() {
        "" => String::new(),
        comment => format!(" COMMENT {}", text(comment)),
    };
    format!(
        "ALTER TABLE {} MODIFY {} {ty} {null}{}{comment}{}",
        quote(&row.table_name),
        quote(&row.column_name),
        extra("auto_increment", " AUTO_INCREMENT"),
        extra("invisible", " INVISIBLE"),
    )
}

/// Backslashes escape in the script's mode.
fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

fn quote(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}
