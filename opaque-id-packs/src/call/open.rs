//! Opens a table: reads settings and dictionaries, and writes the settings if the table is new and empty.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::verify::NO_HEADER;
use super::{On, Work, rows};
use crate::error::Problem;
use crate::settings::Contents;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// Reads the settings and the dictionaries of a table. If it is new, writes the settings.
pub struct Open(Next);

/// The content of a new table. A column has no packs.
struct First {
    settings: Stored,
    pack: Option<Stored>,
    is_grouped: bool,
}

enum Next {
    /// Reads the settings, and knows what to begin with.
    Read(Option<First>),
    /// Reads whether there are rows.
    ReadRows {
        pack: Stored,
        settings: Stored,
    },
    /// Reads whether a column has keys of groups.
    ReadKeys(Stored),
    InsertPack {
        pack: Stored,
        settings: Stored,
    },
    InsertSettings(Stored),
    ReadAgain,
    Nothing,
}

impl Open {
    pub(crate) fn new(table: &Table, contents: Option<&Contents>) -> Result<Self, Problem> {
        let pack = contents.map(|contents| table.encrypt_first_pack(contents)).transpose()?;
        Self::beginning_with(table, contents, pack)
    }

    /// Opens the table of settings and dictionaries of a column.
    pub(crate) fn column(table: &Table, contents: Option<&Contents>) -> Result<Self, Problem> {
        Self::beginning_with(table, contents, None)
    }

    fn beginning_with(
        table: &Table,
        contents: Option<&Contents>,
        pack: Option<Stored>,
    ) -> Result<Self, Problem> {
        let first = contents.map(|contents| {
            table.check_settings(contents)?;
            let settings = table.encrypt_settings(1, contents)?;
            Ok(First { settings, pack, is_grouped: contents.groups.is_some() })
        });
        Ok(Self(Next::Read(first.transpose()?)))
    }

    /// Returns what follows in a table without settings. If it has rows, its settings were deleted, or another client has just
    /// created it: new ones would replace the key of an order by encrypted key, and the number of the dictionary.
    fn after_rows(
        on: &On<'_>,
        answer: Answer,
        pack: Stored,
        settings: Stored,
    ) -> Result<Next, Problem> {
        let found = on.table.read(rows(on, answer)?)?;
        Ok(match &found[..] {
            [] => Next::InsertPack { pack, settings },
            [(Tier::Packs, found)] if (found.id, found.version) == (pack.id, pack.version) => {
                Next::InsertSettings(settings)
            }
            _ => Next::ReadAgain,
        })
    }
}

impl Work for Open {
    fn is_done(&self) -> bool {
        matches!(self.0, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        Some(match &self.0 {
            Next::Read(_) | Next::ReadAgain => statements.read_meta(dialect),
            Next::ReadRows { .. } => {
                statements.range(dialect, (0, statements.ids().max()), false, 2, 1)
            }
            Next::ReadKeys(_) => statements.stale(dialect, Tier::Keys, 0, &NO_HEADER, 1),
            Next::InsertPack { pack, .. } => statements.insert_pack(dialect, pack),
            Next::InsertSettings(settings) => statements.insert_meta(dialect, settings),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.0 = match std::mem::replace(&mut self.0, Next::Nothing) {
            Next::Read(first) => match (on.table.learn(on.context, rows(on, answer)?)?, first) {
                (true, _) => Next::Nothing,
                (false, Some(First { settings, pack: Some(pack), .. })) => {
                    Next::ReadRows { pack, settings }
                }
                (false, Some(First { settings, is_grouped: true, .. })) => Next::ReadKeys(settings),
                (false, Some(First { settings, .. })) => Next::InsertSettings(settings),
                (false, None) => return Err(on.table.not_created()),
            },
            Next::ReadRows { pack, settings } => Self::after_rows(on, answer, pack, settings)?,
            // New settings would replace the key that their ids were made with.
            Next::ReadKeys(settings) => match rows(on, answer)?.is_empty() {
                true => Next::InsertSettings(settings),
                false => Next::ReadAgain,
            },
            Next::InsertPack { settings, .. } => Next::InsertSettings(settings),
            Next::InsertSettings(_) => Next::ReadAgain,
            Next::ReadAgain => match on.table.learn(on.context, rows(on, answer)?)? {
                true => Next::Nothing,
                false => return Err(on.table.settings_missing()),
            },
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    /// Another client creates the table as well.
    fn lost_race(&mut self) -> bool {
        self.0 = match std::mem::replace(&mut self.0, Next::Nothing) {
            Next::InsertPack { settings, .. } => Next::InsertSettings(settings),
            _ => Next::ReadAgain,
        };
        true
    }
}
