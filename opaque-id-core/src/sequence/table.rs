use core::fmt;
use core::ops::Range;

use crate::mapping::{ATTEMPTS, Answer, Dialect, MappingError, Statement, Step, Steps};

/// The statement of a migration that creates the table of all sequences.
#[must_use]
pub fn create_sequences_sql(dialect: Dialect) -> String {
    let name = match dialect {
        Dialect::Postgres | Dialect::Sqlite => "VARCHAR(63)",
        Dialect::MySql => "VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS opaque_id_sequences (\n    name {name} NOT NULL PRIMARY KEY,\n    used BIGINT NOT NULL\n);\n"
    )
}

/// The taking of one block of numbers.
#[derive(Clone)]
pub struct TakeBlock {
    name: &'static str,
    count: u64,
    next: Next,
    attempts: u32,
    /// The last number of the block.
    end: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Take,
    /// On MySQL, if the ORM does not tell what the last insert id is.
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
    pub(super) fn new(name: &'static str, count: u64) -> Self {
        Self {
            name,
            count,
            next: Next::Take,
            attempts: 0,
            end: None,
        }
    }

    /// What was taken.
    pub(super) fn block(&self) -> Option<Range<u64>> {
        let end = self.end?;
        Some((end + 1).checked_sub(self.count)?..end + 1)
    }

    /// The name has only letters, digits and `_`.
    fn take_sql(&self, dialect: Dialect) -> String {
        let (name, count) = (self.name, self.count);
        let insert = "INSERT INTO opaque_id_sequences";
        match dialect {
            Dialect::Postgres | Dialect::Sqlite => {
                let nil = match dialect {
                    Dialect::Postgres => "CAST('00000000-0000-0000-0000-000000000000' AS uuid)",
                    _ => "zeroblob(16)",
                };
                format!(
                    "{insert} AS s (name, used) VALUES ('{name}', {count}) \
                     ON CONFLICT (name) DO UPDATE SET used = s.used + {count} RETURNING used AS id, {nil} AS uuid"
                )
            }
            Dialect::MySql => format!(
                "{insert} (name, used) VALUES ('{name}', LAST_INSERT_ID({count})) \
                 ON DUPLICATE KEY UPDATE used = LAST_INSERT_ID(used + {count})"
            ),
        }
    }
}

impl Steps for TakeBlock {
    fn is_done(&self) -> bool {
        self.next == Next::Nothing
    }

    // An adapter does not take blocks in a transaction.
    fn begun(&mut self, _: bool) {}

    fn step(&self, dialect: Dialect) -> Option<Step> {
        let statement = match self.next {
            Next::Nothing => return None,
            Next::Take => match dialect {
                Dialect::Postgres | Dialect::Sqlite => {
                    Statement::rows(self.take_sql(dialect), Vec::new())
                }
                Dialect::MySql => Statement::count(self.take_sql(dialect), Vec::new()),
            },
            Next::ReadEnd => Statement::rows(
                "SELECT CAST(LAST_INSERT_ID() AS SIGNED) AS id, UNHEX(REPEAT('00', 16)) AS uuid"
                    .to_owned(),
                Vec::new(),
            ),
        };
        Some(Step::One(statement))
    }

    fn take<E>(
        &mut self,
        _: Dialect,
        answer: Result<Answer, MappingError<E>>,
        is_conflict: impl FnOnce(&E) -> bool,
    ) -> Result<(), MappingError<E>> {
        self.attempts += 1;
        let end = match answer {
            Ok(Answer::Rows(rows)) => rows.first().and_then(|(end, _)| u64::try_from(*end).ok()),
            Ok(Answer::Changed {
                insert_id: None, ..
            }) => {
                self.next = Next::ReadEnd;
                return Ok(());
            }
            Ok(Answer::Changed { insert_id, .. }) => insert_id,
            Err(MappingError::Database(error))
                if self.attempts < ATTEMPTS && is_conflict(&error) =>
            {
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.end = end;
        self.next = Next::Nothing;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For those who migrate by another tool.
    #[test]
    fn the_sql_files_are_what_sequences_create() {
        for (dialect, file) in [
            (
                Dialect::Postgres,
                include_str!("../../sql/postgres/sequences.sql"),
            ),
            (
                Dialect::MySql,
                include_str!("../../sql/mysql/sequences.sql"),
            ),
            (
                Dialect::Sqlite,
                include_str!("../../sql/sqlite/sequences.sql"),
            ),
        ] {
            assert_eq!(create_sequences_sql(dialect), file, "{dialect:?}");
        }
    }

    #[test]
    fn a_conflict_is_tried_again_and_given_up() {
        let mut work = TakeBlock::new("order", 10);
        for _ in 1..ATTEMPTS {
            let conflict = Err(MappingError::Database(()));
            assert!(work.take(Dialect::Postgres, conflict, |()| true).is_ok());
            assert!(!work.is_done());
        }
        let conflict = Err(MappingError::Database(()));
        assert!(work.take(Dialect::Postgres, conflict, |()| true).is_err());
        assert_eq!(work.block(), None);
    }

    #[test]
    fn a_block_ends_where_the_database_says() {
        let mut work = TakeBlock::new("order", 10);
        let changed = |insert_id| Ok::<_, MappingError<()>>(Answer::Changed { rows: 1, insert_id });
        work.take(Dialect::MySql, changed(None), |()| false)
            .expect("no error");
        assert!(work.step(Dialect::MySql).is_some());
        work.take(Dialect::MySql, changed(Some(30)), |()| false)
            .expect("no error");
        assert!(work.step(Dialect::MySql).is_none());
        assert_eq!(work.block(), Some(21..31));
    }
}
