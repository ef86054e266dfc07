use core::fmt;
use core::ops::Deref;
use std::sync::{Arc, OnceLock};

use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::ddl::{self, Index, SLOTS, SLOTS_TABLE};
use super::uuid_hash;
use crate::dialect::Dialect;
use crate::statement::{Column, Statement, Value};

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
    texts: Arc<[[OnceLock<Arc<str>>; Text::COUNT]; Dialect::COUNT]>,
}

/// The statements: each has one text per dialect, which is built once.
#[derive(Clone, Copy)]
enum Text {
    Find,
    FindLatest,
    ToExternal,
    Insert,
    InsertMissing,
    InsertMissingInTransaction,
    SetIsolation,
    Lock,
    LockMap,
    Delete,
}

impl Text {
    const COUNT: usize = Self::Delete as usize + 1;
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

/// A UUID after its hash, in the order in which every call takes its locks.
pub(super) type Hashed = (i32, Uuid);

/// The UUIDs that a call is about, each once, in order.
#[derive(Clone)]
pub(super) struct Asked {
    uuids: Vec<Uuid>,
    /// Computed when a statement first needs it, and once for all statements of the call.
    hashed: OnceLock<Vec<Hashed>>,
}

impl Asked {
    pub(super) fn new(mut uuids: Vec<Uuid>) -> Self {
        uuids.sort_unstable();
        uuids.dedup();
        Self {
            uuids,
            hashed: OnceLock::new(),
        }
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&Uuid) -> bool) {
        self.uuids.retain(&is_kept);
        if let Some(hashed) = self.hashed.get_mut() {
            hashed.retain(|(_, uuid)| is_kept(uuid));
        }
    }

    /// Returns the UUIDs with their hashes, ordered by slot, which is the low bits.
    fn hashed(&self) -> &[Hashed] {
        self.hashed.get_or_init(|| {
            let hashes = self.uuids.iter().map(|uuid| (uuid_hash(*uuid), *uuid));
            let mut hashed: Vec<_> = hashes.collect();
            hashed
                .sort_unstable_by_key(|(hash, uuid)| (hash.cast_unsigned().reverse_bits(), *uuid));
            hashed
        })
    }
}

impl Deref for Asked {
    type Target = [Uuid];

    fn deref(&self) -> &[Uuid] {
        &self.uuids
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
        Self {
            name,
            index,
            resource: None,
            texts: Arc::default(),
        }
    }

    #[track_caller]
    pub(super) fn shared(self, domain: &'static str) -> Self {
        ddl::check_domain(domain);
        Self {
            resource: Some(domain),
            texts: Arc::default(),
            ..self
        }
    }

    pub(super) fn create_sql(&self, dialect: Dialect) -> String {
        ddl::create_sql(dialect, self.name, self.index, self.resource.is_some())
            .expect("the name is checked")
    }

    pub(super) fn drop_sql(&self) -> String {
        ddl::drop_sql(self.name).expect("the name is checked")
    }

    /// Returns the statement that finds the rows of the given UUIDs.
    pub(super) fn find(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        Statement {
            sql: self.text(dialect, Text::Find, || self.find_sql(dialect)),
            values: self.asked_values(dialect, uuids),
            columns: MAPPING,
        }
    }

    /// Returns the statement of [`find`](Self::find) that also sees rows that were committed since the transaction
    /// began: MySQL's default isolation shows these only to locking reads.
    pub(super) fn find_latest(&self, uuids: &Asked) -> Statement {
        let dialect = Dialect::MySql;
        Statement {
            sql: self.text(dialect, Text::FindLatest, || {
                self.find_sql(dialect) + " LOCK IN SHARE MODE"
            }),
            values: self.asked_values(dialect, uuids),
            columns: MAPPING,
        }
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
        Statement {
            sql: self.text(dialect, Text::ToExternal, sql),
            values: vec![Value::Text(list(dialect, ids))],
            columns: MAPPING,
        }
    }

    /// Inserts UUIDs that no other transaction can have.
    pub(super) fn insert(&self, dialect: Dialect, uuids: &Asked) -> Statement {
        let sql = || {
            let (insert, asked) = (self.insert_into(), self.asked(dialect));
            format!("{insert} FROM {asked}")
        };
        self.inserting(dialect, Text::Insert, sql, uuids)
    }

    /// Inserts UUIDs that others may be inserting too: a row for each that has none. If a [`lock`](Self::lock) is
    /// needed, it precedes the statement in the same transaction.
    pub(super) fn insert_missing(
        &self,
        dialect: Dialect,
        uuids: &Asked,
        is_in_transaction: bool,
    ) -> Statement {
        let text = match is_in_transaction {
            true => Text::InsertMissingInTransaction,
            false => Text::InsertMissing,
        };
        let sql = || self.insert_missing_sql(dialect, is_in_transaction);
        self.inserting(dialect, text, sql, uuids)
    }

    fn insert_missing_sql(&self, dialect: Dialect, is_in_transaction: bool) -> String {
        let (name, insert, asked) = (self.name, self.insert_into(), self.asked(dialect));
        match (self.index, dialect) {
            (Index::Unique, Dialect::Postgres | Dialect::Sqlite) => {
                let unique = ddl::unique_columns(self.resource.is_some());
                // SQLite's grammar needs the WHERE.
                format!("{insert} FROM {asked} WHERE true ON CONFLICT ({unique}) DO NOTHING")
            }
            // The caller's snapshot may be old, and to read what is newer would lock gaps of the index.
            (Index::Unique, Dialect::MySql) if is_in_transaction => {
                format!("{insert} FROM {asked} ON DUPLICATE KEY UPDATE id = {name}.id")
            }
            (_, Dialect::Postgres) => {
                let found = self.lateral();
                format!("{insert} FROM {asked} LEFT JOIN {found} ON true WHERE m.id IS NULL")
            }
            (_, Dialect::MySql | Dialect::Sqlite) => {
                let (index, on) = (self.index_hint(dialect), self.is_asked());
                format!(
                    "{insert} FROM {asked} WHERE NOT EXISTS (SELECT 1 FROM {name} AS m{index} WHERE {on})"
                )
            }
        }
    }

    /// Returns the statement that sets a transaction to READ COMMITTED.
    pub(super) fn set_isolation(&self, dialect: Dialect) -> Statement {
        Statement {
            sql: self.text(dialect, Text::SetIsolation, || {
                "SET TRANSACTION ISOLATION LEVEL READ COMMITTED".to_owned()
            }),
            values: Vec::new(),
            columns: &[],
        }
    }

    /// Returns the statement that keeps others from inserting the same UUIDs until the transaction ends, or `None` if
    /// the insert itself locks. On PostgreSQL it returns no rows if the transaction cannot be used for it. On MySQL it
    /// returns one row per UUID.
    pub(super) fn lock(&self, dialect: Dialect, uuids: &Asked) -> Option<Statement> {
        // An insert on SQLite holds the one write lock that there is.
        let (text, values) = match (dialect, self.index) {
            (Dialect::Sqlite, _) | (Dialect::Postgres, Index::Unique) => return None,
            (Dialect::Postgres, Index::Hashed) if uuids.len() > MAX_HASH_LOCKS => {
                (Text::LockMap, Vec::new())
            }
            _ => (Text::Lock, hashed_values(dialect, uuids.hashed())),
        };
        Some(Statement {
            sql: self.text(dialect, text, || self.lock_sql(dialect, text)),
            values,
            columns: &[Column::Integer],
        })
    }

    fn lock_sql(&self, dialect: Dialect, text: Text) -> String {
        let asked = hashed_relation(dialect);
        if dialect == Dialect::MySql {
            // Also for a unique index: as soon as an uncommitted UUID is rolled back, InnoDB would find
            // those deadlocked who have waited for it in the index, if they are more than one.
            return format!(
                "SELECT slots.slot FROM {asked} STRAIGHT_JOIN {SLOTS_TABLE} AS slots \
                 ON slots.slot = asked.hash & {mask} FOR UPDATE",
                mask = SLOTS - 1,
            );
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
        Statement {
            sql: self.text(dialect, Text::Delete, sql),
            values: self.asked_values(dialect, uuids),
            columns: &[],
        }
    }

    fn text(&self, dialect: Dialect, text: Text, sql: impl FnOnce() -> String) -> Arc<str> {
        let place = &self.texts[dialect as usize][text as usize];
        Arc::clone(place.get_or_init(|| sql().into()))
    }

    fn inserting(
        &self,
        dialect: Dialect,
        text: Text,
        sql: impl FnOnce() -> String,
        uuids: &Asked,
    ) -> Statement {
        let (returning, columns) = match dialect {
            Dialect::Postgres | Dialect::Sqlite => (" RETURNING id, uuid", MAPPING),
            Dialect::MySql => ("", &[][..]),
        };
        Statement {
            sql: self.text(dialect, text, || sql() + returning),
            values: self.asked_values(dialect, uuids),
            columns,
        }
    }

    /// Returns the `INSERT INTO … SELECT …` of the UUIDs in `asked`.
    fn insert_into(&self) -> String {
        let name = self.name;
        let (mut columns, mut values) = match self.index {
            Index::Unique => ("uuid".to_owned(), "asked.uuid".to_owned()),
            Index::Hashed => ("hash, uuid".to_owned(), "asked.hash, asked.uuid".to_owned()),
        };
        if let Some(resource) = self.resource {
            columns += ", resource";
            values += &format!(", '{resource}'");
        }
        format!("INSERT INTO {name} ({columns}) SELECT {values}")
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
                let texts: Vec<String> = uuids
                    .iter()
                    .map(|uuid| format!("\"{}\"", uuid.simple()))
                    .collect();
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
    let digest = Sha256::new()
        .chain_update("opaque-id ")
        .chain_update(name)
        .finalize();
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
                let [one, many] = [&uuids[..1], &uuids]
                    .map(|uuids| table.find(dialect, &Asked::new(uuids.to_vec())));
                assert!(Arc::ptr_eq(&one.sql, &many.sql));
            }
        }
    }

    #[test]
    fn the_unique_index_needs_a_hash_only_for_a_slot() {
        let table = Table::new("ids", Index::Unique);
        let uuids = Asked::new(vec![Uuid::nil()]);
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            for statement in [
                table.find(dialect, &uuids),
                table.insert(dialect, &uuids),
                table.insert_missing(dialect, &uuids, false),
                table.delete(dialect, &uuids),
            ] {
                assert!(!statement.sql.contains("hash"), "{}", statement.sql);
                assert_eq!(statement.values.len(), 1);
            }
            let lock = table.lock(dialect, &uuids);
            assert_eq!(lock.is_some(), dialect == Dialect::MySql);
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
