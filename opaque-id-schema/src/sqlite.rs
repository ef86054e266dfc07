//! SQLite: the check and its script.
//!
//! The stored values count as well as the declared type, because types are rules of affinity here. SQLite
//! cannot change a column's type. So the script renames each table, creates it again by its own SQL with
//! another type, and keeps the old one.
//!
//! # How a script stops
//!
//! The script is one transaction, and its checks roll it back: `ensure` is an `INSERT OR ROLLBACK` into a
//! temporary table with the constraint that the conditions hold. The `sqlite3` shell continues after an error
//! by default, so it gets all statements as one: only the last line ends with a semicolon, and the shell
//! stops at the first error in it. `legacy_alter_table` is on, so that a rename changes no other table.

use std::collections::{BTreeMap, BTreeSet};

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, SqliteConnection};

use crate::columns::{
    Ask, COMPLICATED, Conversion, Draft, ForeignKey, Judgment, Key, NAME, NO_SCRIPT, NOT_PLAIN,
    OLD_ROWS, StoredType, TYPE, Values, affected, by_table, drafts, key_columns as identified,
    leave_connected_alone,
};
use crate::maps::{self, Index, Part};
use crate::names::{free_name, is_id_name, is_left_out, is_plain, quote, text};
use crate::row::row;
use crate::tokens;
use crate::{CheckError, KeyColumn, Report};

row! {
    struct Table {
        name: String,
        sql: String,
        is_virtual: bool,
    }
}

row! {
    struct Column {
        name: String,
        ty: String,
        notnull: bool,
        pk: i64,
        has_default: bool,
    }
}

row! {
    struct Reference {
        id: i64,
        from: String,
        table: String,
        /// `None` means the other table's primary key.
        to: Option<String>,
    }
}

row! {
    struct Attached {
        ty: String,
        name: String,
        table: String,
        sql: String,
    }
}

type Columns = BTreeMap<String, Vec<Column>>;

pub(crate) async fn key_columns(url: &str, samples: bool) -> Result<Vec<KeyColumn>, CheckError> {
    let mut connection = connect(url).await?;
    let (schema, keys) = read(&mut connection, false).await?;
    let (foreign_keys, queried) = (&schema.foreign_keys, str::to_owned);
    let all = schema.columns.iter();
    let all = all.flat_map(|(table, of)| of.iter().map(move |column| (table, &column.name)));
    let all = Vec::from_iter(all);
    let columns =
        identified(&mut connection, keys, foreign_keys, queried, &all, |(table, column)| {
            let column = quote(column);
            let digit = format!("substr(hex({column}), 13, 1)");
            samples.then(|| [quote(table), column, digit])
        });
    let columns = columns.await?;
    connection.close().await?;
    Ok(columns)
}

/// The schema of an untrusted file then calls no harmful function.
async fn connect(url: &str) -> Result<SqliteConnection, CheckError> {
    let options: SqliteConnectOptions = url.parse()?;
    Ok(options.read_only(true).pragma("trusted_schema", "OFF").connect().await?)
}

struct Schema {
    tables: Vec<Table>,
    all_sql: Vec<String>,
    columns: Columns,
    attached: Vec<Attached>,
    foreign_keys: Vec<ForeignKey>,
    obstacles: BTreeSet<String>,
}

impl Schema {
    fn attached_to(&self, table: &str) -> impl Iterator<Item = &Attached> {
        let attached = self.attached.iter();
        attached.filter(move |other| other.table.eq_ignore_ascii_case(table))
    }
}

/// Without `is_check`, it reads no text.
async fn read(
    connection: &mut SqliteConnection,
    is_check: bool,
) -> Result<(Schema, Vec<Key>), CheckError> {
    let mut tables: Vec<Table> = sqlx::query_as(
        "SELECT name, sql, EXISTS (SELECT 1 FROM pragma_table_list(s.name) WHERE type <> 'table') AS is_virtual
         FROM sqlite_schema s WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY name",
    )
    .fetch_all(&mut *connection)
    .await?;
    let all_sql: Vec<String> = tables.iter().map(|table| table.sql.clone()).collect();
    tables.retain(|table| !is_left_out(&table.name) && !table.is_virtual);
    let mut keys = Vec::new();
    let mut foreign_keys = Vec::new();
    let mut primary_keys = BTreeMap::new();
    let mut obstacles = BTreeSet::new();
    let mut columns = Columns::new();
    for table in &tables {
        let of_table: Vec<Column> = sqlx::query_as(
            "SELECT name, type AS ty, \"notnull\", pk, dflt_value IS NOT NULL AS has_default FROM pragma_table_info(?)",
        )
            .bind(&table.name)
            .fetch_all(&mut *connection)
            .await?;
        let mut primary = of_table.iter().filter(|column| column.pk > 0);
        if let (Some(key), None) = (primary.next(), primary.next()) {
            primary_keys.insert(table.name.clone(), key.name.clone());
        }
        columns.insert(table.name.clone(), of_table);
    }
    let mut all_references: BTreeMap<&str, Vec<Reference>> = BTreeMap::new();
    for table in &tables {
        let references = sqlx::query_as(
            "SELECT id, \"from\", \"table\", \"to\" FROM pragma_foreign_key_list(?)",
        )
        .bind(&table.name)
        .fetch_all(&mut *connection)
        .await?;
        all_references.insert(&table.name, references);
    }
    for table in &tables {
        let references = &all_references[&*table.name];
        // A primary key that refers to another table's column, alone or with others, is no key of its own
        // table, unless that column refers back.
        let is_back = |key: &Reference| {
            let other =
                all_references.iter().find(|(name, _)| name.eq_ignore_ascii_case(&key.table));
            let mut back = other.into_iter().flat_map(|(_, all)| all);
            back.any(|back| {
                let to = key.to.as_ref();
                back.table.eq_ignore_ascii_case(&table.name)
                    && to.is_some_and(|to| to.eq_ignore_ascii_case(&back.from))
            })
        };
        let refers = |column: &String| {
            let mut keys = references.iter().filter(|key| key.from.eq_ignore_ascii_case(column));
            keys.any(|key| !key.table.eq_ignore_ascii_case(&table.name) && !is_back(key))
        };
        let key = primary_keys.get(&table.name).filter(|key| is_check || !refers(key));
        keys.extend(key.map(|key| (table, key.clone())));
        for reference in references {
            let mut of_key = references.iter().filter(|other| other.id == reference.id);
            let of_one_column = of_key.nth(1).is_none();
            // A reference may spell the other table and its column in a different case.
            let mut others = tables.iter();
            let other = others.find(|other| other.name.eq_ignore_ascii_case(&reference.table));
            let to = other.and_then(|other| {
                let column = reference.to.as_ref().or(primary_keys.get(&other.name))?;
                let mut columns = columns[&other.name].iter();
                let column = columns.find(|other| other.name.eq_ignore_ascii_case(column))?;
                Some((other.name.clone(), column.name.clone()))
            });
            if !of_one_column {
                obstacles.insert(table.name.clone());
                obstacles.extend(other.map(|other| other.name.clone()));
            }
            if let (true, Some(to)) = (of_one_column, to) {
                keys.push((table, reference.from.clone()));
                foreign_keys.push(ForeignKey {
                    name: String::new(),
                    from: (table.name.clone(), reference.from.clone()),
                    to,
                    // Tables are created again with their foreign keys.
                    drop: String::new(),
                    add: String::new(),
                });
            }
        }
    }

    let declared = keys.len();
    // A column of any type can store text.
    for table in tables.iter().filter(|_| is_check) {
        keys.extend(columns[&table.name].iter().map(|column| (table, column.name.clone())));
    }
    let mut judged = Vec::new();
    let mut seen = Vec::new();
    for (i, (table, name)) in keys.into_iter().enumerate() {
        let place = (table.name.clone(), name);
        let column =
            columns[&table.name].iter().find(|column| column.name.eq_ignore_ascii_case(&place.1));
        let Some(column) = column.filter(|_| !seen.contains(&place)) else {
            continue;
        };
        let is_declared = i < declared;
        // A reference need not have the name of an id.
        let references_key =
            |key: &ForeignKey| key.from == place && primary_keys.get(&key.to.0) == Some(&key.to.1);
        let is_named = is_id_name(&column.name) || foreign_keys.iter().any(references_key);
        let judgment = judge(connection, table, column, is_declared, is_named, is_check).await?;
        judged.push(Key {
            found: match column.ty.as_str() {
                "" => "untyped".into(),
                ty => ty.to_owned(),
            },
            is_declared,
            judgment,
            place: place.clone(),
        });
        seen.push(place);
    }
    let attached = sqlx::query_as(
        "SELECT type AS ty, name, tbl_name AS \"table\", sql FROM sqlite_schema
         WHERE type IN ('index', 'trigger') AND sql IS NOT NULL ORDER BY type, name",
    )
    .fetch_all(connection)
    .await?;
    let schema = Schema { tables, all_sql, columns, attached, foreign_keys, obstacles };
    Ok((schema, judged))
}

const INDEXES: &str = r#"
    SELECT m.name AS "table", l."unique" AS is_unique,
        (SELECT group_concat(coalesce(name, '')) FROM pragma_index_info(l.name)) AS columns
    FROM sqlite_schema m, pragma_index_list(m.name) l WHERE m.type = 'table' AND NOT l.partial
    UNION ALL
    SELECT m.name, 1, (SELECT group_concat(name) FROM pragma_table_info(m.name) WHERE pk > 0)
    FROM sqlite_schema m WHERE m.type = 'table' AND m.rootpage > 0"#;

pub(crate) async fn check(url: &str, exclude: &[String]) -> Result<Report, CheckError> {
    let mut connection = connect(url).await?;
    let (schema, keys) = read(&mut connection, true).await?;
    let (mut report, mut drafts) = drafts(keys, &schema.foreign_keys, exclude);
    for draft in &mut drafts {
        if schema.obstacles.contains(&draft.finding.table) {
            draft.leave_alone(COMPLICATED);
        }
        convert(&mut connection, draft, &schema).await?;
    }
    leave_connected_alone(&mut drafts, &schema.foreign_keys);
    let version = "SELECT schema_version FROM pragma_schema_version";
    let version = connection.number(version.to_owned()).await?;
    report.script = script(&drafts, &schema, version);
    report.findings = drafts.into_iter().map(|draft| draft.finding).collect();
    let indexes: Vec<Index> = sqlx::query_as(INDEXES).fetch_all(&mut connection).await?;
    connection.close().await?;
    let parts = schema.tables.iter().flat_map(|table| {
        schema.columns[&table.name].iter().map(|column| Part {
            table: &table.name,
            column: &column.name,
            found: &column.ty,
            is_nullable: !column.notnull,
            reuses: !tokens::has_word(&table.sql, "AUTOINCREMENT"),
        })
    });
    report.findings.extend(maps::findings(parts, &indexes, ["integer", "blob"], exclude));
    Ok(report)
}

/// The rules for affinity apply in their order ("Datatypes In SQLite", section 3.1).
async fn judge(
    connection: &mut SqliteConnection,
    table: &Table,
    column: &Column,
    is_declared: bool,
    is_named: bool,
    reads_text: bool,
) -> Result<Judgment, CheckError> {
    let ty = column.ty.to_uppercase();
    let has = |names: &[&str]| names.iter().any(|name| ty.contains(name));
    let (quoted, name) = (quote(&table.name), quote(&column.name));
    let is_id = format!(
        "typeof({name}) = 'text' AND (NOT ({}) OR length({name}) = 26 AND {name} NOT GLOB '*[^0-9A-Za-z]*')",
        is_no_uuid(&name)
    );
    if !is_declared && !is_id_name(&column.name) {
        let values = connection.values(&quoted, &name, &is_id, false).await?;
        return Ok(Judgment::for_text(&column.name, length(&ty), values, false));
    }
    Ok(if ty.contains("INT") {
        let count = format!(
            "SELECT count(*) FROM {quoted} WHERE typeof({name}) NOT IN ('integer', 'null')"
        );
        match connection.number(count).await? {
            0 => Judgment::Right(StoredType::Integer),
            wrong => Judgment::Wrong(
                StoredType::Integer,
                format!("rows with something other than an integer: {wrong}"),
            ),
        }
    } else if ty == "UUID_TEXT" {
        // This is SeaORM's type for a 16-byte key when it creates an entity's table. SQLite stores blobs in
        // it unchanged.
        return judge_blob(connection, column, true, (&quoted, &name)).await;
    } else if is_text(&ty) {
        let ignores_case = table.sql.to_uppercase().contains("NOCASE");
        let values = match reads_text {
            true => connection.values(&quoted, &name, &is_id, true).await?,
            false => Values::Ids,
        };
        Judgment::for_text(&column.name, length(&ty), values, ignores_case)
    } else if ty.contains("BLOB") || ty.is_empty() {
        return judge_blob(connection, column, is_named, (&quoted, &name)).await;
    } else if has(&["UUID", "GUID", "ULID", "BINARY", "UNIQUEIDENTIFIER"]) {
        Judgment::Wrong(
            StoredType::Bytes,
            "SQLite treats this type as numeric and converts text that looks like a number".into(),
        )
    } else {
        Judgment::Unknown(TYPE)
    })
}

/// The type is in capitals and contains no `INT`.
fn is_text(ty: &str) -> bool {
    ["CHAR", "CLOB", "TEXT"].iter().any(|name| ty.contains(name))
}

async fn judge_blob(
    connection: &mut SqliteConnection,
    column: &Column,
    is_named: bool,
    (table, name): (&str, &str),
) -> Result<Judgment, CheckError> {
    if !is_named {
        return Ok(Judgment::Unknown(NAME));
    }
    let count = format!(
        "SELECT count(*) FROM {table} WHERE typeof({name}) NOT IN ('blob', 'null') OR length({name}) <> 16"
    );
    let wrong = connection.number(count).await?;
    let problems = [
        (wrong > 0).then(|| {
            format!(
                "rows with something other than 16 bytes: {wrong}; `CHECK (length({name}) = 16)` would \
                 reject them"
            )
        }),
        (column.pk > 0 && !column.notnull).then(|| "it accepts NULL; declare it NOT NULL".to_owned()),
    ];
    let problems: Vec<String> = problems.into_iter().flatten().collect();
    Ok(match problems.is_empty() {
        true => Judgment::Right(StoredType::Bytes),
        false => Judgment::Wrong(StoredType::Bytes, problems.join("; ")),
    })
}

fn is_no_uuid(name: &str) -> String {
    format!(
        "replace({name}, '-', '') GLOB '*[^0-9a-fA-F]*'
                        OR length(replace({name}, '-', '')) <> 32 OR instr({name}, char(0))
                        OR NOT (length({name}) = 32 OR {name} GLOB '????????-????-????-????-????????????')"
    )
}

async fn convert(
    connection: &mut SqliteConnection,
    draft: &mut Draft,
    schema: &Schema,
) -> Result<(), CheckError> {
    let (table, column) = draft.place();
    let columns = &schema.columns[table];
    let table = schema.tables.iter().find(|other| other.name == table);
    let column = columns.iter().find(|other| other.name == column);
    let (Some(table), Some(column)) = (table, column) else {
        return Ok(());
    };
    let conversion = conversion(column, draft.stored);
    let new_sql = tokens::retype(&table.sql, &column.name, conversion.ty);
    let attached = || schema.attached_to(&table.name);
    let names = columns.iter().map(|column| &column.name);
    let mut names = names.chain(attached().map(|other| &other.name)).chain([&table.name]);
    let sqls = || new_sql.iter().chain(attached().map(|other| &other.sql));
    // People write statements with line breaks and tabs.
    let is_readable = |sql: &String| is_plain(&sql.replace(['\n', '\t'], " "));
    if !names.all(|name| is_plain(name)) || !sqls().all(is_readable) {
        draft.leave_alone(NOT_PLAIN);
        return Ok(());
    }

    let (name, quoted) = (quote(&column.name), quote(&table.name));
    let bad = conversion.bad.clone();
    // Only the application can parse a ULID's text. If only rows are wrong, the type stays the same.
    let is_new = new_sql.as_ref().is_some_and(|sql| *sql != table.sql);
    let lower = column.name.to_lowercase();
    let is_complicated = column.has_default
        || attached().any(|other| other.ty == "index" && tokens::computes(&other.sql, &lower))
        || ["CHECK", "GENERATED", "AS"].iter().any(|word| tokens::has_word(&table.sql, word));
    if length(&column.ty) == Some(26) || !is_new || !sqls().all(|sql| tokens::is_one_statement(sql))
    {
        draft.leave_alone(NO_SCRIPT);
    } else if is_complicated {
        draft.leave_alone(COMPLICATED);
    } else {
        draft.conversion = Some(conversion);
    }
    let primary = columns.iter().filter(|column| column.pk > 0);
    let is_whole_key = primary.count() == 1 && column.pk > 0;
    let digits = is_whole_key.then(|| digits(&name));
    draft.count(connection, (&quoted, &name), &bad, digits.as_deref()).await?;
    if draft.conversion.is_some() {
        let orphans: i64 = sqlx::query_scalar("SELECT count(*) FROM pragma_foreign_key_check(?)")
            .bind(&table.name)
            .fetch_one(connection)
            .await
            // SQLite cannot check a foreign key to a column that is not unique.
            .unwrap_or(1);
        if orphans > 0 {
            draft.leave_alone(
                "some rows reference rows that do not exist (`PRAGMA foreign_key_check` lists them)",
            );
        }
    }
    Ok(())
}

/// The digits are equal for two texts of the same 16 bytes.
fn digits(name: &str) -> String {
    format!("lower(replace({name}, '-', ''))")
}

fn conversion(column: &Column, stored: StoredType) -> Conversion {
    let name = quote(&column.name);
    let is_key = column.pk > 0;
    let null = match is_key {
        true => format!("{name} IS NULL OR "),
        false => String::new(),
    };
    match stored {
        StoredType::Bytes => {
            let digits = digits(&name);
            // Not every SQLite has `unhex`, so each byte is looked up in a table.
            let bytes = (1..32).step_by(2).map(|at| {
                format!("(SELECT byte FROM opaque_id_byte WHERE hex = substr({digits}, {at}, 2))")
            });
            let bytes: Vec<String> = bytes.collect();
            Conversion {
                ty: if is_key && !column.notnull { "BLOB NOT NULL" } else { "BLOB" },
                value: format!(
                    "CASE typeof({name}) WHEN 'text' THEN CAST({} AS BLOB) ELSE {name} END",
                    bytes.join(" || ")
                ),
                bad: format!(
                    "{null}CASE typeof({name})
                     WHEN 'null' THEN 0
                     WHEN 'blob' THEN length({name}) <> 16
                     WHEN 'text' THEN {}
                     ELSE 1 END",
                    is_no_uuid(&name)
                ),
                keeps_rows: true,
            }
        }
        _ => Conversion {
            ty: "INTEGER",
            value: format!("CAST({name} AS INTEGER)"),
            // The text must survive the round trip: no spaces, no leading zeros, nothing out of range.
            bad: format!(
                "{null}({name} IS NOT NULL AND typeof({name}) <> 'integer'
                 AND CAST(CAST({name} AS INTEGER) AS TEXT) IS NOT {name})"
            ),
            keeps_rows: true,
        },
    }
}

/// Follows "Making Other Kinds Of Table Schema Changes" of SQLite's documentation, except that the old table
/// is kept.
fn script(drafts: &[Draft], schema: &Schema, version: i64) -> Vec<String> {
    let columns = &schema.columns;
    let is_taken = |name: &str| {
        let attached = schema.attached.iter().map(|other| &other.sql);
        let mut sqls = schema.all_sql.iter().chain(attached);
        let name = name.to_ascii_lowercase();
        sqls.any(|sql| sql.to_ascii_lowercase().contains(&name))
    };
    let mut renames = Vec::new();
    let mut drops = Vec::new();
    let mut copies = Vec::new();
    let mut checks = Vec::new();
    let mut notes = Vec::new();
    for (name, drafts) in by_table(drafts) {
        let table = schema.tables.iter().find(|table| table.name == name);
        let sql = table.and_then(|table| {
            drafts.iter().try_fold(table.sql.clone(), |sql, (draft, conversion)| {
                tokens::retype(&sql, &draft.finding.column, conversion.ty)
            })
        });
        let Some(sql) = sql else { continue };
        let kept_name = free_name(name, usize::MAX, is_taken);
        let (new, kept) = (quote(name), quote(&kept_name));
        renames.push(format!("ALTER TABLE {new} RENAME TO {kept}"));
        notes.push(format!("-- DROP TABLE {kept};"));

        for other in schema.attached_to(name) {
            let ty = other.ty.to_uppercase();
            drops.push(format!("DROP {ty} {}", quote(&other.name)));
        }
        let copied = columns[name].iter().map(|column| {
            let mut drafts = drafts.iter();
            let converted = drafts.find(|(draft, _)| draft.finding.column == column.name);
            let quoted = quote(&column.name);
            let value = converted.map_or(&quoted, |(_, conversion)| &conversion.value);
            (quoted.clone(), value.clone())
        });
        let (mut names, mut values): (Vec<_>, Vec<_>) = copied.unzip();
        // References to rows by their rowid, such as in a full-text index, stay valid.
        if has_own_rowid(&sql, &columns[name]) {
            for list in [&mut names, &mut values] {
                list.insert(0, "rowid".to_owned());
            }
        }
        copies.push(sql.clone());
        copies.push(format!(
            "INSERT INTO {new} ({}) SELECT {} FROM {kept}",
            names.join(", "),
            values.join(", ")
        ));
        if tokens::has_word(&sql, "AUTOINCREMENT") {
            let (from, to) = (text(&kept_name), text(name));
            copies.push(format!("DELETE FROM sqlite_sequence WHERE name = {to}"));
            copies.push(format!(
                "INSERT INTO sqlite_sequence (name, seq) SELECT {to}, seq FROM sqlite_sequence WHERE name = {from}"
            ));
        }
        copies.extend(schema.attached_to(name).map(|other| other.sql.clone()));

        let mut same =
            vec![format!("(SELECT count(*) FROM {new}) = (SELECT count(*) FROM {kept})")];
        for (draft, conversion) in &drafts {
            let column = quote(&draft.finding.column);
            let bad = &conversion.bad;
            let (ty, stored) = match draft.stored {
                StoredType::Bytes => ("'BLOB'", "'blob'"),
                _ => ("'INTEGER'", "'integer'"),
            };
            same.push(format!(
                "(SELECT count({column}) FROM {new} WHERE typeof({column}) = {stored}) = (SELECT count({column}) FROM {kept})"
            ));
            same.push(format!("NOT EXISTS (SELECT 1 FROM {kept} WHERE {bad})"));
            same.push(format!("NOT EXISTS (SELECT 1 FROM {new} WHERE {bad})"));
            checks.push(format!(
                "EXISTS (SELECT 1 FROM pragma_table_info({}) WHERE name = {} AND type = {ty})",
                text(name),
                text(&draft.finding.column),
            ));
        }
        copies.push(ensure(&same));
        checks.push(format!(
            "(SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name IN ({}, {})) = 2",
            text(name),
            text(&kept_name)
        ));
        checks.push(format!(
            "(SELECT count(*) FROM sqlite_schema WHERE tbl_name = {} COLLATE NOCASE AND type IN ('index', 'trigger') AND sql IS NOT NULL) = {}",
            text(name),
            schema.attached_to(name).count()
        ));
        checks.push(format!(
            "NOT EXISTS (SELECT 1 FROM sqlite_schema s JOIN pragma_foreign_key_list(s.name) f ON f.\"table\" = {})",
            text(&kept_name)
        ));
    }
    if renames.is_empty() {
        return Vec::new();
    }
    let affected = affected(drafts, &schema.foreign_keys).into_iter();
    let referring: BTreeSet<&String> = affected.map(|key| &key.from.0).collect();
    let references = referring.into_iter().map(|table| {
        let table = text(table);
        format!("NOT EXISTS (SELECT 1 FROM pragma_foreign_key_check({table}))")
    });
    let references: Vec<String> = references.collect();

    let mut statements = vec![
        "PRAGMA busy_timeout = 60000".to_owned(),
        "PRAGMA trusted_schema = OFF".into(),
        "PRAGMA foreign_keys = OFF".into(),
        "PRAGMA legacy_alter_table = ON".into(),
        "CREATE TEMP TABLE opaque_id_check (ok INTEGER NOT NULL CONSTRAINT \"nothing was changed: not all rows can be converted, or the schema has changed\" CHECK (ok = 1))".into(),
        "CREATE TEMP TABLE opaque_id_byte (hex TEXT PRIMARY KEY, byte BLOB)".into(),
        format!(
            "WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < 255)\n\
             INSERT INTO opaque_id_byte SELECT printf('%02x', n), substr(X'{}', n + 1, 1) FROM number",
            (0..=255).map(|byte: u8| format!("{byte:02x}")).collect::<String>()
        ),
        "BEGIN IMMEDIATE".into(),
        ensure(&[format!(
            "(SELECT schema_version FROM pragma_schema_version) = {version}"
        )]),
    ];
    statements.extend(renames);
    statements.extend(drops);
    statements.extend(copies);
    // This check is separate because it can fail.
    if !references.is_empty() {
        statements.push(ensure(&references));
    }
    statements.push(ensure(&checks));
    statements.extend(
        [
            "COMMIT",
            "DROP TABLE opaque_id_byte",
            "DROP TABLE opaque_id_check",
            "PRAGMA legacy_alter_table = OFF",
            "PRAGMA foreign_keys = ON",
        ]
        .map(str::to_owned),
    );
    let mut script = vec![
        "-- Stop the application, back up, and run this with `sqlite3 -bail FILE`. It changes everything or nothing.".to_owned(),
        // When a line ends with a semicolon, the shell runs the statements so far, and stops at the first
        // error in them.
        format!("{}\n;", statements.join("\n; ")),
        OLD_ROWS.to_owned(),
        "-- (They keep their foreign keys: drop them before you delete rows that they reference.)".to_owned(),
    ];
    script.extend(notes);
    script
}

fn has_own_rowid(sql: &str, columns: &[Column]) -> bool {
    let has_integer_key =
        columns.iter().any(|column| column.pk > 0 && column.ty.eq_ignore_ascii_case("INTEGER"));
    let has_column = columns.iter().any(|column| column.name.eq_ignore_ascii_case("rowid"));
    !has_integer_key && !has_column && !tokens::has_word(sql, "WITHOUT")
}

fn ensure(conditions: &[String]) -> String {
    format!("INSERT OR ROLLBACK INTO opaque_id_check SELECT {}", conditions.join("\n    AND "))
}

/// Returns 36 for `CHAR(36)`.
fn length(ty: &str) -> Option<i64> {
    let (_, length) = ty.split_once('(')?;
    length.split_once(')')?.0.trim().parse().ok()
}
