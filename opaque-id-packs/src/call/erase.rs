//! Erases a group: replaces its key by a mark, so that nobody can read its rows or write others.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work};
use crate::error::Problem;
use crate::statement::Stored;
use crate::table::Table;

/// Erases a group.
pub struct Erase {
    mark: Stored,
    is_done: bool,
}

impl Erase {
    pub(crate) fn new(mark: Stored) -> Self {
        Self { mark, is_done: false }
    }
}

impl Work for Erase {
    fn is_done(&self) -> bool {
        self.is_done
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        (!self.is_done).then(|| table.statements.erase_key(dialect, &self.mark))
    }

    fn answer(&mut self, on: &On<'_>, _: Answer) -> Result<(), Problem> {
        on.table.forget_key(self.mark.id);
        self.is_done = true;
        Ok(())
    }
}
