//! Walks bodies in the order of their ids. The application may write meanwhile.

use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::Cell;

use super::Session;
use crate::column::ColumnName;
use crate::error::TableError;
use crate::format::Kind;
use crate::statement::Source as Of;
use crate::stored::{StoredRow, Tier};

const BODIES: i64 = 64;

/// No body has this header, because it is too long. With it, a walk reads every body.
pub(super) const EVERY_BODY: [u8; 4] = [0; 4];

/// Receives the number of bodies that are done.
pub(crate) type Progress = Box<dyn FnMut(u64) + Send>;

#[derive(Clone, Copy)]
pub(super) enum Source<'c> {
    Tier(Tier),
    Column(&'c ColumnName),
}

impl Source<'_> {
    pub(super) fn current_header(self, session: &Session) -> Result<[u8; 3], TableError> {
        session.table.current_header(match self {
            Self::Tier(tier) => tier,
            Self::Column(_) => Tier::Recent,
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

    /// Reads the next bodies that begin with another header. The last page may be empty. After it the result
    /// is `None`.
    pub(super) async fn next(
        &mut self,
        session: &mut Session,
        header: &[u8],
    ) -> Result<Option<Vec<StoredRow>>, TableError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let tier = match self.source {
            Source::Tier(tier) => tier,
            Source::Column(column) => {
                let mut values = Values { column, source: Of::AllEncrypted, from: Some(from) };
                let found = values.next(session, header).await?.unwrap_or_default();
                self.from = values.from;
                let stored = |found: ColumnRow| StoredRow::new(found.id, 0, found.bytes);
                return Ok(Some(found.into_iter().map(stored).collect()));
            }
        };
        let rows = session.query(session.sql().stale(tier, from, header, BODIES)).await?;
        let bodies = session.table.read_tier(tier, rows)?;
        let last = bodies.last().filter(|_| is_full(bodies.len()));
        self.from = last.and_then(|last| match tier {
            Tier::Keys => last.id.checked_add(1),
            _ => session.table.statements.ids().after(last.id),
        });
        Ok(Some(bodies))
    }
}

/// Returns whether others may follow.
fn is_full(len: usize) -> bool {
    i64::try_from(len).is_ok_and(|len| len >= BODIES)
}

/// A value of a row as it was read, with the fingerprint of its row.
pub(super) struct ColumnRow {
    pub(super) id: u128,
    pub(super) bytes: Vec<u8>,
    pub(super) index: Vec<u8>,
}

/// The pages of a column's values.
pub(super) struct Values<'c> {
    pub(super) column: &'c ColumnName,
    pub(super) source: Of,
    pub(super) from: Option<u128>,
}

impl<'c> Values<'c> {
    pub(super) fn new(column: &'c ColumnName, source: Of) -> Self {
        Self { column, source, from: Some(0) }
    }

    /// Returns the next page. The values of its last id are left to the next one, because a key of several columns can repeat an id.
    pub(super) async fn next(
        &mut self,
        session: &mut Session,
        header: &[u8],
    ) -> Result<Option<Vec<ColumnRow>>, TableError> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let read = session.sql().read_values(self.column, self.source, from, header, BODIES);
        let ids = session.table.statements.ids();
        let found = |cells: Vec<Cell>| match <[Cell; 3]>::try_from(cells) {
            Ok([id, Cell::Bytes(bytes), Cell::Bytes(index)]) => {
                ids.id(&id).map(|id| ColumnRow { id, bytes, index })
            }
            _ => None,
        };
        let rows = session.query(read).await?.into_iter().map(found).collect::<Option<Vec<_>>>();
        let mut rows = rows.ok_or_else(|| session.table.wrong_columns())?;
        if is_full(rows.len()) {
            let last = rows.last().map_or(0, |last| last.id);
            rows.retain(|found| found.id < last);
            self.from = rows.last().and_then(|found| ids.after(found.id));
            if rows.is_empty() {
                return Err(TableError::Value {
                    location: session.table.location(Kind::Value, last),
                    reason: format!(
                        "expected an id of its own, found {BODIES} values or more with it"
                    ),
                });
            }
        }
        Ok(Some(rows))
    }
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
