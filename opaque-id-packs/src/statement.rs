//! The statements have the same meaning on all databases.

mod builder;
mod columns;

use std::collections::BTreeMap;
use std::iter;

use opaque_id_sql::Dialect;
use opaque_id_sql::catalog::{MissingIndex, primary_key};
use opaque_id_sql::statement::{Cell, Column, Statement, Texts, Value};

pub(crate) use self::builder::Builder;
use self::builder::Parameter::{Bytes, Id, Integer, Key, Keys, List};
use self::builder::{Parameter, Rendered, tiers};
pub(crate) use self::columns::{ConvertedRow, PAGE_ROWS, ValueSource, Write};
use crate::id_column::IdColumn;
use crate::stored::{StoredRow, Tier};

impl StoredRow {
    fn values(&self) -> [Parameter<'_>; 3] {
        [Id(self.id), Integer(self.version), Bytes(&self.body)]
    }

    fn replacing(&self, version: i64) -> [Parameter<'_>; 4] {
        let [id, new, body] = self.values();
        [id, Integer(version), new, body]
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfLocked {
    Wait,
    /// The id is that of the next pack. MySQL locks the ids before a locked pack too, so an insert would wait
    /// for them. Therefore a pack is not split while the next one is locked.
    Skip(Option<u128>),
}

#[derive(Default)]
pub(crate) struct Survey {
    /// Packs, with the number and bytes of their recent rows.
    pub(crate) packs: Vec<(u128, i64, i64)>,
    pub(crate) next: Option<u128>,
    /// The versions of the settings and the dictionaries, by number.
    pub(crate) meta: BTreeMap<i64, i64>,
}

pub(crate) struct Statements {
    name: Box<str>,
    ids: IdColumn,
    texts: Texts<(&'static str, Dialect), Rendered>,
}

const fn survey(id: Column) -> [Column; 4] {
    [Column::Integer, id, Column::Integer, Column::Integer]
}

const META: &[Column] = &[Column::Integer, Column::Integer, Column::Bytes];

const SHARED_LOCK: &str = " LOCK IN SHARE MODE";

const KEYS: &[Column] = &tiers(Column::Uuid);

impl Statements {
    pub(crate) fn new(name: &str, ids: IdColumn) -> Self {
        Self { name: name.into(), ids, texts: Texts::default() }
    }

    pub(crate) fn ids(&self) -> IdColumn {
        self.ids
    }

    /// A column has no tables of rows.
    pub(crate) fn create_sql(
        dialect: Dialect,
        name: &str,
        rows: Option<IdColumn>,
        is_grouped: bool,
    ) -> String {
        let (group, body) = IdColumn::Uuid.types(dialect);
        let row = rows.map(|ids| ids.types(dialect).0);
        let group = is_grouped.then_some(group);
        let ids = [("recent", row), ("packs", row), ("meta", Some("INTEGER")), ("keys", group)];
        let create = |(suffix, id)| Some(create_table(dialect, name, suffix, id?, body));
        ids.into_iter().filter_map(create).collect()
    }

    #[cfg(any(feature = "sqlx", feature = "diesel", feature = "seaorm"))]
    pub(crate) fn drop_sql(name: &str, rows: Option<IdColumn>, is_grouped: bool) -> String {
        let tables = tables(rows.is_some(), is_grouped);
        tables.map(|suffix| format!("DROP TABLE {name}_{suffix};\n")).collect()
    }

    pub(crate) fn on(&self, dialect: Dialect) -> Builder<'_> {
        Builder { table: self, dialect }
    }

    pub(crate) fn read_values(&self, rows: &[Vec<Cell>]) -> Option<Vec<StoredRow>> {
        let read = |cells: &Vec<Cell>| match &cells[..] {
            [id, Cell::Bytes(value), Cell::Bytes(index)] => {
                let stored = StoredRow::new(self.ids.id(id)?, 0, value.clone());
                Some(StoredRow { index: index.clone(), ..stored })
            }
            _ => None,
        };
        rows.iter().map(read).collect()
    }

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
}

impl Builder<'_> {
    /// Reads the recent rows and the packs of keys, without the bodies of packs that are `known` in this
    /// version.
    pub(crate) fn get(self, keys: &[u128], known: &[(u128, i64)]) -> Statement {
        if let ([key], [] | [_]) = (keys, known) {
            let (id, version) = known.first().copied().unwrap_or((0, 0));
            let values = [Id(*key), Id(id), Integer(version)];
            let sql = || self.get_sql("", "p.id AS next") + self.dialect.all_rows();
            return self.named("get", &values, self.tiers(), sql);
        }
        let listed = |id, version| StoredRow::new(id, version, Vec::new());
        let known: Vec<_> = known.iter().map(|(id, version)| listed(*id, *version)).collect();
        let Some(size) = get_sizes(self.dialect).iter().find(|size| **size >= keys.len()) else {
            let keys: Vec<_> = keys.iter().map(|id| listed(*id, 0)).collect();
            let ([zero, one, _], no_body) = (self.numbers(), self.no_body());
            return self.named("get all", &[List(&keys), List(&known)], self.tiers(), || {
                format!(
                    "SELECT {zero} AS tier, r.id, r.version, r.body, r.id AS next FROM {asked} AS a {row} \
                     UNION ALL SELECT {one}, p.id, p.version, CASE WHEN k.id IS NULL THEN p.body ELSE {no_body} END, p.id \
                     FROM (SELECT DISTINCT {pack} AS id FROM {asked} AS a) AS f {found} \
                     LEFT JOIN {known} AS k ON k.id = p.id AND k.version = p.version",
                    asked = self.list(0),
                    row = self.lookup("recent", "r", "a.id"),
                    pack = self.pack_of("a.id"),
                    found = self.lookup("packs", "p", "f.id"),
                    known = self.list(2),
                )
            });
        };
        // A statement has few sizes, so that servers prepare few texts.
        let last = keys.last().copied().unwrap_or_default();
        let keys = keys.iter().copied().chain(iter::repeat(last)).take(*size);
        let keys = keys.map(|key| self.table.ids.value(self.dialect, key)).collect();
        self.get_each(keys, &known)
    }

    /// The number of keys that [`get`](Self::get) takes.
    pub(crate) fn most_keys(self) -> usize {
        get_sizes(self.dialect).last().copied().unwrap_or(MOST_KEYS)
    }

    /// Does the same as [`get`](Self::get) on MySQL's servers, because they look up only the neighbors of
    /// values.
    fn get_each(self, keys: Vec<Value>, known: &[StoredRow]) -> Statement {
        let (t, ids) = (self.name(), self.table.ids);
        let key = match ids {
            IdColumn::Uuid => "CAST(? AS BINARY)",
            IdColumn::Integer => "?",
        };
        let place = format!(
            "SELECT (SELECT q.id FROM {t}_packs AS q WHERE q.id <= {key} ORDER BY q.id DESC LIMIT 1) AS id"
        );
        let places = vec![&*place; keys.len()].join(" UNION ALL ");
        let (body, join) = match known {
            [] => ("p.body", ""),
            _ => (
                "CASE WHEN k.id IS NULL THEN p.body ELSE x'' END",
                " LEFT JOIN (?) AS k ON k.id = p.id AND k.version = p.version",
            ),
        };
        let sql = format!(
            "SELECT CAST(0 AS SIGNED) AS tier, r.id, r.version, r.body, r.id AS next FROM {t}_recent AS r WHERE r.id IN ({}) \
             UNION ALL SELECT CAST(1 AS SIGNED), p.id, p.version, {body}, p.id \
             FROM (SELECT DISTINCT id FROM ({places}) AS e) AS f STRAIGHT_JOIN {t}_packs AS p ON p.id = f.id{join}{}",
            vec![key; keys.len()].join(", "),
            Dialect::MySql.all_rows(),
        );
        let known = (!known.is_empty()).then(|| Value::Literals(ids.literals(known)));
        let values = keys.iter().chain(&keys).cloned().chain(known).collect();
        Statement::new(sql, values, self.tiers())
    }

    /// Also reads the id of the next pack. A call that writes needs it.
    pub(crate) fn get_with_next(self, key: u128) -> Statement {
        self.named("get with next", &[Id(key), Id(0), Integer(0)], self.tiers(), || {
            self.get_sql("", &self.next_of(":id0", "")) + self.dialect.all_rows()
        })
    }

    /// Also sees commits since the transaction began on MySQL. Its default isolation shows them only to
    /// locking reads.
    pub(crate) fn get_latest(self, key: u128) -> Statement {
        self.named("get latest", &[Id(key), Id(0), Integer(0)], self.tiers(), || {
            let lock = " FOR UPDATE";
            let sql = self.get_sql(lock, &self.next_of(":id0", lock));
            // Each part of the union has its own lock, so it needs parentheses. SQLite's grammar does not
            // allow them.
            let sql = sql.replacen("SELECT", "(SELECT", 1);
            sql.replacen(" UNION ALL", ") UNION ALL", 1) + self.dialect.all_rows()
        })
    }

    fn get_sql(self, lock: &str, next: &str) -> String {
        let (t, [zero, one, _], no_body) = (self.name(), self.numbers(), self.no_body());
        let body =
            format!("CASE WHEN p.id = :id1 AND p.version = :int2 THEN {no_body} ELSE p.body END");
        let pack = self.part(
            [&one, "packs", &body, next],
            &format!("id <= :id0 ORDER BY id DESC LIMIT 1{lock}"),
        );
        format!(
            "SELECT {zero} AS tier, r.id, r.version, r.body, r.id AS next FROM {t}_recent AS r WHERE r.id = :id0{lock} \
             UNION ALL {pack}"
        )
    }

    pub(crate) fn put(self, rows: &[StoredRow]) -> Statement {
        match rows {
            // MySQL would truncate a long body in a derived relation.
            [row] => self.named("put", &row.values(), &[], || {
                self.insert_sql("recent", ":id0", self.upsert())
            }),
            _ => self.named("put all", &[List(rows)], &[], || {
                self.insert_all_sql("recent", &self.list(0), "true", self.upsert())
            }),
        }
    }

    /// Writes rows like [`put`](Self::put) if the keys of their groups exist in these versions.
    pub(crate) fn put_grouped(self, rows: &[StoredRow], keys: &[StoredRow]) -> Statement {
        let count = i64::try_from(keys.len()).unwrap_or(i64::MAX);
        let values = [List(rows), Keys(keys), Integer(count)];
        self.named("put grouped", &values, &[], || {
            let are_there = format!(
                "(SELECT COUNT(*) FROM {keys} AS g {key} WHERE k.version = g.version) = :int4",
                keys = IdColumn::Uuid.listed(self.dialect, 2),
                key = self.lookup("keys", "k", "g.id"),
            );
            self.insert_all_sql("recent", &self.list(0), &are_there, self.upsert())
        })
    }

    /// Replaces a recent row of this version, if the key of the new row's group has this id and version.
    pub(crate) fn replace(
        self,
        version: i64,
        new: &StoredRow,
        key: Option<(u128, i64)>,
    ) -> Statement {
        let name = if key.is_none() { "replace" } else { "replace grouped" };
        let values: Vec<_> = new.replacing(version).into_iter().chain(version_of(key)).collect();
        self.named(name, &values, &[], || self.update_sql("recent", ":id0") + &self.has(key, 4))
    }

    /// Inserts a recent row if the pack still has this version, and the key of the row's group has this id
    /// and version. The pack is locked until the row is committed, so that no merger can have merged a row of
    /// this key meanwhile. On MySQL it fails if the row exists.
    pub(crate) fn insert_if(
        self,
        pack: (u128, i64),
        new: &StoredRow,
        key: Option<(u128, i64)>,
    ) -> Statement {
        let name = if key.is_none() { "insert if" } else { "insert if grouped" };
        let pack = [Id(pack.0), Integer(pack.1)];
        let values: Vec<_> = pack.into_iter().chain(new.values()).chain(version_of(key)).collect();
        self.named(name, &values, &[], || {
            format!(
                "INSERT INTO {t}_recent (id, version, body) SELECT :id2, :int3, :bytes4 FROM {t}_packs AS p \
                 WHERE p.id = :id0 AND p.version = :int1{}{} {}",
                self.has(key, 5),
                self.wait(),
                self.unless_there(),
                t = self.name()
            )
        })
    }

    /// Replaces a pack of this version and inserts its right parts. It is one statement, so that no reader
    /// sees half of it and no writer leaves half of it.
    pub(crate) fn write_packs(
        self,
        version: i64,
        packs: &[StoredRow],
        if_locked: IfLocked,
    ) -> Statement {
        let [pack] = packs else { return self.write_all_packs(version, packs, if_locked) };
        let (t, skips_locked) = (self.name(), if_locked != IfLocked::Wait);
        let name = if skips_locked { "update free pack" } else { "update pack" };
        self.named(name, &pack.replacing(version), &[], || match self.dialect {
            // MySQL does not update a table that a subquery reads, unless a limit makes it materialize the subquery first.
            Dialect::MySql if skips_locked => format!(
                "UPDATE (SELECT id FROM {t}_packs WHERE id = :id0 AND version = :int1 LIMIT 1{skip}) AS free \
                 STRAIGHT_JOIN {t}_packs AS p ON p.id = free.id SET p.version = :int2, p.body = :bytes3",
                skip = self.skip()
            ),
            Dialect::Postgres if skips_locked => format!(
                "UPDATE {t}_packs SET version = :int2, body = :bytes3 WHERE id = \
                 (SELECT id FROM {t}_packs WHERE id = :id0 AND version = :int1{skip})",
                skip = self.skip()
            ),
            _ => self.update_sql("packs", ":id0"),
        })
    }

    fn write_all_packs(self, version: i64, packs: &[StoredRow], if_locked: IfLocked) -> Statement {
        let (t, id) = (self.name(), packs[0].id);
        let (name, lock, next) = match if_locked {
            IfLocked::Wait => ("write packs", self.wait(), None),
            IfLocked::Skip(next) => ("write free packs", self.skip(), Some(next.unwrap_or(id))),
        };
        let next = next.filter(|_| self.is_mysql());
        let mut values = vec![Id(id), Integer(version), List(packs)];
        values.extend(next.map(Id));
        self.named(name, &values, &[], || {
            let is_same = format!(
                "EXISTS (SELECT 1 FROM {t}_packs AS p WHERE p.id = :id0 AND p.version = :int1{lock})"
            );
            let condition = match next {
                None => is_same,
                Some(_) => format!(
                    "{is_same} AND EXISTS (SELECT 1 FROM {t}_packs AS n WHERE n.id = :id4{lock})"
                ),
            };
            self.insert_all_sql("packs", &self.list(2), &condition, self.upsert())
        })
    }

    /// On MySQL it fails if the id exists.
    pub(crate) fn insert_pack(self, pack: &StoredRow) -> Statement {
        self.named("insert pack", &pack.values(), &[], || {
            self.insert_sql("packs", ":id0", self.unless_there())
        })
    }

    /// Reads up to `packs` packs and up to `rows` recent rows of a range, from its first or its last key on.
    pub(crate) fn range(
        self,
        (first, last): (u128, u128),
        is_descending: bool,
        packs: i64,
        rows: i64,
    ) -> Statement {
        let (name, order) = match is_descending {
            true => ("range descending", " DESC"),
            false => ("range", ""),
        };
        let values = [Id(first), Id(last), Integer(packs), Integer(rows)];
        self.named(name, &values, self.tiers(), || {
            let (t, [zero, one, two], no_body) = (self.name(), self.numbers(), self.no_body());
            let first = format!("COALESCE({}, :id0)", self.pack_of(":id0"));
            // Each pack of the answer is the next one of the pack before it. Only the last one's next id is read
            // separately.
            let (next, last) = match self.is_mysql() {
                true => (
                    "p.id AS next".to_owned(),
                    format!(
                        " UNION ALL SELECT {two}, n.id, {zero}, {no_body}, n.id FROM \
                         (SELECT id FROM {t}_packs WHERE id > :id1 ORDER BY id LIMIT 1) AS n \
                         UNION ALL SELECT {two}, n.id, {zero}, {no_body}, n.id FROM \
                         (SELECT id FROM {t}_packs WHERE id >= {first} ORDER BY id LIMIT 1 OFFSET :int2) AS n"
                    ),
                ),
                false => (self.next(), String::new()),
            };
            let packs = self.part(
                [&one, "packs", "p.body", &next],
                &format!("id >= {first} AND id <= :id1 ORDER BY id{order} LIMIT :int2"),
            );
            let rows = self.part(
                [&zero, "recent", "p.body", "p.id AS next"],
                &format!("id >= :id0 AND id <= :id1 ORDER BY id{order} LIMIT :int3"),
            );
            format!("{packs} UNION ALL {rows}{last}{}", self.dialect.all_rows())
        })
    }

    /// Finds, for up to `limit` recent rows from a key on, the number and bytes of each pack's rows, the
    /// first key after them, and the versions of the settings and the dictionaries. Rows without a pack
    /// before them are counted for the missing pack.
    pub(crate) fn survey(self, from: u128, limit: i64) -> Statement {
        let columns = match self.table.ids {
            IdColumn::Uuid => const { &survey(Column::Uuid) },
            IdColumn::Integer => const { &survey(Column::Integer) },
        };
        let (t, [zero, one, two], bigint) = (self.name(), self.numbers(), self.bigint());
        self.named("survey", &[Id(from), Integer(limit)], columns, || {
            let surveyed = format!("FROM {t}_recent AS r WHERE r.id >= :id0 ORDER BY r.id LIMIT");
            let rows = match self.is_mysql() {
                // A join looks up the span of packs. For a comparison with a subquery MariaDB would read all
                // of them.
                true => format!(
                    "(SELECT bytes, pack FROM (SELECT is_row, bytes, COALESCE(MAX(pack) OVER \
                     (ORDER BY id, is_row ROWS UNBOUNDED PRECEDING), :id0) AS pack FROM \
                     (SELECT p.id, 0 AS is_row, 0 AS bytes, p.id AS pack FROM \
                     (SELECT COALESCE({first}, :id0) AS low, MAX(l.id) AS high FROM (SELECT r.id {surveyed} :int1) AS l) AS span \
                     STRAIGHT_JOIN {t}_packs AS p ON p.id BETWEEN span.low AND span.high \
                     UNION ALL (SELECT r.id, 1, LENGTH(r.body), NULL {surveyed} :int1)) AS both_tiers) AS placed \
                     WHERE is_row = 1)",
                    first = self.pack_of(&format!("(SELECT r.id {surveyed} 1)")),
                ),
                false => format!(
                    "(SELECT LENGTH(r.body) AS bytes, COALESCE({pack}, :id0) AS pack {surveyed} :int1)",
                    pack = self.pack_of("r.id"),
                ),
            };
            format!(
                "SELECT {one} AS tier, s.pack, COUNT(*), CAST(SUM(s.bytes) AS {bigint}) FROM {rows} AS s GROUP BY s.pack \
                 UNION ALL SELECT {zero}, n.id, {zero}, {zero} FROM \
                 (SELECT id FROM {t}_recent WHERE id >= :id0 ORDER BY id LIMIT 1 OFFSET :int1) AS n \
                 UNION ALL SELECT {two}, f.id, CAST(m.id AS {bigint}), m.version FROM {t}_meta AS m CROSS JOIN \
                 (SELECT id FROM {t}_packs ORDER BY id LIMIT 1) AS f{}",
                self.dialect.all_rows()
            )
        })
    }

    /// Reads a pack and up to `limit` of its recent rows, from a key up to the next pack, in one snapshot
    /// (I2).
    pub(crate) fn read_to_merge(self, pack: u128, from: u128, limit: i64) -> Statement {
        let values = [Id(pack), Integer(limit), Id(self.table.ids.max()), Id(from)];
        let (t, [zero, one, _]) = (self.name(), self.numbers());
        self.named("read to merge", &values, self.tiers(), || {
            let next = self.next_of(":id0", "");
            let rows = self.part(
                [&zero, "recent", "p.body", "p.id AS next"],
                &format!(
                    "id >= :id3 AND id <= \
                     COALESCE((SELECT n.id FROM {t}_packs AS n WHERE n.id > :id0 ORDER BY n.id LIMIT 1), :id2) \
                     ORDER BY id LIMIT :int1"
                ),
            );
            format!(
                "SELECT {one} AS tier, p.id, p.version, p.body, {next} FROM {t}_packs AS p WHERE p.id = :id0 \
                 UNION ALL {rows}{}",
                self.dialect.all_rows()
            )
        })
    }

    pub(crate) fn delete_row(self, id: u128, version: i64) -> Statement {
        self.named("delete row", &[Id(id), Integer(version)], &[], || {
            format!("DELETE FROM {t}_recent WHERE id = :id0 AND version = :int1", t = self.name())
        })
    }

    /// Deletes recent rows that still have the version of the list, if the server has this pack or one that
    /// replaced it (I3). It skips locked rows.
    pub(crate) fn delete_recent(self, pack: &StoredRow, rows: &[StoredRow]) -> Statement {
        let (t, skip) = (self.name(), self.skip());
        // Later versions have a greater upper half.
        let before_later = pack.version | i64::from(u32::MAX);
        let values = [Id(pack.id), Integer(pack.version), Integer(before_later), List(rows)];
        self.named("delete recent", &values, &[], || {
            let rows = self.list(3);
            let pack = format!(
                "SELECT id FROM {t}_packs WHERE id = :id0 AND (version = :int1 OR version > :int2)"
            );
            match self.dialect {
                // With arrays and subqueries, PostgreSQL uses the index for any statistics.
                Dialect::Postgres => format!(
                    "DELETE FROM {t}_recent WHERE id = ANY (ARRAY(SELECT r.id FROM {rows} AS l CROSS JOIN LATERAL \
                     (SELECT id FROM {t}_recent WHERE id = l.id AND version = l.version{skip}) AS r WHERE EXISTS ({pack})))"
                ),
                Dialect::MySql => format!(
                    "DELETE r FROM (SELECT q.id FROM ({pack} LIMIT 1{skip}) AS p STRAIGHT_JOIN {rows} AS l \
                     STRAIGHT_JOIN {t}_recent AS q ON q.id = l.id AND q.version = l.version \
                     LIMIT 18446744073709551615{skip}) AS free STRAIGHT_JOIN {t}_recent AS r ON r.id = free.id"
                ),
                _ => format!(
                    "DELETE FROM {t}_recent WHERE rowid IN (SELECT r.rowid FROM {rows} AS l \
                     CROSS JOIN {t}_recent AS r ON r.id = l.id AND r.version = l.version WHERE EXISTS ({pack}))"
                ),
            }
        })
    }

    /// Returns a row if the server's replicas repeat its statements.
    pub(crate) fn statement_binlog(self) -> Option<Statement> {
        const SQL: &str = "SELECT CAST(1 AS SIGNED) FROM /*M! information_schema.session_variables */ \
            /*!80000 performance_schema.session_variables */ \
            WHERE VARIABLE_NAME = 'binlog_format' AND VARIABLE_VALUE = 'STATEMENT' AND @@log_bin";
        let columns = &[Column::Integer];
        self.is_mysql().then(|| self.named("binlog", &[], columns, || SQL.to_owned()))
    }

    /// Reads the names of tables without a primary key, because MySQL would insert a row again instead of
    /// replacing it.
    pub(crate) fn no_primary_keys(self, has_rows: bool, is_grouped: bool) -> Statement {
        let missing = |suffix| {
            let table = &*format!("{}_{suffix}", self.name());
            let missing = MissingIndex {
                label: table,
                table,
                columns: "id",
                is_unique: true,
                is_arbiter: true,
                name: None,
            };
            let sql = missing.sql(self.dialect);
            match self.dialect {
                Dialect::Sqlite => format!("{sql} AND {} IS NOT 'id'", primary_key(table)),
                _ => sql,
            }
        };
        let missing: Vec<_> = tables(has_rows, is_grouped).map(missing).collect();
        let sql = missing.join(" UNION ALL ") + self.dialect.all_rows();
        Statement::new(sql, Vec::new(), &[Column::Text, Column::Text])
    }

    pub(crate) fn unix_seconds(self) -> Statement {
        self.named("time", &[], &[Column::Integer], || {
            let seconds = match self.dialect {
                Dialect::Postgres => "EXTRACT(EPOCH FROM clock_timestamp())",
                Dialect::MySql => "UNIX_TIMESTAMP()",
                _ => "strftime('%s', 'now')",
            };
            format!("SELECT CAST({seconds} AS {})", self.bigint())
        })
    }

    /// `latest` is the same as in [`read_keys`](Self::read_keys).
    pub(crate) fn read_meta(self, latest: bool) -> Statement {
        let (name, lock) = match latest && self.is_mysql() {
            true => ("read latest meta", SHARED_LOCK),
            false => ("read meta", ""),
        };
        self.named(name, &[], META, || {
            let id = if self.dialect == Dialect::Postgres { "CAST(id AS int8)" } else { "id" };
            format!(
                "SELECT {id}, version, body FROM {t}_meta ORDER BY 1{}{lock}",
                self.dialect.all_rows(),
                t = self.name()
            )
        })
    }

    /// On MySQL it fails if the number exists.
    pub(crate) fn insert_meta(self, stored: &StoredRow) -> Statement {
        let [_, version, body] = stored.values();
        let values = [Integer(meta_id(stored)), version, body];
        self.named("insert meta", &values, &[], || {
            self.insert_sql("meta", ":int0", self.unless_there())
        })
    }

    pub(crate) fn update_meta(self, stored: &StoredRow) -> Statement {
        let [_, before, version, body] = stored.replacing(stored.version - 1);
        let values = [Integer(meta_id(stored)), before, version, body];
        self.named("update meta", &values, &[], || self.update_sql("meta", ":int0"))
    }

    pub(crate) fn delete_dictionaries(self, before: u16) -> Statement {
        self.named("delete dictionaries", &[Integer(before.into())], &[], || {
            format!("DELETE FROM {t}_meta WHERE id > 0 AND id < :int0", t = self.name())
        })
    }

    /// With `latest` it also reads commits since the transaction began: MySQL's default isolation shows them
    /// only to locking reads.
    pub(crate) fn read_keys(self, ids: &[u128], latest: bool) -> Statement {
        let ids: Vec<_> = ids.iter().map(|id| StoredRow::new(*id, 0, Vec::new())).collect();
        let (name, lock) = match latest && self.is_mysql() {
            true => ("read latest keys", SHARED_LOCK),
            false => ("read keys", ""),
        };
        self.named(name, &[Keys(&ids)], KEYS, || {
            format!(
                "SELECT {zero} AS tier, k.id, k.version, k.body, k.id AS next FROM {} AS a {}{}{lock}",
                IdColumn::Uuid.listed(self.dialect, 0),
                self.lookup("keys", "k", "a.id"),
                self.dialect.all_rows(),
                zero = self.number(0),
            )
        })
    }

    pub(crate) fn make_keys(self, keys: &[StoredRow]) -> Statement {
        self.named("make keys", &[Keys(keys)], &[], || {
            let unless_there = match self.is_mysql() {
                true => format!("ON DUPLICATE KEY UPDATE version = {}_keys.version", self.name()),
                false => self.unless_there().to_owned(),
            };
            let keys = IdColumn::Uuid.listed(self.dialect, 0);
            self.insert_all_sql("keys", &keys, "true", &unless_there)
        })
    }

    pub(crate) fn erase_key(self, mark: &StoredRow) -> Statement {
        let values = [Key(mark.id), Integer(mark.version), Bytes(&mark.body)];
        self.named("erase key", &values, &[], || self.insert_sql("keys", ":key0", self.upsert()))
    }

    pub(crate) fn update_key(self, version: i64, key: &StoredRow) -> Statement {
        let values = [Key(key.id), Integer(version), Integer(key.version), Bytes(&key.body)];
        self.named("update key", &values, &[], || self.update_sql("keys", ":key0"))
    }

    /// Reads up to `limit` packs, recent rows or keys from an id on that have a body with another header.
    pub(crate) fn stale(self, tier: Tier, from: u128, header: &[u8], limit: i64) -> Statement {
        let (name, number, table) = match tier {
            Tier::Packs => ("stale packs", 1, "packs"),
            Tier::Recent => ("stale recent", 0, "recent"),
            Tier::Keys => ("stale keys", 0, "keys"),
        };
        let (t, tier_number) = (self.name(), self.number(number));
        let (first, columns) = match tier {
            Tier::Keys => (Key(from), KEYS),
            Tier::Packs | Tier::Recent => (Id(from), self.tiers()),
        };
        self.named(name, &[first, Integer(limit), Bytes(header)], columns, || {
            let (from, next) = match tier {
                Tier::Packs => (self.first_id().to_owned(), self.next()),
                Tier::Recent => (self.first_id().to_owned(), "p.id AS next".to_owned()),
                Tier::Keys => {
                    (self.first_id().replace(":id0", ":key0"), "p.id AS next".to_owned())
                }
            };
            format!(
                "SELECT {tier_number} AS tier, p.id, p.version, p.body, {next} FROM {t}_{table} AS p \
                 WHERE p.id >= {from} AND {} ORDER BY p.id LIMIT :int1",
                is_stale("p.body")
            )
        })
    }
}

fn tables(has_rows: bool, is_grouped: bool) -> impl Iterator<Item = &'static str> {
    let tables = [("recent", has_rows), ("packs", has_rows), ("meta", true), ("keys", is_grouped)];
    tables.into_iter().filter_map(|(suffix, exists)| exists.then_some(suffix))
}

fn version_of<'p>(key: Option<(u128, i64)>) -> impl Iterator<Item = Parameter<'p>> {
    key.into_iter().flat_map(|(id, version)| [Key(id), Integer(version)])
}

/// On SQLite a part without bytes is NULL.
fn is_stale(body: &str) -> String {
    format!("(LENGTH({body}) < 3 OR SUBSTR({body}, 1, 3) <> :bytes2)")
}

fn create_table(dialect: Dialect, name: &str, suffix: &str, id: &str, body: &str) -> String {
    let mut sql = format!(
        "CREATE TABLE {name}_{suffix} (\n    id {id} NOT NULL PRIMARY KEY,\n    \
         version BIGINT NOT NULL,\n    body {body} NOT NULL\n){};\n",
        dialect.engine_clause()
    );
    // Ciphertext does not compress. With the greatest target, a pack of the default size stays in the page.
    if dialect == Dialect::Postgres {
        let target = if suffix == "packs" { ", SET (toast_tuple_target = 8160)" } else { "" };
        sql += &format!("ALTER TABLE {name}_{suffix} ALTER body SET STORAGE EXTERNAL{target};\n");
    }
    sql
}

const MOST_KEYS: usize = 1_000;

fn get_sizes(dialect: Dialect) -> &'static [usize] {
    match dialect {
        Dialect::MySql => &[4, 16, 64],
        _ => &[],
    }
}

fn meta_id(stored: &StoredRow) -> i64 {
    i64::try_from(stored.id).unwrap_or(i64::MAX)
}
