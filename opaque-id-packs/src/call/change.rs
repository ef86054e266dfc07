//! Changes one row.

use std::sync::Arc;

use opaque_id_sql::Dialect;

use super::get::{Tiers, find, value_of};
use super::session::{Attempts, Session};
use crate::error::TableError;
use crate::format::{Kind, Pack, PackCipher, Row};
use crate::split;
use crate::statement::IfLocked;
use crate::stored::StoredRow;

enum Read<'t> {
    Recent(i64),
    /// No recent row, and this pack.
    Pack(&'t StoredRow),
}

/// Compares and sets over both tiers. `compute` returns the new row or a mark of deletion, or `None` to leave
/// the row as it is. It runs again after each lost race.
pub(crate) async fn change(
    session: &mut Session,
    key: u128,
    mut compute: impl FnMut(Option<&[u8]>) -> Result<Option<Row>, TableError> + Send,
) -> Result<(), TableError> {
    let mut attempts = Attempts::default();
    // A read of the latest rows ignores the snapshot of a transaction on MySQL.
    let mut reads_latest = false;
    loop {
        let sql = session.sql();
        let read = if reads_latest { sql.get_latest(key) } else { sql.get_with_next(key) };
        let tiers = Tiers::read(session, read).await?;
        let is_written = if let Some((version, row)) = tiers.recent.get(&key) {
            let value = match row {
                Row::Value(value) => Some(&**value),
                Row::Deleted => None,
            };
            let Some(row) = compute(value)? else { return Ok(()) };
            write_row(session, key, row, Read::Recent(*version)).await?
        } else {
            let stored = tiers.pack_of(session, key)?;
            if stored.next.is_some_and(|next| next <= key) {
                // The pack was split while a locking read waited for it. The read sees its new end, but not
                // the new pack of the key.
                false
            } else if session.state()?.contents.settings.write_through {
                let view = session.view()?;
                let pack = view.open_pack(stored)?;
                let value = match value_of(session, &pack, key) {
                    Err(TableError::Outrun) if !reads_latest => {
                        reads_latest = true;
                        continue;
                    }
                    value => value?,
                };
                let Some(row) = compute(value.map(|value| &**value))? else { return Ok(()) };
                let is_value = matches!(row, Row::Value(_));
                let mut pack = Arc::unwrap_or_clone(pack);
                apply(&mut pack, key, row);
                let packs = split::encrypt(&view, stored.version, pack)?;
                // A merger writes every value that a client has stored, so only new values are checked.
                let pack = packs.iter().rfind(|pack| is_value && pack.id <= key);
                let len = pack.map_or(0, |pack| pack.body.len() - PackCipher::OVERHEAD);
                session.table.check_stored_len(Kind::Row, key, len)?;
                let write = session.sql().write_packs(stored.version, &packs, IfLocked::Wait);
                session.write_unless_duplicate(write).await? > 0
            } else {
                let value = find(session, stored, key)?;
                let Some(row) = compute(value.as_deref())? else { return Ok(()) };
                write_row(session, key, row, Read::Pack(stored)).await?
            }
        };
        if is_written {
            return Ok(());
        }
        attempts.wait_after_loss(session).await?;
        reads_latest = session.is_in_transaction() && session.dialect() == Dialect::MySql;
    }
}

async fn write_row(
    session: &mut Session,
    key: u128,
    row: Row,
    read: Read<'_>,
) -> Result<bool, TableError> {
    session.refresh_if_due().await?;
    session.ensure_keys(row.group().into_iter().collect(), false).await?;
    let stored = session.view()?.encrypt_row(key, &row)?;
    let group = row.group().and_then(|group| session.groups().key(group));
    let group = group.map(|key| (key.id, key.version));
    let write = match read {
        Read::Recent(version) => session.sql().replace(version, &stored, group),
        Read::Pack(pack) => session.sql().insert_if((pack.id, pack.version), &stored, group),
    };
    // On MySQL, the insert violates the unique index if there is a row now.
    let is_written = session.write_unless_duplicate(write).await? > 0;
    if let (Some((group, _)), false) = (group, is_written) {
        session.table.forget_key(group);
    }
    Ok(is_written)
}

pub(super) fn apply(pack: &mut Pack, key: u128, row: Row) {
    let place = pack.rows.binary_search_by_key(&key, |(key, _)| *key);
    match (place, row) {
        (Ok(place), Row::Value(value)) => pack.rows[place].1 = value,
        (Ok(place), Row::Deleted) => {
            pack.rows.remove(place);
        }
        (Err(place), Row::Value(value)) => pack.rows.insert(place, (key, value)),
        (Err(_), Row::Deleted) => {}
    }
}
