//! The wrong key columns, and the columns that the script converts.

use std::collections::{BTreeMap, BTreeSet};

use crate::maps;
use crate::names::{is_excluded, is_id_name, is_plain};
use crate::report::{Finding, Report};
use crate::{CheckError, KeyColumn};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredType {
    Bytes,
    Integer,
    Integer32,
    Unsigned32,
}

pub(crate) enum Judgment {
    Right(StoredType),
    Wrong(StoredType, String),
    /// The reason why the column is not judged.
    Unknown(&'static str),
    /// The column's name, length or values show that it stores no ids.
    NoId,
}

impl Judgment {
    /// The column's name, its declared length and its values count together.
    pub(crate) fn for_text(
        column: &str,
        length: Option<i64>,
        values: Values,
        ignores_case: bool,
    ) -> Self {
        match (is_id_name(column), values) {
            // The shortest text of 16 bytes is a ULID's.
            _ if length.is_some_and(|length| length < 26) => Self::NoId,
            (true, Values::None) if !matches!(length, Some(26 | 32 | 36)) => Self::Unknown(EMPTY),
            (true, Values::None | Values::Ids) => {
                Self::Wrong(StoredType::Bytes, text_problem(ignores_case))
            }
            (false, Values::Ids) => Self::Unknown(NAME),
            _ => Self::NoId,
        }
    }

    /// Only its name or its values make the column a key, or it is a part of one.
    pub(crate) fn for_undeclared(self) -> Self {
        match self {
            Self::Wrong(StoredType::Bytes, _) | Self::Unknown(_) => Self::Unknown(UNDECLARED),
            Self::Wrong(..) => Self::NoId,
            judgment => judgment,
        }
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Values {
    /// No value was read.
    None,
    Others,
    Ids,
}

pub(crate) type Place = (String, String);

pub(crate) struct Key {
    pub(crate) place: Place,
    pub(crate) is_declared: bool,
    pub(crate) found: String,
    pub(crate) judgment: Judgment,
}

pub(crate) struct ForeignKey {
    pub(crate) name: String,
    pub(crate) from: Place,
    pub(crate) to: Place,
    pub(crate) drop: String,
    /// It is empty if the role may not see the key's rules.
    pub(crate) add: String,
}

impl ForeignKey {
    fn is_plain(&self) -> bool {
        let (from, to) = (&self.from, &self.to);
        let mut printed = [&from.0, &from.1, &to.0, &to.1, &self.drop, &self.add].into_iter();
        printed.all(|name| is_plain(name))
    }
}

pub(crate) struct Conversion {
    pub(crate) ty: &'static str,
    pub(crate) value: String,
    pub(crate) bad: String,
    /// The script keeps the old rows because the conversion can change the text of a value.
    pub(crate) keeps_rows: bool,
}

pub(crate) struct Draft {
    pub(crate) finding: Finding,
    pub(crate) stored: StoredType,
    pub(crate) conversion: Option<Conversion>,
}

impl Draft {
    pub(crate) fn place(&self) -> (&str, &str) {
        (&self.finding.table, &self.finding.column)
    }

    fn is_of(&self, place: &Place) -> bool {
        self.place() == (&place.0, &place.1)
    }

    pub(crate) fn is_in(&self, key: &ForeignKey) -> bool {
        self.is_of(&key.from) || self.is_of(&key.to)
    }

    pub(crate) fn leave_alone(&mut self, reason: impl Into<String>) {
        self.conversion = None;
        self.finding.left_alone.get_or_insert(reason.into());
    }

    /// Counts the values that cannot be converted. If the script converts the column, also counts the primary
    /// keys that become equal, because they have the same `digits`.
    pub(crate) async fn count(
        &mut self,
        connection: &mut impl Ask,
        (table, column): (&str, &str),
        bad: &str,
        digits: Option<&str>,
    ) -> Result<(), CheckError> {
        let unconvertible = format!("SELECT COUNT(*) FROM {table} WHERE {bad}");
        if let Ok(count @ 1..) = u64::try_from(connection.number(unconvertible).await?) {
            self.finding.unconvertible = count;
            self.finding.query = Some(format!("SELECT {column} FROM {table} WHERE {bad};"));
            self.leave_alone(match count {
                1 => "1 value cannot be converted; this query lists it".to_owned(),
                _ => format!("{count} values cannot be converted; this query lists them"),
            });
        }
        if let (Some(digits), Some(_)) = (digits, &self.conversion)
            && connection.number(count_equal(digits, table)).await? > 0
        {
            self.finding.query = Some(format!(
                "SELECT {digits}, count(*) FROM {table} GROUP BY {digits} HAVING count(*) > 1;"
            ));
            self.leave_alone("some keys differ only in case or hyphens; this query lists them");
        }
        Ok(())
    }
}

pub(crate) trait Ask: Send {
    fn number(&mut self, sql: String) -> impl Future<Output = Result<i64, CheckError>> + Send;

    /// If the column is not a key by its name or a constraint, its values count as ids only if all of them
    /// are.
    fn values(
        &mut self,
        table: &str,
        column: &str,
        is_id: &str,
        is_key: bool,
    ) -> impl Future<Output = Result<Values, CheckError>> + Send {
        let any = |condition: &str| {
            format!(
                "(SELECT COUNT(*) FROM (SELECT 1 FROM {table} WHERE {condition} LIMIT 1) AS found)"
            )
        };
        let first = match is_key {
            true => any(is_id),
            false => any(&format!("{column} IS NOT NULL AND NOT ({is_id})")),
        };
        let found = format!("SELECT {first} + {}", any(&format!("{column} IS NOT NULL")));
        async move {
            Ok(match (self.number(found).await?, is_key) {
                (0, _) => Values::None,
                (1, true) | (2, false) => Values::Others,
                _ => Values::Ids,
            })
        }
    }
}

macro_rules! ask {
    ($($connection:ident)*) => {$(
        impl Ask for sqlx::$connection {
            async fn number(&mut self, sql: String) -> Result<i64, CheckError> {
                Ok(sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(self).await?)
            }
        }
    )*};
}

ask! { MySqlConnection PgConnection SqliteConnection }

pub(crate) fn count_equal(digits: &str, table: &str) -> String {
    format!("SELECT COUNT({digits}) - COUNT(DISTINCT {digits}) FROM {table}")
}

/// Compares each key with the column that it references, or else with its own meaning.
///
/// A wrong column is left alone if a column on the other side of a foreign key is not checked.
pub(crate) fn drafts(
    mut keys: Vec<Key>,
    foreign_keys: &[ForeignKey],
    exclude: &[String],
) -> (Report, Vec<Draft>) {
    keys.retain(|key| !is_excluded(exclude, &key.place.0, &key.place.1));
    for key in keys.iter_mut().filter(|key| !key.is_declared) {
        key.judgment = std::mem::replace(&mut key.judgment, Judgment::NoId).for_undeclared();
    }
    let keys = by_place(keys);
    let roots = Roots::new(&keys, foreign_keys);
    let (mut report, mut drafts) = (Report::default(), Vec::new());
    for (place, key) in &keys {
        let root = roots.of(key);
        let stored = roots.wanted(place);
        let problem = match (&key.judgment, stored, &root.judgment) {
            (Judgment::Right(is), Some(stored), _) if *is == stored => {
                report.right += usize::from(key.is_declared);
                continue;
            }
            (Judgment::Wrong(is, problem), Some(stored), _) if *is == stored => problem.clone(),
            // The column's own values do not show the fault.
            (Judgment::Unknown(_) | Judgment::NoId, Some(_), Judgment::Wrong(_, problem))
                if key.found == root.found =>
            {
                problem.clone()
            }
            (_, Some(_), _) if root.place == *place => {
                "a column that references it stores integers of 64 bits".to_owned()
            }
            (_, Some(_), _) => "the referenced column stores keys of a different type".to_owned(),
            (_, None, Judgment::Unknown(reason)) if root.place == *place => {
                format!("not judged: {reason}")
            }
            (_, None, Judgment::Unknown(_)) => {
                "not judged, because the referenced column is not".to_owned()
            }
            (_, None, _) => continue,
        };
        let is_elsewhere = |foreign: &ForeignKey| {
            foreign.from == *place && !keys.contains_key(&foreign.to)
                || foreign.to == *place && !keys.contains_key(&foreign.from)
        };
        let finding = Finding {
            table: place.0.clone(),
            column: place.1.clone(),
            found: key.found.clone(),
            problem,
            unconvertible: 0,
            query: None,
            left_alone: foreign_keys.iter().any(is_elsewhere).then(|| REFERS_ELSEWHERE.to_owned()),
        };
        match stored {
            Some(stored) => drafts.push(Draft { finding, stored, conversion: None }),
            None => report.not_judged.push(Finding { left_alone: None, ..finding }),
        }
    }
    // Other columns matter only to joins.
    if drafts.iter().all(|draft| draft.stored != StoredType::Bytes) {
        let is_other =
            |column: &Finding| column.problem.ends_with(UNDECLARED) && !is_id_name(&column.column);
        report.not_judged.retain(|column| !is_other(column));
    }
    // A join of a converted key with an unconverted column would find nothing.
    let mut unknown = report.not_judged.iter();
    if let Some(other) = unknown.find(|column| column.problem.ends_with(UNDECLARED)) {
        for draft in drafts.iter_mut().filter(|draft| draft.stored == StoredType::Bytes) {
            draft.leave_alone(format!(
                "{}.{} may refer to it; declare its foreign key, or exclude that column",
                other.table, other.column
            ));
        }
    }
    (report, drafts)
}

fn by_place(keys: Vec<Key>) -> BTreeMap<Place, Key> {
    let keys = keys.into_iter().map(|key| (key.place.clone(), key));
    keys.collect()
}

struct Roots<'k> {
    keys: &'k BTreeMap<Place, Key>,
    next: BTreeMap<&'k Place, Option<&'k Key>>,
    wide: BTreeSet<&'k Place>,
}

impl<'k> Roots<'k> {
    fn new(keys: &'k BTreeMap<Place, Key>, foreign_keys: &'k [ForeignKey]) -> Self {
        let mut roots = Self { keys, next: BTreeMap::new(), wide: BTreeSet::new() };
        for foreign in foreign_keys {
            let next = roots.next.entry(&foreign.from).or_default();
            *next = next.or_else(|| keys.get(&foreign.to));
        }
        let is_wide = |key: &&Key| matches!(key.judgment, Judgment::Right(StoredType::Integer));
        roots.wide = keys.values().filter(is_wide).map(|key| &roots.of(key).place).collect();
        roots
    }

    /// A column may reference a column that is no key, or that is in another schema.
    fn ends_elsewhere(&self, key: &'k Key) -> bool {
        self.next.get(&self.of(key).place).is_some_and(Option::is_none)
    }

    /// A cycle ends too.
    fn of(&self, mut key: &'k Key) -> &'k Key {
        for _ in 0..self.next.len() {
            match self.next.get(&key.place) {
                Some(Some(next)) => key = next,
                _ => break,
            }
        }
        key
    }

    /// An integer must be as wide as the widest column that references it.
    fn wanted(&self, place: &Place) -> Option<StoredType> {
        let root = self.of(self.keys.get(place)?);
        match root.judgment {
            Judgment::Right(StoredType::Integer32 | StoredType::Unsigned32)
            | Judgment::Wrong(StoredType::Integer32 | StoredType::Unsigned32, _)
                if self.wide.contains(&root.place) =>
            {
                Some(StoredType::Integer)
            }
            Judgment::Right(stored) | Judgment::Wrong(stored, _) => Some(stored),
            Judgment::Unknown(_) | Judgment::NoId => None,
        }
    }
}

/// Returns the keys that are ids, with the tables of the rows that they identify. `sample` returns the table
/// and the column for a query and the SQL for the version's digit of its UUIDs, or `None` if its rows must not
/// be read.
pub(crate) async fn key_columns(
    connection: &mut impl Ask,
    keys: Vec<Key>,
    foreign_keys: &[ForeignKey],
    queried: impl Fn(&str) -> String,
    all: &[(&String, &String)],
    sample: impl Fn(&Place) -> Option<[String; 3]>,
) -> Result<Vec<KeyColumn>, CheckError> {
    let keys = by_place(keys);
    let roots = Roots::new(&keys, foreign_keys);
    let mut ids = Vec::new();
    let is_known = |place: &Place, key| roots.wanted(place).is_some() && !roots.ends_elsewhere(key);
    for (place, key) in keys.iter().filter(|(place, key)| is_known(place, key)) {
        let mut version = 0;
        let is_own = !roots.next.contains_key(place);
        if let (true, Judgment::Right(StoredType::Bytes)) = (is_own, &key.judgment)
            && let Some([table, column, digit]) = sample(place)
        {
            // A UUIDv7 begins with a time, so these keys come first and any UUIDv4 last. The product has the
            // type of a count on all databases.
            let end = |order| {
                format!(
                    "SELECT {digit} AS v FROM (SELECT {column} FROM {table} ORDER BY {column}{order} LIMIT 500) AS s"
                )
            };
            let versions = format!(
                "SELECT count(*) * CASE WHEN min(v) = '7' AND max(v) = '7' THEN 1
                     WHEN min(v) = '4' AND max(v) = '4' THEN -1 ELSE 0 END
                 FROM ({} UNION ALL {}) AS s",
                end(""),
                end(" DESC")
            );
            version = connection.number(versions).await?.signum();
        }
        let kinds: &[_] = match (&key.judgment, version) {
            (Judgment::Right(StoredType::Integer), _) => &["i64"],
            (Judgment::Right(StoredType::Integer32), _) => &["i32"],
            (Judgment::Right(StoredType::Unsigned32), _) => &["u32"],
            (Judgment::Right(StoredType::Bytes), 1) => &["Uuid7"],
            (Judgment::Right(StoredType::Bytes), -1) => &["Uuid"],
            (Judgment::Right(StoredType::Bytes), _) => &["Uuid7", "Uuid", "Ulid", "StructuredKey"],
            _ => &[],
        };
        ids.push(KeyColumn {
            table: queried(&place.0),
            column: place.1.clone(),
            identifies: roots.of(key).place.0.clone(),
            found: key.found.clone(),
            kinds: (is_own && !maps::is_ours(&place.0, all.iter().copied())).then_some(kinds),
        });
    }
    Ok(ids)
}

/// A foreign key needs the same type on both sides, so the tables that are connected to the column's table
/// stay too.
pub(crate) fn leave_connected_alone(drafts: &mut [Draft], foreign_keys: &[ForeignKey]) {
    for draft in drafts.iter_mut() {
        if draft.finding.left_alone.is_some() {
            draft.conversion = None;
        }
    }
    // The script also contains the names on the other side of a foreign key.
    for key in foreign_keys.iter().filter(|key| !key.is_plain()) {
        for draft in drafts.iter_mut().filter(|draft| draft.is_in(key)) {
            draft.leave_alone(NOT_PLAIN);
        }
    }
    loop {
        let reasons: BTreeMap<String, String> = drafts
            .iter()
            .filter(|draft| draft.conversion.is_none())
            .map(|draft| {
                let (table, column) = draft.place();
                (table.to_owned(), format!("{table}.{column}"))
            })
            .collect();
        let is_wrong = |place: &Place| drafts.iter().any(|draft| draft.is_of(place));
        let connected: Vec<(String, String)> = foreign_keys
            .iter()
            .filter(|key| is_wrong(&key.from) || is_wrong(&key.to))
            .flat_map(|key| [(&key.from.0, &key.to.0), (&key.to.0, &key.from.0)])
            .filter_map(|(alone, other)| Some((other.clone(), reasons.get(alone)?.clone())))
            .collect();
        let mut has_changed = false;
        for draft in drafts.iter_mut().filter(|draft| draft.conversion.is_some()) {
            let table = &draft.finding.table;
            let reason = reasons.get(table).or_else(|| {
                let other = connected.iter().find(|(other, _)| other == table);
                other.map(|(_, reason)| reason)
            });
            if let Some(reason) = reason.cloned() {
                draft.leave_alone(format!("{reason} must be fixed first"));
                has_changed = true;
            }
        }
        if !has_changed {
            return;
        }
    }
}

pub(crate) fn by_table(drafts: &[Draft]) -> BTreeMap<&str, Vec<(&Draft, &Conversion)>> {
    let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for draft in drafts {
        if let Some(conversion) = &draft.conversion {
            let columns = tables.entry(draft.finding.table.as_str()).or_default();
            columns.push((draft, conversion));
        }
    }
    tables
}

pub(crate) fn affected<'k>(
    drafts: &[Draft],
    foreign_keys: &'k [ForeignKey],
) -> Vec<&'k ForeignKey> {
    let is_converted = |place: &Place| {
        let mut drafts = drafts.iter().filter(|draft| draft.is_of(place));
        drafts.any(|draft| draft.conversion.is_some())
    };
    foreign_keys.iter().filter(|key| is_converted(&key.from) || is_converted(&key.to)).collect()
}

pub(crate) const OLD_ROWS: &str =
    "-- The old rows; drop these tables when you no longer need them:";
const REFERS_ELSEWHERE: &str =
    "it references, or is referenced by, a column that is not checked; convert both manually";
pub(crate) const TYPE: &str =
    "no rule exists for this type; use another type, or exclude the column";
pub(crate) const NAME: &str =
    "its values may be ids, but its name is not that of an id; rename it, or exclude it";
pub(crate) const EMPTY: &str = "its name is an id's, but it has neither an id's length nor values; check again with values, or exclude it";
pub(crate) const UNREAD: &str = "its values were not read (table or schema of another role, partitions, or forced row-level security); check it as its owner, or exclude it";
const UNDECLARED: &str = "its name or values are an id's, but it alone is no primary or foreign key; declare its foreign key, or exclude it";
pub(crate) const COMPLICATED: &str = "the script could break something in this table (see the README of opaque-id-schema); convert it manually";
pub(crate) const NO_SCRIPT: &str = "no script exists for this type; convert it manually";
pub(crate) const NOT_PLAIN: &str = "a name contains invisible characters; rename it first";

pub(crate) fn text_problem(ignores_case: bool) -> String {
    let mut problem =
        "text needs more than twice the space of its 16 bytes, in every index, and its order depends on a collation"
            .to_owned();
    if ignores_case {
        problem += "; this collation ignores case";
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key((table, column): (&str, &str), judgment: Judgment) -> Key {
        let place = (table.to_owned(), column.to_owned());
        Key { place, is_declared: true, found: String::new(), judgment }
    }

    fn foreign_key(from: (&str, &str), to: (&str, &str)) -> ForeignKey {
        ForeignKey {
            name: String::new(),
            from: (from.0.to_owned(), from.1.to_owned()),
            to: (to.0.to_owned(), to.1.to_owned()),
            drop: String::new(),
            add: String::new(),
        }
    }

    #[test]
    fn an_integer_is_as_wide_as_the_widest_that_references_it() {
        let references = |table| foreign_key((table, "team_id"), ("teams", "id"));
        let found = |cars: StoredType| {
            let key = |table, column, stored| key((table, column), Judgment::Right(stored));
            let keys = vec![
                key("teams", "id", StoredType::Integer32),
                key("users", "team_id", StoredType::Integer32),
                key("cars", "team_id", cars),
                key("pets", "id", StoredType::Integer32),
            ];
            let (_, drafts) = drafts(keys, &[references("users"), references("cars")], &[]);
            let wide = |draft: &Draft| draft.stored == StoredType::Integer;
            assert!(drafts.iter().all(wide));
            let tables = drafts.into_iter().map(|draft| draft.finding.table);
            tables.collect::<Vec<_>>()
        };
        assert_eq!(found(StoredType::Integer), ["teams", "users"]);
        assert!(found(StoredType::Integer32).is_empty());
    }

    #[test]
    fn names_on_the_other_side_of_a_foreign_key_are_checked() {
        for hostile in ["a\nDROP TABLE victim; --", "a\u{1b}[2J"] {
            let foreign_keys = [foreign_key((hostile, "id"), ("users", "id"))];
            let narrow = Judgment::Wrong(StoredType::Integer, "narrow".into());
            let keys = vec![
                key(("users", "id"), narrow),
                key((hostile, "id"), Judgment::Right(StoredType::Integer)),
            ];
            let (_, mut drafts) = drafts(keys, &foreign_keys, &[]);
            assert_eq!(drafts.len(), 1);
            drafts[0].conversion = Some(Conversion {
                ty: "BIGINT",
                value: String::new(),
                bad: "FALSE".into(),
                keeps_rows: false,
            });
            leave_connected_alone(&mut drafts, &foreign_keys);
            assert!(drafts[0].conversion.is_none());
            assert_eq!(drafts[0].finding.left_alone.as_deref(), Some(NOT_PLAIN));
        }
    }
}
