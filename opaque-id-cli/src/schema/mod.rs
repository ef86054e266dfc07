//! Whether the key columns of a live schema are what internal ids are stored in.

mod mysql;
mod postgres;
mod sqlite;

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;
use thiserror::Error;

/// What is wrong with the key columns of a schema, and the SQL that mends it.
///
/// `Display` is a script of SQL with the findings as comments: review it, back up, run it.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many key columns were looked at.
    pub checked: usize,
    /// To run first: foreign keys that stand in the way are dropped.
    pub before: Vec<String>,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// To run last: the foreign keys are made again.
    pub after: Vec<String>,
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
    /// The statements that mend it; none if it takes a person.
    pub mend: Vec<String>,
    /// What the column should hold.
    #[serde(skip)]
    stored: Stored,
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
/// foreign keys of one column.
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
        for statement in &self.before {
            writeln!(f, "{statement}")?;
        }
        for finding in &self.findings {
            writeln!(
                f,
                "-- {}.{} is {}: {}",
                finding.table, finding.column, finding.found, finding.fault
            )?;
            for statement in &finding.mend {
                writeln!(f, "{statement}")?;
            }
        }
        for statement in &self.after {
            writeln!(f, "{statement}")?;
        }
        Ok(())
    }
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
    /// What makes it hold 16 bytes, and what an integer.
    to_bytes: Vec<String>,
    to_integer: Vec<String>,
}

/// A foreign key of one column.
struct ForeignKey {
    from: Place,
    to: Place,
    drop: String,
    add: String,
}

/// Each key is held against what it refers to, or against its own meaning.
fn report(keys: Vec<Key>, foreign_keys: Vec<ForeignKey>) -> Report {
    let keys: BTreeMap<Place, Key> = keys
        .into_iter()
        .map(|key| (key.place.clone(), key))
        .collect();
    let mut report = Report {
        checked: keys.len(),
        ..Report::default()
    };
    let mut wrong = Vec::new();
    for (place, key) in &keys {
        let Some(stored) = wanted(&keys, &foreign_keys, place) else {
            continue;
        };
        let fault = match &key.judgement {
            Judgement::Right(is) if *is == stored => continue,
            Judgement::Wrong(is, fault) if *is == stored => fault.clone(),
            _ => "the column that it refers to holds keys of another type".to_owned(),
        };
        report.findings.push(Finding {
            table: place.0.clone(),
            column: place.1.clone(),
            found: key.found.clone(),
            fault,
            mend: match stored {
                Stored::Bytes => key.to_bytes.clone(),
                Stored::Integer => key.to_integer.clone(),
            },
            stored,
        });
        wrong.push(place);
    }
    for key in foreign_keys {
        if wrong.contains(&&key.from) || wrong.contains(&&key.to) {
            report.before.push(key.drop);
            report.after.push(key.add);
        }
    }
    report
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
