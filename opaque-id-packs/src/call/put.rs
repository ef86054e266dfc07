//! Writes rows: upserts recent rows, or replaces packs if the table writes through.

use std::collections::BTreeMap;

use super::session::Attempts;
use super::{Calls, Disconnected, PackCall, Page, STATEMENT_BYTES, Session, UnreadRange, change};
use crate::error::TableError;
use crate::format::Row;
use crate::stored::StoredRow;

const ROWS: usize = 1_000;

impl Calls {
    /// Writes rows. The last row of each key counts.
    pub(crate) fn put_rows(
        &self,
        rows: impl IntoIterator<Item = Result<(u128, Row), TableError>>,
    ) -> PackCall<'static, ()> {
        // In order, so that two clients that write the same rows do not deadlock.
        let rows = rows.into_iter().collect::<Result<BTreeMap<_, _>, _>>();
        self.call(async move |session: Disconnected| {
            let rows = rows?;
            if rows.is_empty() {
                return Ok(());
            }
            let mut session = session.connect().await;
            write_rows(&mut session, rows.into_iter().collect()).await?;
            session.end(()).await
        })
    }

    /// Rows that others insert into finished pages stay.
    pub(crate) fn delete_rows(&self, range: UnreadRange) -> PackCall<'static, u64> {
        self.connected(async move |mut session| {
            let (mut rest, mut deleted) = (range, 0);
            while rest.keys.is_some() {
                let page = Page::read(&mut session, rest).await?;
                rest = page.rest;
                deleted += page.rows.len() as u64;
                let deletions: BTreeMap<_, _> =
                    page.rows.into_iter().map(|(key, _)| (key, Row::Deleted)).collect();
                write_rows(&mut session, deletions.into_iter().collect()).await?;
            }
            session.end(deleted).await
        })
    }
}

async fn write_rows(session: &mut Session, rows: Vec<(u128, Row)>) -> Result<(), TableError> {
    session.refresh_if_due().await?;
    if session.state()?.contents.settings.write_through {
        for (key, row) in rows {
            change(session, key, |_| Ok(Some(row.clone()))).await?;
        }
        return Ok(());
    }
    let (mut rest, mut attempts) = (&rows[..], Attempts::default());
    while !rest.is_empty() {
        session.refresh_if_due().await?;
        let chunk = &rest[..rest.len().min(ROWS)];
        let groups = chunk.iter().filter_map(|(_, row)| row.group());
        session.ensure_keys(groups.collect(), false).await?;
        let (stored, keys) = encrypt(session, chunk)?;
        if keys.is_empty() {
            session.write(session.sql().put(&stored)).await?;
        } else if session.write(session.sql().put_grouped(&stored, &keys)).await? == 0 {
            // Another client has erased a group, or has encrypted its key again. The next attempt reads the
            // keys again. `encrypt` then refuses rows of an erased group.
            keys.iter().for_each(|key| session.table.forget_key(key.id));
            attempts.wait_after_loss(session).await?;
            continue;
        }
        (rest, attempts) = (&rest[stored.len()..], Attempts::default());
    }
    Ok(())
}

/// Encrypts as many of the first rows as a statement may contain. The second result has the ids and versions
/// of their groups' keys.
fn encrypt(
    session: &Session,
    rows: &[(u128, Row)],
) -> Result<(Vec<StoredRow>, Vec<StoredRow>), TableError> {
    let view = session.view()?;
    let (mut stored, mut bytes, mut keys) = (Vec::new(), 0, BTreeMap::new());
    for (id, row) in rows {
        if bytes >= STATEMENT_BYTES as usize {
            break;
        }
        let encrypted = view.encrypt_row(*id, row)?;
        bytes += encrypted.body.len();
        stored.push(encrypted);
        let key = row.group().and_then(|group| view.groups.key(group));
        keys.extend(key.map(|key| (key.id, key.version)));
    }
    let key = |(id, version)| StoredRow::new(id, version, Vec::new());
    Ok((stored, keys.into_iter().map(key).collect()))
}
