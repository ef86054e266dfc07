//! The storage of ids.

use std::collections::BTreeSet;
use std::ops::Bound;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Cell, Value, hex};
use uuid::Uuid;

use crate::stored::{StoredRow, Tier};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdColumn {
    Uuid,
    Integer,
}

const SIGN: i128 = 1 << 63;

impl IdColumn {
    pub(crate) fn max(self) -> u128 {
        match self {
            Self::Uuid => u128::MAX,
            Self::Integer => u64::MAX.into(),
        }
    }

    pub(crate) fn after(self, id: u128) -> Option<u128> {
        (id < self.max()).then(|| id + 1)
    }

    pub(crate) fn types(self, dialect: Dialect) -> (&'static str, &'static str) {
        match (self, dialect) {
            (Self::Uuid, Dialect::Postgres) => ("UUID", "BYTEA"),
            (Self::Uuid, Dialect::MySql) => ("BINARY(16)", "LONGBLOB"),
            (Self::Uuid, _) => ("BLOB", "BLOB"),
            (Self::Integer, Dialect::Postgres) => ("BIGINT", "BYTEA"),
            (Self::Integer, Dialect::MySql) => ("BIGINT", "LONGBLOB"),
            (Self::Integer, _) => ("INTEGER", "BLOB"),
        }
    }

    fn integer(id: u128) -> i64 {
        // Ids of integers are below 2^64.
        i64::try_from(id.cast_signed() - SIGN).unwrap_or(i64::MAX)
    }

    pub(crate) fn value(self, dialect: Dialect, id: u128) -> Value {
        match (self, dialect) {
            (Self::Integer, _) => Value::Integer(Self::integer(id)),
            (Self::Uuid, Dialect::Postgres) => Value::Text(Uuid::from_u128(id).to_string()),
            (Self::Uuid, _) => Value::Bytes(id.to_be_bytes().to_vec()),
        }
    }

    pub(crate) fn id(self, cell: &Cell) -> Option<u128> {
        match (self, cell) {
            (Self::Integer, Cell::Integer(id)) => Some((i128::from(*id) + SIGN).cast_unsigned()),
            (Self::Uuid, Cell::Uuid(id)) => Some(id.as_u128()),
            _ => None,
        }
    }

    /// If a pack lacks the next one's id, the next pack of the answer follows it, perhaps without a body.
    pub(crate) fn read(self, rows: Vec<Vec<Cell>>) -> Option<Vec<(Tier, StoredRow)>> {
        let read = |cells: Vec<Cell>| match <[Cell; 5]>::try_from(cells).ok()? {
            [Cell::Integer(tier), id, Cell::Integer(version), Cell::Bytes(body), next] => {
                let tier = match tier {
                    0 => Some(Tier::Recent),
                    1 => Some(Tier::Packs),
                    _ => None,
                };
                let mut stored = StoredRow::new(self.id(&id)?, version, body);
                stored.next = Some(self.id(&next)?).filter(|next| *next != stored.id);
                Some((tier, stored))
            }
            _ => None,
        };
        let rows = rows.into_iter().map(read).collect::<Option<Vec<_>>>()?;
        let packs = rows.iter().filter(|(tier, _)| *tier != Some(Tier::Recent));
        let packs: BTreeSet<_> = packs.map(|(_, stored)| stored.id).collect();
        let rows = rows.into_iter().filter_map(|(tier, mut stored)| {
            if tier == Some(Tier::Packs) {
                let after = (Bound::Excluded(stored.id), Bound::Unbounded);
                stored.next = stored.next.or_else(|| packs.range(after).next().copied());
            }
            Some((tier?, stored))
        });
        Some(rows.collect())
    }

    pub(crate) fn display(self, id: u128) -> String {
        match self {
            Self::Integer => Self::integer(id).to_string(),
            Self::Uuid => Uuid::from_u128(id).to_string(),
        }
    }

    pub(crate) fn listed(self, dialect: Dialect, n: usize) -> String {
        let (list, bytes) = (format!(":text{n}"), format!(":bytes{}", n + 1));
        match dialect {
            Dialect::Postgres => {
                let id = match self {
                    IdColumn::Uuid => format!(
                        "CAST(encode(substring({bytes} FROM CAST(a[i] AS int4) - 16 FOR 16), 'hex') AS uuid)"
                    ),
                    IdColumn::Integer => "a[i + 3]".to_owned(),
                };
                // OFFSET 0 keeps the array a column. Otherwise generic plans, from the sixth execution on,
                // parse the text for each of its numbers.
                format!(
                    "(SELECT {id} AS id, a[i + 2] AS version, \
                     substring({bytes} FROM CAST(a[i] AS int4) FOR CAST(a[i + 1] AS int4)) AS body \
                     FROM (SELECT CAST({list} AS int8[]) AS a OFFSET 0) AS flat, \
                     generate_series(1, cardinality(a), 4) AS i)"
                )
            }
            // Literals replace this: see `literals`.
            Dialect::MySql => format!("(:list{n})"),
            _ => {
                let id = match self {
                    IdColumn::Uuid => {
                        format!("substr({bytes}, json_extract(value, '$[0]') - 16, 16)")
                    }
                    IdColumn::Integer => "json_extract(value, '$[3]')".to_owned(),
                };
                format!(
                    "(SELECT {id} AS id, json_extract(value, '$[2]') AS version, \
                     substr({bytes}, json_extract(value, '$[0]'), json_extract(value, '$[1]')) AS body \
                     FROM json_each({list}))"
                )
            }
        }
    }

    /// The first value is an array with the start of each body (from 1), its length, the version and the id.
    /// The second value has the bodies one after the other, each after its id if the array cannot contain it.
    /// On MySQL, the first has literals, and the second is not used.
    pub(crate) fn list(self, dialect: Dialect, rows: &[StoredRow]) -> [Value; 2] {
        if dialect == Dialect::MySql {
            return [Value::Literals(self.literals(rows)), Value::Text(String::new())];
        }
        let (open, close) = match dialect {
            Dialect::Postgres => ("", ""),
            _ => ("[", "]"),
        };
        let mut bytes = Vec::new();
        let mut list = String::new();
        for row in rows {
            let id = match self {
                IdColumn::Integer => IdColumn::integer(row.id).to_string(),
                IdColumn::Uuid => {
                    bytes.extend(row.id.to_be_bytes());
                    "0".to_owned()
                }
            };
            if !list.is_empty() {
                list.push(',');
            }
            let (start, len) = (bytes.len() + 1, row.body.len());
            list += &format!("{open}{start},{len},{},{id}{close}", row.version);
            bytes.extend(&row.body);
        }
        match dialect {
            Dialect::Postgres => [Value::Text(format!("{{{list}}}")), Value::Bytes(bytes)],
            _ => [Value::Text(format!("[{list}]")), Value::Bytes(bytes)],
        }
    }

    /// MySQL's grammar needs ROW, and MariaDB's does not have it. MariaDB truncates a body of 64 KiB and more
    /// unless it is a function's result.
    pub(crate) fn literals(self, rows: &[StoredRow]) -> String {
        let row = |row: &StoredRow| {
            let id = match self {
                IdColumn::Integer => IdColumn::integer(row.id).to_string(),
                IdColumn::Uuid => format!("x'{:032x}'", row.id),
            };
            format!("/*!80019 ROW*/({id},{},UNHEX('{}'))", row.version, hex(&row.body))
        };
        let rows = rows.iter().map(row).collect::<Vec<_>>().join(",");
        format!(
            "WITH listed (id, version, body) AS (VALUES {rows}) SELECT id, version, body FROM listed"
        )
    }
}
