//! Opens a table. A new, empty table gets settings.

use std::sync::Arc;

use opaque_id_core::OpaqueId;
use opaque_id_core::keyring::SharedKeyring;
use opaque_id_core::resource::ReprOf;

use super::walk::EVERY_BODY;
use super::{Calls, Disconnected, PackCall, Session};
use crate::error::TableError;
use crate::format::FormatError;
use crate::id_column::IdColumn;
use crate::name::TableName;
use crate::order;
use crate::settings::{Settings, TableMetadata};
use crate::statement::IfLocked;
use crate::stored::{StoredRow, Tier};
use crate::table::{Requirements, Table, next_version};

impl Calls {
    /// With contents, the call writes them if the table is new.
    pub(crate) fn open(
        keyring: SharedKeyring,
        domain: &str,
        name: TableName,
        ids: IdColumn,
        expected: Option<Requirements<'static>>,
        contents: Option<TableMetadata>,
        is_column: bool,
    ) -> Result<PackCall<'static, Self>, TableError> {
        // A tool also reads a backup, and its tables may have lost their primary keys.
        let keyed_rows = expected.is_some().then_some(!is_column);
        let table = Table::new(keyring, domain, name, ids, expected)?;
        let first = contents.map(|contents| First::new(&table, &contents, is_column));
        let (calls, first) = (Self { table: Arc::new(table) }, first.transpose()?);
        Ok(calls.call(|session| open(session, first, keyed_rows)).map(|()| calls))
    }

    /// With settings, the call writes them if the table is new.
    pub(crate) fn open_typed<T: OpaqueId>(
        keyring: SharedKeyring,
        name: TableName,
        expected: Requirements<'static>,
        settings: Option<Settings>,
        is_column: bool,
    ) -> Result<PackCall<'static, Self>, TableError> {
        let Requirements { encoding, hides_keys, is_grouped } = expected;
        let ids = order::id_column::<ReprOf<T>>(hides_keys);
        let contents =
            settings.map(|settings| TableMetadata::new(settings, encoding, hides_keys, is_grouped));
        Self::open(keyring, T::DOMAIN, name, ids, Some(expected), contents, is_column)
    }

    /// Refuses tables that have lost their primary keys. A column has no rows.
    pub fn check_primary_keys(&self, has_rows: bool) -> PackCall<'static, ()> {
        self.connected(async move |mut session| session.check_primary_keys(has_rows).await)
    }

    pub fn refresh(&self) -> PackCall<'static, ()> {
        self.call(refresh)
    }
}

struct First {
    settings: StoredRow,
    /// The first call after a rollback would still use a key of the settings, before a statement notices it.
    has_keys: bool,
    /// A column has no pack.
    pack: Option<StoredRow>,
    is_grouped: bool,
}

impl First {
    fn new(table: &Table, contents: &TableMetadata, is_column: bool) -> Result<Self, TableError> {
        table.check_settings(contents)?;
        let pack = (!is_column).then(|| table.encrypt_first_pack(contents, 1)).transpose()?;
        let settings = table.encrypt_settings(1, contents)?;
        let is_grouped = contents.groups.is_some();
        let has_keys = is_grouped || contents.order.is_some();
        Ok(Self { settings, has_keys, pack, is_grouped })
    }
}

async fn open(
    session: Disconnected,
    first: Option<First>,
    keyed_rows: Option<bool>,
) -> Result<(), TableError> {
    let mut session = session.connect().await;
    if !session.learn().await? {
        let first = first.as_ref().ok_or_else(|| session.table.not_created())?;
        if first.has_keys && session.is_in_transaction() {
            return Err(session.table.in_transaction("the first `open`"));
        }
        if is_new(&mut session, first).await? {
            // Another client may create the table as well.
            session.write_unless_duplicate(session.sql().insert_meta(&first.settings)).await?;
        }
        if !session.learn().await? {
            return Err(session.table.settings_missing());
        }
    }
    if let Some(has_rows) = keyed_rows {
        session.check_primary_keys(has_rows).await?;
    }
    match first {
        Some(First { pack: Some(pack), is_grouped: true, .. }) => {
            replace_pack_of_other_settings(&mut session, pack.version).await
        }
        _ => Ok(()),
    }
}

/// Most calls of a column run no statement, so this call also writes a lost dictionary back.
async fn refresh(session: Disconnected) -> Result<(), TableError> {
    let mut session = session.connect().await;
    session.read_settings().await?;
    match session.learn().await? {
        true => Ok(()),
        false => Err(session.table.not_created()),
    }
}

/// Two clients that create a table with groups at the same time have different keys. The first pack may be
/// encrypted by one of them, while the settings have the key of the other one. Once a group has a key, such a
/// pack is an error, because an attacker could otherwise hide rows.
async fn replace_pack_of_other_settings(
    session: &mut Session,
    version: i64,
) -> Result<(), TableError> {
    let found = session.query_tiers(session.sql().range((0, 0), false, 1, 0)).await?;
    let Some((Tier::Packs, pack)) = found.first() else { return Ok(()) };
    let is_other = pack.version == version
        && matches!(
            session.view()?.open_pack(pack),
            Err(TableError::Unreadable { source: FormatError::NotGenuine, .. })
        );
    if is_other && has_no_keys(session).await? {
        let contents = &session.state()?.contents;
        let pack = session.table.encrypt_first_pack(contents, next_version(version))?;
        // Another client may have replaced it.
        session.write(session.sql().write_packs(version, &[pack], IfLocked::Wait)).await?;
    }
    Ok(())
}

async fn has_no_keys(session: &mut Session) -> Result<bool, TableError> {
    let read_keys = session.sql().stale(Tier::Keys, 0, &EVERY_BODY, 1);
    Ok(session.query(read_keys).await?.is_empty())
}

/// If a table without settings has rows, its settings were deleted or another client has just created it. New
/// settings would replace the key of an order by encrypted key, the number of the dictionary, and the key of
/// the groups' ids.
async fn is_new(session: &mut Session, first: &First) -> Result<bool, TableError> {
    let Some(pack) = &first.pack else {
        return Ok(!first.is_grouped || has_no_keys(session).await?);
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
