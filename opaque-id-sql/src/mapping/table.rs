//! The statements of a mapping table or a column of UUIDs.
//!
//! On PostgreSQL and SQLite a statement binds a list as one parameter: an array's text, bytes or JSON. So its
//! text is the same for lists of every length, and the server prepares it once. On MySQL a list is in `IN
//! (…)` or `VALUES`, because all engines with its dialect accept these. Calls cut such lists at
//! [`longest_list`]. A single UUID is always a parameter of its own.
//!
//! # Locks
//!
//! - PostgreSQL, hashed index: advisory locks of the transaction. The map has a shared lock. Its key is the
//!   first eight bytes of the SHA-256 of `opaque-id ` and the table's name without its schema. Each hash has
//!   a lock in the class of the first four of these bytes. For more than `MAX_HASH_LOCKS` UUIDs, only the
//!   map's lock is taken, exclusively. A snapshot from before the lock would not show the rows of the lock's
//!   last holder, so above READ COMMITTED the call is refused.
//! - MySQL and MariaDB: a row of `opaque_id_slots` in the map's schema. Its number is the low 14 bits of the
//!   hash. The rows are locked and never changed. `GET_LOCK` does not work: the session releases it before
//!   the caller's transaction commits, and a pooled connection keeps it if its call was canceled.
//! - SQLite: the database's write lock.
//!
//! All calls take their locks in one order, by hash or by slot, so single calls never deadlock with each
//! other (`every_call_takes_its_locks_in_one_order`).

mod check;

use core::fmt;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::ddl::{self, Index, InvalidTableName, SLOTS, slots_table};
use super::error::MappingError;
use super::uuid_hash;
use super::uuid_set::{Hashed, UuidSet};
use crate::call::RETRY_FOR;
use crate::dialect::Dialect;
use crate::statement::{Cell, Column, Statement, Texts, Value};

/// PostgreSQL's lock table has room for this many hashes per connection by default
/// (`max_locks_per_transaction`). For more hashes the transaction locks the map.
const MAX_HASH_LOCKS: usize = 64;

/// With tens of thousands of literals MySQL scans the index (`range_optimizer_max_mem_size`), and MariaDB
/// makes a table of a thousand and more (`in_predicate_conversion_threshold`).
pub(super) const fn longest_list(dialect: Dialect) -> usize {
    match dialect {
        Dialect::MySql => 999,
        Dialect::Postgres | Dialect::Sqlite => usize::MAX,
    }
}

const MAPPING: &[Column] = &[Column::Integer, Column::Uuid];

/// The columns of a row that the statement has not inserted.
const FOUND_OR_NEW: &[Column] = &[Column::Integer, Column::Uuid, Column::Integer];

/// The mark of a row that [`insert_missing`](Table::insert_missing) has found.
pub(super) const FOUND: Cell = Cell::Integer(0);

/// The rows that a search sees on MySQL.
#[derive(Clone, Copy)]
pub(super) enum Sees {
    /// The rows of the transaction's snapshot.
    Snapshot,
    /// Also rows that were committed since the transaction began. MySQL's default isolation shows these only
    /// to locking reads.
    Latest,
}

#[derive(Clone)]
pub(super) struct Table {
    name: &'static str,
    index: Index,
    /// The columns of the integers and of the UUIDs.
    id: &'static str,
    uuid: &'static str,
    /// Whether the columns are those of rows, and not of a mapping table.
    is_of_rows: bool,
    /// Marks this map's rows in a shared table.
    resource: Option<&'static str>,
    pub(super) retry_for: Duration,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// The texts by name, number of UUIDs (one or a list) and dialect. Where a list is bound, one text serves
    /// every length.
    texts: Texts<(&'static str, bool, Dialect), Arc<str>>,
    is_column_checked: AtomicBool,
    /// A checked server does not write on several nodes.
    is_server_checked: AtomicBool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name)
            .field("index", &self.index)
            .field("resource", &self.resource)
            .finish()
    }
}

impl Table {
    #[track_caller]
    pub(super) fn new(name: &'static str, index: Index) -> Self {
        Self::checked(ddl::check_table(name, index), name, index)
    }

    #[track_caller]
    fn checked(check: Result<(), InvalidTableName>, name: &'static str, index: Index) -> Self {
        if let Err(error) = check {
            panic!("{error}");
        }
        Self {
            name,
            index,
            id: "id",
            uuid: "uuid",
            is_of_rows: false,
            resource: None,
            retry_for: RETRY_FOR,
            shared: Arc::default(),
        }
    }

    /// Only searches work.
    #[track_caller]
    pub(super) fn for_rows(name: &'static str, id: &'static str, uuid: &'static str) -> Self {
        for column in [id, uuid] {
            if !ddl::is_identifier(column) {
                panic!(
                    "invalid column name {column:?}: expected a-z, 0-9 and _, not starting with a digit"
                );
            }
        }
        Self {
            id,
            uuid,
            is_of_rows: true,
            ..Self::checked(ddl::check_name(name), name, Index::Unique)
        }
    }

    /// Names of a user's columns may be reserved words, so they are quoted.
    fn names(&self, dialect: Dialect) -> [String; 3] {
        let quote = match dialect {
            _ if !self.is_of_rows => "",
            Dialect::MySql => "`",
            Dialect::Postgres | Dialect::Sqlite => "\"",
        };
        let quoted = |name: &str| {
            format!("{quote}{}{quote}", name.replace('.', &format!("{quote}.{quote}")))
        };
        [self.name, self.id, self.uuid].map(quoted)
    }

    /// The casts convert integers of other widths.
    fn mapping(&self, dialect: Dialect) -> String {
        let [_, id, uuid] = self.names(dialect);
        match dialect {
            Dialect::Postgres => format!("CAST(m.{id} AS int8), m.{uuid}"),
            Dialect::MySql if self.is_of_rows => format!("CAST(m.{id} AS SIGNED), m.{uuid}"),
            _ => format!("m.{id}, m.{uuid}"),
        }
    }

    #[track_caller]
    pub(super) fn shared(self, domain: &'static str) -> Self {
        ddl::check_domain(domain);
        Self { resource: Some(domain), shared: Arc::default(), ..self }
    }

    pub(super) fn create_sql(&self, dialect: Dialect) -> String {
        ddl::create_sql(dialect, self.name, self.index, self.resource.is_some())
            .expect("the name is checked")
    }

    pub(super) fn drop_sql(&self) -> String {
        format!("DROP TABLE {};\n", self.name)
    }

    pub(super) fn find(&self, dialect: Dialect, sees: Sees, uuids: &UuidSet) -> Statement {
        let (text, lock) = match (dialect, sees) {
            (Dialect::MySql, Sees::Latest) => ("find latest", " LOCK IN SHARE MODE"),
            _ => ("find", ""),
        };
        let sql = || {
            let (mapping, found) = (self.mapping(dialect), self.found(dialect, uuids));
            format!("SELECT {mapping} FROM {found}{}{lock}", dialect.all_rows())
        };
        self.on_list(dialect, text, uuids, sql, MAPPING)
    }

    /// A single UUID is bound in the place of [`one`](Self::one).
    fn on_list(
        &self,
        dialect: Dialect,
        text: &'static str,
        uuids: &UuidSet,
        sql: impl FnOnce() -> String,
        columns: &'static [Column],
    ) -> Statement {
        let (sql, values) = match (dialect, &**uuids) {
            (_, [uuid]) => {
                let hash = self.is_hashed().then(|| Value::Integer(uuid_hash(*uuid).into()));
                let uuid = match dialect {
                    Dialect::Postgres => Value::Text(uuid.to_string()),
                    _ => Value::Bytes(uuid.as_bytes().to_vec()),
                };
                let values = hash.into_iter().chain([uuid]).collect();
                (self.text(dialect, text, true, sql), values)
            }
            _ => (self.text(dialect, text, false, sql), self.asked_values(dialect, uuids)),
        };
        Statement::new(sql, values, columns)
    }

    fn one(&self, dialect: Dialect) -> (&'static str, &'static str) {
        match (dialect, self.index) {
            (Dialect::Postgres, Index::Unique) => ("", "CAST(CAST($1 AS text) AS uuid)"),
            (Dialect::Postgres, Index::Hashed) => {
                ("CAST(CAST($1 AS int8) AS int4)", "CAST(CAST($2 AS text) AS uuid)")
            }
            (Dialect::MySql | Dialect::Sqlite, _) => ("?", "?"),
        }
    }

    fn found(&self, dialect: Dialect, uuids: &UuidSet) -> String {
        let [name, _, column] = self.names(dialect);
        let index = self.index_hint(dialect);
        let (hash, which) = match (dialect, &**uuids) {
            (_, [_]) => {
                let (hash, uuid) = self.one(dialect);
                (self.if_hashed(|| format!("m.hash = {hash} AND ")), format!("= {uuid}"))
            }
            (Dialect::Postgres, _) => {
                return format!("{} CROSS JOIN {}", self.asked(dialect, uuids), self.lateral());
            }
            (Dialect::MySql, _) => {
                (self.if_hashed(|| "m.hash IN (?) AND ".to_owned()), "IN (?)".to_owned())
            }
            (Dialect::Sqlite, _) => {
                let asked = self.asked(dialect, uuids);
                return format!("{asked} CROSS JOIN {name} AS m ON {}", self.is_asked(dialect));
            }
        };
        format!("{name} AS m{index} WHERE {hash}m.{column} {which}{}", self.is_ours(dialect))
    }

    /// Uses the index. For a plain join PostgreSQL would read the whole table until it has statistics.
    fn lateral(&self) -> String {
        let ([name, id, uuid], on) =
            (self.names(Dialect::Postgres), self.is_asked(Dialect::Postgres));
        format!("LATERAL (SELECT m.{id}, m.{uuid} FROM {name} AS m WHERE {on} LIMIT 1) AS m")
    }

    pub(super) fn to_external(&self, dialect: Dialect, ids: &[i64]) -> Statement {
        let sql = || {
            let ([name, id, _], mapping) = (self.names(dialect), self.mapping(dialect));
            let found = match (dialect, ids) {
                (Dialect::MySql, _) => format!("{name} AS m WHERE m.{id} IN (?)"),
                (Dialect::Postgres, [_]) => format!("{name} AS m WHERE m.{id} = $1"),
                (Dialect::Sqlite, [_]) => format!("{name} AS m WHERE m.{id} = ?"),
                (Dialect::Postgres, _) => format!(
                    "unnest(CAST(CAST($1 AS text) AS int8[])) AS asked (id) JOIN {name} AS m ON m.{id} = asked.id"
                ),
                (Dialect::Sqlite, _) => format!(
                    "(SELECT value AS id FROM json_each(?1)) AS asked CROSS JOIN {name} AS m ON m.{id} = asked.id"
                ),
            };
            format!("SELECT {mapping} FROM {found}{}{}", self.is_ours(dialect), dialect.all_rows())
        };
        let asked = match (dialect, ids) {
            (Dialect::Postgres | Dialect::Sqlite, [id]) => Value::Integer(*id),
            _ => list(dialect, ids.iter().copied()),
        };
        let sql = self.text(dialect, "to external", ids.len() == 1, sql);
        Statement::new(sql, vec![asked], MAPPING)
    }

    /// Fails if a unique index contains one of the UUIDs. A list on MySQL uses `VALUES`, because InnoDB gives
    /// these consecutive integers. For `INSERT … SELECT` it may lock its counter for the whole statement.
    pub(super) fn insert(&self, dialect: Dialect, uuids: &UuidSet) -> Statement {
        let (returning, columns) = returning(dialect);
        let sql = || {
            let insert = self.insert_into();
            let rows = match (dialect, &**uuids) {
                (_, [_]) => {
                    let (hash, uuid) = self.one(dialect);
                    format!("VALUES ({})", self.values(hash, uuid))
                }
                (Dialect::MySql, _) => {
                    let row = |(i, uuid): (usize, Uuid)| {
                        let hash = self.if_hashed(|| uuids.hashed()[i].0.to_string());
                        format!("({})", self.values(&hash, &literal(&uuid)))
                    };
                    let rows = self.insertion_order(uuids).enumerate().map(row);
                    format!("VALUES {}", rows.collect::<Vec<_>>().join(","))
                }
                _ => {
                    let values = self.values("asked.hash", "asked.uuid");
                    format!("SELECT {values} FROM {}", self.asked(dialect, uuids))
                }
            };
            format!("{insert} {rows}{returning}")
        };
        match (dialect, &**uuids) {
            (Dialect::MySql, [_, _, ..]) => Statement::new(sql(), Vec::new(), columns),
            _ => self.on_list(dialect, "insert", uuids, sql, columns),
        }
    }

    pub(super) fn insertion_order<'a>(
        &self,
        uuids: &'a UuidSet,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let (plain, hashed) = match self.index {
            Index::Unique => (&**uuids, &[][..]),
            Index::Hashed => (&[][..], uuids.hashed()),
        };
        let hashed = hashed.iter().map(|(_, uuid)| *uuid);
        plain.iter().copied().chain(hashed)
    }

    /// For a hashed index in a transaction a [`lock`](Self::lock) precedes this statement. For a unique index
    /// on PostgreSQL it also returns the rows that it [finds](FOUND). It skips a UUID that another
    /// transaction has inserted since the statement began, and returns no row for it.
    pub(super) fn insert_missing(&self, dialect: Dialect, uuids: &UuidSet) -> Statement {
        // PostgreSQL would read the whole table for a join until it has statistics. The offset prevents the
        // join.
        let end = if dialect == Dialect::Postgres { " OFFSET 0" } else { "" };
        let sql = || self.insert_missing_sql(dialect, &self.asked(dialect, uuids), end);
        let columns = match (dialect, self.index) {
            (Dialect::MySql, _) => return Statement::new(sql(), Vec::new(), &[]),
            (Dialect::Postgres, Index::Unique) => FOUND_OR_NEW,
            _ => MAPPING,
        };
        self.on_list(dialect, "insert missing", uuids, sql, columns)
    }

    /// Combines [`lock`](Self::lock) and [`insert_missing`](Self::insert_missing) in a single request. Its
    /// transaction ends with the request, even if the caller is dropped. The request has several statements,
    /// so it cannot be prepared.
    pub(super) fn lock_and_insert_missing(&self, dialect: Dialect, uuids: &UuidSet) -> Statement {
        // This applies to the transaction of the next statement on MySQL, and to the request's on PostgreSQL.
        const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
        let sql = match dialect {
            Dialect::MySql => {
                // The limit keeps the server from merging the list into the statement, so all locks precede the first insert.
                let mask = SLOTS - 1;
                let locked = format!(
                    "(SELECT asked.hash, asked.uuid FROM {asked} STRAIGHT_JOIN {slots} AS slots ON \
                     slots.slot = asked.hash & {mask} LIMIT 18446744073709551615 FOR UPDATE) AS asked",
                    asked = self.asked(dialect, uuids),
                    slots = slots_table(self.name),
                );
                let insert = self.insert_missing_sql(dialect, &locked, " LOCK IN SHARE MODE");
                format!("{READ_COMMITTED}; {insert}")
            }
            _ => {
                let lock = self.lock(dialect, uuids).inlined();
                let insert = self.insert_missing(dialect, uuids).inlined();
                format!("{READ_COMMITTED}; {lock}; {insert}")
            }
        };
        Statement::batch(sql)
    }

    fn insert_missing_sql(&self, dialect: Dialect, asked: &str, end: &str) -> String {
        let (name, insert) = (self.name, self.insert_into());
        let values = self.values("asked.hash", "asked.uuid");
        let (index, on) = (self.index_hint(dialect), self.is_asked(dialect));
        let (returning, _) = returning(dialect);
        if (dialect, self.index) == (Dialect::Postgres, Index::Unique) {
            let unique = ddl::unique_columns(self.resource.is_some());
            return format!(
                "WITH asked AS (SELECT asked.*, (SELECT CAST(m.id AS int8) FROM {name} AS m WHERE {on}) AS id FROM {asked}), \
                 new AS ({insert} SELECT {values} FROM asked WHERE asked.id IS NULL \
                 ON CONFLICT ({unique}) DO NOTHING{returning}) \
                 SELECT id, uuid, CAST(0 AS int8) FROM asked WHERE id IS NOT NULL \
                 UNION ALL SELECT id, uuid, CAST(1 AS int8) FROM new"
            );
        }
        format!(
            "{insert} SELECT {values} FROM {asked} WHERE NOT EXISTS (SELECT 1 FROM {name} AS m{index} WHERE {on}{end}){returning}"
        )
    }

    /// Keeps others from inserting the same UUIDs until the transaction ends. On PostgreSQL it returns no row
    /// if the transaction's isolation is too high. On MySQL it returns a row for each of the
    /// [`slots`](UuidSet::slots).
    pub(super) fn lock(&self, dialect: Dialect, uuids: &UuidSet) -> Statement {
        const LOCKED: &[Column] = &[Column::Integer];
        // A snapshot from before the lock would not show the inserts of its last holder.
        const USABLE: &str =
            "current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')";
        if dialect == Dialect::MySql {
            let sql = || {
                format!(
                    "SELECT slot FROM {} FORCE INDEX (PRIMARY) WHERE slot IN (?) ORDER BY slot{} FOR UPDATE",
                    slots_table(self.name),
                    dialect.all_rows()
                )
            };
            let slots = vec![list(dialect, uuids.slots())];
            return Statement::new(self.text(dialect, "lock", false, sql), slots, LOCKED);
        }
        let (text, values) = match uuids.hashed() {
            hashed if hashed.len() > MAX_HASH_LOCKS => ("lock map", Vec::new()),
            [(hash, _)] => ("lock one", vec![Value::Integer((*hash).into())]),
            _ => ("lock", self.asked_values(dialect, uuids)),
        };
        let sql = || {
            let (lock, asked) = (lock_key(self.name), self.asked(dialect, uuids));
            let (class, shared) = (lock >> 32, format!("pg_advisory_xact_lock_shared({lock})"));
            let locked = match text {
                "lock map" => format!("(SELECT pg_advisory_xact_lock({lock})) AS map"),
                "lock one" => format!(
                    "(SELECT {shared}, pg_advisory_xact_lock({class}, CAST($1 AS int4))) AS locked"
                ),
                _ => format!(
                    "(SELECT {shared}) AS map, (SELECT pg_advisory_xact_lock({class}, hashes.hash) FROM \
                     (SELECT DISTINCT asked.hash FROM {asked} ORDER BY asked.hash) AS hashes) AS locked"
                ),
            };
            format!("SELECT CAST(1 AS int8) FROM {locked} WHERE {USABLE}")
        };
        Statement::new(self.text(dialect, text, false, sql), values, LOCKED)
    }

    pub(super) fn counter<E>(&self) -> MappingError<E> {
        MappingError::Counter { table: self.name }
    }

    pub(super) fn unmapped<E>(&self) -> MappingError<E> {
        MappingError::Unmapped { table: self.name }
    }

    pub(super) fn is_hashed(&self) -> bool {
        self.index == Index::Hashed
    }

    pub(super) fn delete(&self, dialect: Dialect, uuids: &UuidSet) -> Statement {
        let sql = || {
            let (name, found) = (self.name, self.found(dialect, uuids));
            match dialect {
                Dialect::MySql => format!("DELETE m FROM {found}"),
                Dialect::Postgres | Dialect::Sqlite => {
                    format!("DELETE FROM {name} WHERE id IN (SELECT m.id FROM {found})")
                }
            }
        };
        self.on_list(dialect, "delete", uuids, sql, &[])
    }

    fn text(
        &self,
        dialect: Dialect,
        text: &'static str,
        of_one: bool,
        sql: impl FnOnce() -> String,
    ) -> Arc<str> {
        self.shared.texts.get((text, of_one, dialect), || sql().into())
    }

    fn insert_into(&self) -> String {
        let columns = match (self.index, self.resource) {
            (Index::Unique, None) => "uuid",
            (Index::Unique, Some(_)) => "uuid, resource",
            (Index::Hashed, None) => "hash, uuid",
            (Index::Hashed, Some(_)) => "hash, uuid, resource",
        };
        format!("INSERT INTO {} ({columns})", self.name)
    }

    fn values(&self, hash: &str, uuid: &str) -> String {
        let mut values = self.if_hashed(|| format!("{hash}, ")) + uuid;
        if let Some(resource) = self.resource {
            values += &format!(", '{resource}'");
        }
        values
    }

    /// Returns the relation `asked` of the UUIDs: `(uuid)`, or `(hash, uuid)` for the hashed index. MySQL
    /// gets a list as literals. Elsewhere [`on_list`](Self::on_list) binds it.
    fn asked(&self, dialect: Dialect, uuids: &UuidSet) -> Cow<'static, str> {
        match (self.index, dialect) {
            (_, Dialect::Postgres | Dialect::Sqlite) if uuids.len() == 1 => {
                let (hash, uuid) = self.one(dialect);
                let hash = self.if_hashed(|| format!("{hash} AS hash, "));
                format!("(SELECT {hash}{uuid} AS uuid) AS asked").into()
            }
            (_, Dialect::MySql) => {
                // MySQL's grammar needs ROW, and MariaDB's does not have it.
                let row =
                    |(hash, uuid): &Hashed| format!("/*!80019 ROW*/({hash},{})", literal(uuid));
                let rows = uuids.hashed().iter().map(row).collect::<Vec<_>>().join(",");
                format!(
                    "(WITH listed (hash, uuid) AS (VALUES {rows}) SELECT hash, uuid FROM listed) AS asked"
                )
                .into()
            }
            (Index::Hashed, Dialect::Postgres) => {
                "unnest(CAST(CAST($1 AS text) AS int4[]), CAST(CAST($2 AS text) AS uuid[])) AS asked (hash, uuid)"
                    .into()
            }
            (Index::Hashed, Dialect::Sqlite) => {
                "(SELECT value AS hash, substr(?2, key * 16 + 1, 16) AS uuid FROM json_each(?1)) AS asked"
                    .into()
            }
            (Index::Unique, Dialect::Postgres) => {
                "unnest(CAST(CAST($1 AS text) AS uuid[])) AS asked (uuid)".into()
            }
            (Index::Unique, Dialect::Sqlite) => {
                "(SELECT substr(?1, key * 16 + 1, 16) AS uuid FROM json_each('[0' || \
                 replace(hex(zeroblob(length(?1) / 16 - 1)), '00', ',0') || ']')) AS asked"
                    .into()
            }
        }
    }

    fn asked_values(&self, dialect: Dialect, uuids: &UuidSet) -> Vec<Value> {
        let hashes = self.is_hashed().then(|| {
            let hashes = uuids.hashed().iter();
            list(dialect, hashes.map(|(hash, _)| i64::from(*hash)))
        });
        let uuids = self.insertion_order(uuids);
        let uuids = match dialect {
            Dialect::Postgres => {
                let texts: Vec<String> = uuids.map(|uuid| uuid.to_string()).collect();
                Value::Text(format!("{{{}}}", texts.join(",")))
            }
            Dialect::MySql => Value::List(uuids.map(|uuid| Value::Bytes(uuid.into())).collect()),
            Dialect::Sqlite => Value::Bytes(uuids.flat_map(Uuid::into_bytes).collect()),
        };
        hashes.into_iter().chain([uuids]).collect()
    }

    fn is_asked(&self, dialect: Dialect) -> String {
        let [_, _, uuid] = self.names(dialect);
        let hash = self.if_hashed(|| "m.hash = asked.hash AND ".to_owned());
        format!("{hash}m.{uuid} = asked.uuid{}", self.is_ours(dialect))
    }

    fn if_hashed(&self, sql: impl FnOnce() -> String) -> String {
        if self.is_hashed() { sql() } else { String::new() }
    }

    /// Without a hint MySQL and MariaDB would read and lock the whole of a small table, and of any table
    /// without statistics.
    fn index_hint(&self, dialect: Dialect) -> String {
        match (dialect, self.is_of_rows) {
            (Dialect::MySql, false) => format!(" FORCE INDEX ({})", self.index.name(self.name)),
            _ => String::new(),
        }
    }

    /// A row of a user's table with a NULL is not a mapping, because drivers read SQLite's NULL as 0.
    fn is_ours(&self, dialect: Dialect) -> String {
        let [_, id, uuid] = self.names(dialect);
        match (self.is_of_rows, self.resource) {
            (true, _) => format!(" AND m.{id} IS NOT NULL AND m.{uuid} IS NOT NULL"),
            (_, Some(resource)) => format!(" AND m.resource = '{resource}'"),
            _ => String::new(),
        }
    }
}

fn returning(dialect: Dialect) -> (&'static str, &'static [Column]) {
    match dialect {
        Dialect::MySql => ("", &[]),
        Dialect::Postgres => (" RETURNING CAST(id AS int8) AS id, uuid", MAPPING),
        Dialect::Sqlite => (" RETURNING id, uuid", MAPPING),
    }
}

fn literal(uuid: &Uuid) -> String {
    format!("0x{}", uuid.simple())
}

/// The text of an array on PostgreSQL, JSON on SQLite.
fn list(dialect: Dialect, numbers: impl IntoIterator<Item = i64>) -> Value {
    let numbers = numbers.into_iter();
    if dialect == Dialect::MySql {
        return Value::List(numbers.map(Value::Integer).collect());
    }
    let numbers: Vec<String> = numbers.map(|number| number.to_string()).collect();
    let numbers = numbers.join(",");
    Value::Text(match dialect {
        Dialect::Postgres => format!("{{{numbers}}}"),
        _ => format!("[{numbers}]"),
    })
}

/// The name omits its schema, because other code may omit the schema. The first four bytes are the class of
/// the hashes' locks.
fn lock_key(name: &str) -> i64 {
    let name = name.split_once('.').map_or(name, |(_, table)| table);
    let digest = Sha256::new().chain_update("opaque-id ").chain_update(name).finalize();
    let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(digest);
    i64::from_be_bytes([a, b, c, d, e, f, g, h])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_maps_leave_room_for_their_index() {
        let name: &'static str = "a".repeat(59).leak();
        assert!(std::panic::catch_unwind(|| Table::new(name, Index::Unique)).is_err());
        assert_eq!(Table::for_rows(name, "id", "uuid").name, name);
    }

    #[test]
    fn a_schema_does_not_change_the_lock() {
        assert_eq!(lock_key("shop.order_ids"), lock_key("order_ids"));
        assert_ne!(lock_key("order_ids"), lock_key("invoice_ids"));
    }

    /// With the slots of each connection's default database, two connections would not wait for each other.
    #[test]
    fn the_slots_are_in_the_schema_of_the_map() {
        let uuids = UuidSet::new(vec![Uuid::nil()]);
        for (name, slots) in
            [("shop.order_ids", " shop.opaque_id_slots "), ("order_ids", " opaque_id_slots ")]
        {
            let table = Table::new(name, Index::Hashed);
            let lock = table.lock(Dialect::MySql, &uuids).sql;
            let insert = table.lock_and_insert_missing(Dialect::MySql, &uuids).sql;
            for sql in [&*lock, &*insert, &*table.create_sql(Dialect::MySql)] {
                assert!(sql.contains(slots), "{sql}");
            }
        }
    }

    #[test]
    fn a_list_of_any_length_has_one_text_which_is_built_once() {
        let uuids: Vec<_> = (0..100).map(Uuid::from_u128).collect();
        for index in [Index::Unique, Index::Hashed] {
            let table = Table::new("ids", index);
            for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
                let [two, many] = [&uuids[..2], &uuids].map(|uuids| {
                    table.find(dialect, Sees::Snapshot, &UuidSet::new(uuids.to_vec()))
                });
                assert!(Arc::ptr_eq(&two.sql, &many.sql));
            }
        }
    }

    #[test]
    fn the_unique_index_needs_no_hash() {
        let table = Table::new("ids", Index::Unique);
        let uuids = UuidSet::new(vec![Uuid::nil()]);
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            for statement in [
                table.find(dialect, Sees::Snapshot, &uuids),
                table.insert(dialect, &uuids),
                table.delete(dialect, &uuids),
            ] {
                assert!(!statement.sql.contains("hash"), "{}", statement.sql);
                assert_eq!(statement.values.len(), 1);
            }
        }
    }

    #[test]
    fn every_call_takes_its_locks_in_one_order() {
        let mut uuids: Vec<_> = (0..1_000).map(Uuid::from_u128).collect();
        let all = UuidSet::new(uuids.clone()).hashed().to_vec();
        uuids.rotate_left(333);
        assert_eq!(all, UuidSet::new(uuids).hashed());
        let mask = i32::from(SLOTS) - 1;
        assert!(all.is_sorted_by_key(|(hash, _)| hash & mask));
    }
}
