use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Work, rows};
use crate::error::Refusal;
use crate::settings::Contents;
use crate::statement::Stored;
use crate::table::Table;

/// Reads the settings and the dictionaries of a table, or writes the settings if it has none.
pub struct Open {
    /// What to begin with.
    first: Option<First>,
    next: Next,
}

/// What a new table contains.
struct First {
    settings: Stored,
    pack: Stored,
}

#[derive(Clone, Copy)]
enum Next {
    Read,
    InsertPack,
    InsertSettings,
    ReadAgain,
    Nothing,
}

impl Open {
    pub(crate) fn new(table: &Table, contents: Option<&Contents>) -> Result<Self, Refusal> {
        let first = contents.map(|contents| {
            table.check_settings(contents)?;
            Ok(First {
                settings: table.seal_settings(1, contents)?,
                pack: table.seal_first_pack()?,
            })
        });
        Ok(Self {
            first: first.transpose()?,
            next: Next::Read,
        })
    }
}

impl Work for Open {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match (self.next, &self.first) {
            (Next::Read | Next::ReadAgain, _) => Some(statements.read_meta(dialect)),
            (Next::InsertPack, Some(First { pack, .. })) => {
                Some(statements.insert_pack(dialect, pack))
            }
            (Next::InsertSettings, Some(First { settings, .. })) => {
                Some(statements.insert_meta(dialect, settings))
            }
            _ => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Refusal> {
        self.next = match self.next {
            Next::Read | Next::ReadAgain => match on.table.learn(on.context, rows(on, answer)?)? {
                true => Next::Nothing,
                false if self.first.is_some() && matches!(self.next, Next::Read) => {
                    Next::InsertPack
                }
                false => return Err(on.table.not_created()),
            },
            Next::InsertPack => Next::InsertSettings,
            Next::InsertSettings => Next::ReadAgain,
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    /// Another client creates the table as well.
    fn lost_race(&mut self) -> bool {
        self.next = match self.next {
            Next::InsertPack => Next::InsertSettings,
            _ => Next::ReadAgain,
        };
        true
    }
}
