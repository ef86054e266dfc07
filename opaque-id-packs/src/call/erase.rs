//! Erases a group: its rows become unreadable, and no client can write others.

use super::Disconnected;
use crate::error::TableError;

pub(crate) async fn erase(session: Disconnected, id: u128) -> Result<(), TableError> {
    let mark = session.table.erased_key(id)?;
    let mut session = session.connect().await;
    session.write(session.sql().erase_key(&mark)).await?;
    session.table.forget_key(id);
    session.end(()).await
}
