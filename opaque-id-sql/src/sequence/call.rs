//! The table of all sequences, and the call that allocates one block of numbers from it: an upsert of the resource's row that
//! returns the last number of the block. On MySQL that is the last insert id, which a second statement reads for ORMs that do not
//! return it.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use opaque_id_core::OpaqueId;
use opaque_id_core::key::StructuredKey;

use super::blocks::Blocks;
use super::error::{Never, SequenceError};
use crate::call::{Call, RunError};
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
        "CREATE TABLE IF NOT EXISTS opaque_id_sequences (\n    name {name} NOT NULL PRIMARY KEY,\n    used BIGINT NOT NULL\n){};\n",
        dialect.engine_clause()
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
        LazyLock::new(|| Arc::from("SELECT CAST(LAST_INSERT_ID() AS SIGNED) LIMIT 1"));
}

/// A call that takes ids. It allocates a block if too few numbers are left, and another one if tasks of the process have
/// used that up meanwhile.
pub struct Take<T: OpaqueId> {
    blocks: Blocks<T>,
    count: usize,
    state: State<T::Internal>,
}

enum State<I> {
    /// Allocates a block of this size.
    Allocate(i64),
    /// On MySQL, if the ORM does not return the last insert id.
    ReadEnd(i64),
    Taken(Vec<I>),
}

/// Hides the numbers.
impl<T: OpaqueId> fmt::Debug for Take<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Take").field("name", &T::DOMAIN).finish_non_exhaustive()
    }
}

impl<T: OpaqueId<Key = StructuredKey>> Blocks<T> {
    /// Returns the call that takes `count` ids: from the blocks that are left, or from a new one.
    ///
    /// # Errors
    /// [`SequenceError::Exhausted`].
    pub fn take<E>(&self, count: usize) -> Result<Take<T>, SequenceError<E>> {
        Ok(Take {
            state: Take::state(self, count).map_err(RunError::Call)?,
            blocks: self.clone(),
            count,
        })
    }
}

impl<T: OpaqueId<Key = StructuredKey>> Take<T> {
    fn state(blocks: &Blocks<T>, count: usize) -> Result<State<T::Internal>, Never> {
        Ok(match blocks.ids(count)? {
            Ok(ids) => State::Taken(ids),
            Err(size) => State::Allocate(size),
        })
    }

    /// Returns the ids; there are none before the call is done.
    #[must_use]
    pub fn into_ids(self) -> Vec<T::Internal> {
        match self.state {
            State::Taken(ids) => ids,
            State::Allocate(_) | State::ReadEnd(_) => Vec::new(),
        }
    }
}

/// The columns of the row with the last number of a block.
const END: &[Column] = &[Column::Integer];

impl<T: OpaqueId<Key = StructuredKey>> Call for Take<T> {
    type Error = Never;

    /// A rollback would return what the transaction took, and the next process would get it again.
    fn check(&self, is_in_transaction: bool) -> Result<(), Never> {
        match is_in_transaction {
            true => Err(SequenceError::InTransaction),
            false => Ok(()),
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.state, State::Taken(_))
    }

    fn retry_for(&self) -> Duration {
        self.blocks.retries_for()
    }

    fn next(&self, dialect: Dialect) -> Option<Statement> {
        let size = match self.state {
            State::Taken(_) => return None,
            State::ReadEnd(_) => {
                return Some(Statement::new(Arc::clone(&sql::READ_END), Vec::new(), END));
            }
            State::Allocate(size) => Value::Integer(size),
        };
        let name = Value::Text(T::DOMAIN.to_owned());
        let (sql, values, columns) = match dialect {
            Dialect::Postgres => (&sql::TAKE_POSTGRES, vec![name, size], END),
            Dialect::Sqlite => (&sql::TAKE_SQLITE, vec![name, size], END),
            Dialect::MySql => (&sql::TAKE_MYSQL, vec![name, size.clone(), size], &[][..]),
        };
        Some(Statement::new(Arc::clone(sql), values, columns))
    }

    fn answer(&mut self, _: Dialect, _: bool, answer: Answer) -> Result<(), Never> {
        let (State::Allocate(size) | State::ReadEnd(size)) = self.state else {
            return Ok(());
        };
        let end = match answer {
            Answer::Rows(rows) => match rows.first().map(Vec::as_slice) {
                Some([Cell::Integer(end)]) => u64::try_from(*end).ok(),
                _ => None,
            },
            Answer::Changed { insert_id, .. } => {
                if insert_id.is_none() {
                    self.state = State::ReadEnd(size);
                    return Ok(());
                }
                insert_id
            }
        };
        let block = end.and_then(|end| {
            let end = end.checked_add(1)?;
            Some(end.checked_sub(size.unsigned_abs())?..end)
        });
        self.blocks.add(block.ok_or(SequenceError::Exhausted)?);
        self.state = Self::state(&self.blocks, self.count)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use opaque_id_core::resource::InternalId;

    use super::*;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = StructuredKey)]
    struct Order;

    #[test]
    fn a_block_ends_where_the_database_says() {
        let blocks = Blocks::<Order>::new().block(10);
        let mut call = blocks.take::<()>(10).expect("no error");
        let mut answer = |insert_id| {
            let answer = Answer::Changed { rows: 1, insert_id };
            call.answer(Dialect::MySql, false, answer).expect("a block");
            call.next(Dialect::MySql).is_some()
        };
        assert!(answer(None));
        assert!(!answer(Some(30)));
        let ids = call.into_ids();
        let numbers = ids.iter().map(|id| id.as_repr().as_u64_pair().0);
        assert!(numbers.eq(21..31));
    }
}
