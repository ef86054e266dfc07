use core::fmt;
use core::hash::Hash;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use thiserror::Error;
use uuid::Uuid;

/// A statement for the database.
#[derive(Clone)]
pub struct Statement {
    /// The text, the same for lists of every length.
    pub sql: Arc<str>,
    /// The values to bind, in order.
    pub values: Vec<Value>,
    /// The columns of the rows. Without columns, the answer is the number of changed rows.
    pub columns: &'static [Column],
    /// Whether it consists of several statements, separated by `;`. A batch is sent as one text, cannot be
    /// prepared, and has neither values nor columns.
    pub is_batch: bool,
}

impl Statement {
    /// Creates a statement that can be prepared.
    #[must_use]
    pub fn new(sql: impl Into<Arc<str>>, values: Vec<Value>, columns: &'static [Column]) -> Self {
        Self { sql: sql.into(), values, columns, is_batch: false }
    }

    /// Creates a [batch](Self::is_batch).
    #[must_use]
    pub fn batch(sql: impl Into<Arc<str>>) -> Self {
        Self { is_batch: true, ..Self::new(sql, Vec::new(), &[]) }
    }

    /// Returns the statement for preparing. Lists have placeholders in few numbers, so that a server prepares
    /// few texts. The last value fills the rest.
    #[must_use]
    pub fn prepared(&self) -> Cow<'_, Self> {
        let takes_more = |value: &Value| matches!(value, Value::List(_) | Value::Literals(_));
        if !self.values.iter().any(takes_more) {
            return Cow::Borrowed(self);
        }
        let mut parts = self.sql.split('?');
        let mut sql = parts.next().unwrap_or_default().to_owned();
        let mut values = Vec::new();
        for (value, part) in self.values.iter().zip(parts) {
            let list = match value {
                Value::List(list) => &list[..],
                Value::Literals(literals) => {
                    sql += literals;
                    sql += part;
                    continue;
                }
                value => std::slice::from_ref(value),
            };
            let size = LIST_SIZES.into_iter().find(|size| *size >= list.len());
            let last = list.last().into_iter().cycle();
            let filled = list.iter().chain(last).take(size.unwrap_or(list.len()));
            let start = values.len();
            values.extend(filled.cloned());
            sql += &vec!["?"; values.len() - start].join(",");
            sql += part;
        }
        Cow::Owned(Self { sql: sql.into(), values, ..*self })
    }

    /// Returns the text with the values in the place of `?` or `$1`.
    ///
    /// # Panics
    /// If there are fewer values than placeholders, or a text value contains a quote or a backslash, because
    /// databases escape them differently. No statement of this crate does.
    #[must_use]
    pub fn inlined(&self) -> String {
        let mut text = String::with_capacity(self.sql.len());
        let mut values = self.values.iter();
        let mut rest = self.sql.chars().peekable();
        while let Some(char) = rest.next() {
            let value = match (char, rest.peek().and_then(|next| next.to_digit(10))) {
                ('?', _) => values.next(),
                ('$', Some(number)) => {
                    rest.next();
                    self.values.get(number as usize - 1)
                }
                _ => {
                    text.push(char);
                    continue;
                }
            };
            value.expect("one value per placeholder").write_literal(&mut text);
        }
        text
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Statement");
        if !self.values.is_empty() || !self.columns.is_empty() {
            debug.field("sql", &self.sql);
        }
        debug.finish_non_exhaustive()
    }
}

/// A value to bind.
#[derive(Clone)]
pub enum Value {
    /// A signed 64-bit integer.
    Integer(i64),
    /// A text.
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    /// The list in `IN (?)`, on MySQL before [`prepared`](Statement::prepared).
    List(Vec<Value>),
    /// A part of the text that consists of literals, on MySQL before [`prepared`](Statement::prepared).
    Literals(String),
}

const LIST_SIZES: [usize; 3] = [1, 64, 999];

impl Value {
    fn write_literal(&self, sql: &mut String) {
        match self {
            Self::Integer(number) => sql.push_str(&number.to_string()),
            Self::Text(text) => {
                assert!(!text.contains(['\'', '\\']), "a literal without escapes");
                sql.push('\'');
                sql.push_str(text);
                sql.push('\'');
            }
            Self::Bytes(bytes) => {
                // `0x` alone cannot represent an empty string.
                sql.push_str("x'");
                sql.push_str(&hex(bytes));
                sql.push('\'');
            }
            Self::Literals(literals) => sql.push_str(literals),
            Self::List(values) => {
                for (i, value) in values.iter().enumerate() {
                    if i > 0 {
                        sql.push(',');
                    }
                    value.write_literal(sql);
                }
            }
        }
    }
}

/// Returns hexadecimal digits.
#[doc(hidden)]
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]);
    let digits = digits.filter_map(|digit| char::from_digit(digit.into(), 16));
    digits.collect()
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(..)")
    }
}

/// The type of a column to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A signed 64-bit integer, not NULL.
    Integer,
    /// A UUID, not NULL: `uuid` on PostgreSQL, 16 bytes on the others.
    Uuid,
    /// A text, not NULL.
    Text,
    /// A byte string, not NULL.
    Bytes,
}

/// The value of a column in a row.
#[derive(Clone, PartialEq, Eq)]
pub enum Cell {
    /// The value of a [`Column::Integer`].
    Integer(i64),
    /// The value of a [`Column::Uuid`].
    Uuid(Uuid),
    /// The value of a [`Column::Text`].
    Text(String),
    /// A byte string. It may be a UUID or a text.
    Bytes(Vec<u8>),
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cell(..)")
    }
}

/// The error for a value that cannot be read as its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("expected {expected}, found {found}")]
pub struct UnexpectedCell {
    expected: &'static str,
    found: &'static str,
}

impl Column {
    /// Checks a value that an ORM has read by its own type. Converts bytes into a UUID or a text if the
    /// column is one.
    ///
    /// # Errors
    /// [`UnexpectedCell`] for any other value.
    pub fn read(self, cell: Cell) -> Result<Cell, UnexpectedCell> {
        let expected = match self {
            Self::Integer => "an integer",
            Self::Uuid => "a UUID of 16 bytes",
            Self::Text => "a text",
            Self::Bytes => "bytes",
        };
        let found = match &cell {
            Cell::Integer(_) => "an integer",
            Cell::Uuid(_) => "a UUID",
            Cell::Text(_) => "a text",
            Cell::Bytes(bytes) if bytes.len() == 16 => "16 bytes",
            Cell::Bytes(_) => "bytes of another length",
        };
        match (self, cell) {
            (Self::Uuid, Cell::Bytes(bytes)) => Uuid::from_slice(&bytes).ok().map(Cell::Uuid),
            (Self::Text, Cell::Bytes(bytes)) => String::from_utf8(bytes).ok().map(Cell::Text),
            (Self::Integer, cell @ Cell::Integer(_))
            | (Self::Uuid, cell @ Cell::Uuid(_))
            | (Self::Text, cell @ Cell::Text(_))
            | (Self::Bytes, cell @ Cell::Bytes(_)) => Some(cell),
            _ => None,
        }
        .ok_or(UnexpectedCell { expected, found })
    }
}

/// The database's answer to a statement.
#[derive(Clone)]
pub enum Answer {
    /// The rows, each with one cell per column of [`Statement::columns`].
    Rows(Vec<Vec<Cell>>),
    /// The effect of a statement without rows.
    Changed {
        /// The number of changed rows.
        rows: u64,
        /// MySQL's last insert id, if the ORM returns it.
        insert_id: Option<u64>,
    },
}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rows(rows) => write!(f, "Rows({})", rows.len()),
            Self::Changed { rows, .. } => write!(f, "Changed({rows})"),
        }
    }
}

/// Reads the rows of sqlx or a similar ORM. `$get(index)` is the method that reads a column by its type.
#[macro_export]
macro_rules! answer_of_rows {
    ($statement:expr, $rows:expr, $get:ident) => {{
        use $crate::statement::{Answer, Cell, Column};

        let rows = $rows.iter().map(|row| {
            let columns = $statement.columns.iter().enumerate();
            let cells = columns.map(|(i, column)| {
                Ok(match column {
                    Column::Integer => Cell::Integer(row.$get(i)?),
                    Column::Uuid => Cell::Uuid(row.$get(i)?),
                    Column::Text => Cell::Text(row.$get(i)?),
                    Column::Bytes => Cell::Bytes(row.$get(i)?),
                })
            });
            cells.collect()
        });
        rows.collect::<Result<_, _>>().map(Answer::Rows)
    }};
}

/// The texts of statements by a key.
pub struct Texts<K, T>(RwLock<HashMap<K, T>>);

impl<K: Eq + Hash, T: Clone> Texts<K, T> {
    /// Returns the text with this key, and builds a missing one.
    pub fn get(&self, key: K, build: impl FnOnce() -> T) -> T {
        let texts = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&key) {
            return text.clone();
        }
        drop(texts);
        let text = build();
        let mut texts = self.0.write().unwrap_or_else(PoisonError::into_inner);
        texts.entry(key).or_insert(text).clone()
    }
}

impl<K, T> Default for Texts<K, T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K, T> fmt::Debug for Texts<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Texts").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_bytes_are_a_uuid_where_one_is_expected() {
        let bytes = |len| Cell::Bytes(vec![7; len]);
        let uuid = Cell::Uuid(Uuid::from_bytes([7; 16]));
        assert_eq!(Column::Uuid.read(bytes(16)), Ok(uuid.clone()));
        assert_eq!(Column::Uuid.read(uuid.clone()), Ok(uuid));
        let text = Cell::Text("\u{7}".repeat(16));
        assert_eq!(Column::Text.read(bytes(16)), Ok(text));
        assert!(Column::Uuid.read(bytes(36)).is_err());
        assert!(Column::Integer.read(bytes(8)).is_err());
    }

    #[test]
    fn values_take_the_place_of_placeholders() {
        let inlined = |sql: &str| {
            let statement = Statement::new(
                sql,
                vec![
                    Value::Integer(-7),
                    Value::Bytes(vec![0, 0xab]),
                    Value::Text("{1}".to_owned()),
                ],
                &[],
            );
            statement.inlined()
        };
        assert_eq!(inlined("(?, ?, '$[*]', ?)"), "(-7, x'00ab', '$[*]', '{1}')");
        assert_eq!(inlined("($3, $1)"), "('{1}', -7)");
    }

    #[test]
    fn lists_are_prepared_in_few_sizes() {
        let list = |len| Value::List((0..len).map(Value::Integer).collect());
        let statement =
            Statement::new("(?) AND ? IN (?)", vec![list(2), Value::Integer(7), list(4)], &[]);
        assert_eq!(statement.inlined(), "(0,1) AND 7 IN (0,1,2,3)");
        let prepared = statement.prepared();
        assert_eq!(prepared.sql.matches('?').count(), 64 + 1 + 64);
        assert!(prepared.inlined().starts_with("(0,1,1,1,"));
        assert_eq!(Statement::new("(?)", vec![list(1_000)], &[]).prepared().values.len(), 1_000);

        let literals = Value::Literals("VALUES (1)".to_owned());
        let statement = Statement::new("(?) AND ?", vec![literals, Value::Integer(7)], &[]);
        assert_eq!(statement.inlined(), "(VALUES (1)) AND 7");
        assert_eq!(&*statement.prepared().sql, "(VALUES (1)) AND ?");
        assert_eq!(format!("{statement:?}"), r#"Statement { sql: "(?) AND ?", .. }"#);
    }
}
