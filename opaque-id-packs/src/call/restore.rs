//! Replaces damaged packs and recent rows by rows of a backup. The first damaged pack stays unreadable until all others are written, so a
//! client that dies leaves damage that the next restore finds.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{Damage, On, STATEMENT_BYTES, Work, changed, rows};
use crate::error::Problem;
use crate::format::{Pack, Row, Value};
use crate::split;
use crate::statement::{IfLocked, Stored, Tier};
use crate::table::{Table, next_version};

/// Writes the rows that a backup has of damaged keys into packs of this table, which end where the next pack begins *now*. A pack
/// that was copied would end where it ended when the backup was made.
///
/// The first of these packs guards the others: it is there and cannot be read until all are written, and each statement replaces
/// it if it has the version that was read. So nobody else restores or splits it meanwhile, and if this client dies, the rest is
/// still damaged.
pub struct Restore {
    damage: Damage,
    /// The rows of the backup that are not written, in order.
    rows: Vec<(u128, Value)>,
    next: Next,
    is_restored: bool,
    is_outrun: bool,
}

enum Next {
    Read,
    /// Inserts a pack that is missing, without a body.
    Insert(Stored),
    /// Replaces a pack that cannot be read, if it still has this version, by the first of these packs; the others are new. Those
    /// before them come next.
    Write(i64, Vec<Stored>, Vec<Stored>),
    /// Replaces a recent row of this version by the backup's, if the key of the group has this id and version.
    ReplaceRow(i64, Stored, Option<(u128, i64)>),
    /// Deletes a recent row of this version, because the backup has no row.
    DeleteRow(Stored),
    Nothing,
}

impl Restore {
    /// Restores rows, which are ordered and within the damage.
    pub(crate) fn new(damage: Damage, rows: Vec<(u128, Value)>) -> Self {
        Self { damage, rows, next: Next::Read, is_restored: false, is_outrun: false }
    }

    /// Returns whether the packs were damaged still, and were written.
    pub(crate) fn is_restored(&self) -> bool {
        self.is_restored
    }

    fn after_read(&mut self, on: &On<'_>, answer: Answer) -> Result<Next, Problem> {
        let state = on.state()?;
        // Groups may have been erased since the backup. A missing key is an error, because it may be put back.
        let is_erased = |id| on.groups.contains(id) && on.groups.of(id).is_none();
        self.rows.retain(|(_, value)| !value.group.is_some_and(is_erased));
        let found = on.table.read(rows(on, answer)?)?;
        if let Some(version) = self.damage.recent {
            return self.replace_row(on, version);
        }
        let pack = found.into_iter().find(|(tier, _)| *tier == Tier::Packs);
        let Damage { first, end, .. } = self.damage;
        let stored = match pack.map(|(_, stored)| stored) {
            Some(stored) if stored.id == first => stored,
            Some(stored) if stored.next != end => return Ok(Next::Nothing),
            _ => return Ok(Next::Insert(Stored::new(first, next_version(0), Vec::new()))),
        };
        // Another client may have restored it, or put back the pack that was hidden.
        let opened = on.table.open_readable(&state, on.context, &stored, on.groups);
        if opened.is_ok() || stored.next != end {
            return Ok(Next::Nothing);
        }
        let pack = Pack { id: first, end, rows: self.rows.clone() };
        let packs = split::encrypt(on.table, &state, stored.version, pack, on.groups)?;
        let bytes: usize = packs.iter().map(|pack| pack.body.len()).sum();
        // A single one may be as large as a value.
        Ok(match packs.len() == 1 || bytes <= STATEMENT_BYTES as usize {
            true => Next::Write(stored.version, packs, Vec::new()),
            false => self.write_last(stored.version, packs),
        })
    }

    /// Returns the state that replaces a recent row of this version, or deletes it if the backup has no row.
    fn replace_row(&self, on: &On<'_>, version: i64) -> Result<Next, Problem> {
        let Some((key, value)) = self.rows.first() else {
            return Ok(Next::DeleteRow(Stored::new(self.damage.first, version, Vec::new())));
        };
        let row = Row::Value(value.clone());
        let stored = on.table.encrypt_row(&*on.state()?, *key, &row, on.groups)?;
        let key = row.group().and_then(|group| on.groups.of(group));
        Ok(Next::ReplaceRow(version, stored, key.map(|key| (key.id, key.version))))
    }

    /// Returns what writes as many of the last packs as one statement may contain. The first pack comes last, by itself: its
    /// version is that of the guard then.
    fn write_last(&self, version: i64, mut packs: Vec<Stored>) -> Next {
        if packs.len() == 1 {
            return Next::Read;
        }
        let mut bytes = 0;
        let fit = packs.iter().rev().take_while(|pack| {
            bytes += pack.body.len();
            bytes <= STATEMENT_BYTES as usize
        });
        let count = fit.count().clamp(1, packs.len() - 1);
        let mut last = packs.split_off(packs.len() - count);
        last.insert(0, Stored::new(self.damage.first, next_version(version), Vec::new()));
        Next::Write(version, last, packs)
    }
}

impl Work for Restore {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match &self.next {
            Next::Read => statements.get(dialect, &[self.damage.first], &[]),
            Next::Insert(guard) => statements.insert_pack(dialect, guard),
            Next::Write(version, packs, _) => {
                statements.write_packs(dialect, *version, packs, IfLocked::Wait)
            }
            Next::ReplaceRow(version, row, key) => statements.replace(dialect, *version, row, *key),
            Next::DeleteRow(row) => statements.delete_recent(dialect, std::slice::from_ref(row)),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.is_outrun = false;
        self.next = match std::mem::replace(&mut self.next, Next::Nothing) {
            Next::Read => self.after_read(on, answer)?,
            Next::Write(..) if changed(on, &answer)? == 0 => {
                self.is_outrun = true;
                Next::Read
            }
            Next::Write(_, packs, rest) => match (packs.get(1), rest.len()) {
                (Some(end), 1..) => {
                    let left = self.rows.partition_point(|(key, _)| *key < end.id);
                    self.rows.truncate(left);
                    self.damage.end = Some(end.id);
                    self.write_last(packs[0].version, rest)
                }
                _ => {
                    self.is_restored = true;
                    Next::Nothing
                }
            },
            // Another client has inserted it.
            Next::Insert(_) => Next::Read,
            // Otherwise another client has written the row.
            Next::ReplaceRow(..) | Next::DeleteRow(_) => {
                self.is_restored = changed(on, &answer)? > 0;
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    /// A key that is missing must not be made: the one that is put back could then not read the rows.
    fn groups_to_read(&self, _: &Table) -> Vec<u128> {
        let mut groups: Vec<_> = self.rows.iter().filter_map(|(_, value)| value.group).collect();
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Another client has inserted the same pack.
    fn lost_race(&mut self) -> bool {
        self.next = Next::Read;
        true
    }

    fn is_outrun(&self) -> bool {
        self.is_outrun
    }
}
