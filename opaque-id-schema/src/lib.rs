#![doc = include_str!("../README.md")]

mod mysql;
mod postgres;
mod sqlite;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use thiserror::Error;

/// What is wrong with the key columns of a schema, and the SQL that fixes it.
///
/// `Display` is a script of SQL with the findings as comments: review it, stop the application, back up, run it. It
/// loses nothing: it converts all values of a column or changes nothing, whichever client runs it, and keeps the
/// old rows in a table of another name.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many key columns were looked at.
    pub checked: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The statements that fix what a script can fix, with comments among them.
    pub script: Vec<String>,
}

/// One key column that is not what it should be.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The column's table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its type, as the database writes it.
    pub found: String,
    /// What is wrong.
    pub fault: String,
    /// How many values cannot be converted.
    pub unconvertible: u64,
    /// The query that lists the values which cannot be converted, if there are any.
    pub query: Option<String>,
    /// Why the script leaves the column alone, if it does.
    pub left_alone: Option<String>,
}

/// A schema that could not be checked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// A URL of another database.
    #[error(
        "the database's URL starts with none of postgres:, postgresql:, mysql:, mariadb:, sqlite:"
    )]
    UnknownDatabase,
    /// The database could not be reached or read.
    #[error("the schema can't be read: {0}")]
    Database(#[from] sqlx::Error),
}

/// Reads the schema of a database and checks its key columns: those of primary keys of one column, and of
/// foreign keys of one column. The values of columns that are wrong are read as well.
///
/// A column of text or bytes counts only if its name ends with `id` or its length is that of a UUID's or
/// ULID's text, as there are good keys of text that are no ids.
///
/// # Errors
/// If the URL is of no database that opaque-id knows, or the database can't be read.
pub async fn check(database_url: &str) -> Result<Report, CheckError> {
    let (scheme, _) = database_url.split_once(':').unwrap_or_default();
    match scheme {
        "postgres" | "postgresql" => postgres::check(database_url).await,
        "mysql" | "mariadb" => mysql::check(database_url).await,
        "sqlite" => sqlite::check(database_url).await,
        _ => Err(CheckError::UnknownDatabase),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The script's first line says how to run it.
        if let Some(first) = self.script.first() {
            writeln!(f, "{first}")?;
        }
        for finding in &self.findings {
            writeln!(
                f,
                "-- {}.{} is {}: {}",
                Escaped(&finding.table),
                Escaped(&finding.column),
                Escaped(&finding.found),
                Escaped(&finding.fault)
            )?;
            if let Some(reason) = &finding.left_alone {
                writeln!(f, "--   The script leaves it alone: {}", Escaped(reason))?;
            }
            if let Some(query) = &finding.query {
                writeln!(f, "{query}")?;
            }
        }
        for statement in self.script.iter().skip(1) {
            writeln!(f, "{statement}")?;
        }
        Ok(())
    }
}

/// A text in a comment, which it must not leave, nor may it steer the terminal: control characters and what else
/// does not show are written as escapes.
struct Escaped<'t>(&'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\'' | '"' | '\\' => write!(f, "{c}"),
            c => write!(f, "{}", c.escape_debug()),
        })
    }
}

/// Whether a name is shown as it is: then it can be part of a statement.
fn is_plain(name: &str) -> bool {
    Escaped(name).to_string() == name
}

/// What a key is stored as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stored {
    Bytes,
    Integer,
}

/// What a column's type says.
enum Judgement {
    Right(Stored),
    Wrong(Stored, String),
    /// Nothing that ids are stored in: a key of another sort.
    NoId,
}

/// `(table, column)`.
type Place = (String, String);

/// A column of a primary key or a foreign key.
struct Key {
    place: Place,
    /// Its type, as the database writes it.
    found: String,
    judgement: Judgement,
}

/// A foreign key of one column.
struct ForeignKey {
    name: String,
    from: Place,
    to: Place,
    drop: String,
    add: String,
}

impl ForeignKey {
    /// Whether all that a script says of it is shown as it is.
    fn is_plain(&self) -> bool {
        [
            &self.from.0,
            &self.from.1,
            &self.to.0,
            &self.to.1,
            &self.drop,
            &self.add,
        ]
        .into_iter()
        .all(|name| is_plain(name))
    }
}

/// How the values of a column become what they should be.
struct Conversion {
    /// The type that they get.
    ty: &'static str,
    /// The SQL of a converted value.
    value: String,
    /// The SQL that is true of a value that cannot be converted.
    bad: String,
    /// Whether a value can look otherwise than before, so that the old rows are kept.
    keeps_rows: bool,
}

/// A finding, and the column's conversion unless a person has to fix it.
struct Draft {
    finding: Finding,
    stored: Stored,
    conversion: Option<Conversion>,
}

impl Draft {
    fn place(&self) -> (&str, &str) {
        (&self.finding.table, &self.finding.column)
    }

    fn leave_alone(&mut self, reason: impl Into<String>) {
        self.conversion = None;
        self.finding.left_alone.get_or_insert(reason.into());
    }

    /// Takes in how many values cannot be converted, and the query that lists them.
    fn count(&mut self, unconvertible: i64, query: String) {
        let Ok(count @ 1..) = u64::try_from(unconvertible) else {
            return;
        };
        self.finding.unconvertible = count;
        self.finding.query = Some(query);
        self.leave_alone(match count {
            1 => "1 value cannot be converted; this query lists it".to_owned(),
            _ => format!("{count} values cannot be converted; this query lists them"),
        });
    }

    /// Takes in how many primary keys would become the same as another one.
    fn count_same(&mut self, same: i64, digits: &str, table: &str) {
        if same > 0 {
            self.finding.query = Some(format!(
                "SELECT {digits}, count(*) FROM {table} GROUP BY {digits} HAVING count(*) > 1;"
            ));
            self.leave_alone(
                "some keys differ in nothing but case or hyphens; this query lists them",
            );
        }
    }
}

/// Each key is held against what it refers to, or against its own meaning. Returns how many there are as well.
///
/// A wrong column that refers to something else than a primary key, or to another schema's, is left alone: the other
/// side is not looked at.
fn drafts(keys: Vec<Key>, foreign_keys: &[ForeignKey]) -> (usize, Vec<Draft>) {
    let keys: BTreeMap<Place, Key> = keys
        .into_iter()
        .map(|key| (key.place.clone(), key))
        .collect();
    let wrong = keys.iter().filter_map(|(place, key)| {
        let stored = wanted(&keys, foreign_keys, place)?;
        let fault = match &key.judgement {
            Judgement::Right(is) if *is == stored => return None,
            Judgement::Wrong(is, fault) if *is == stored => fault.clone(),
            _ => "the column that it refers to holds keys of another type".to_owned(),
        };
        Some(Draft {
            finding: Finding {
                table: place.0.clone(),
                column: place.1.clone(),
                found: key.found.clone(),
                fault,
                unconvertible: 0,
                query: None,
                left_alone: foreign_keys
                    .iter()
                    .any(|foreign| foreign.from == *place && !keys.contains_key(&foreign.to))
                    .then(|| REFERS_ELSEWHERE.to_owned()),
            },
            stored,
            conversion: None,
        })
    });
    (keys.len(), wrong.collect())
}

/// What a key should hold: what its own type says, or that of the column it refers to.
fn wanted(
    keys: &BTreeMap<Place, Key>,
    foreign_keys: &[ForeignKey],
    place: &Place,
) -> Option<Stored> {
    let mut key = keys.get(place)?;
    // References of references; a circle of them ends here as well.
    for _ in foreign_keys {
        let next = foreign_keys
            .iter()
            .find(|foreign| foreign.from == key.place)
            .and_then(|foreign| keys.get(&foreign.to));
        match next {
            Some(next) => key = next,
            None => break,
        }
    }
    match key.judgement {
        Judgement::Right(stored) | Judgement::Wrong(stored, _) => Some(stored),
        Judgement::NoId => None,
    }
}

/// A column that is left alone keeps its table as it is, and so all tables that refer to it or that it refers to, as
/// a foreign key needs the same type on both sides.
fn leave_connected_alone(drafts: &mut [Draft], foreign_keys: &[ForeignKey]) {
    for draft in drafts.iter_mut() {
        if draft.finding.left_alone.is_some() {
            draft.conversion = None;
        }
    }
    // The names on the other side of a foreign key stand in the script as well.
    for key in foreign_keys.iter().filter(|key| !key.is_plain()) {
        let of_key = |draft: &&mut Draft| {
            [&key.from, &key.to]
                .into_iter()
                .any(|place| draft.place() == (&place.0, &place.1))
        };
        for draft in drafts.iter_mut().filter(of_key) {
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
        let is_wrong = |place: &Place| {
            drafts
                .iter()
                .any(|draft| draft.place() == (&place.0, &place.1))
        };
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
                draft.leave_alone(format!("{reason} has to be fixed first"));
                has_changed = true;
            }
        }
        if !has_changed {
            return;
        }
    }
}

/// The columns that the script converts, by table.
fn by_table(drafts: &[Draft]) -> BTreeMap<&str, Vec<(&Draft, &Conversion)>> {
    let mut tables: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for draft in drafts {
        if let Some(conversion) = &draft.conversion {
            let columns = tables.entry(draft.finding.table.as_str()).or_default();
            columns.push((draft, conversion));
        }
    }
    tables
}

/// The foreign keys that stand in the way of what the script converts.
fn in_the_way<'k>(drafts: &[Draft], foreign_keys: &'k [ForeignKey]) -> Vec<&'k ForeignKey> {
    let converted: BTreeSet<_> = drafts
        .iter()
        .filter(|draft| draft.conversion.is_some())
        .map(Draft::place)
        .collect();
    let is_converted = |place: &Place| converted.contains(&(place.0.as_str(), place.1.as_str()));
    foreign_keys
        .iter()
        .filter(|key| is_converted(&key.from) || is_converted(&key.to))
        .collect()
}

/// What the names of tables end with that hold old rows, but for a number.
const KEPT: &str = "_before_opaque_id";

/// Whether a table holds the old rows of another one.
fn is_kept(table: &str) -> bool {
    table
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .ends_with(KEPT)
}

/// The name for a table's old rows: one that is not taken.
fn free_name(table: &str, max_len: usize, is_taken: impl Fn(&str) -> bool) -> String {
    let name = |number: &str| {
        let mut stem = table;
        while stem.len() + KEPT.len() + number.len() > max_len {
            stem = &stem[..stem.floor_char_boundary(stem.len() - 1)];
        }
        format!("{stem}{KEPT}{number}")
    };
    let mut numbered = (2..).map(|number: u32| name(&number.to_string()));
    let first = Some(name("")).filter(|name| !is_taken(name));
    first
        .or_else(|| numbered.find(|name| !is_taken(name)))
        .unwrap_or_default()
}

const OLD_ROWS: &str = "-- The old rows, for when nobody needs them any more:";
const REFERS_ELSEWHERE: &str =
    "it refers to what is not a primary key of this schema; convert both by hand";
const COMPLICATED: &str =
    "the table has what a script could break (see the README); convert it by hand";
const NO_SCRIPT: &str = "there is no script for this type; convert it by hand";
const NOT_PLAIN: &str = "a name has characters that do not show; rename it first";

/// Text that stands for an id, by its declared length or its column's name.
fn is_id_text(column: &str, length: Option<i64>) -> bool {
    matches!(length, Some(26 | 32 | 36)) || is_id_name(column)
}

fn is_id_name(column: &str) -> bool {
    column.to_lowercase().ends_with("id")
}

fn text_fault(ignores_case: bool) -> String {
    let mut fault =
        "text takes more than twice the room of its 16 bytes, in every index, and sorts by a collation"
            .to_owned();
    if ignores_case {
        fault += "; this one is blind to case";
    }
    fault
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leaves_its_comment_or_steers_the_terminal() {
        let finding = Finding {
            table: "a\nDROP TABLE victim; --".into(),
            column: "b\r\u{1b}[31m\u{9b}\u{2028}\u{202e}c".into(),
            found: "TEXT\u{85}\0".into(),
            fault: "it's \"wrong\"".into(),
            unconvertible: 0,
            query: None,
            left_alone: Some(NOT_PLAIN.into()),
        };
        let report = Report {
            checked: 1,
            findings: vec![finding],
            script: Vec::new(),
        };
        let printed = report.to_string();
        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(!printed.contains(['\u{2028}', '\u{202e}']));
        assert!(printed.starts_with("-- a\\nDROP TABLE victim; --.b\\r\\u{1b}[31m"));
        assert!(printed.contains("it's \"wrong\""));
    }

    #[test]
    fn a_name_on_the_other_side_of_a_foreign_key_is_checked_as_well() {
        let place = |table: &str| (table.to_owned(), "id".to_owned());
        let key = |table: &str, judgement| Key {
            place: place(table),
            found: "INT".into(),
            judgement,
        };
        for hostile in ["a\nDROP TABLE victim; --", "a\u{1b}[2J"] {
            let foreign_keys = [ForeignKey {
                name: String::new(),
                from: place(hostile),
                to: place("users"),
                drop: String::new(),
                add: String::new(),
            }];
            let keys = vec![
                key("users", Judgement::Wrong(Stored::Integer, "narrow".into())),
                key(hostile, Judgement::Right(Stored::Integer)),
            ];
            let (_, mut drafts) = drafts(keys, &foreign_keys);
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

    #[test]
    fn a_free_name_fits_and_is_free() {
        let none = |_: &str| false;
        assert_eq!(free_name("users", 64, none), "users_before_opaque_id");
        let taken = |name: &str| !name.ends_with('3');
        assert_eq!(free_name("users", 64, taken), "users_before_opaque_id3");
        assert!(is_kept("users_before_opaque_id3") && !is_kept("users_before"));
        let long = "ä".repeat(40);
        let name = free_name(&long, 63, none);
        assert!(name.len() <= 63 && name.starts_with("ä") && name.ends_with("ä_before_opaque_id"));
    }
}
