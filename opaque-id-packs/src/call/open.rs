//! Opens a table. A new, empty table gets settings.

use super::walk::EVERY_BODY;
use super::{Disconnected, Session};
use crate::error::TableError;
use crate::settings::TableMetadata;
use crate::stored::{StoredRow, Tier};
use crate::table::Table;

pub(crate) struct First {
    settings: StoredRow,
    /// A column has no pack.
    pack: Option<StoredRow>,
    is_grouped: bool,
}

impl First {
    pub(crate) fn new(
        table: &Table,
        contents: &TableMetadata,
        is_column: bool,
    ) -> Result<Self, TableError> {
        table.check_settings(contents)?;
        let pack = (!is_column).then(|| table.encrypt_first_pack(contents)).transpose()?;
        let settings = table.encrypt_settings(1, contents)?;
        Ok(Self { settings, pack, is_grouped: contents.groups.is_some() })
    }
}

pub(crate) async fn open(session: Disconnected, first: Option<First>) -> Result<(), TableError> {
    let mut session = session.connect().await;
    if session.learn().await? {
        return Ok(());
    }
    let first = first.ok_or_else(|| session.table.not_created())?;
    if is_new(&mut session, &first).await? {
        // Another client may create the table as well.
        session.write_unless_duplicate(session.sql().insert_meta(&first.settings)).await?;
    }
    match session.learn().await? {
        true => Ok(()),
        false => Err(session.table.settings_missing()),
    }
}

/// If a table without settings has rows, its settings were deleted or another client has just created it. New
/// settings would replace the key of an order by encrypted key, the number of the dictionary, and the key of
/// the groups' ids.
async fn is_new(session: &mut Session, first: &First) -> Result<bool, TableError> {
    let Some(pack) = &first.pack else {
        let read_keys = session.sql().stale(Tier::Keys, 0, &EVERY_BODY, 1);
        return Ok(!first.is_grouped || session.query(read_keys).await?.is_empty());
    };
    let all = (0, session.table.statements.ids().max());
    let found = session.query_tiers(session.sql().range(all, false, 2, 1)).await?;
    Ok(match &found[..] {
        [] => {
            session.write_unless_duplicate(session.sql().insert_pack(pack)).await?;
            true
        }
        [(Tier::Packs, found)] => (found.id, found.version) == (pack.id, pack.version),
        _ => false,
    })
}
