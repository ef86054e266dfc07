//! Replaces damaged packs and recent rows by rows of a backup. The first damaged pack stays unreadable until all others are written, so a
//! client that dies leaves damage that the next restore finds.

use super::session::Attempts;
use super::{Calls, Damage, PackCall, STATEMENT_BYTES, Session};
use crate::error::TableError;
use crate::format::{Pack, Row, Value};
use crate::split;
use crate::statement::IfLocked;
use crate::stored::{StoredRow, Tier};
use crate::table::next_version;

impl Calls {
    /// The keys are in order. Returns whether they were still damaged.
    pub fn restore(&self, damage: Damage, rows: Vec<(u128, Value)>) -> PackCall<'static, bool> {
        self.connected(async move |mut session| {
            let is_restored = match damage.recent {
                Some(version) => restore_row(&mut session, damage.first, version, rows).await?,
                None => restore_packs(&mut session, damage, rows).await?,
            };
            session.end(is_restored).await
        })
    }
}

/// Omits rows of groups that were erased since the backup. A new key must not replace a missing one, because
/// the old one may be restored and could then not read the rows.
async fn leave_erased(
    session: &mut Session,
    rows: &mut Vec<(u128, Value)>,
) -> Result<(), TableError> {
    let mut groups: Vec<_> = rows.iter().filter_map(|(_, value)| value.group).collect();
    groups.sort_unstable();
    groups.dedup();
    session.read_keys(groups).await?;
    rows.retain(|(_, value)| !value.group.is_some_and(|id| session.groups().is_erased(id)));
    Ok(())
}

/// Deletes the row if the backup has none.
async fn restore_row(
    session: &mut Session,
    first: u128,
    version: i64,
    mut rows: Vec<(u128, Value)>,
) -> Result<bool, TableError> {
    leave_erased(session, &mut rows).await?;
    let write = match rows.into_iter().next() {
        None => session.sql().delete_row(first, version),
        Some((key, value)) => {
            let row = Row::Value(value);
            let view = session.view()?;
            let stored = view.encrypt_row(key, &row)?;
            let group = row.group().and_then(|group| view.groups.key(group));
            session.sql().replace(version, &stored, group.map(|key| (key.id, key.version)))
        }
    };
    // Otherwise another client has written the row.
    Ok(session.write(write).await? > 0)
}

/// Writes rows into packs of this table that end where the next pack begins *now*. A copied pack would end
/// where it ended at the time of the backup.
///
/// The first of these packs guards the others. It is unreadable until all others are written, and each
/// statement requires its version. So no other client restores or splits it meanwhile. If this client dies,
/// the rest is still damaged.
async fn restore_packs(
    session: &mut Session,
    damage: Damage,
    mut rows: Vec<(u128, Value)>,
) -> Result<bool, TableError> {
    let Damage { first, mut end, .. } = damage;
    let mut attempts = Attempts::default();
    'read: loop {
        let found = session.query_tiers(session.sql().get_with_next(first)).await?;
        leave_erased(session, &mut rows).await?;
        let pack = found.into_iter().find(|(tier, _)| *tier == Tier::Packs);
        let stored = match pack.map(|(_, stored)| stored) {
            Some(stored) if stored.id == first => stored,
            Some(stored) if stored.next != end => return Ok(false),
            _ => {
                // The pack is missing. Another client may insert it as well.
                let guard = StoredRow::new(first, next_version(0), Vec::new());
                session.write_unless_duplicate(session.sql().insert_pack(&guard)).await?;
                attempts.wait_after_loss(session).await?;
                continue;
            }
        };
        let view = session.view()?;
        // Another client may have restored the pack, or the hidden pack.
        if view.open_readable(&stored).is_ok() || stored.next != end {
            return Ok(false);
        }
        let pack = Pack { id: first, end, rows: rows.clone() };
        let mut packs = split::encrypt(&view, stored.version, pack)?;
        let bytes: usize = packs.iter().map(|pack| pack.body.len()).sum();
        if packs.len() == 1 || bytes <= STATEMENT_BYTES as usize {
            let write = session.sql().write_packs(stored.version, &packs, IfLocked::Wait);
            if session.write_unless_duplicate(write).await? > 0 {
                return Ok(true);
            }
            attempts.wait_after_loss(session).await?;
            continue;
        }
        let mut version = stored.version;
        while packs.len() > 1 {
            let last = last_packs(&mut packs);
            let guard = StoredRow::new(first, next_version(version), Vec::new());
            let next_guard = guard.version;
            let written: Vec<_> = std::iter::once(guard).chain(last).collect();
            let write = session.sql().write_packs(version, &written, IfLocked::Wait);
            if session.write_unless_duplicate(write).await? == 0 {
                attempts.wait_after_loss(session).await?;
                continue 'read;
            }
            version = next_guard;
            end = Some(written[1].id);
            rows.truncate(rows.partition_point(|(key, _)| *key < written[1].id));
        }
        // The first pack comes last and alone, because its version is the guard's.
    }
}

fn last_packs(packs: &mut Vec<StoredRow>) -> Vec<StoredRow> {
    let mut bytes = 0;
    let fit = packs.iter().rev().take_while(|pack| {
        bytes += pack.body.len();
        bytes <= STATEMENT_BYTES as usize
    });
    let count = fit.count().clamp(1, packs.len() - 1);
    packs.split_off(packs.len() - count)
}
