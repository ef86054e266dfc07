//! The DDL of mapping tables.
//!
//! Statements contain table and index names as text, so only `a-z`, `0-9` and `_` are valid.

use core::fmt;

use opaque_id_core::__private::is_prefix;
use thiserror::Error;

use crate::dialect::Dialect;

/// The index that a mapping table uses to find a UUID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Index {
    /// A unique index over the UUID.
    Unique,
    /// An index over a 32-bit hash of the UUID. Rows with the same hash are compared by UUID.
    Hashed,
}

impl Index {
    /// The index's name ends with its first column.
    fn first_column(self) -> &'static str {
        match self {
            Self::Unique => "uuid",
            Self::Hashed => "hash",
        }
    }

    pub(super) fn name(self, table: &str) -> String {
        format!("{}_{}", table.replace('.', "_"), self.first_column())
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Unique => "unique",
            Self::Hashed => "hashed",
        })
    }
}

/// A text is not a valid name of a mapping table.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "invalid table name {name:?}: expected [a-z0-9_], not starting with a digit, after an optional schema and dot, and at most 58 characters in all for a map"
)]
pub struct InvalidTableName {
    name: String,
}

/// Checks that a name needs no quotes in a statement.
///
/// # Errors
/// [`InvalidTableName`] if it does.
pub fn check_name(name: &str) -> Result<(), InvalidTableName> {
    let is_valid = name.split('.').count() <= 2 && name.split('.').all(is_identifier);
    match is_valid {
        true => Ok(()),
        false => Err(InvalidTableName { name: name.into() }),
    }
}

/// Checks the name of a mapping table.
pub(super) fn check_table(name: &str, index: Index) -> Result<(), InvalidTableName> {
    check_name(name)?;
    // PostgreSQL cuts off longer names.
    match index.name(name).len() > 63 {
        true => Err(InvalidTableName { name: name.into() }),
        false => Ok(()),
    }
}

pub(super) fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}

pub(super) fn unique_columns(is_shared: bool) -> &'static str {
    match is_shared {
        true => "uuid, resource",
        false => "uuid",
    }
}

/// Inserts lock rows of [`slots_table`] on MySQL and MariaDB.
pub(super) const SLOTS: u16 = 1 << 14;

/// The table is in the mapping table's schema, so that connections with different default databases lock the
/// same rows.
pub(super) fn slots_table(table: &str) -> String {
    let schema = table.split_once('.').map_or_else(String::new, |(schema, _)| format!("{schema}."));
    format!("{schema}opaque_id_slots")
}

/// Returns the statements of a migration that creates a mapping table and its index. With `is_shared`, maps
/// of several resources share it. On MySQL and MariaDB they also create `opaque_id_slots` if it does not
/// exist.
///
/// # Errors
/// [`InvalidTableName`] if the table's name is invalid.
pub fn create_sql(
    dialect: Dialect,
    table: &str,
    index: Index,
    is_shared: bool,
) -> Result<String, InvalidTableName> {
    check_table(table, index)?;
    let (id, uuid, hash) = match dialect {
        Dialect::Postgres => ("BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "UUID", "INTEGER"),
        Dialect::MySql => ("BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY", "BINARY(16)", "INT"),
        // AUTOINCREMENT never reuses the integer of a deleted UUID.
        Dialect::Sqlite => ("INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT", "BLOB", "INTEGER"),
    };
    let resource = match dialect {
        _ if !is_shared => "",
        Dialect::Postgres | Dialect::Sqlite => "    resource VARCHAR(63) NOT NULL,\n",
        Dialect::MySql => {
            "    resource VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,\n"
        }
    };
    let check = match dialect {
        Dialect::Sqlite => " CHECK (length(uuid) = 16)",
        Dialect::Postgres | Dialect::MySql => "",
    };
    // On SQLite the schema precedes the index's name, not the table's.
    let (index_name, on) = match (dialect, table.split_once('.')) {
        (Dialect::Sqlite, Some((_, bare))) => (format!("{table}_{}", index.first_column()), bare),
        _ => (index.name(table), table),
    };
    let (hash, create_index) = match index {
        Index::Unique => (
            String::new(),
            format!("CREATE UNIQUE INDEX {index_name} ON {on} ({});\n", unique_columns(is_shared)),
        ),
        Index::Hashed => (
            format!("    hash {hash} NOT NULL,\n"),
            format!("CREATE INDEX {index_name} ON {on} (hash);\n"),
        ),
    };
    let slots = match dialect {
        Dialect::MySql => create_slots(table),
        Dialect::Postgres | Dialect::Sqlite => String::new(),
    };
    Ok(format!(
        "CREATE TABLE {table} (\n    id {id},\n{resource}{hash}    uuid {uuid} NOT NULL{check}\n){};\n{create_index}{slots}",
        dialect.engine_clause()
    ))
}

/// The numbers are products of the digits 0–3 and 0–7.
fn create_slots(table: &str) -> String {
    let digits = |count: u8| {
        let mut digits = "SELECT 0 AS n".to_owned();
        for n in 1..count {
            digits += &format!(" UNION ALL SELECT {n}");
        }
        digits
    };
    let (four, eight) = (digits(4), digits(8));
    let slots = slots_table(table);
    format!(
        "CREATE TABLE IF NOT EXISTS {slots} (slot BIGINT NOT NULL PRIMARY KEY) ENGINE=InnoDB;\n\
         INSERT IGNORE INTO {slots} (slot)\n\
         SELECT a.n * 4096 + b.n * 512 + c.n * 64 + d.n * 8 + e.n\n\
         FROM ({four}) AS a\n\
         CROSS JOIN ({eight}) AS b\n\
         CROSS JOIN ({eight}) AS c\n\
         CROSS JOIN ({eight}) AS d\n\
         CROSS JOIN ({eight}) AS e;\n"
    )
}

/// Checks the domain of a resource for the rows of a shared table.
///
/// # Panics
/// Unless the domain is a valid prefix.
#[track_caller]
pub(super) fn check_domain(domain: &str) {
    assert!(
        is_prefix(domain),
        "a shared mapping table's domain must be 1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_identifiers() {
        for good in ["ids", "_ids2", "shop.order_ids"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "Ids", "2ids", "a.b.c", "a b", "ids;", "ü", "a.", "\"a\""] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        let create = |len| create_sql(Dialect::Postgres, &"a".repeat(len), Index::Hashed, false);
        assert!(create(58).is_ok() && create(59).is_err());
    }
}
