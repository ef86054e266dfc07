//! Walks bodies in the order of their ids. The application may write meanwhile.

use opaque_id_sql::dialect::Failure;

use super::Session;
use crate::column::ColumnName;
use crate::error::TableError;
use crate::format::Kind;
use crate::statement::{PAGE_ROWS, ValueSource};
use crate::stored::{StoredRow, Tier};

/// No body has this header, because it is too long. With it, a walk reads every body.
pub(super) const EVERY_BODY: [u8; 4] = [0; 4];

#[derive(Clone, Copy)]
pub(super) enum Source<'c> {
    Tier(Tier),
    Column(&'c ColumnName, ValueSource),
}

impl Source<'_> {
    pub(super) fn current_header(self, session: &Session) -> Result<[u8; 3], TableError> {
        session.table.current_header(match self {
            Self::Tier(tier) => tier,
            Self::Column(..) => Tier::Recent,
        })
    }
}

pub(super) struct Walk<'c> {
    source: Source<'c>,
    from: Option<u128>,
}

impl<'c> Walk<'c> {
    pub(super) fn new(source: Source<'c>) -> Self {
        Self { source, from: Some(0) }
    }

    pub(super) fn from(source: Source<'c>, from: u128) -> Self {
        Self { source, from: Some(from) }
    }

    /// Reads the next bodies, except those with this header. The last page may be empty. After it the result
    /// is `None`.
    pub(super) async fn next(
        &mut self,
        session: &mut Session,
        except: &[u8],
    ) -> Result<Option<Vec<StoredRow>>, TableError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let ids = session.table.statements.ids();
        let (column, of) = match self.source {
            Source::Tier(tier) => {
                let rows =
                    session.query(session.sql().stale(tier, from, except, PAGE_ROWS)).await?;
                let bodies = session.table.read_tier(tier, rows)?;
                self.from =
                    bodies.last().filter(|_| is_full(&bodies)).and_then(|last| match tier {
                        Tier::Keys => last.id.checked_add(1),
                        _ => ids.after(last.id),
                    });
                return Ok(Some(bodies));
            }
            Source::Column(column, of) => (column, of),
        };
        let read = session.sql().read_values(column, of, from, except);
        let rows = session.query(read).await?;
        let values = session.table.statements.read_values(&rows);
        let mut values = values.ok_or_else(|| session.table.wrong_columns())?;
        if is_full(&values) {
            // The values of the last id are left to the next page, because a key of several columns can repeat an id.
            let last = values.last().map_or(0, |last| last.id);
            values.retain(|value| value.id < last);
            self.from = values.last().and_then(|value| ids.after(value.id));
            if values.is_empty() {
                let reason =
                    format!("expected an id of its own, found {PAGE_ROWS} values or more with it");
                return Err(session.table.invalid(Kind::Value, last, reason));
            }
        }
        Ok(Some(values))
    }
}

/// Returns whether others may follow.
fn is_full(bodies: &[StoredRow]) -> bool {
    i64::try_from(bodies.len()).is_ok_and(|len| len >= PAGE_ROWS)
}

/// Returns the problem of a row that the database does not write.
pub(super) fn refused(session: &Session, id: u128, failure: Failure) -> TableError {
    let reason = match failure {
        Failure::Refused(reason) => reason,
        Failure::Duplicate => "another row has it in a unique index",
        _ => "another transaction has locked the row",
    };
    TableError::Refused { location: session.table.location(Kind::Value, id), reason }
}
