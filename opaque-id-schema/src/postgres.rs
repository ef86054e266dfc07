//! PostgreSQL: the check and its script.
//!
//! The script is one statement and so one transaction.
//!
//! # Other roles' code
//!
//! A role that may create types, operators or tables could have its functions run by the role that checks. So
//! every query finds names only in `pg_catalog` ([`secure`]), a type counts by its schema and not by its
//! name, and no query reads a table of another role, because even planning one evaluates its indexes'
//! predicates. The script refuses to run in the same cases, after it has locked the tables.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use crate::columns::{
    Ask, Conversion, Draft, EMPTY, ForeignKey, Judgment, Key, NAME, NO_SCRIPT, NOT_PLAIN, OLD_ROWS,
    StoredType, TYPE, UNREAD, Values, affected, by_table, drafts, key_columns as identified,
    leave_connected_alone,
};
use crate::maps::{self, Index, Part};
use crate::names::{free_name, is_id_name, is_left_out, is_plain, quote};
use crate::row::row;
use crate::{CheckError, KeyColumn, Report};

row! {
    struct Row {
        constraint_name: Option<String>,
        table_name: String,
        queried_name: String,
        column_name: String,
        type_name: String,
        is_nullable: bool,
        /// The name is empty for types of other roles.
        base_type: String,
        length: Option<i32>,
        sequence: Option<String>,
        referenced_table: Option<String>,
        referenced_column: Option<String>,
        definition: Option<String>,
        is_primary: bool,
        /// It refers to another table's column, alone or with others, and that column does not refer back.
        refers: bool,
        /// A query on a readable table sees all rows and runs no code of other roles.
        is_readable: bool,
        obstacle: Option<String>,
        obstacle_to_bytes: Option<String>,
    }
}

/// The schema's owner can replace the table, so the joins find both owners.
const OWNERS: &str = "JOIN pg_namespace ns ON ns.oid = cl.relnamespace JOIN pg_roles own ON own.oid = cl.relowner
        JOIN pg_roles me ON me.rolname = current_user JOIN pg_database db ON db.datname = current_database()
        JOIN pg_roles ns_own ON ns_own.oid = ns.nspowner
        JOIN pg_roles sch ON sch.oid = CASE ns_own.rolname WHEN 'pg_database_owner' THEN db.datdba ELSE ns_own.oid END";

/// A superuser trusts superusers. Any other role trusts schemas of superusers, and of the owner of its
/// database.
const IS_TRUSTED: &str = "((own.oid = me.oid OR own.rolsuper AND me.rolsuper)
            AND (sch.oid = me.oid OR sch.rolsuper OR sch.oid = db.datdba AND NOT me.rolsuper))";

/// A domain's length is that of the first domain below with one.
const ROWS: &str = "
    WITH RECURSIVE base (oid, type, typmod, has_rules) AS (
        SELECT oid, oid, -1, false FROM pg_type WHERE typtype <> 'd'
        UNION ALL SELECT t.oid, base.type, greatest(base.typmod, t.typtypmod), base.has_rules OR t.typnotnull
                OR t.typdefault IS NOT NULL OR EXISTS (SELECT FROM pg_constraint WHERE contypid = t.oid)
            FROM pg_type t JOIN base ON base.oid = t.typbasetype WHERE t.typtype = 'd'
    ),
    tables AS (
        SELECT cl.*, own.rolname AS owner, sch.rolname AS schema_owner, IS_TRUSTED AS is_trusted,
            cl.relkind = 'p' OR EXISTS (SELECT FROM pg_inherits WHERE cl.oid IN (inhrelid, inhparent)) AS has_parts
        FROM pg_class cl OWNERS
        WHERE cl.relkind IN ('r', 'p') AND ns.nspname = $1
    )
    SELECT con.conname::text AS constraint_name, cl.relname::text AS table_name, quote_ident(cl.relname) AS queried_name,
        a.attname::text AS column_name, format_type(a.atttypid, a.atttypmod) AS type_name, NOT a.attnotnull AS is_nullable,
        CASE WHEN t.typnamespace = 'pg_catalog'::regnamespace OR t.typname = 'citext'
            AND t.typowner IN (SELECT oid FROM pg_roles WHERE rolsuper) THEN t.typname::text ELSE '' END AS base_type,
        nullif(greatest(a.atttypmod, base.typmod), -1) - 4 AS length,
        pg_get_serial_sequence(cl.relnamespace::regnamespace::text || '.' || quote_ident(cl.relname), a.attname) AS sequence,
        CASE WHEN ref.relnamespace = cl.relnamespace THEN ref.relname::text
            ELSE ref.relnamespace::text || '.' || ref.relname END AS referenced_table, refa.attname::text AS referenced_column,
        pg_get_constraintdef(con.oid) AS definition,
        EXISTS (SELECT FROM pg_constraint own WHERE own.conrelid = con.conrelid AND own.contype = 'p'
            AND own.conkey = con.conkey) AS is_primary,
        EXISTS (SELECT FROM pg_constraint f, unnest(f.conkey, f.confkey) AS k (attnum, other) WHERE f.contype = 'f'
            AND f.conrelid = cl.oid AND f.confrelid <> cl.oid AND k.attnum = a.attnum AND NOT EXISTS (SELECT FROM pg_constraint back
            WHERE back.contype = 'f' AND back.conrelid = f.confrelid AND back.confrelid = cl.oid AND k.other = ANY (back.conkey))) AS refers,
        cl.is_trusted AND NOT cl.has_parts AND NOT cl.relforcerowsecurity AS is_readable,
        CASE WHEN NOT cl.is_trusted THEN format('its table belongs to the role %s, and its schema to %s; check and convert it as the owner of both',
                cl.owner, cl.schema_owner)
            WHEN cl.has_parts THEN 'its table has partitions or inherits columns; convert it manually'
            WHEN cl.relforcerowsecurity THEN 'row-level security hides rows from the owner; convert it manually'
            WHEN cl.reloftype <> 0 THEN 'its table is a table of a type; convert it manually'
            WHEN base.has_rules THEN 'its type is a domain with a constraint or a default; convert it manually'
            WHEN EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_type'::regclass AND d.deptype = 'n'
                AND d.refobjid IN (cl.reltype, (SELECT typarray FROM pg_type WHERE oid = cl.reltype))
                AND d.classid IN ('pg_class'::regclass, 'pg_type'::regclass))
                THEN 'another column or type uses the type of its rows; drop that first'
            WHEN EXISTS (SELECT FROM pg_constraint f LEFT JOIN tables other ON other.oid = f.conrelid
                WHERE f.contype = 'f' AND f.confrelid = cl.oid AND other.is_trusted IS NOT TRUE)
                THEN 'a table of another schema or role has a foreign key to its table; drop that first'
            WHEN EXISTS (SELECT FROM pg_index i, unnest(i.indkey, i.indclass, i.indcollation) AS k (attnum, class, coll)
                JOIN pg_opclass o ON o.oid = k.class WHERE i.indrelid = cl.oid AND k.attnum = a.attnum
                AND (NOT o.opcdefault OR k.coll <> a.attcollation
                    OR o.opcmethod NOT IN (SELECT oid FROM pg_am WHERE amname IN ('btree', 'hash', 'brin'))))
                THEN 'an index on it has another method than most, or names an operator class or a collation; drop that first'
            WHEN EXISTS (SELECT FROM pg_attribute WHERE attrelid = cl.oid AND attgenerated <> '')
                THEN 'its table has generated columns; convert it manually'
            WHEN EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_class'::regclass AND d.refobjid = cl.oid
                AND d.refobjsubid = a.attnum AND d.classid IN ('pg_rewrite'::regclass, 'pg_trigger'::regclass,
                    'pg_policy'::regclass, 'pg_proc'::regclass, 'pg_publication_rel'::regclass))
                THEN 'a view, a trigger, a policy, a function or a publication uses it; drop that first'
            WHEN EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND cardinality(f.conkey) > 1
                AND (f.conrelid = cl.oid AND a.attnum = ANY (f.conkey) OR f.confrelid = cl.oid AND a.attnum = ANY (f.confkey)))
                THEN 'a foreign key of several columns uses it; convert it manually' END AS obstacle,
        CASE WHEN a.atthasdef THEN 'it has a default; drop that first'
            WHEN EXISTS (SELECT FROM pg_constraint c WHERE c.conrelid = cl.oid AND c.contype IN ('c', 'x')
                AND a.attnum = ANY (c.conkey)) OR EXISTS (SELECT FROM pg_index i JOIN pg_depend d ON d.objid = i.indexrelid
                WHERE i.indrelid = cl.oid AND d.classid = 'pg_class'::regclass AND d.refobjid = cl.oid
                AND d.refobjsubid = a.attnum AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL))
                THEN 'a CHECK, an EXCLUDE or an index with an expression uses it; drop that first' END AS obstacle_to_bytes
    FROM tables cl JOIN pg_attribute a ON a.attrelid = cl.oid AND a.attnum > 0 AND NOT a.attisdropped
    JOIN base ON base.oid = a.atttypid JOIN pg_type t ON t.oid = base.type
    LEFT JOIN pg_constraint con ON con.conrelid = cl.oid AND con.contype IN ('p', 'f') AND con.conkey = ARRAY[a.attnum]
    LEFT JOIN pg_class ref ON ref.oid = con.confrelid
    LEFT JOIN pg_attribute refa ON refa.attrelid = con.confrelid AND refa.attnum = con.confkey[1]
    ORDER BY cl.relname, a.attnum, con.conname";

const INDEXES: &str = r#"
    SELECT cl.relname::text AS "table", i.indisunique AND i.indimmediate AS is_unique,
        (SELECT string_agg(coalesce(a.attname, ''), ',' ORDER BY k.n) FROM unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
            LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum WHERE k.n <= i.indnkeyatts) AS columns
    FROM pg_index i JOIN pg_class cl ON cl.oid = i.indrelid JOIN pg_namespace ns ON ns.oid = cl.relnamespace
    WHERE ns.nspname = $1 AND i.indisvalid AND i.indpred IS NULL"#;

/// Makes a new connection find functions, operators and types in PostgreSQL's own schema, whatever the
/// database's settings are: only there, or first there if it `finds_tables`. Returns the schemas of the
/// settings.
///
/// # Errors
/// The database's.
pub async fn secure(
    connection: &mut PgConnection,
    finds_tables: bool,
) -> sqlx::Result<Vec<String>> {
    let schemas = "SELECT pg_catalog.current_schemas(false)::pg_catalog.text[]";
    let schemas: Vec<String> = sqlx::query_scalar(schemas).fetch_one(&mut *connection).await?;
    let found = schemas.iter().filter(|schema| finds_tables && *schema != "pg_catalog");
    let mut path: Vec<_> = found.map(|schema| quote(schema)).collect();
    if !finds_tables {
        path.push("pg_catalog".to_owned());
    }
    path.push("pg_temp".to_owned());
    let set = sqlx::query("SELECT pg_catalog.set_config('search_path', $1, false)");
    set.bind(path.join(", ")).execute(connection).await?;
    Ok(schemas)
}

/// On this connection, a policy that hides rows is an error.
async fn connect(url: &str) -> Result<(PgConnection, String), CheckError> {
    let mut connection = PgConnection::connect(url).await?;
    let schemas = secure(&mut connection, false).await?;
    connection.execute("SET row_security = off; SET quote_all_identifiers = off").await?;
    // PostgreSQL reserves names that start with `pg_` for itself and for temporary tables.
    let is_own = |schema: &String| !schema.starts_with("pg_") && schema != "information_schema";
    Ok((connection, schemas.into_iter().find(is_own).ok_or(CheckError::NoSchema)?))
}

pub(crate) async fn key_columns(url: &str, samples: bool) -> Result<Vec<KeyColumn>, CheckError> {
    let (mut connection, schema) = connect(url).await?;
    let (rows, foreign_keys) = read(&mut connection, &schema).await?;
    let row_of = |table: &str| rows.iter().find(|row| row.table_name == table);
    let queried = |table: &str| row_of(table).map_or(table, |row| &row.queried_name).to_owned();
    let is_key = |row: &&Row| {
        row.constraint_name.is_some() && (row.referenced_table.is_some() || !row.refers)
    };
    let keys = rows.iter().filter(is_key).map(|row| key(row, Values::Ids)).collect();
    let all = Vec::from_iter(rows.iter().map(|row| (&row.table_name, &row.column_name)));
    let columns =
        identified(&mut connection, keys, &foreign_keys, queried, &all, |(table, column)| {
            let is_read = samples && row_of(table).is_some_and(|row| row.is_readable);
            let column = quote(column);
            let digit = format!("substr({column}::text, 15, 1)");
            is_read.then(|| [qualified(&schema, table), column, digit])
        });
    let columns = columns.await?;
    connection.close().await?;
    Ok(columns)
}

/// Returns the table and the name of each column of UUIDs or of arrays of UUIDs, and whether it is an array.
/// The table is named as in [`KeyColumn::table`].
///
/// # Errors
/// The same as [`check`](crate::check).
pub async fn uuid_columns(url: &str) -> Result<Vec<(String, String, bool)>, CheckError> {
    let (mut connection, schema) = connect(url).await?;
    let columns = sqlx::query_as(
        "SELECT quote_ident(r.relname), a.attname::text, a.atttypid <> 'uuid'::regtype
        FROM pg_class r JOIN pg_attribute a ON a.attrelid = r.oid JOIN pg_namespace ns ON ns.oid = r.relnamespace
        WHERE r.relkind IN ('r', 'p', 'v', 'm', 'f') AND ns.nspname = $1
            AND a.atttypid IN ('uuid'::regtype, 'uuid[]'::regtype) AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY r.relname, a.attname",
    );
    let columns = columns.bind(schema).fetch_all(&mut connection).await?;
    connection.close().await?;
    Ok(columns)
}

pub(crate) async fn unread_schemas(url: &str) -> Result<Option<String>, CheckError> {
    let (mut connection, schema) = connect(url).await?;
    let others = sqlx::query_as(
        "SELECT ns.nspname::text, count(*) FROM pg_class r JOIN pg_namespace ns ON ns.oid = r.relnamespace
        WHERE r.relkind IN ('r', 'p') AND NOT r.relispartition AND ns.nspname NOT IN ($1, 'information_schema', 'opaque_id')
            AND ns.nspname !~ '^pg_' AND NOT EXISTS (SELECT FROM pg_depend d
            WHERE d.classid = 'pg_class'::regclass AND d.objid = r.oid AND d.deptype = 'e')
        GROUP BY ns.nspname ORDER BY ns.nspname",
    );
    let others: Vec<(String, i64)> = others.bind(&schema).fetch_all(&mut connection).await?;
    connection.close().await?;
    let shown = others.iter().map(|(name, tables)| format!("`{name}` ({tables})"));
    let shown = shown.collect::<Vec<_>>().join(", ");
    Ok((!others.is_empty())
        .then(|| format!("only the schema `{schema}` was read; tables are also in {shown}")))
}

async fn read(
    connection: &mut PgConnection,
    schema: &str,
) -> Result<(Vec<Row>, Vec<ForeignKey>), CheckError> {
    let sql = AssertSqlSafe(ROWS.replace("OWNERS", OWNERS).replace("IS_TRUSTED", IS_TRUSTED));
    let mut rows: Vec<Row> = sqlx::query_as(sql).bind(schema).fetch_all(connection).await?;
    rows.retain(|row| !is_left_out(&row.table_name));
    let foreign_keys = rows.iter().filter_map(|row| foreign_key(row, schema)).collect();
    Ok((rows, foreign_keys))
}

pub(crate) async fn check(url: &str, exclude: &[String]) -> Result<Report, CheckError> {
    let (mut connection, schema) = connect(url).await?;
    let (rows, foreign_keys) = read(&mut connection, &schema).await?;
    let mut keys = Vec::new();
    for row in &rows {
        let is_key = row.constraint_name.is_some() || is_id_name(&row.column_name);
        let values = match row.is_readable && is_text(row) {
            true => {
                let column = quote(&row.column_name);
                let table = qualified(&schema, &row.table_name);
                connection.values(&table, &column, &matches(&column, ULID), is_key).await?
            }
            // Its unread values may be ids.
            false if is_text(row) && !is_key => Values::Ids,
            false => Values::None,
        };
        keys.extend((is_key || matches!(values, Values::Ids)).then(|| key(row, values)));
    }
    let (mut report, mut drafts) = drafts(keys, &foreign_keys, exclude);
    for draft in &mut drafts {
        if let Some(row) = row_of(&rows, draft) {
            convert(&mut connection, draft, row, &schema).await?;
        }
    }
    // The script would add their foreign keys again, and this reads the tables.
    for row in rows.iter().filter(|row| !row.is_readable) {
        for key in &foreign_keys {
            let is_of_table = [&key.from.0, &key.to.0].contains(&&row.table_name);
            for draft in drafts.iter_mut().filter(|draft| is_of_table && draft.is_in(key)) {
                draft.leave_alone(row.obstacle.as_deref().unwrap_or(NO_SCRIPT));
            }
        }
    }
    leave_connected_alone(&mut drafts, &foreign_keys);
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT relname::text FROM pg_class cl JOIN pg_namespace ns ON ns.oid = cl.relnamespace WHERE ns.nspname = $1",
    )
    .bind(&schema)
    .fetch_all(&mut connection)
    .await?;
    let parts = rows.iter().map(|row| Part {
        table: &row.table_name,
        column: &row.column_name,
        found: &row.type_name,
        is_nullable: row.is_nullable,
        reuses: false,
    });
    let indexes: Vec<Index> =
        sqlx::query_as(INDEXES).bind(&schema).fetch_all(&mut connection).await?;
    connection.close().await?;
    report.script = script(&drafts, &foreign_keys, &rows, &schema, &tables);
    report.findings = drafts.into_iter().map(|draft| draft.finding).collect();
    for query in report.findings.iter_mut().filter_map(|finding| finding.query.as_mut()) {
        query.insert_str(0, "SET search_path = pg_catalog, pg_temp; ");
    }
    report.findings.extend(maps::findings(parts, &indexes, ["bigint", "uuid"], exclude));
    Ok(report)
}

fn is_text(row: &Row) -> bool {
    matches!(&*row.base_type, "text" | "varchar" | "bpchar" | "citext")
}

fn qualified(schema: &str, table: &str) -> String {
    format!("{}.{}", quote(schema), quote(table))
}

fn row_of<'r>(rows: &'r [Row], draft: &Draft) -> Option<&'r Row> {
    rows.iter().find(|row| (row.table_name.as_str(), row.column_name.as_str()) == draft.place())
}

fn key(row: &Row, values: Values) -> Key {
    Key {
        place: (row.table_name.clone(), row.column_name.clone()),
        found: row.type_name.clone(),
        is_declared: row.constraint_name.is_some(),
        judgment: match judge(row, values) {
            Judgment::Unknown(EMPTY) if !row.is_readable => Judgment::Unknown(UNREAD),
            judgment => judgment,
        },
    }
}

async fn convert(
    connection: &mut PgConnection,
    draft: &mut Draft,
    row: &Row,
    schema: &str,
) -> Result<(), CheckError> {
    let printed = [&row.constraint_name, &row.definition, &row.sequence].into_iter().flatten();
    let mut printed =
        printed.map(String::as_str).chain([&*row.table_name, &row.column_name, schema]);
    if !printed.all(is_plain) {
        draft.leave_alone(NOT_PLAIN);
        return Ok(());
    }
    let obstacle_to_bytes =
        row.obstacle_to_bytes.as_ref().filter(|_| draft.stored == StoredType::Bytes);
    if let Some(obstacle) = row.obstacle.as_ref().or(obstacle_to_bytes) {
        // The obstacle is more precise than the reason that a column may refer to this one.
        draft.finding.left_alone.take_if(|_| !row.is_readable);
        draft.leave_alone(obstacle);
    }
    if !row.is_readable {
        return Ok(());
    }
    let (table, column) = (qualified(schema, &row.table_name), quote(&row.column_name));
    let Some(conversion) = conversion(row, draft.stored) else {
        draft.leave_alone(NO_SCRIPT);
        return Ok(());
    };
    let bad = conversion.bad.clone();
    if draft.finding.left_alone.is_none() {
        draft.conversion = Some(conversion);
    }
    let is_key = row.is_primary && draft.stored == StoredType::Bytes;
    let digits = is_key.then(|| format!("lower(replace({column}::text COLLATE \"C\", '-', ''))"));
    draft.count(connection, (&table, &column), &bad, digits.as_deref()).await
}

fn conversion(row: &Row, stored: StoredType) -> Option<Conversion> {
    let column = quote(&row.column_name);
    match (row.base_type.as_str(), stored) {
        ("bytea", StoredType::Bytes) => Some(Conversion {
            ty: "uuid",
            value: format!("encode({column}, 'hex')::uuid"),
            bad: format!("octet_length({column}) <> 16"),
            keeps_rows: true,
        }),
        // Only the application can parse a ULID's text.
        (_, StoredType::Bytes) if is_text(row) && row.length != Some(26) => Some(Conversion {
            ty: "uuid",
            value: format!("{column}::text::uuid"),
            bad: format!("NOT {}", matches(&column, "")),
            keeps_rows: true,
        }),
        ("int2" | "int4", StoredType::Integer) => {
            Some(Conversion { ty: "bigint", value: column, bad: "false".into(), keeps_rows: false })
        }
        _ => None,
    }
}

fn matches(column: &str, others: &str) -> String {
    format!(
        "{column}::text COLLATE \"C\" ~ '^([0-9a-fA-F]{{32}}|[0-9a-fA-F]{{8}}(-[0-9a-fA-F]{{4}}){{3}}-[0-9a-fA-F]{{12}}{others})$'"
    )
}

const ULID: &str = "|[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}";

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
    let quote_table = |name: &str| qualified(schema, name);
    // If a policy hides rows, the script fails instead of skipping them.
    let settings = [("search_path", "pg_catalog, pg_temp"), ("row_security", "off")];
    let mut body =
        Vec::from(settings.map(|(name, value)| {
            format!("PERFORM pg_catalog.set_config('{name}', '{value}', true);")
        }));
    let mut locked: BTreeSet<&str> = converted.keys().copied().collect();
    locked.extend(affected.iter().flat_map(|key| [&*key.from.0, &*key.to.0]));
    let locked: Vec<String> = locked.into_iter().map(quote_table).collect();
    body.push(format!("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE;", locked.join(", ")));
    // In these literals a backslash escapes in any session.
    let literal = |table: &String| {
        format!("E'{}'::regclass", table.replace('\\', "\\\\").replace('\'', "''"))
    };
    let locked: Vec<String> = locked.iter().map(literal).collect();
    let changed = converted.keys().map(|name| literal(&quote_table(name)));
    // In another isolation level, the queries would not see the commits of others while the script waited for
    // the locks. A change of a column's type plans a query on the tables at both ends of its foreign keys.
    body.push(format!(
        "IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION USING MESSAGE = 'nothing was changed: run this in a transaction that is READ COMMITTED';\n    END IF;
    IF EXISTS (SELECT FROM pg_class cl {OWNERS}
        WHERE (cl.oid IN ({}) OR EXISTS (SELECT FROM pg_constraint f WHERE f.contype = 'f' AND cl.oid IN (f.conrelid, f.confrelid)
            AND ARRAY[f.conrelid, f.confrelid] && ARRAY[{}]::oid[]))
        AND NOT {IS_TRUSTED}) THEN
        RAISE EXCEPTION USING MESSAGE = 'nothing was changed: run this as the owner of the tables, of their schema and of all that refer to them';\n    END IF;",
        locked.join(", "),
        changed.collect::<Vec<_>>().join(", ")
    ));
    let mut alters = Vec::new();
    let mut notes = Vec::new();
    for (name, columns) in &converted {
        let table = quote_table(name);
        let bad = columns.iter().map(|(_, conversion)| &conversion.bad);
        let bad = bad.filter(|bad| *bad != "false");
        let mut conditions: Vec<String> =
            bad.map(|bad| format!("EXISTS (SELECT 1 FROM {table} WHERE {bad})")).collect();
        if columns.iter().any(|(_, conversion)| conversion.keeps_rows) {
            let is_taken = |name: &str| tables.iter().any(|table| table == name);
            let kept = quote_table(&free_name(name, MAX_NAME, is_taken));
            // The copy has none of the table's policies.
            body.push(format!(
                "CREATE TABLE {kept} AS TABLE {table};\n    ALTER TABLE {kept} ENABLE ROW LEVEL SECURITY;"
            ));
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
        "-- Stop the application, back up, and run this as the owner of the tables, with psql or any other client. It changes everything or nothing.".to_owned(),
        format!("DO ${tag}$\n#variable_conflict use_column\nBEGIN\n    {body}\nEND\n${tag}$;"),
    ];
    if !notes.is_empty() {
        script.push(OLD_ROWS.into());
    }
    script.extend(notes);
    script
}

const MAX_NAME: usize = 63;

fn judge(row: &Row, values: Values) -> Judgment {
    let column = &row.column_name;
    match row.base_type.as_str() {
        "uuid" => Judgment::Right(StoredType::Bytes),
        "int8" => Judgment::Right(StoredType::Integer),
        "int4" => Judgment::Right(StoredType::Integer32),
        "int2" => Judgment::Wrong(
            StoredType::Integer,
            "integer keys must be `integer` or `bigint`; the range of this type is too small"
                .into(),
        ),
        "bytea" if is_id_name(column) => Judgment::Wrong(
            StoredType::Bytes,
            "keys must be `uuid`, which stores exactly 16 bytes".into(),
        ),
        "bytea" => Judgment::Unknown(NAME),
        ty if is_text(row) => {
            Judgment::for_text(column, row.length.map(i64::from), values, ty == "citext")
        }
        _ => Judgment::Unknown(TYPE),
    }
}

fn foreign_key(row: &Row, schema: &str) -> Option<ForeignKey> {
    let (constraint, definition) = (row.constraint_name.as_ref()?, row.definition.as_ref()?);
    let (table, name) = (qualified(schema, &row.table_name), quote(constraint));
    Some(ForeignKey {
        name: constraint.clone(),
        from: (row.table_name.clone(), row.column_name.clone()),
        to: (row.referenced_table.clone()?, row.referenced_column.clone()?),
        drop: format!("ALTER TABLE {table} DROP CONSTRAINT {name};"),
        add: format!("ALTER TABLE {table} ADD CONSTRAINT {name} {definition};"),
    })
}
