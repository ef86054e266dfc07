//! Walks bodies in the order of their ids. The application may write meanwhile.

use super::Session;
use crate::column::ColumnName;
use crate::error::Problem;
use crate::format::Kind;
use crate::stored::{Stored, Tier};

pub(super) const BODIES: i64 = 64;

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
    pub(super) fn current_header(self, session: &Session) -> Result<[u8; 3], Problem> {
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
    ) -> Result<Option<Vec<Stored>>, Problem> {
        let Some(from) = self.from.take() else { return Ok(None) };
        let (bodies, is_full) = match self.source {
            Source::Tier(tier) => {
                let rows = session.query(session.sql().stale(tier, from, header, BODIES)).await?;
                let bodies = session.table.read_tier(tier, rows)?;
                let is_full = is_full(bodies.len());
                (bodies, is_full)
            }
            Source::Column(column) => {
                let read = session.sql().stale_values(column, from, header, BODIES);
                let values = session.query(read).await?;
                let values = session.table.statements.read_values(&values);
                let values = values.ok_or_else(|| session.table.wrong_columns())?;
                let is_full = is_full(values.len());
                let value = |(id, body)| Stored::new(id, 0, body);
                let mut values: Vec<_> = values.into_iter().map(value).collect();
                if is_full {
                    leave_last_id(session, &mut values, |value| value.id)?;
                }
                (values, is_full)
            }
        };
        let last = bodies.last().filter(|_| is_full);
        self.from = last.and_then(|last| match self.source {
            Source::Tier(Tier::Keys) => last.id.checked_add(1),
            _ => session.table.statements.ids().after(last.id),
        });
        Ok(Some(bodies))
    }
}

/// Returns whether others may follow.
pub(super) fn is_full(len: usize) -> bool {
    i64::try_from(len).is_ok_and(|len| len >= BODIES)
}

/// Drops the values of the last id of a page, so that the next page reads all values of that id. Several
/// values may have the same id if the key has several columns.
pub(super) fn leave_last_id<V>(
    session: &Session,
    values: &mut Vec<V>,
    id: impl Fn(&V) -> u128,
) -> Result<(), Problem> {
    if let (Some(first), Some(last)) = (values.first(), values.last()) {
        let (first, last) = (id(first), id(last));
        if first == last {
            return Err(Problem::Value {
                location: session.table.location(Kind::Value, last),
                reason: format!("expected an id of its own, found {BODIES} values or more with it"),
            });
        }
        values.retain(|value| id(value) < last);
    }
    Ok(())
}
