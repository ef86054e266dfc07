//! Deletes the rows of a range: reads a page, and writes the deletion of each of its rows.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Page, Put, Rest, Work};
use crate::error::Problem;
use crate::format::{GroupKeys, Row};
use crate::table::Table;

/// Deletes the rows of a range. Rows that others insert where it has been already stay.
pub struct DeleteRange {
    page: Page,
    /// The deletions of the page's rows.
    put: Option<Put>,
    deleted: u64,
}

impl DeleteRange {
    pub(crate) fn new(table: &Table, rest: Rest) -> Result<Self, Problem> {
        Ok(Self { page: Page::new(table, rest)?, put: None, deleted: 0 })
    }

    /// Returns how many rows were deleted.
    pub(crate) fn into_deleted(self) -> u64 {
        self.deleted
    }

    /// Deletes the rows of the page that was read, if it has any.
    fn after_page(&mut self, table: &Table) -> Result<(), Problem> {
        let (rows, rest) = self.page.take_rows();
        self.page = Page::new(table, rest)?;
        if !rows.is_empty() {
            self.deleted += rows.len() as u64;
            let deletions = rows.into_iter().map(|(key, _)| (key, Row::Deleted));
            self.put = Some(Put::new(table, deletions)?);
        }
        Ok(())
    }
}

impl Work for DeleteRange {
    fn is_done(&self) -> bool {
        self.put.is_none() && self.page.is_done()
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        match &self.put {
            Some(put) => put.next(table, dialect),
            None => self.page.next(table, dialect),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        match &mut self.put {
            Some(put) => {
                put.answer(on, answer)?;
                if put.is_done() {
                    self.put = None;
                }
                Ok(())
            }
            None => {
                self.page.answer(on, answer)?;
                self.after_page(on.table)
            }
        }
    }

    fn encrypt(&mut self, table: &Table, groups: &GroupKeys) -> Result<(), Problem> {
        self.put.as_mut().map_or(Ok(()), |put| put.encrypt(table, groups))
    }

    fn lost_race(&mut self) -> bool {
        self.put.as_mut().is_some_and(Put::lost_race)
    }

    fn is_outrun(&self) -> bool {
        self.put.as_ref().is_some_and(Put::is_outrun)
    }
}
