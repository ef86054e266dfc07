//! The statements of a mapping table, in each dialect, and the order in which they take locks.
//!
//! A statement binds a list as one parameter (an array's text on PostgreSQL, JSON on MySQL, bytes and JSON on SQLite), so its text is
//! the same for lists of every length: `Shared` builds it once, and the server prepares it once. Only lists that MySQL inserts are
//! literals, as consecutive integers need `VALUES`.
//!
//! # Locks
//!
//! - PostgreSQL, hashed index: advisory locks of the transaction. One is the map's and shared; its key is the first eight bytes of the
//!   SHA-256 of `opaque-id ` and the table's name without its schema. One per hash has the first four of these bytes as its class. For
//!   more than `MAX_HASH_LOCKS` UUIDs, only the map's is taken, exclusively. A snapshot from before the lock would not show the rows
//!   of the lock's last holder, so the lock returns no row above READ COMMITTED, and the call is refused.
//! - MySQL and MariaDB: the row of `opaque_id_slots` whose number is the low 14 bits of the hash. Its rows are locked and never changed.
//!   `GET_LOCK` does not work: it belongs to the session, so it is released before the caller's transaction commits, and a pooled
//!   connection whose call was canceled keeps it.
//! - SQLite: the database's write lock.
//!
//! All calls take their locks in one order, by hash or by slot, so single calls never deadlock with each other
//!  (`every_call_takes_its_locks_in_one_order`). `insert_missing` searches with the locks that
//! `lock` has taken; `lock_and_insert_missing` does both in one request.

use core::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sha2::{Digest, Sha256};
use uuid::Uuid;
use uuid::fmt::Simple;

use super::asked::{Asked, Hashed};
use super::ddl::{self, Index, SLOTS, SLOTS_TABLE};
use crate::call::RETRY_FOR;
use crate::dialect::Dialect;
use crate::statement::{Column, Statement, Texts, Value};

/// The number of hashes that a transaction locks one by one on PostgreSQL, whose lock table has room for this many
/// per connection by default (`max_locks_per_transaction`). For more hashes it locks the map.
const MAX_HASH_LOCKS: usize = 64;

/// The columns of every row that a mapping table returns.
const MAPPING: &[Column] = &[Column::Integer, Column::Uuid];

/// A mapping table, and the texts of its statements.
#[derive(Clone)]
pub(super) struct Table {
    name: &'static str,
    index: Index,
    /// The domain by which a shared table distinguishes this map's rows from others'.
    resource: Option<&'static str>,
    retry_for: Duration,
    shared: Arc<Shared>,
}

/// The shared part of a table's clones.
#[derive(Default)]
struct Shared {
    texts: Texts<Arc<str>, { Text::COUNT }>,
    /// Whether the column of the UUIDs has been checked.
    is_column_checked: AtomicBool,
    /// Whether the server has been found to be no cluster that writes on several nodes.
    is_server_checked: AtomicBool,
}

/// The statements whose text is the same for lists of every length. Each has one text per dialect, which is built once.
#[derive(Clone, Copy)]
enum Text {
    FindOne,
    FindOneLatest,
    Find,
    FindLatest,
    ToExternal,
    InsertOne,
    Insert,
    InsertUnique,
    InsertMissing,
    Lock,
    LockMap,
    Delete,
    CheckColumn,
    CheckServer,
}

impl Text {
    const COUNT: usize = Self::CheckServer as usize + 1;
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
    /// # Panics
    /// Unless the name is valid: `a-z`, `0-9` and `_`, not starting with a digit, optionally after a schema and a dot.
    #[track_caller]
    pub(super) fn new(name: &'static str, index: Index) -> Self {
        if let Err(error) = ddl::check_name(name) {
            panic!("{error}");
        }
        Self { name, index, resource: None, retry_for: RETRY_FOR, shared: Arc::default() }
    }

    pub(super) fn with_retry_for(self, retry_for: Duration) -> Self {
        Self { retry_for, ..self }
    }

    pub(super) fn retry_for(&self) -> Duration {
        self.retry_for
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

    /// Returns the statement that finds the rows of the given UUIDs.
    pub(super) fn find(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        match (dialect, &**uuids) {
            (Dialect::MySql, [_]) => Statement::new(
                self.text(dialect, Text::FindOne, || self.find_one_sql()),
                self.one_value(uuids),
                MAPPING,
            ),
            _ => Statement::new(
                self.text(dialect, Text::Find, || self.find_sql(dialect)),
                self.asked_values(dialect, uuids),
                MAPPING,
            ),
        }
    }

    /// Returns the statement of [`find`](Self::find) that also sees rows that were committed since the transaction
    /// began: MySQL's default isolation shows these only to locking reads.
    pub(super) fn find_latest(&self, uuids: &Asked) -> Statement {
        const LATEST: &str = " LOCK IN SHARE MODE";
        let dialect = Dialect::MySql;
        let sql = match **uuids {
            [_] => self.text(dialect, Text::FindOneLatest, || self.find_one_sql() + LATEST),
            _ => self.text(dialect, Text::FindLatest, || self.find_sql(dialect) + LATEST),
        };
        Statement { sql, ..self.find(dialect, uuids) }
    }

    /// Returns the text without `JSON_TABLE`, which takes longer than the search.
    fn find_one_sql(&self) -> String {
        let (name, index) = (self.name, self.index_hint(Dialect::MySql));
        let hash = match self.index {
            Index::Unique => "",
            Index::Hashed => "m.hash = ? AND ",
        };
        let of_resource = self.of_resource();
        format!("SELECT m.id, m.uuid FROM {name} AS m{index} WHERE {hash}m.uuid = ?{of_resource}")
    }

    fn find_sql(&self, dialect: Dialect) -> String {
        format!("SELECT m.id, m.uuid FROM {}", self.found(dialect))
    }

    /// Returns the relation of the rows `m` of the UUIDs in `asked`.
    fn found(&self, dialect: Dialect) -> String {
        let (name, asked, on) = (self.name, self.asked(dialect), self.is_asked());
        match dialect {
            Dialect::Postgres => format!("{asked} CROSS JOIN {}", self.lateral()),
            Dialect::MySql => {
                let index = self.index_hint(dialect);
                format!("{asked} STRAIGHT_JOIN {name} AS m{index} ON {on}")
            }
            Dialect::Sqlite => format!("{asked} CROSS JOIN {name} AS m ON {on}"),
        }
    }

    /// Returns the relation of the row `m` of each UUID in `asked`, by the index: for a plain join PostgreSQL would read
    /// the whole table until it has statistics.
    fn lateral(&self) -> String {
        let (name, on) = (self.name, self.is_asked());
        format!("LATERAL (SELECT m.id, m.uuid FROM {name} AS m WHERE {on} LIMIT 1) AS m")
    }

    pub(super) fn to_external(&self, dialect: Dialect, ids: &[i64]) -> Statement {
        let sql = || {
            let name = self.name;
            let asked = match dialect {
                Dialect::Postgres => "unnest(CAST(CAST($1 AS text) AS int8[])) AS asked (id) JOIN",
                Dialect::MySql => {
                    "JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS asked STRAIGHT_JOIN"
                }
                Dialect::Sqlite => "(SELECT value AS id FROM json_each(?1)) AS asked CROSS JOIN",
            };
            let of_resource = self.of_resource();
            format!("SELECT m.id, m.uuid FROM {asked} {name} AS m ON m.id = asked.id{of_resource}")
        };
        Statement::new(
            self.text(dialect, Text::ToExternal, sql),
            vec![Value::Text(list(dialect, ids))],
            MAPPING,
        )
    }

    /// Inserts a row for each UUID, which nobody else has.
    pub(super) fn insert(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        match dialect {
            Dialect::MySql => self.insert_values(uuids),
            _ => self.insert_select(dialect, Text::Insert, uuids),
        }
    }

    /// Inserts a row for each UUID that a unique index does not have. On MySQL it fails if the index has one of them.
    pub(super) fn insert_unique(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        match dialect {
            Dialect::MySql => self.insert_values(uuids),
            _ => self.insert_select(dialect, Text::InsertUnique, uuids),
        }
    }

    fn insert_select(&self, dialect: Dialect, text: Text, uuids: &Asked) -> Statement {
        let sql = || {
            let (insert, asked) = (self.insert_into(), self.asked(dialect));
            let values = self.values("asked.hash", "asked.uuid");
            let unique = ddl::unique_columns(self.resource.is_some());
            let conflict = match text {
                // SQLite's grammar needs the WHERE.
                Text::InsertUnique => format!("WHERE true ON CONFLICT ({unique}) DO NOTHING "),
                _ => String::new(),
            };
            format!("{insert} SELECT {values} FROM {asked} {conflict}{RETURNING}")
        };
        Statement::new(self.text(dialect, text, sql), self.asked_values(dialect, uuids), MAPPING)
    }

    /// Inserts a list of values: InnoDB gives these consecutive integers, and does not lock its counter for the whole
    /// statement, as it may for `INSERT … SELECT`.
    fn insert_values(&self, uuids: &Asked) -> Statement {
        let insert = self.insert_into();
        let (sql, values) = match **uuids {
            [_] => (
                self.text(Dialect::MySql, Text::InsertOne, || {
                    format!("{insert} VALUES ({})", self.values("?", "?"))
                }),
                self.one_value(uuids),
            ),
            _ => {
                let resource = match self.resource {
                    Some(resource) => format!(", '{resource}'"),
                    None => String::new(),
                };
                let mut sql = format!("{insert} VALUES ");
                for (i, uuid) in self.insertion_order(uuids).enumerate() {
                    sql += if i == 0 { "(" } else { ",(" };
                    if self.index == Index::Hashed {
                        sql += &format!("{}, ", uuids.hashed()[i].0);
                    }
                    sql += "0x";
                    sql += uuid.simple().encode_lower(&mut [0; Simple::LENGTH]);
                    sql += &resource;
                    sql.push(')');
                }
                (Arc::from(sql), Vec::new())
            }
        };
        Statement::new(sql, values, &[])
    }

    /// Returns the UUIDs in the order in which [`insert`](Self::insert) inserts them.
    pub(super) fn insertion_order<'a>(
        &self,
        uuids: &'a Asked,
    ) -> impl Iterator<Item = Uuid> + use<'a> {
        let (plain, hashed) = match self.index {
            Index::Unique => (&**uuids, &[][..]),
            Index::Hashed => (&[][..], uuids.hashed()),
        };
        let hashed = hashed.iter().map(|(_, uuid)| *uuid);
        plain.iter().copied().chain(hashed)
    }

    /// Inserts a row for each UUID that has none, for a hashed index. In a transaction a [`lock`](Self::lock) precedes
    /// it.
    pub(super) fn insert_missing(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        let asked = self.asked(dialect);
        let sql = || match dialect {
            Dialect::MySql => self.insert_missing_sql(dialect, asked, ""),
            _ => format!("{} {RETURNING}", self.insert_missing_sql(dialect, asked, "")),
        };
        let columns = match dialect {
            Dialect::MySql => &[],
            Dialect::Postgres | Dialect::Sqlite => MAPPING,
        };
        Statement::new(
            self.text(dialect, Text::InsertMissing, sql),
            self.asked_values(dialect, uuids),
            columns,
        )
    }

    /// Takes the [`lock`](Self::lock) and does [`insert_missing`](Self::insert_missing), in a single request whose
    /// transaction ends with it, whatever becomes of the caller. It consists of several statements, which cannot be
    /// prepared.
    pub(super) fn lock_and_insert_missing(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        // For the transaction of the next statement on MySQL, and for that of the request on PostgreSQL.
        const READ_COMMITTED: &str = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED";
        let sql = match dialect {
            Dialect::MySql => {
                // The limit keeps the server from merging the list into the statement: all locks are taken before the
                // first row is inserted.
                let locked = format!(
                    "(SELECT asked.hash, asked.uuid FROM {asked} {slots} LIMIT 18446744073709551615 FOR UPDATE) AS asked",
                    asked = self.asked(dialect),
                    slots = slots_of_asked(),
                );
                let insert = Statement::new(
                    self.insert_missing_sql(dialect, &locked, " LOCK IN SHARE MODE"),
                    self.asked_values(dialect, uuids),
                    &[],
                );
                format!("{READ_COMMITTED}; {}", insert.inlined())
            }
            _ => {
                let lock = self.lock(dialect, uuids).inlined();
                let insert = self.insert_missing(dialect, uuids).inlined();
                format!("{READ_COMMITTED}; {lock}; {insert}")
            }
        };
        Statement::batch(sql)
    }

    fn insert_missing_sql(&self, dialect: Dialect, asked: &str, locking: &str) -> String {
        let (name, insert) = (self.name, self.insert_into());
        let values = self.values("asked.hash", "asked.uuid");
        match dialect {
            Dialect::Postgres => {
                let found = self.lateral();
                format!(
                    "{insert} SELECT {values} FROM {asked} LEFT JOIN {found} ON true WHERE m.id IS NULL"
                )
            }
            Dialect::MySql | Dialect::Sqlite => {
                let (index, on) = (self.index_hint(dialect), self.is_asked());
                format!(
                    "{insert} SELECT {values} FROM {asked} WHERE NOT EXISTS (SELECT 1 FROM {name} AS m{index} WHERE {on}{locking})"
                )
            }
        }
    }

    /// Returns the statement that keeps others from inserting the same UUIDs until the transaction ends. On PostgreSQL
    /// it returns no rows if the transaction cannot be used for it. On MySQL it returns one row per UUID.
    pub(super) fn lock(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        let (text, values) = match dialect {
            Dialect::Postgres if uuids.len() > MAX_HASH_LOCKS => (Text::LockMap, Vec::new()),
            _ => (Text::Lock, hashed_values(dialect, uuids.hashed())),
        };
        Statement::new(
            self.text(dialect, text, || self.lock_sql(dialect, text)),
            values,
            &[Column::Integer],
        )
    }

    fn lock_sql(&self, dialect: Dialect, text: Text) -> String {
        let asked = hashed_relation(dialect);
        if dialect == Dialect::MySql {
            let slots = slots_of_asked();
            return format!("SELECT slots.slot FROM {asked} {slots} FOR UPDATE");
        }
        let lock = lock_key(self.name);
        // A snapshot from before the lock would not show what its last holder has inserted.
        let usable =
            "current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')";
        match text {
            Text::LockMap => format!(
                "SELECT CAST(1 AS int8) FROM (SELECT pg_advisory_xact_lock({lock})) AS locked WHERE {usable}"
            ),
            _ => {
                let class = lock >> 32;
                format!(
                    "SELECT CAST(1 AS int8) FROM (SELECT pg_advisory_xact_lock_shared({lock})) AS map, \
                     (SELECT pg_advisory_xact_lock({class}, hashes.hash) FROM \
                     (SELECT DISTINCT asked.hash FROM {asked} ORDER BY asked.hash) AS hashes) AS locked \
                     WHERE {usable}"
                )
            }
        }
    }

    /// Returns whether a statement must [check the column](Self::check_column). A clone may note at any time that it has.
    pub(super) fn is_column_to_check(&self, dialect: Dialect) -> bool {
        dialect == Dialect::MySql && !self.shared.is_column_checked.load(Ordering::Relaxed)
    }

    /// Returns the statement that finds the type of the UUIDs' column if it is another than the one of
    /// [`create_sql`](Self::create_sql). With another, MySQL compares and finds nothing.
    pub(super) fn check_column(&self, dialect: Dialect) -> Statement {
        let sql = || {
            let (schema, table) = match self.name.split_once('.') {
                Some((schema, table)) => (format!("'{schema}'"), table),
                None => ("DATABASE()".to_owned(), self.name),
            };
            format!(
                "SELECT COLUMN_TYPE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = {schema} AND \
                 TABLE_NAME = '{table}' AND COLUMN_NAME = 'uuid' AND COLUMN_TYPE <> 'binary(16)' AND \
                 NOT (DATA_TYPE = 'varbinary' AND CHARACTER_MAXIMUM_LENGTH >= 16)"
            )
        };
        Statement::new(self.text(dialect, Text::CheckColumn, sql), Vec::new(), &[Column::Text])
    }

    pub(super) fn column_is_checked(&self) {
        self.shared.is_column_checked.store(true, Ordering::Relaxed);
    }

    /// Returns whether a statement must [check the server](Self::check_server). A clone may note at any time that it has.
    pub(super) fn is_server_to_check(&self, dialect: Dialect) -> bool {
        self.index == Index::Hashed
            && dialect == Dialect::MySql
            && !self.shared.is_server_checked.load(Ordering::Relaxed)
    }

    /// Returns the statement that returns rows if the server belongs to a cluster that writes on several nodes, whose
    /// locks the other nodes do not see.
    pub(super) fn check_server(&self, dialect: Dialect) -> Statement {
        let sql = || {
            "SHOW GLOBAL VARIABLES WHERE (Variable_name = 'wsrep_on' AND Value = 'ON') OR \
             (Variable_name = 'group_replication_single_primary_mode' AND Value = 'OFF')"
                .to_owned()
        };
        Statement::new(
            self.text(dialect, Text::CheckServer, sql),
            Vec::new(),
            &[Column::Text, Column::Text],
        )
    }

    pub(super) fn server_is_checked(&self) {
        self.shared.is_server_checked.store(true, Ordering::Relaxed);
    }

    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn is_hashed(&self) -> bool {
        self.index == Index::Hashed
    }

    pub(super) fn delete(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        let sql = || {
            let (name, found) = (self.name, self.found(dialect));
            match dialect {
                Dialect::MySql => format!("DELETE m FROM {found}"),
                Dialect::Postgres | Dialect::Sqlite => {
                    format!("DELETE FROM {name} WHERE id IN (SELECT m.id FROM {found})")
                }
            }
        };
        Statement::new(
            self.text(dialect, Text::Delete, sql),
            self.asked_values(dialect, uuids),
            &[],
        )
    }

    fn text(&self, dialect: Dialect, text: Text, sql: impl FnOnce() -> String) -> Arc<str> {
        let build = || sql().into();
        Arc::clone(self.shared.texts.get(dialect, text as usize, build))
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

    /// Returns the values of the columns of [`insert_into`](Self::insert_into).
    fn values(&self, hash: &str, uuid: &str) -> String {
        let mut values = match self.index {
            Index::Unique => uuid.to_owned(),
            Index::Hashed => format!("{hash}, {uuid}"),
        };
        if let Some(resource) = self.resource {
            values += &format!(", '{resource}'");
        }
        values
    }

    /// Returns the values of the only UUID, where the others are lists.
    fn one_value(&self, uuids: &Asked) -> Vec<Value> {
        match self.index {
            Index::Unique => vec![Value::Bytes(uuids[0].as_bytes().to_vec())],
            Index::Hashed => {
                let (hash, uuid) = uuids.hashed()[0];
                vec![Value::Integer(hash.into()), Value::Bytes(uuid.as_bytes().to_vec())]
            }
        }
    }

    /// Returns the relation `asked` of the values that [`asked_values`](Self::asked_values) binds: `(uuid)`, or
    /// `(hash, uuid)` for the hashed index.
    fn asked(&self, dialect: Dialect) -> &'static str {
        match (self.index, dialect) {
            (Index::Hashed, _) => hashed_relation(dialect),
            (Index::Unique, Dialect::Postgres) => {
                "unnest(CAST(CAST($1 AS text) AS uuid[])) AS asked (uuid)"
            }
            (Index::Unique, Dialect::MySql) => {
                "(SELECT UNHEX(listed.hex) AS uuid FROM JSON_TABLE(?, '$[*]' \
                 COLUMNS (hex CHAR(32) PATH '$')) AS listed) AS asked"
            }
            // A JSON array with an element for every 16 bytes.
            (Index::Unique, Dialect::Sqlite) => {
                "(SELECT substr(?1, key * 16 + 1, 16) AS uuid FROM json_each('[0' || \
                 replace(hex(zeroblob(length(?1) / 16 - 1)), '00', ',0') || ']')) AS asked"
            }
        }
    }

    fn asked_values(&self, dialect: Dialect, uuids: &Asked) -> Vec<Value> {
        if self.index == Index::Hashed {
            return hashed_values(dialect, uuids.hashed());
        }
        vec![match dialect {
            Dialect::Postgres => {
                let texts: Vec<String> = uuids.iter().map(Uuid::to_string).collect();
                Value::Text(format!("{{{}}}", texts.join(",")))
            }
            Dialect::MySql => {
                let texts: Vec<String> =
                    uuids.iter().map(|uuid| format!("\"{}\"", uuid.simple())).collect();
                Value::Text(format!("[{}]", texts.join(",")))
            }
            Dialect::Sqlite => {
                Value::Bytes(uuids.iter().flat_map(|uuid| *uuid.as_bytes()).collect())
            }
        }]
    }

    /// Returns the condition that the row `m` is the one of a UUID in `asked`.
    fn is_asked(&self) -> String {
        let of_resource = self.of_resource();
        match self.index {
            Index::Unique => format!("m.uuid = asked.uuid{of_resource}"),
            Index::Hashed => {
                format!("m.hash = asked.hash AND m.uuid = asked.uuid{of_resource}")
            }
        }
    }

    /// Returns a hint, as MariaDB would read the whole table until it has statistics.
    fn index_hint(&self, dialect: Dialect) -> String {
        match (self.index, dialect) {
            (Index::Hashed, Dialect::MySql) => {
                format!(" FORCE INDEX ({})", self.index.name(self.name))
            }
            _ => String::new(),
        }
    }

    fn of_resource(&self) -> String {
        match self.resource {
            Some(resource) => format!(" AND m.resource = '{resource}'"),
            None => String::new(),
        }
    }
}

/// The clause by which an insert returns rows, where it can.
const RETURNING: &str = "RETURNING id, uuid";

/// Returns the join of `asked` with the rows of the table of slots that its inserts lock.
fn slots_of_asked() -> String {
    let mask = SLOTS - 1;
    format!("STRAIGHT_JOIN {SLOTS_TABLE} AS slots ON slots.slot = asked.hash & {mask}")
}

/// Returns the relation `asked (hash, uuid)` of the values that [`hashed_values`] binds.
fn hashed_relation(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Postgres => {
            "unnest(CAST(CAST($1 AS text) AS int4[]), CAST(CAST($2 AS text) AS uuid[])) AS asked (hash, uuid)"
        }
        Dialect::MySql => {
            "(SELECT listed.hash, UNHEX(listed.hex) AS uuid FROM JSON_TABLE(?, '$[*]' \
             COLUMNS (hash INT PATH '$[0]', hex CHAR(32) PATH '$[1]')) AS listed) AS asked"
        }
        Dialect::Sqlite => {
            "(SELECT value AS hash, substr(?2, key * 16 + 1, 16) AS uuid FROM json_each(?1)) AS asked"
        }
    }
}

fn hashed_values(dialect: Dialect, uuids: &[Hashed]) -> Vec<Value> {
    let hashes = || {
        let hashes: Vec<i64> = uuids.iter().map(|(hash, _)| i64::from(*hash)).collect();
        Value::Text(list(dialect, &hashes))
    };
    match dialect {
        Dialect::Postgres => {
            let texts: Vec<String> = uuids.iter().map(|(_, uuid)| uuid.to_string()).collect();
            vec![hashes(), Value::Text(format!("{{{}}}", texts.join(",")))]
        }
        Dialect::MySql => {
            let pairs: Vec<String> = uuids
                .iter()
                .map(|(hash, uuid)| format!("[{hash},\"{}\"]", uuid.simple()))
                .collect();
            vec![Value::Text(format!("[{}]", pairs.join(",")))]
        }
        Dialect::Sqlite => {
            let bytes = uuids.iter().flat_map(|(_, uuid)| *uuid.as_bytes());
            vec![hashes(), Value::Bytes(bytes.collect())]
        }
    }
}

/// Returns an array's text on PostgreSQL, and JSON on the others.
fn list(dialect: Dialect, numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    let numbers = numbers.join(",");
    match dialect {
        Dialect::Postgres => format!("{{{numbers}}}"),
        Dialect::MySql | Dialect::Sqlite => format!("[{numbers}]"),
    }
}

/// Returns the key of a map's advisory lock: the first eight bytes of the SHA-256 of `opaque-id ` and the table's
/// name without its schema, which other code may leave out. The first four of these bytes are the class of the
/// locks of the map's hashes.
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
    fn a_schema_does_not_change_the_lock() {
        assert_eq!(lock_key("shop.order_ids"), lock_key("order_ids"));
        assert_ne!(lock_key("order_ids"), lock_key("invoice_ids"));
    }

    #[test]
    fn a_list_of_any_length_has_one_text_which_is_built_once() {
        let uuids: Vec<_> = (0..100).map(Uuid::from_u128).collect();
        for index in [Index::Unique, Index::Hashed] {
            let table = Table::new("ids", index);
            for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
                let [two, many] = [&uuids[..2], &uuids]
                    .map(|uuids| table.find(dialect, &Asked::new(uuids.to_vec())));
                assert!(Arc::ptr_eq(&two.sql, &many.sql));
            }
        }
    }

    #[test]
    fn the_unique_index_needs_no_hash() {
        let table = Table::new("ids", Index::Unique);
        let uuids = Asked::new(vec![Uuid::nil()]);
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            for statement in [
                table.find(dialect, &uuids),
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
        let all = Asked::new(uuids.clone()).hashed().to_vec();
        uuids.rotate_left(333);
        assert_eq!(all, Asked::new(uuids).hashed());
        let mask = i32::from(SLOTS) - 1;
        assert!(all.is_sorted_by_key(|(hash, _)| (hash & mask).cast_unsigned().reverse_bits()));
    }
}
