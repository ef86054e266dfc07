use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::work::{Statement, Value};

/// How a mapping table finds a UUID.
///
/// ```
/// use opaque_id_core::Plan;
///
/// assert_eq!(Plan::Unique.to_string(), "unique");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Plan {
    /// A unique index over the UUID.
    Unique,
    /// An index over a 32-bit hash of the UUID, which is compared after it.
    Hashed,
}

impl core::fmt::Display for Plan {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(match self {
            Self::Unique => "unique",
            Self::Hashed => "hashed",
        })
    }
}

/// The SQL that a database speaks.
///
/// ```
/// use opaque_id_core::Dialect;
///
/// assert_ne!(Dialect::Postgres, Dialect::Sqlite);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dialect {
    /// PostgreSQL.
    Postgres,
    /// MySQL and MariaDB.
    MySql,
    /// SQLite.
    Sqlite,
}

impl Dialect {
    /// Whether an error's code says that another transaction is in the way: a SQLSTATE on PostgreSQL, the
    /// error's number on MySQL and MariaDB, the extended result code on SQLite.
    #[doc(hidden)]
    #[must_use]
    pub fn is_conflict(self, code: &str) -> bool {
        match self {
            // serialization_failure, deadlock_detected, lock_not_available
            Self::Postgres => matches!(code, "40001" | "40P01" | "55P03"),
            // ER_LOCK_DEADLOCK, ER_LOCK_WAIT_TIMEOUT; MariaDB's ER_CHECKREAD (a row is newer than the
            // snapshot) and ER_AUTOINC_READ_FAILED (a deadlock for the counter)
            Self::MySql => matches!(code, "1213" | "1205" | "1020" | "1467"),
            // SQLITE_BUSY, SQLITE_LOCKED and what extends them
            Self::Sqlite => matches!(code.parse::<u32>(), Ok(code) if matches!(code & 0xff, 5 | 6)),
        }
    }
}

/// On MySQL and MariaDB inserts lock the rows of this table, of which there are `SLOTS`.
const SLOTS_TABLE: &str = "opaque_id_slots";
const SLOTS: u16 = 1 << 14;

/// How many hashes a transaction locks one by one on PostgreSQL, whose lock table has room for as many
/// in each connection by default (`max_locks_per_transaction`); for more it locks the map.
const MAX_HASH_LOCKS: usize = 64;

/// A mapping table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    name: &'static str,
    plan: Plan,
    /// What a shared table tells this map's rows from others' by.
    resource: Option<&'static str>,
}

impl Table {
    /// # Panics
    /// Unless the name is of lower-case letters, digits and `_`, after a schema and a dot if wanted.
    #[track_caller]
    pub(super) fn new(name: &'static str, plan: Plan) -> Self {
        assert!(
            name.split('.').count() <= 2 && name.split('.').all(is_identifier),
            "a mapping table's name has only a-z, 0-9 and _, and starts with a letter or _: {name:?}"
        );
        Self {
            name,
            plan,
            resource: None,
        }
    }

    pub(super) fn shared(self, domain: &'static str) -> Self {
        assert!(
            crate::resource::is_prefix(domain),
            "in a shared mapping table a domain has 1 to 63 of a-z, 0-9 and _, starts with a letter and does not end with _"
        );
        Self {
            resource: Some(domain),
            ..self
        }
    }

    /// The statements of a migration that creates the table.
    pub(super) fn create_sql(&self, dialect: Dialect) -> String {
        let name = self.name;
        let (id, uuid, hash) = match dialect {
            Dialect::Postgres => (
                "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
                "UUID",
                "INTEGER",
            ),
            Dialect::MySql => (
                "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY",
                "BINARY(16)",
                "INT",
            ),
            // AUTOINCREMENT: the integer of a forgotten UUID is never given to another one.
            Dialect::Sqlite => ("INTEGER PRIMARY KEY AUTOINCREMENT", "BLOB", "INTEGER"),
        };
        let resource = match dialect {
            _ if self.resource.is_none() => "",
            Dialect::Postgres | Dialect::Sqlite => "    resource VARCHAR(63) NOT NULL,\n",
            Dialect::MySql => {
                "    resource VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n"
            }
        };
        let check = match dialect {
            Dialect::Sqlite => " CHECK (length(uuid) = 16)",
            Dialect::Postgres | Dialect::MySql => "",
        };
        // On SQLite the schema stands before the index's name, not before the table's.
        let (index, on) = match (dialect, name.split_once('.')) {
            (Dialect::Sqlite, Some((_, table))) => (format!("{name}_{}", self.indexed()), table),
            _ => (self.index(), name),
        };
        let (hash, index) = match self.plan {
            Plan::Unique => (
                String::new(),
                format!("CREATE UNIQUE INDEX {index} ON {on} ({});\n", self.unique()),
            ),
            Plan::Hashed => (
                format!("    hash {hash} NOT NULL,\n"),
                format!("CREATE INDEX {index} ON {on} (hash);\n"),
            ),
        };
        let slots = match dialect {
            Dialect::MySql => create_slots(),
            Dialect::Postgres | Dialect::Sqlite => String::new(),
        };
        format!(
            "CREATE TABLE {name} (\n    id {id},\n{resource}{hash}    uuid {uuid} NOT NULL{check}\n);\n{index}{slots}"
        )
    }

    /// The statement of a migration that drops the table. The slots stay: other maps may use them.
    pub(super) fn drop_sql(&self) -> String {
        format!("DROP TABLE {};\n", self.name)
    }

    /// What is stored under the given UUIDs.
    pub(super) fn find(&self, dialect: Dialect, uuids: &[(i32, Uuid)]) -> Statement {
        let found = self.found(dialect);
        Statement::rows(
            format!("SELECT m.id, m.uuid FROM {found}"),
            list_of_uuids(dialect, uuids),
        )
    }

    /// The rows `m` of what is asked.
    fn found(&self, dialect: Dialect) -> String {
        let (name, asked, on) = (self.name, asked_uuids(dialect), self.is_asked());
        match dialect {
            Dialect::Postgres => format!("{asked} CROSS JOIN {}", self.lateral()),
            Dialect::MySql => {
                let index = self.index_hint(dialect);
                format!("{asked} STRAIGHT_JOIN {name} AS m{index} ON {on}")
            }
            Dialect::Sqlite => format!("{asked} CROSS JOIN {name} AS m ON {on}"),
        }
    }

    /// The row `m` of each that is asked, by the index: of a mere join PostgreSQL would read all of a table
    /// that it has no statistics of yet.
    fn lateral(&self) -> String {
        let (name, on) = (self.name, self.is_asked());
        format!("LATERAL (SELECT m.id, m.uuid FROM {name} AS m WHERE {on} LIMIT 1) AS m")
    }

    /// As [`find`](Self::find), with what was committed since the transaction began: MySQL's default
    /// isolation shows that to locking reads only.
    pub(super) fn find_latest(&self, uuids: &[(i32, Uuid)]) -> Statement {
        let mut statement = self.find(Dialect::MySql, uuids);
        statement.sql += " LOCK IN SHARE MODE";
        statement
    }

    pub(super) fn external_of(&self, dialect: Dialect, ids: &[i64]) -> Statement {
        let name = self.name;
        let asked = match dialect {
            Dialect::Postgres => "unnest(CAST(CAST($1 AS text) AS int8[])) AS asked (id) JOIN",
            Dialect::MySql => {
                "JSON_TABLE(?, '$[*]' COLUMNS (id BIGINT PATH '$')) AS asked STRAIGHT_JOIN"
            }
            Dialect::Sqlite => "(SELECT value AS id FROM json_each(?1)) AS asked CROSS JOIN",
        };
        let of_resource = self.of_resource();
        Statement::rows(
            format!("SELECT m.id, m.uuid FROM {asked} {name} AS m ON m.id = asked.id{of_resource}"),
            vec![Value::Text(list(dialect, ids))],
        )
    }

    /// For UUIDs that no other transaction can have.
    pub(super) fn insert(&self, dialect: Dialect, uuids: &[(i32, Uuid)]) -> Statement {
        let (insert, asked) = (self.insert_into(), asked_uuids(dialect));
        self.inserting(dialect, format!("{insert} FROM {asked}"), uuids)
    }

    /// For UUIDs that others may be inserting: a row for each that has none. If there is a
    /// [`lock`](Self::lock), it comes before it, in the same transaction.
    pub(super) fn insert_missing(
        &self,
        dialect: Dialect,
        uuids: &[(i32, Uuid)],
        is_in_transaction: bool,
    ) -> Statement {
        let (name, insert, asked) = (self.name, self.insert_into(), asked_uuids(dialect));
        let sql = match (self.plan, dialect) {
            (Plan::Unique, Dialect::Postgres | Dialect::Sqlite) => {
                let unique = self.unique();
                // SQLite's grammar needs the WHERE.
                format!("{insert} FROM {asked} WHERE true ON CONFLICT ({unique}) DO NOTHING")
            }
            // The caller's snapshot may be old, and to read what is newer would lock gaps of the index.
            (Plan::Unique, Dialect::MySql) if is_in_transaction => {
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
        };
        self.inserting(dialect, sql, uuids)
    }

    /// Keeps others from inserting the same UUIDs until the transaction ends. `None`: the insert locks by
    /// itself. No rows on PostgreSQL: the transaction can't be used for it. On MySQL a row for each UUID.
    pub(super) fn lock(&self, dialect: Dialect, uuids: &[(i32, Uuid)]) -> Option<Statement> {
        let asked = asked_uuids(dialect);
        let (sql, values) = match dialect {
            // An insert holds the one write lock that there is.
            Dialect::Sqlite => return None,
            Dialect::Postgres if self.plan == Plan::Unique => return None,
            // Also for a unique index: as soon as an uncommitted UUID is rolled back, InnoDB would find
            // those deadlocked who have waited for it in the index, if they are more than one.
            Dialect::MySql => (
                format!(
                    "SELECT slots.slot AS id, asked.uuid FROM {asked} STRAIGHT_JOIN {SLOTS_TABLE} AS slots \
                     ON slots.slot = asked.hash & {mask} FOR UPDATE",
                    mask = SLOTS - 1,
                ),
                list_of_uuids(dialect, uuids),
            ),
            Dialect::Postgres => {
                let lock = lock_key(self.name);
                // A snapshot from before the lock would not show what its last holder has inserted.
                let select = "SELECT CAST(1 AS int8) AS id, CAST('00000000-0000-0000-0000-000000000000' AS uuid) AS uuid";
                let usable = "current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')";
                if uuids.len() > MAX_HASH_LOCKS {
                    (
                        format!(
                            "{select} FROM (SELECT pg_advisory_xact_lock({lock})) AS locked WHERE {usable}"
                        ),
                        Vec::new(),
                    )
                } else {
                    let class = lock >> 32;
                    (
                        format!(
                            "{select} FROM (SELECT pg_advisory_xact_lock_shared({lock})) AS map, \
                             (SELECT pg_advisory_xact_lock({class}, hashes.hash) FROM \
                             (SELECT DISTINCT asked.hash FROM {asked} ORDER BY asked.hash) AS hashes) AS locked \
                             WHERE {usable}"
                        ),
                        list_of_uuids(dialect, uuids),
                    )
                }
            }
        };
        Some(Statement::rows(sql, values))
    }

    pub(super) fn delete(&self, dialect: Dialect, uuids: &[(i32, Uuid)]) -> Statement {
        let (name, found) = (self.name, self.found(dialect));
        let sql = match dialect {
            Dialect::MySql => format!("DELETE m FROM {found}"),
            Dialect::Postgres | Dialect::Sqlite => {
                format!("DELETE FROM {name} WHERE id IN (SELECT m.id FROM {found})")
            }
        };
        Statement::count(sql, list_of_uuids(dialect, uuids))
    }

    fn inserting(&self, dialect: Dialect, sql: String, uuids: &[(i32, Uuid)]) -> Statement {
        let values = list_of_uuids(dialect, uuids);
        match dialect {
            Dialect::Postgres | Dialect::Sqlite => {
                Statement::rows(sql + " RETURNING id, uuid", values)
            }
            Dialect::MySql => Statement::count(sql, values),
        }
    }

    /// `INSERT INTO … SELECT …` of what is asked.
    fn insert_into(&self) -> String {
        let name = self.name;
        let (mut columns, mut values) = match self.plan {
            Plan::Unique => ("uuid".to_owned(), "asked.uuid".to_owned()),
            Plan::Hashed => ("hash, uuid".to_owned(), "asked.hash, asked.uuid".to_owned()),
        };
        if let Some(resource) = self.resource {
            columns += ", resource";
            values += &format!(", '{resource}'");
        }
        format!("INSERT INTO {name} ({columns}) SELECT {values}")
    }

    /// The condition that the row `m` is the one of a UUID that is asked.
    fn is_asked(&self) -> String {
        let of_resource = self.of_resource();
        match self.plan {
            Plan::Unique => format!("m.uuid = asked.uuid{of_resource}"),
            Plan::Hashed => {
                format!("m.hash = asked.hash AND m.uuid = asked.uuid{of_resource}")
            }
        }
    }

    /// What the index begins with.
    fn indexed(&self) -> &'static str {
        match self.plan {
            Plan::Unique => "uuid",
            Plan::Hashed => "hash",
        }
    }

    /// The index's name.
    fn index(&self) -> String {
        format!("{}_{}", self.name.replace('.', "_"), self.indexed())
    }

    /// The columns of the unique index.
    fn unique(&self) -> &'static str {
        match self.resource {
            Some(_) => "uuid, resource",
            None => "uuid",
        }
    }

    /// MariaDB would read all of a table that it has no statistics of yet.
    fn index_hint(&self, dialect: Dialect) -> String {
        match (self.plan, dialect) {
            (Plan::Hashed, Dialect::MySql) => {
                format!(" FORCE INDEX ({})", self.index())
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

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name
            .bytes()
            .all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

/// A row for each slot, from products of the digits 0–3 and 0–7.
fn create_slots() -> String {
    let digits = |count: u8| {
        let mut digits = "SELECT 0 AS n".to_owned();
        for n in 1..count {
            digits += &format!(" UNION ALL SELECT {n}");
        }
        digits
    };
    let (four, eight) = (digits(4), digits(8));
    format!(
        "CREATE TABLE IF NOT EXISTS {SLOTS_TABLE} (slot BIGINT NOT NULL PRIMARY KEY);\n\
         INSERT IGNORE INTO {SLOTS_TABLE} (slot)\n\
         SELECT a.n * 4096 + b.n * 512 + c.n * 64 + d.n * 8 + e.n\n\
         FROM ({four}) AS a\n\
         CROSS JOIN ({eight}) AS b\n\
         CROSS JOIN ({eight}) AS c\n\
         CROSS JOIN ({eight}) AS d\n\
         CROSS JOIN ({eight}) AS e;\n"
    )
}

/// The relation `asked (hash, uuid)` of the values that `list_of_uuids` makes.
fn asked_uuids(dialect: Dialect) -> &'static str {
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

fn list_of_uuids(dialect: Dialect, uuids: &[(i32, Uuid)]) -> Vec<Value> {
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

/// An array's text on PostgreSQL, and JSON on the others.
fn list(dialect: Dialect, numbers: &[i64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(i64::to_string).collect();
    let numbers = numbers.join(",");
    match dialect {
        Dialect::Postgres => format!("{{{numbers}}}"),
        Dialect::MySql | Dialect::Sqlite => format!("[{numbers}]"),
    }
}

/// The advisory lock of a map: the first eight bytes of the SHA-256 of `opaque-id` and the table's name,
/// without its schema, which may be left out elsewhere. The locks of its hashes are of the class that the
/// first four of them are.
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

    /// For those who migrate by another tool.
    #[test]
    fn the_sql_files_are_what_maps_create() {
        macro_rules! files {
            ($($dialect:ident: $folder:literal),*) => {
                [$(
                    (
                        Dialect::$dialect,
                        [
                            include_str!(concat!("../../sql/", $folder, "/unique.sql")),
                            include_str!(concat!("../../sql/", $folder, "/unique_shared.sql")),
                            include_str!(concat!("../../sql/", $folder, "/hashed.sql")),
                            include_str!(concat!("../../sql/", $folder, "/hashed_shared.sql")),
                        ],
                    ),
                )*]
            };
        }
        for (dialect, files) in files!(Postgres: "postgres", MySql: "mysql", Sqlite: "sqlite") {
            let unique = Table::new("order_ids", Plan::Unique);
            let hashed = Table::new("order_ids", Plan::Hashed);
            let created = [
                unique,
                unique.shared("order"),
                hashed,
                hashed.shared("order"),
            ]
            .map(|table| table.create_sql(dialect));
            assert_eq!(created, files, "{dialect:?}");
        }
    }

    #[test]
    fn names_are_identifiers() {
        for good in ["ids", "_ids2", "shop.order_ids"] {
            assert_eq!(Table::new(good, Plan::Unique).name, good);
        }
        for bad in [
            "", "Ids", "2ids", "a.b.c", "a b", "ids;", "ü", "a.", "\"a\"",
        ] {
            let made = std::panic::catch_unwind(|| Table::new(bad, Plan::Unique));
            assert!(made.is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_schema_does_not_change_the_lock() {
        assert_eq!(lock_key("shop.order_ids"), lock_key("order_ids"));
        assert_ne!(lock_key("order_ids"), lock_key("invoice_ids"));
    }

    #[test]
    fn a_list_of_any_length_has_one_text() {
        let table = Table::new("ids", Plan::Hashed);
        let uuids: Vec<_> = (0..100).map(|n| (7, Uuid::from_u128(n))).collect();
        for dialect in [Dialect::Postgres, Dialect::MySql, Dialect::Sqlite] {
            let [one, many] = [&uuids[..1], &uuids].map(|uuids| table.find(dialect, uuids));
            assert_eq!(one.sql, many.sql);
        }
    }
}
