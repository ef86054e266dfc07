//! The table of all sequences, and the call that allocates one block of numbers from it: an upsert of the resource's row that
//! returns the last number of the block. On MySQL that is the last insert id, which a second statement reads for ORMs that do not
//! return it.

use core::convert::Infallible;
use core::fmt;
use core::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use crate::call::Call;
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell, Column, Statement, Value};

/// Returns the statement of a migration that creates the table of all sequences, `opaque_id_sequences`.
#[must_use]
pub fn create_sql(dialect: Dialect) -> String {
    let name = match dialect {
        Dialect::Postgres | Dialect::Sqlite => "VARCHAR(63)",
        Dialect::MySql => "VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS opaque_id_sequences (\n    name {name} NOT NULL PRIMARY KEY,\n    used BIGINT NOT NULL\n);\n"
    )
}

/// The texts of the statements, which are the same for all sequences.
mod sql {
    use std::sync::{Arc, LazyLock};

    type Sql = LazyLock<Arc<str>>;

    pub(super) static TAKE_POSTGRES: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES ($1, CAST($2 AS int8)) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
        )
    });
    pub(super) static TAKE_SQLITE: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
        )
    });
    pub(super) static TAKE_MYSQL: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences (name, used) VALUES (?, LAST_INSERT_ID(?)) \
             ON DUPLICATE KEY UPDATE used = LAST_INSERT_ID(used + ?)",
        )
    });
    pub(super) static READ_END: Sql =
        LazyLock::new(|| Arc::from("SELECT CAST(LAST_INSERT_ID() AS SIGNED)"));
}

/// A call that allocates one block of numbers.
#[derive(Clone)]
pub struct TakeBlock {
    name: &'static str,
    count: i64,
    retry_for: Duration,
    next: Next,
    /// The last number of the block.
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Take,
    /// On MySQL, if the ORM does not return the last insert id.
    ReadEnd,
    Nothing,
}

/// Hides the numbers.
impl fmt::Debug for TakeBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TakeBlock")
            .field("name", &self.name)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl TakeBlock {
    pub(super) fn new(name: &'static str, count: i64, retry_for: Duration) -> Self {
        Self {
            name,
            count,
            retry_for,
            next: Next::Take,
            end: None,
        }
    }

    /// Returns the block that was allocated.
    pub(super) fn block(&self) -> Option<Range<u64>> {
        let end = self.end?;
        Some((end + 1).checked_sub(self.count.unsigned_abs())?..end + 1)
    }

    fn statement(&self, dialect: Dialect) -> Statement {
        let name = Value::Text(self.name.to_owned());
        let count = Value::Integer(self.count);
        let (sql, values, columns) = match dialect {
            Dialect::Postgres => (&sql::TAKE_POSTGRES, vec![name, count], END),
            Dialect::Sqlite => (&sql::TAKE_SQLITE, vec![name, count], END),
            Dialect::MySql => (&sql::TAKE_MYSQL, vec![name, count.clone(), count], &[][..]),
        };
        Statement::new(Arc::clone(sql), values, columns)
    }
}

/// The columns of the row with the last number of a block.
const END: &[Column] = &[Column::Integer];

impl Call for TakeBlock {
    type Refusal = Infallible;

    fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    fn retry_for(&self) -> Duration {
        self.retry_for
    }

    fn next(&self, dialect: Dialect) -> Option<Statement> {
        match self.next {
            Next::Nothing => None,
            Next::Take => Some(self.statement(dialect)),
            Next::ReadEnd => Some(Statement::new(Arc::clone(&sql::READ_END), Vec::new(), END)),
        }
    }

    fn answer(&mut self, _: Dialect, _: bool, answer: Answer) -> Result<(), Infallible> {
        self.next = Next::Nothing;
        self.end = match answer {
            Answer::Rows(rows) => match rows.first().map(Vec::as_slice) {
                Some([Cell::Integer(end)]) => u64::try_from(*end).ok(),
                _ => None,
            },
            Answer::Changed { insert_id, .. } => {
                if insert_id.is_none() {
                    self.next = Next::ReadEnd;
                }
                insert_id
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_ends_where_the_database_says() {
        let mut call = TakeBlock::new("order", 10, Duration::ZERO);
        let mut answer = |insert_id| {
            let answer = Answer::Changed { rows: 1, insert_id };
            let Ok(()) = call.answer(Dialect::MySql, false, answer);
            call.next(Dialect::MySql).is_some()
        };
        assert!(answer(None));
        assert!(!answer(Some(30)));
        assert_eq!(call.block(), Some(21..31));
    }
}
