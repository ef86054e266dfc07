//! Opens a table: reads settings and dictionaries, and writes the settings if the table is new and empty.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Problem;
use crate::settings::Contents;
use crate::statement::{Stored, Tier};
use crate::table::Table;

/// Reads the settings and the dictionaries of a table. If it is new, writes the settings.
pub struct Open(Next);

/// The content of a new table.
struct First {
    settings: Stored,
    pack: Stored,
}

enum Next {
    /// Reads the settings, and knows what to begin with.
    Read(Option<First>),
    /// Reads whether there are rows.
    ReadRows(First),
    InsertPack(First),
    InsertSettings(Stored),
    ReadAgain,
    Nothing,
}

impl Open {
    pub(crate) fn new(table: &Table, contents: Option<&Contents>) -> Result<Self, Problem> {
        let first = contents.map(|contents| {
            table.check_settings(contents)?;
            Ok(First {
                settings: table.encrypt_settings(1, contents)?,
                pack: table.encrypt_first_pack(contents)?,
            })
        });
        Ok(Self(Next::Read(first.transpose()?)))
    }

    /// Returns what follows in a table without settings. If it has rows, its settings were deleted, or another client has just
    /// created it: new ones would replace the key of an order by encrypted key, and the number of the dictionary.
    fn after_rows(on: &On<'_>, answer: Answer, first: First) -> Result<Next, Problem> {
        let found = on.table.read(rows(on, answer)?)?;
        Ok(match &found[..] {
            [] => Next::InsertPack(first),
            [(Tier::Packs, pack)]
                if (pack.id, pack.version) == (first.pack.id, first.pack.version) =>
            {
                Next::InsertSettings(first.settings)
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
            Next::ReadRows(_) => {
                statements.range(dialect, (0, statements.ids().max()), false, 2, 1)
            }
            Next::InsertPack(first) => statements.insert_pack(dialect, &first.pack),
            Next::InsertSettings(settings) => statements.insert_meta(dialect, settings),
            Next::Nothing => return None,
        })
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.0 = match std::mem::replace(&mut self.0, Next::Nothing) {
            Next::Read(first) => match (on.table.learn(on.context, rows(on, answer)?)?, first) {
                (true, _) => Next::Nothing,
                (false, Some(first)) => Next::ReadRows(first),
                (false, None) => return Err(on.table.not_created()),
            },
            Next::ReadRows(first) => Self::after_rows(on, answer, first)?,
            Next::InsertPack(first) => Next::InsertSettings(first.settings),
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
            Next::InsertPack(first) => Next::InsertSettings(first.settings),
            _ => Next::ReadAgain,
        };
        true
    }
}
