//! The statements, which are the same in number and meaning on all databases.
//!
//! There are two tiers. A write into a pack reads, decompresses, compresses and encrypts ten to hundred rows, and fails if another
//! client was faster; an upsert of one recent row does neither. A merger pays for the pack once for many rows, later.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::ops::Bound;
use std::sync::Arc;

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Cell, Column, Statement, Texts, Value, hex};
use uuid::Uuid;

use self::Parameter::{Bytes, Id, Integer, Key, Keys, List};
use crate::column::ColumnName;

/// How the database stores the ids of rows and packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdColumn {
    /// 16 bytes.
    Uuid,
    /// A signed 64-bit integer.
    Integer,
}

/// What integers are in the database's order is above this.
const SIGN: i128 = 1 << 63;

impl IdColumn {
    /// Returns the largest id.
    pub(crate) fn max(self) -> u128 {
        match self {
            Self::Uuid => u128::MAX,
            Self::Integer => u64::MAX.into(),
        }
    }

    /// Returns the id after this one, unless it is the largest.
    pub(crate) fn after(self, id: u128) -> Option<u128> {
        (id < self.max()).then(|| id + 1)
    }

    /// Returns the types of the columns of ids and of bodies.
    fn types(self, dialect: Dialect) -> (&'static str, &'static str) {
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

    fn value(self, dialect: Dialect, id: u128) -> Value {
        match (self, dialect) {
            (Self::Integer, _) => Value::Integer(Self::integer(id)),
            (Self::Uuid, Dialect::Postgres) => Value::Text(Uuid::from_u128(id).to_string()),
            (Self::Uuid, _) => Value::Bytes(id.to_be_bytes().to_vec()),
        }
    }

    fn id(self, cell: &Cell) -> Option<u128> {
        match (self, cell) {
            (Self::Integer, Cell::Integer(id)) => Some((i128::from(*id) + SIGN).cast_unsigned()),
            (Self::Uuid, Cell::Uuid(id)) => Some(id.as_u128()),
            _ => None,
        }
    }

    /// Returns the rows of an answer, each with its tier. A pack without the next one's id is followed by the next pack of the answer,
    /// which may be there without a body.
    fn read(self, rows: Vec<Vec<Cell>>) -> Option<Vec<(Tier, Stored)>> {
        let read = |cells: Vec<Cell>| match <[Cell; 5]>::try_from(cells).ok()? {
            [Cell::Integer(tier), id, Cell::Integer(version), Cell::Bytes(body), next] => {
                let tier = match tier {
                    0 => Some(Tier::Recent),
                    1 => Some(Tier::Packs),
                    _ => None,
                };
                let id = self.id(&id)?;
                let next = Some(self.id(&next)?).filter(|next| *next != id);
                let stored = Stored { id, version, body, next };
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

    /// Returns an id as a person finds it in the database.
    pub(crate) fn display(self, id: u128) -> String {
        match self {
            Self::Integer => Self::integer(id).to_string(),
            Self::Uuid => Uuid::from_u128(id).to_string(),
        }
    }

    /// Returns the relation `(id, version, body)` of the list whose two values are `n` and `n + 1`.
    fn listed(self, dialect: Dialect, n: usize) -> String {
        let (list, bytes) = (format!(":text{n}"), format!(":bytes{}", n + 1));
        match dialect {
            Dialect::Postgres => {
                let id = match self {
                    IdColumn::Uuid => format!(
                        "CAST(encode(substring({bytes} FROM CAST(a[i] AS int4) - 16 FOR 16), 'hex') AS uuid)"
                    ),
                    IdColumn::Integer => "a[i + 3]".to_owned(),
                };
                // OFFSET 0 keeps the array a column: put in its place, the text would be parsed for each of its numbers, as plans
                // for all values do, from the sixth execution on.
                format!(
                    "(SELECT {id} AS id, a[i + 2] AS version, \
                     substring({bytes} FROM CAST(a[i] AS int4) FOR CAST(a[i + 1] AS int4)) AS body \
                     FROM (SELECT CAST({list} AS int8[]) AS a OFFSET 0) AS flat, \
                     generate_series(1, cardinality(a), 4) AS i)"
                )
            }
            // Literals take its place: see `literals`.
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

    /// Returns the values of a list: the first is an array of where a body begins (from 1), its length, the version and the id;
    /// the second has the bodies one after the other, each after its id where the array cannot contain it. On MySQL, the
    /// first has literals, and the second is not used.
    fn list(self, dialect: Dialect, rows: &[Stored]) -> [Value; 2] {
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

    /// Returns a query whose rows are `(id, version, body)`, for MySQL, whose grammar needs ROW, of which MariaDB's knows nothing.
    /// MariaDB cuts off a body of 64 KiB and more unless it is a function's result.
    fn literals(self, rows: &[Stored]) -> String {
        let row = |row: &Stored| {
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

/// A row of a table of packs.
#[derive(Clone)]
pub(crate) struct Stored {
    pub(crate) id: u128,
    pub(crate) version: i64,
    pub(crate) body: Vec<u8>,
    /// Of a pack that was read, the id of the pack after it in the same snapshot.
    pub(crate) next: Option<u128>,
}

impl Stored {
    /// Returns what is to be written.
    pub(crate) fn new(id: u128, version: i64, body: Vec<u8>) -> Self {
        Self { id, version, body, next: None }
    }

    fn values(&self) -> [Parameter<'_>; 3] {
        [Id(self.id), Integer(self.version), Bytes(&self.body)]
    }

    /// Returns the values of a statement that replaces this version.
    fn replacing(&self, version: i64) -> [Parameter<'_>; 4] {
        let [id, new, body] = self.values();
        [id, Integer(version), new, body]
    }
}

/// What a statement does with a pack or a row that another transaction has locked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfLocked {
    /// Waits until the transaction ends.
    Wait,
    /// Leaves it as it is. A pack is not split either while the next one, which has this id, is locked: MySQL locks the ids before it
    /// as well, and an insert would wait.
    Skip(Option<u128>),
}

/// Where recent rows belong.
#[derive(Default)]
pub(crate) struct Survey {
    /// Packs, and how many rows and bytes each would get.
    pub(crate) packs: Vec<(u128, i64, i64)>,
    /// The first key that was not looked at.
    pub(crate) next: Option<u128>,
    /// The versions of the settings and the dictionaries, by number.
    pub(crate) meta: BTreeMap<i64, i64>,
}

/// A value of a statement.
enum Parameter<'a> {
    Id(u128),
    Integer(i64),
    Bytes(&'a [u8]),
    /// The id of a group's key, of 16 bytes.
    Key(u128),
    /// A relation `(id, version, body)`, of two values.
    List(&'a [Stored]),
    /// The same, of keys.
    Keys(&'a [Stored]),
}

/// The texts, each with one per dialect, which is built once.
#[derive(Clone, Copy)]
enum Text {
    Get,
    GetLatest,
    GetAll,
    Put,
    PutAll,
    Replace,
    InsertIf,
    UpdatePack,
    UpdateFreePack,
    WritePacks,
    WriteFreePacks,
    InsertPack,
    Range,
    RangeDescending,
    Survey,
    ReadToMerge,
    DeleteRecent,
    ReadMeta,
    InsertMeta,
    UpdateMeta,
    DeleteDictionaries,
    Stale,
    StaleRecent,
    PutGrouped,
    ReplaceGrouped,
    InsertIfGrouped,
    ReadKeys,
    ReadLatestKeys,
    MakeKeys,
    EraseKey,
    StaleKeys,
    UpdateKey,
}

impl Text {
    const COUNT: usize = Self::UpdateKey as usize + 1;

    /// Returns the columns of an answer. A text that only writes has none.
    fn columns(self, ids: IdColumn) -> &'static [Column] {
        match (self, ids) {
            (Self::ReadMeta, _) => META,
            (Self::ReadKeys | Self::ReadLatestKeys | Self::StaleKeys, _) => {
                const { &tiers(Column::Uuid) }
            }
            (Self::Survey, IdColumn::Uuid) => const { &survey(Column::Uuid) },
            (Self::Survey, IdColumn::Integer) => const { &survey(Column::Integer) },
            (
                Self::Get
                | Self::GetLatest
                | Self::GetAll
                | Self::Range
                | Self::RangeDescending
                | Self::ReadToMerge
                | Self::Stale
                | Self::StaleRecent,
                ids,
            ) => match ids {
                IdColumn::Uuid => const { &tiers(Column::Uuid) },
                IdColumn::Integer => const { &tiers(Column::Integer) },
            },
            _ => &[],
        }
    }
}

/// The tier that a row of an answer is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Recent,
    Packs,
    /// The keys of groups.
    Keys,
}

/// A text in a dialect and, for MySQL, whose placeholders have no numbers, the number of each.
type Rendered = (Arc<str>, Vec<usize>);

/// The statements of one table.
pub(crate) struct Statements {
    name: Box<str>,
    ids: IdColumn,
    texts: Texts<Rendered, { Text::COUNT }>,
}

/// Returns the columns of rows of both tiers. The last one is the id of the next pack; of the last pack and of recent rows, their
/// own.
const fn tiers(id: Column) -> [Column; 5] {
    [Column::Integer, id, Column::Integer, Column::Bytes, id]
}

/// Returns the columns of a [survey](Statements::survey).
const fn survey(id: Column) -> [Column; 4] {
    [Column::Integer, id, Column::Integer, Column::Integer]
}

/// The columns of the table of settings and dictionaries.
const META: &[Column] = &[Column::Integer, Column::Integer, Column::Bytes];

impl Statements {
    pub(crate) fn new(name: &str, ids: IdColumn) -> Self {
        Self { name: name.into(), ids, texts: Texts::default() }
    }

    pub(crate) fn ids(&self) -> IdColumn {
        self.ids
    }

    /// Returns the statements that create the tables, for a migration.
    pub(crate) fn create_sql(
        dialect: Dialect,
        name: &str,
        ids: IdColumn,
        is_grouped: bool,
    ) -> String {
        let (id, body) = ids.types(dialect);
        let table = |suffix, id| create_table(dialect, name, suffix, id, body);
        table("recent", id)
            + &table("packs", id)
            + &Self::create_column_sql(dialect, name, is_grouped)
    }

    /// Returns the statements that create the tables of settings and dictionaries and, if there are groups, of their keys.
    pub(crate) fn create_column_sql(dialect: Dialect, name: &str, is_grouped: bool) -> String {
        let (id, body) = IdColumn::Uuid.types(dialect);
        let table = |suffix, id| create_table(dialect, name, suffix, id, body);
        let keys = if is_grouped { table("keys", id) } else { String::new() };
        table("meta", "INTEGER") + &keys
    }

    /// Returns the statements that drop these tables.
    pub(crate) fn drop_column_sql(name: &str, is_grouped: bool) -> String {
        let suffixes: &[_] = if is_grouped { &["meta", "keys"] } else { &["meta"] };
        suffixes.iter().map(|suffix| format!("DROP TABLE {name}_{suffix};\n")).collect()
    }

    /// Returns the statement that drops the tables.
    pub(crate) fn drop_sql(name: &str, is_grouped: bool) -> String {
        let tiers = ["recent", "packs"].map(|suffix| format!("DROP TABLE {name}_{suffix};\n"));
        tiers.concat() + &Self::drop_column_sql(name, is_grouped)
    }

    /// Returns the statement that reads what both tiers have of keys: their recent rows, and the packs that they belong to,
    /// without the bodies of packs that are `known` in this version.
    pub(crate) fn get(&self, dialect: Dialect, keys: &[u128], known: &[(u128, i64)]) -> Statement {
        if let ([key], [] | [_]) = (keys, known) {
            let (id, version) = known.first().copied().unwrap_or((0, 0));
            return self.statement(dialect, Text::Get, &[Id(*key), Id(id), Integer(version)]);
        }
        let listed = |id, version| Stored::new(id, version, Vec::new());
        let known: Vec<_> = known.iter().map(|(id, version)| listed(*id, *version)).collect();
        let Some(size) = get_sizes(dialect).iter().find(|size| **size >= keys.len()) else {
            let keys: Vec<_> = keys.iter().map(|id| listed(*id, 0)).collect();
            return self.statement(dialect, Text::GetAll, &[List(&keys), List(&known)]);
        };
        // Few texts, which servers need not prepare again and again.
        let last = keys.last().copied().unwrap_or_default();
        let keys = keys.iter().copied().chain(iter::repeat(last)).take(*size);
        self.get_each(keys.map(|key| self.ids.value(dialect, key)).collect(), &known)
    }

    /// Returns how many keys [`get`](Self::get) takes.
    pub(crate) fn most_keys(dialect: Dialect) -> usize {
        get_sizes(dialect).last().copied().unwrap_or(MOST_KEYS)
    }

    /// Returns the statement of [`get`](Self::get) for several keys on MySQL's servers, which look up the neighbors of values only.
    fn get_each(&self, keys: Vec<Value>, known: &[Stored]) -> Statement {
        let t = &self.name;
        let key = match self.ids {
            IdColumn::Uuid => "CAST(? AS BINARY)",
            IdColumn::Integer => "?",
        };
        let place = format!(
            "SELECT (SELECT q.id FROM {t}_packs AS q WHERE q.id <= {key} ORDER BY q.id DESC LIMIT 1) AS id, \
             (SELECT n.id FROM {t}_packs AS n WHERE n.id > {key} ORDER BY n.id LIMIT 1) AS next"
        );
        let places = vec![&*place; keys.len()].join(" UNION ALL ");
        let (body, join) = match known {
            [] => ("p.body", ""),
            _ => (
                "CASE WHEN k.id IS NULL THEN p.body ELSE '' END",
                " LEFT JOIN (?) AS k ON k.id = p.id AND k.version = p.version",
            ),
        };
        let sql = format!(
            "SELECT CAST(0 AS SIGNED) AS tier, r.id, r.version, r.body, r.id AS next FROM {t}_recent AS r WHERE r.id IN ({}) \
             UNION ALL SELECT CAST(1 AS SIGNED), p.id, p.version, {body}, COALESCE(f.next, p.id) \
             FROM (SELECT DISTINCT id, next FROM ({places}) AS e) AS f STRAIGHT_JOIN {t}_packs AS p ON p.id = f.id{join}{}",
            vec![key; keys.len()].join(", "),
            Dialect::MySql.all_rows(),
        );
        let twice = keys.iter().flat_map(|key| [key.clone(), key.clone()]);
        let known = (!known.is_empty()).then(|| Value::Literals(self.ids.literals(known)));
        let values = keys.iter().cloned().chain(twice).chain(known).collect();
        Statement::new(sql, values, Text::GetAll.columns(self.ids))
    }

    /// Returns the statement of [`get`](Self::get) for one key that also sees what was committed since the transaction
    /// began, on MySQL, whose default isolation shows that only to locking reads.
    pub(crate) fn get_latest(&self, key: u128) -> Statement {
        let values = [Id(key), Id(0), Integer(0)];
        self.statement(Dialect::MySql, Text::GetLatest, &values)
    }

    /// Returns the statement that writes recent rows, whatever was there.
    pub(crate) fn put(&self, dialect: Dialect, rows: &[Stored]) -> Statement {
        match rows {
            [row] => self.statement(dialect, Text::Put, &row.values()),
            _ => self.statement(dialect, Text::PutAll, &[List(rows)]),
        }
    }

    /// Returns the statement that replaces a recent row of this version, if the key of the new row's group has this id and
    /// version.
    pub(crate) fn replace(
        &self,
        dialect: Dialect,
        version: i64,
        new: &Stored,
        key: Option<(u128, i64)>,
    ) -> Statement {
        let [id, before, version, body] = new.replacing(version);
        match key {
            None => self.statement(dialect, Text::Replace, &[id, before, version, body]),
            Some((group, key)) => {
                let values = [id, before, version, body, Key(group), Integer(key)];
                self.statement(dialect, Text::ReplaceGrouped, &values)
            }
        }
    }

    /// Returns the statement that inserts a recent row if the pack still has this version, and the key of the row's group has this
    /// id and version. The pack is locked until the row
    /// is committed, so that no merger can have merged a row of this key meanwhile. On MySQL it fails if there is a row.
    pub(crate) fn insert_if(
        &self,
        dialect: Dialect,
        pack: (u128, i64),
        new: &Stored,
        key: Option<(u128, i64)>,
    ) -> Statement {
        let [id, version, body] = new.values();
        let (pack_id, pack_version) = (Id(pack.0), Integer(pack.1));
        match key {
            None => {
                let values = [pack_id, pack_version, id, version, body];
                self.statement(dialect, Text::InsertIf, &values)
            }
            Some((group, key)) => {
                let values = [pack_id, pack_version, id, version, body, Key(group), Integer(key)];
                self.statement(dialect, Text::InsertIfGrouped, &values)
            }
        }
    }

    /// Returns the statement that replaces a pack of this version, and inserts the packs that were split from it. One statement,
    /// so that no reader sees half of it, and no writer leaves half of it.
    pub(crate) fn write_packs(
        &self,
        dialect: Dialect,
        version: i64,
        packs: &[Stored],
        if_locked: IfLocked,
    ) -> Statement {
        let (update, write) = match if_locked {
            IfLocked::Wait => (Text::UpdatePack, Text::WritePacks),
            IfLocked::Skip(_) => (Text::UpdateFreePack, Text::WriteFreePacks),
        };
        match packs {
            [pack] => self.statement(dialect, update, &pack.replacing(version)),
            _ => {
                let id = packs[0].id;
                let mut values = vec![Id(id), Integer(version), List(packs)];
                if let (IfLocked::Skip(next), Dialect::MySql) = (if_locked, dialect) {
                    values.push(Id(next.unwrap_or(id)));
                }
                self.statement(dialect, write, &values)
            }
        }
    }

    /// Returns the statement that inserts a pack, unless there is one with its id. On MySQL it fails if there is.
    pub(crate) fn insert_pack(&self, dialect: Dialect, pack: &Stored) -> Statement {
        self.statement(dialect, Text::InsertPack, &pack.values())
    }

    /// Returns the statement that reads up to `packs` packs and up to `rows` recent rows of a range, from its first key on,
    /// or from its last one.
    pub(crate) fn range(
        &self,
        dialect: Dialect,
        (first, last): (u128, u128),
        is_descending: bool,
        packs: i64,
        rows: i64,
    ) -> Statement {
        let text = match is_descending {
            true => Text::RangeDescending,
            false => Text::Range,
        };
        let values = [Id(first), Id(last), Integer(packs), Integer(rows)];
        self.statement(dialect, text, &values)
    }

    /// Returns the statement that finds, for up to `limit` recent rows from a key on, how many rows and bytes each pack would
    /// get, the first key that it did not look at, and the versions of the settings and the dictionaries.
    pub(crate) fn survey(&self, dialect: Dialect, from: u128, limit: i64) -> Statement {
        self.statement(dialect, Text::Survey, &[Id(from), Integer(limit)])
    }

    /// Returns the statement that reads a pack and up to `limit` recent rows from a key of it to the id of the next one, in
    /// one snapshot (I2).
    pub(crate) fn read_to_merge(
        &self,
        dialect: Dialect,
        pack: u128,
        from: u128,
        limit: i64,
    ) -> Statement {
        let values = [Id(pack), Integer(limit), Id(self.ids.max()), Id(from)];
        self.statement(dialect, Text::ReadToMerge, &values)
    }

    /// Returns the statement that deletes recent rows that still have the version of the list (I3). It leaves rows that are
    /// locked.
    pub(crate) fn delete_recent(&self, dialect: Dialect, rows: &[Stored]) -> Statement {
        self.statement(dialect, Text::DeleteRecent, &[List(rows)])
    }

    /// Returns the statement that reads the settings and the dictionaries.
    pub(crate) fn read_meta(&self, dialect: Dialect) -> Statement {
        self.statement(dialect, Text::ReadMeta, &[])
    }

    /// Returns the statement that inserts settings or a dictionary, unless there is one with this number. On MySQL it fails if
    /// there is.
    pub(crate) fn insert_meta(&self, dialect: Dialect, stored: &Stored) -> Statement {
        let [_, version, body] = stored.values();
        let values = [Integer(meta_id(stored)), version, body];
        self.statement(dialect, Text::InsertMeta, &values)
    }

    /// Returns the statement that replaces settings or a dictionary of the version before.
    pub(crate) fn update_meta(&self, dialect: Dialect, stored: &Stored) -> Statement {
        let [_, before, version, body] = stored.replacing(stored.version - 1);
        let values = [Integer(meta_id(stored)), before, version, body];
        self.statement(dialect, Text::UpdateMeta, &values)
    }

    /// Returns the statement that deletes the dictionaries with smaller numbers than this one.
    pub(crate) fn delete_dictionaries(&self, dialect: Dialect, before: u16) -> Statement {
        self.statement(dialect, Text::DeleteDictionaries, &[Integer(before.into())])
    }

    /// Returns the statement that reads up to `limit` packs, recent rows or keys, from an id on, whose bodies begin with another
    /// header.
    pub(crate) fn stale(
        &self,
        dialect: Dialect,
        tier: Tier,
        from: u128,
        header: &[u8],
        limit: i64,
    ) -> Statement {
        let (text, from) = match tier {
            Tier::Packs => (Text::Stale, Id(from)),
            Tier::Recent => (Text::StaleRecent, Id(from)),
            Tier::Keys => (Text::StaleKeys, Key(from)),
        };
        self.statement(dialect, text, &[from, Bytes(header), Integer(limit)])
    }

    /// Returns the statement that writes rows as [`put`](Self::put) if the keys of their groups are there in these versions.
    pub(crate) fn put_grouped(
        &self,
        dialect: Dialect,
        rows: &[Stored],
        keys: &[Stored],
    ) -> Statement {
        let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
        self.statement(dialect, Text::PutGrouped, &[List(rows), Keys(keys), Integer(count)])
    }

    /// Returns the statement that reads the keys of groups, as they are now if it says `latest`: MySQL's default isolation shows
    /// what was committed since the transaction began to locking reads only.
    pub(crate) fn read_keys(&self, dialect: Dialect, ids: &[u128], latest: bool) -> Statement {
        let ids: Vec<_> = ids.iter().map(|id| Stored::new(*id, 0, Vec::new())).collect();
        let text = match latest {
            true => Text::ReadLatestKeys,
            false => Text::ReadKeys,
        };
        self.statement(dialect, text, &[Keys(&ids)])
    }

    /// Returns the statement that inserts keys of groups that have none.
    pub(crate) fn make_keys(&self, dialect: Dialect, keys: &[Stored]) -> Statement {
        self.statement(dialect, Text::MakeKeys, &[Keys(keys)])
    }

    /// Returns the statement that replaces the key of a group, whether it has one or not.
    pub(crate) fn erase_key(&self, dialect: Dialect, mark: &Stored) -> Statement {
        let values = [Key(mark.id), Integer(mark.version), Bytes(&mark.body)];
        self.statement(dialect, Text::EraseKey, &values)
    }

    /// Returns the statement that replaces a key of this version.
    pub(crate) fn update_key(&self, dialect: Dialect, version: i64, key: &Stored) -> Statement {
        let values = [Key(key.id), Integer(version), Integer(key.version), Bytes(&key.body)];
        self.statement(dialect, Text::UpdateKey, &values)
    }

    /// Returns the rows of an answer of one tier.
    pub(crate) fn read_tier(&self, tier: Tier, rows: Vec<Vec<Cell>>) -> Option<Vec<Stored>> {
        let ids = if tier == Tier::Keys { IdColumn::Uuid } else { self.ids };
        Some(ids.read(rows)?.into_iter().map(|(_, stored)| stored).collect())
    }

    /// Returns the statement that reads up to `limit` values of a column, from an id on, that begin with another header.
    pub(crate) fn stale_values(
        &self,
        dialect: Dialect,
        column: &ColumnName,
        from: u128,
        header: &[u8],
        limit: i64,
    ) -> Statement {
        let [t, id, value] = column.quoted(dialect);
        let key = match (self.ids, dialect) {
            (IdColumn::Integer, Dialect::Postgres) => format!("CAST({id} AS int8)"),
            (IdColumn::Integer, Dialect::MySql) => format!("CAST({id} AS SIGNED)"),
            _ => id.clone(),
        };
        let sql = self.render(
            dialect,
            &format!(
                "SELECT {key}, {value} FROM {t} WHERE {id} >= {} AND {} ORDER BY {id} LIMIT :int2",
                first_id(dialect, self.ids),
                is_stale(&value)
            ),
        );
        let columns = match self.ids {
            IdColumn::Uuid => &[Column::Uuid, Column::Bytes],
            IdColumn::Integer => &[Column::Integer, Column::Bytes],
        };
        self.bind(dialect, &sql, &[Id(from), Bytes(header), Integer(limit)], columns)
    }

    /// Returns the statement that replaces a value of a column, if it is still the one that was read.
    pub(crate) fn replace_value(
        &self,
        dialect: Dialect,
        column: &ColumnName,
        id: u128,
        from: &[u8],
        to: &[u8],
    ) -> Statement {
        let [t, key, value] = column.quoted(dialect);
        // Outside of strict mode, MySQL and MariaDB would cut off what the column has no room for. To each, the other's words are a comment.
        let update = match dialect {
            Dialect::MySql => {
                "/*M! SET STATEMENT sql_mode = 'STRICT_ALL_TABLES' FOR */ \
                 UPDATE /*+ SET_VAR(sql_mode = 'STRICT_ALL_TABLES') */"
            }
            _ => "UPDATE",
        };
        let sql = self.render(
            dialect,
            &format!("{update} {t} SET {value} = :bytes2 WHERE {key} = :id0 AND {value} = :bytes1"),
        );
        self.bind(dialect, &sql, &[Id(id), Bytes(from), Bytes(to)], &[])
    }

    /// Returns the ids and values of an answer.
    pub(crate) fn read_values(&self, rows: &[Vec<Cell>]) -> Option<Vec<(u128, Vec<u8>)>> {
        let read = |cells: &Vec<Cell>| match &cells[..] {
            [id, Cell::Bytes(value)] => Some((self.ids.id(id)?, value.clone())),
            _ => None,
        };
        rows.iter().map(read).collect()
    }

    /// Returns the rows of an answer, each with its tier.
    pub(crate) fn read(&self, rows: Vec<Vec<Cell>>) -> Option<Vec<(Tier, Stored)>> {
        self.ids.read(rows)
    }

    /// Reads the rows of a [survey](Self::survey).
    pub(crate) fn read_survey(&self, rows: &[Vec<Cell>]) -> Option<Survey> {
        let mut survey = Survey::default();
        for cells in rows {
            let [Cell::Integer(kind), id, Cell::Integer(rows), Cell::Integer(bytes)] = &cells[..]
            else {
                return None;
            };
            let id = self.ids.id(id)?;
            match kind {
                0 => survey.next = Some(id),
                1 => survey.packs.push((id, *rows, *bytes)),
                _ => {
                    survey.meta.insert(*rows, *bytes);
                }
            }
        }
        Some(survey)
    }

    fn statement(&self, dialect: Dialect, text: Text, parameters: &[Parameter<'_>]) -> Statement {
        let render = || self.render(dialect, &self.text(dialect, text));
        let rendered = self.texts.get(dialect, text as usize, render);
        self.bind(dialect, rendered, parameters, text.columns(self.ids))
    }

    fn bind(
        &self,
        dialect: Dialect,
        (sql, order): &Rendered,
        parameters: &[Parameter<'_>],
        columns: &'static [Column],
    ) -> Statement {
        let mut values = Vec::with_capacity(order.len());
        for parameter in parameters {
            match parameter {
                Id(id) => values.push(self.ids.value(dialect, *id)),
                Key(id) => values.push(IdColumn::Uuid.value(dialect, *id)),
                Integer(number) => values.push(Value::Integer(*number)),
                Bytes(bytes) => values.push(match dialect {
                    Dialect::MySql => Value::Text(hex(bytes)),
                    _ => Value::Bytes(bytes.to_vec()),
                }),
                List(rows) => values.extend(self.ids.list(dialect, rows)),
                Keys(rows) => values.extend(IdColumn::Uuid.list(dialect, rows)),
            }
        }
        if dialect == Dialect::MySql {
            values = order.iter().map(|i| values[*i].clone()).collect();
        }
        Statement::new(Arc::clone(sql), values, columns)
    }

    /// Replaces `:id0`, `:int1`, `:bytes2` and `:text3` by the dialect's placeholders.
    fn render(&self, dialect: Dialect, template: &str) -> Rendered {
        let mut sql = String::with_capacity(template.len());
        let mut order = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once(':') {
            sql += before;
            let digits = after.find(|c: char| c.is_ascii_digit()).unwrap_or(after.len());
            let (kind, number) = after.split_at(digits);
            let number = &number[..1];
            rest = &after[digits + 1..];
            let n = number.parse::<usize>().expect("a digit");
            order.push(n);
            let n = n + 1;
            let (kind, ids) = match kind {
                "key" => ("id", IdColumn::Uuid),
                kind => (kind, self.ids),
            };
            sql += &match (dialect, kind, ids) {
                // Some drivers send bytes as text, and MySQL takes no more than 65,535 bytes of a text as binary.
                (Dialect::MySql, "bytes", _) => "UNHEX(?)".to_owned(),
                (Dialect::MySql, "id", IdColumn::Uuid) => "CAST(? AS BINARY)".to_owned(),
                (Dialect::MySql, ..) => "?".to_owned(),
                (Dialect::Postgres, "id", IdColumn::Uuid) => {
                    format!("CAST(CAST(${n} AS text) AS uuid)")
                }
                (Dialect::Postgres, "id" | "int", _) => format!("CAST(${n} AS int8)"),
                (Dialect::Postgres, "bytes", _) => format!("CAST(${n} AS bytea)"),
                (Dialect::Postgres, ..) => format!("CAST(${n} AS text)"),
                _ => format!("?{n}"),
            };
        }
        sql += rest;
        (sql.into(), order)
    }

    fn text(&self, dialect: Dialect, text: Text) -> String {
        let t = &self.name;
        let is_mysql = dialect == Dialect::MySql;
        // The row that a write depends on, as it is now, and until the write is committed.
        let lock = |clause| match dialect {
            Dialect::Postgres | Dialect::MySql => clause,
            _ => "",
        };
        let (wait, skip) = (lock(" FOR UPDATE"), lock(" FOR UPDATE SKIP LOCKED"));
        // SQLite's grammar needs the WHERE.
        let upsert = match is_mysql {
            true => "ON DUPLICATE KEY UPDATE version = VALUES(version), body = VALUES(body)",
            false => {
                "ON CONFLICT (id) DO UPDATE SET version = excluded.version, body = excluded.body"
            }
        };
        // On MySQL the statement fails instead: the driver counts a row that was left alone as one that was changed.
        let unless_there = match is_mysql {
            true => "",
            false => "ON CONFLICT (id) DO NOTHING",
        };
        let (no_body, bigint) = match dialect {
            Dialect::Postgres => ("CAST('' AS bytea)", "int8"),
            Dialect::MySql => ("''", "SIGNED"),
            _ => ("x''", "integer"),
        };
        let [zero, one, two] = [0, 1, 2].map(|number| format!("CAST({number} AS {bigint})"));
        let pack_of = |key: &str| {
            format!(
                "(SELECT q.id FROM {t}_packs AS q WHERE q.id <= {key} ORDER BY q.id DESC LIMIT 1)"
            )
        };
        // The id of the pack after a key's, or the pack's own. MySQL's servers look up the neighbors of values only: for those of another
        // table's rows they read the index from its end on.
        let next_of = |key: &str, lock: &str| {
            format!(
                "COALESCE((SELECT n.id FROM {t}_packs AS n WHERE n.id > {key} ORDER BY n.id LIMIT 1{lock}), p.id) AS next"
            )
        };
        let next = next_of(if is_mysql { "p.id AND n.id >= :id0" } else { "p.id" }, "");
        // A branch of a union that has an order and a limit. SQLite's grammar needs a relation around it, which MariaDB would write to disk, as
        // it has bodies.
        let some = |[tier, table, body, next]: [&str; 4], which: &str| match is_mysql {
            true => format!(
                "(SELECT {tier} AS tier, p.id, p.version, {body}, {next} FROM {t}_{table} AS p WHERE {which})"
            ),
            false => format!(
                "SELECT {tier} AS tier, p.id, p.version, {body}, {next} FROM \
                 (SELECT id, version, body FROM {t}_{table} WHERE {which}) AS p"
            ),
        };
        let get = |lock: &str| {
            let body = format!(
                "CASE WHEN p.id = :id1 AND p.version = :int2 THEN {no_body} ELSE p.body END"
            );
            format!(
                "SELECT {zero} AS tier, r.id, r.version, r.body, r.id AS next FROM {t}_recent AS r WHERE r.id = :id0{lock} \
                 UNION ALL {}",
                some(
                    [&one, "packs", &body, &next_of(":id0", lock)],
                    &format!("id <= :id0 ORDER BY id DESC LIMIT 1{lock}")
                )
            )
        };
        // Packs and recent rows, each of which is limited by itself.
        let range = |order: &str| {
            let first = format!("COALESCE({}, :id0)", pack_of(":id0"));
            // Of packs that follow each other, each is the next one of the one before, and the last one's comes by itself.
            let (next, last) = match is_mysql {
                true => (
                    "p.id AS next",
                    format!(
                        " UNION ALL SELECT {two}, n.id, {zero}, {no_body}, n.id FROM \
                         (SELECT id FROM {t}_packs WHERE id > :id1 ORDER BY id LIMIT 1) AS n \
                         UNION ALL SELECT {two}, n.id, {zero}, {no_body}, n.id FROM \
                         (SELECT id FROM {t}_packs WHERE id >= {first} ORDER BY id LIMIT 1 OFFSET :int2) AS n"
                    ),
                ),
                false => (&*next, String::new()),
            };
            let packs = some(
                [&one, "packs", "p.body", next],
                &format!("id >= {first} AND id <= :id1 ORDER BY id{order} LIMIT :int2"),
            );
            let rows = some(
                [&zero, "recent", "p.body", "p.id AS next"],
                &format!("id >= :id0 AND id <= :id1 ORDER BY id{order} LIMIT :int3"),
            );
            format!("{packs} UNION ALL {rows}{last}")
        };
        let from = first_id(dialect, self.ids);
        let stale = |tier: &str, table: &str, next: &str| {
            format!(
                "SELECT {tier} AS tier, p.id, p.version, p.body, {next} FROM {t}_{table} AS p \
                 WHERE p.id >= {from} AND {} ORDER BY p.id LIMIT :int2",
                is_stale("p.body")
            )
        };
        let update_pack = |lock: &str| match (dialect, lock) {
            // MySQL does not update a table that a subquery reads, unless it makes a relation of it first, as for a limit.
            (Dialect::MySql, lock) if !lock.is_empty() => format!(
                "UPDATE (SELECT id FROM {t}_packs WHERE id = :id0 AND version = :int1 LIMIT 1{lock}) AS free \
                 STRAIGHT_JOIN {t}_packs AS p ON p.id = free.id SET p.version = :int2, p.body = :bytes3"
            ),
            (Dialect::Postgres, lock) if !lock.is_empty() => format!(
                "UPDATE {t}_packs SET version = :int2, body = :bytes3 WHERE id = \
                 (SELECT id FROM {t}_packs WHERE id = :id0 AND version = :int1{lock})"
            ),
            _ => format!(
                "UPDATE {t}_packs SET version = :int2, body = :bytes3 WHERE id = :id0 AND version = :int1"
            ),
        };
        let write_packs = |lock: &str, condition: &str| {
            let packs = self.ids.listed(dialect, 2);
            format!(
                "INSERT INTO {t}_packs (id, version, body) SELECT l.id, l.version, l.body \
                 FROM {packs} AS l WHERE EXISTS \
                 (SELECT 1 FROM {t}_packs AS p WHERE p.id = :id0 AND p.version = :int1{lock}){condition} {upsert}"
            )
        };
        let has_key = |n: usize| {
            format!(
                "EXISTS (SELECT 1 FROM {t}_keys AS k WHERE k.id = :key{n} AND k.version = :int{})",
                n + 1
            )
        };
        let insert_if = |condition: &str| {
            format!(
                "INSERT INTO {t}_recent (id, version, body) SELECT :id2, :int3, :bytes4 FROM {t}_packs AS p \
                 WHERE p.id = :id0 AND p.version = :int1{condition}{wait} {unless_there}"
            )
        };
        let read_keys = |lock: &str| {
            format!(
                "SELECT {zero} AS tier, k.id, k.version, k.body, k.id AS next FROM {} AS a {}{}{lock}",
                IdColumn::Uuid.listed(dialect, 0),
                lookup(dialect, &format!("{t}_keys"), "k", "a.id"),
                dialect.all_rows(),
            )
        };
        let sql = match text {
            Text::Get => get(""),
            // Its parentheses are not SQLite's grammar.
            Text::GetLatest => get(" FOR UPDATE").replacen("SELECT", "(SELECT", 1).replacen(
                " UNION ALL",
                ") UNION ALL",
                1,
            ),
            Text::GetAll => {
                let (asked, known) = (self.ids.listed(dialect, 0), self.ids.listed(dialect, 2));
                let pack = pack_of("a.id");
                let (row, found) = (
                    lookup(dialect, &format!("{t}_recent"), "r", "a.id"),
                    lookup(dialect, &format!("{t}_packs"), "p", "f.id"),
                );
                format!(
                    "SELECT {zero} AS tier, r.id, r.version, r.body, r.id AS next FROM {asked} AS a {row} \
                     UNION ALL SELECT {one}, p.id, p.version, CASE WHEN k.id IS NULL THEN p.body ELSE {no_body} END, {next} \
                     FROM (SELECT DISTINCT {pack} AS id FROM {asked} AS a) AS f {found} \
                     LEFT JOIN {known} AS k ON k.id = p.id AND k.version = p.version"
                )
            }
            // In a relation that MySQL derives, a long body would be cut off.
            Text::Put => format!(
                "INSERT INTO {t}_recent (id, version, body) VALUES (:id0, :int1, :bytes2) {upsert}"
            ),
            Text::PutAll => format!(
                "INSERT INTO {t}_recent (id, version, body) \
                 SELECT l.id, l.version, l.body FROM {} AS l WHERE true {upsert}",
                self.ids.listed(dialect, 0)
            ),
            Text::Replace => format!(
                "UPDATE {t}_recent SET version = :int2, body = :bytes3 WHERE id = :id0 AND version = :int1"
            ),
            Text::InsertIf => insert_if(""),
            Text::UpdatePack => update_pack(""),
            Text::UpdateFreePack => update_pack(skip),
            Text::WritePacks => write_packs(wait, ""),
            Text::WriteFreePacks if is_mysql => write_packs(
                skip,
                &format!(" AND EXISTS (SELECT 1 FROM {t}_packs AS n WHERE n.id = :id4{skip})"),
            ),
            Text::WriteFreePacks => write_packs(skip, ""),
            Text::InsertPack => format!(
                "INSERT INTO {t}_packs (id, version, body) VALUES (:id0, :int1, :bytes2) {unless_there}"
            ),
            Text::Range => range(""),
            Text::RangeDescending => range(" DESC"),
            // Rows without a pack before them are counted for the one that is missing.
            Text::Survey => {
                let surveyed =
                    format!("FROM {t}_recent AS r WHERE r.id >= :id0 ORDER BY r.id LIMIT");
                let rows = match is_mysql {
                    // The pack of a row is the last one before it. A join looks the span of packs up; a comparison with a subquery would
                    // read all of them on MariaDB.
                    true => format!(
                        "(SELECT bytes, pack FROM (SELECT is_row, bytes, COALESCE(MAX(pack) OVER \
                         (ORDER BY id, is_row ROWS UNBOUNDED PRECEDING), :id0) AS pack FROM \
                         (SELECT p.id, 0 AS is_row, 0 AS bytes, p.id AS pack FROM \
                         (SELECT COALESCE({first}, :id0) AS low, MAX(l.id) AS high FROM (SELECT r.id {surveyed} :int1) AS l) AS span \
                         STRAIGHT_JOIN {t}_packs AS p ON p.id BETWEEN span.low AND span.high \
                         UNION ALL (SELECT r.id, 1, LENGTH(r.body), NULL {surveyed} :int1)) AS both_tiers) AS placed \
                         WHERE is_row = 1)",
                        first = pack_of(&format!("(SELECT r.id {surveyed} 1)")),
                    ),
                    false => format!(
                        "(SELECT LENGTH(r.body) AS bytes, COALESCE({pack}, :id0) AS pack {surveyed} :int1)",
                        pack = pack_of("r.id"),
                    ),
                };
                format!(
                    "SELECT {one} AS tier, s.pack, COUNT(*), CAST(SUM(s.bytes) AS {bigint}) FROM {rows} AS s GROUP BY s.pack \
                     UNION ALL SELECT {zero}, n.id, {zero}, {zero} FROM \
                     (SELECT id FROM {t}_recent WHERE id >= :id0 ORDER BY id LIMIT 1 OFFSET :int1) AS n \
                     UNION ALL SELECT {two}, f.id, CAST(m.id AS {bigint}), m.version FROM {t}_meta AS m CROSS JOIN \
                     (SELECT id FROM {t}_packs ORDER BY id LIMIT 1) AS f"
                )
            }
            Text::ReadToMerge => {
                let next = next_of(":id0", "");
                let rows = some(
                    [&zero, "recent", "p.body", "p.id AS next"],
                    &format!(
                        "id >= :id3 AND id <= \
                         COALESCE((SELECT n.id FROM {t}_packs AS n WHERE n.id > :id0 ORDER BY n.id LIMIT 1), :id2) \
                         ORDER BY id LIMIT :int1"
                    ),
                );
                format!(
                    "SELECT {one} AS tier, p.id, p.version, p.body, {next} FROM {t}_packs AS p WHERE p.id = :id0 \
                     UNION ALL {rows}"
                )
            }
            Text::DeleteRecent => {
                let rows = self.ids.listed(dialect, 0);
                match dialect {
                    // By arrays and subqueries, which PostgreSQL looks up in the index whatever its statistics say.
                    Dialect::Postgres => format!(
                        "DELETE FROM {t}_recent WHERE id = ANY (ARRAY(SELECT r.id FROM {rows} AS l CROSS JOIN LATERAL \
                         (SELECT id FROM {t}_recent WHERE id = l.id AND version = l.version{skip}) AS r))"
                    ),
                    Dialect::MySql => format!(
                        "DELETE r FROM (SELECT q.id FROM {rows} AS l STRAIGHT_JOIN {t}_recent AS q \
                         ON q.id = l.id AND q.version = l.version LIMIT 18446744073709551615{skip}) AS free \
                         STRAIGHT_JOIN {t}_recent AS r ON r.id = free.id"
                    ),
                    _ => format!(
                        "DELETE FROM {t}_recent WHERE rowid IN (SELECT r.rowid FROM {rows} AS l \
                         CROSS JOIN {t}_recent AS r ON r.id = l.id AND r.version = l.version)"
                    ),
                }
            }
            Text::ReadMeta => {
                let id = if dialect == Dialect::Postgres { "CAST(id AS int8)" } else { "id" };
                format!("SELECT {id}, version, body FROM {t}_meta ORDER BY 1")
            }
            Text::InsertMeta => format!(
                "INSERT INTO {t}_meta (id, version, body) VALUES (:int0, :int1, :bytes2) {unless_there}"
            ),
            Text::UpdateMeta => format!(
                "UPDATE {t}_meta SET version = :int2, body = :bytes3 WHERE id = :int0 AND version = :int1"
            ),
            Text::DeleteDictionaries => {
                format!("DELETE FROM {t}_meta WHERE id > 0 AND id < :int0")
            }
            Text::PutGrouped => format!(
                "INSERT INTO {t}_recent (id, version, body) SELECT l.id, l.version, l.body FROM {rows} AS l \
                 WHERE (SELECT COUNT(*) FROM {keys} AS g {key} WHERE k.version = g.version) = :int4 {upsert}",
                rows = self.ids.listed(dialect, 0),
                keys = IdColumn::Uuid.listed(dialect, 2),
                key = lookup(dialect, &format!("{t}_keys"), "k", "g.id"),
            ),
            Text::ReplaceGrouped => {
                format!("{} AND {}", self.text(dialect, Text::Replace), has_key(4))
            }
            Text::InsertIfGrouped => insert_if(&format!(" AND {}", has_key(5))),
            Text::ReadKeys => read_keys(""),
            Text::ReadLatestKeys => read_keys(if is_mysql { " LOCK IN SHARE MODE" } else { "" }),
            Text::MakeKeys => format!(
                "INSERT INTO {t}_keys (id, version, body) SELECT l.id, l.version, l.body FROM {} AS l WHERE true {}",
                IdColumn::Uuid.listed(dialect, 0),
                if is_mysql {
                    format!("ON DUPLICATE KEY UPDATE version = {t}_keys.version")
                } else {
                    unless_there.to_owned()
                },
            ),
            Text::EraseKey => {
                format!(
                    "INSERT INTO {t}_keys (id, version, body) VALUES (:key0, :int1, :bytes2) {upsert}"
                )
            }
            Text::StaleKeys => stale(&zero, "keys", "p.id AS next").replace(":id0", ":key0"),
            Text::UpdateKey => format!(
                "UPDATE {t}_keys SET version = :int2, body = :bytes3 WHERE id = :key0 AND version = :int1"
            ),
            Text::Stale => stale(&one, "packs", &next),
            Text::StaleRecent => stale(&zero, "recent", "p.id AS next"),
        };
        match text {
            Text::Get
            | Text::GetLatest
            | Text::Range
            | Text::RangeDescending
            | Text::Survey
            | Text::ReadToMerge
            | Text::ReadMeta => sql + dialect.all_rows(),
            _ => sql,
        }
    }
}

/// Returns the id that a walk begins with. SQLite compares keys of all types: the first page begins before integers and texts, which
/// then are an error of the wrong kind of key, and not left out.
fn first_id(dialect: Dialect, ids: IdColumn) -> &'static str {
    match (dialect, ids) {
        (Dialect::Sqlite, IdColumn::Uuid) => {
            "CASE WHEN :id0 = ZEROBLOB(16) THEN -9e999 ELSE :id0 END"
        }
        _ => ":id0",
    }
}

/// Returns whether a body begins with another header. On SQLite a part of no bytes is NULL.
fn is_stale(body: &str) -> String {
    format!("(LENGTH({body}) < 3 OR SUBSTR({body}, 1, 3) <> :bytes1)")
}

fn create_table(dialect: Dialect, name: &str, suffix: &str, id: &str, body: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE {name}_{suffix} (\n    id {id} NOT NULL PRIMARY KEY,\n    \
         version BIGINT NOT NULL,\n    body {body} NOT NULL\n){};\n",
        dialect.engine_clause()
    );
    // Ciphertext does not compress.
    if dialect == Dialect::Postgres {
        sql += &format!("ALTER TABLE {name}_{suffix} ALTER body SET STORAGE EXTERNAL;\n");
    }
    sql
}

/// How many keys a statement takes as a list.
const MOST_KEYS: usize = 1_000;

/// Returns the numbers of keys for each of which there is a text.
fn get_sizes(dialect: Dialect) -> &'static [usize] {
    match dialect {
        Dialect::MySql => &[4, 16, 64],
        _ => &[],
    }
}

fn meta_id(stored: &Stored) -> i64 {
    i64::try_from(stored.id).unwrap_or(i64::MAX)
}

/// Returns the join with the row of a table that has this id, by its index: for a plain join, databases without
/// statistics may read the whole table.
fn lookup(dialect: Dialect, table: &str, alias: &str, id: &str) -> String {
    match dialect {
        Dialect::Postgres => format!(
            "CROSS JOIN LATERAL (SELECT id, version, body FROM {table} WHERE id = {id} LIMIT 1) AS {alias}"
        ),
        Dialect::MySql => format!("STRAIGHT_JOIN {table} AS {alias} ON {alias}.id = {id}"),
        _ => format!("CROSS JOIN {table} AS {alias} ON {alias}.id = {id}"),
    }
}
