//! Replaces the settings, and trains dictionaries from rows of the table.

use opaque_id_sql::Dialect;
use opaque_id_sql::statement::{Answer, Statement};

use super::{On, Page, ROUNDS, Rest, Work, changed, rows};
use crate::dictionary::trained;
use crate::error::Problem;
use crate::format::Value;
use crate::settings::{Settings, unix_seconds};
use crate::statement::Stored;
use crate::table::{Table, next_version};

/// Replaces the settings, or adds a dictionary and makes it the current one.
pub struct Configure {
    settings: Option<Settings>,
    dictionary: Option<Vec<u8>>,
    next: Next,
    /// The number of the dictionary that was added.
    added: Option<u16>,
    /// How often another client was faster.
    rounds: u32,
    is_outrun: bool,
}

enum Next {
    Read,
    InsertDictionary(Stored),
    UpdateSettings(Stored),
    ReadAgain,
    Nothing,
}

impl Configure {
    pub(crate) fn new(settings: Option<Settings>, dictionary: Option<Vec<u8>>) -> Self {
        Self { settings, dictionary, next: Next::Read, added: None, rounds: 0, is_outrun: false }
    }

    /// Begins again, as another client was faster, or the transaction does not see what that has written.
    fn again(&mut self) -> Result<Next, Problem> {
        self.rounds += 1;
        self.is_outrun = true;
        match self.rounds > ROUNDS {
            true => Err(Problem::Outrun),
            false => Ok(Next::Read),
        }
    }

    fn after_read(&mut self, on: &On<'_>) -> Result<Next, Problem> {
        let state = on.state()?;
        if let (Some(dictionary), None) = (&self.dictionary, self.added) {
            let id = state.last_dictionary.checked_add(1);
            let id = id.ok_or_else(|| Problem::Settings {
                table: on.table.name().to_owned(),
                reason: "expected room for another dictionary, found 65,535".to_owned(),
            })?;
            return Ok(Next::InsertDictionary(on.table.encrypt_meta(
                id,
                next_version(0),
                dictionary,
            )?));
        }
        let mut contents = state.contents.clone();
        if let Some(settings) = &self.settings {
            contents.settings = settings.clone();
        }
        // Another client may have added a later one meanwhile, and rows may have that already.
        if let Some(added) = self.added.filter(|added| *added > contents.dictionary) {
            contents.dictionary = added;
            contents.dictionary_since = unix_seconds();
        }
        on.table.check_settings(&contents)?;
        on.table.check_change(&state.contents, &contents)?;
        let settings = on.table.encrypt_settings(state.version + 1, &contents)?;
        Ok(Next::UpdateSettings(settings))
    }
}

impl Work for Configure {
    fn is_done(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        let statements = &table.statements;
        match &self.next {
            Next::Read | Next::ReadAgain => Some(statements.read_meta(dialect)),
            Next::InsertDictionary(dictionary) => Some(statements.insert_meta(dialect, dictionary)),
            Next::UpdateSettings(settings) => Some(statements.update_meta(dialect, settings)),
            Next::Nothing => None,
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        self.is_outrun = false;
        self.next = match &self.next {
            Next::Read => {
                on.table.learn(on.context, rows(on, answer)?)?;
                self.after_read(on)?
            }
            Next::InsertDictionary(_) | Next::UpdateSettings(_) if changed(on, &answer)? == 0 => {
                self.again()?
            }
            Next::InsertDictionary(dictionary) => {
                self.added = u16::try_from(dictionary.id).ok();
                Next::Read
            }
            Next::UpdateSettings(_) => Next::ReadAgain,
            Next::ReadAgain => {
                on.table.learn(on.context, rows(on, answer)?)?;
                Next::Nothing
            }
            Next::Nothing => Next::Nothing,
        };
        Ok(())
    }

    /// Another client has added a dictionary with the same number.
    fn lost_race(&mut self) -> bool {
        self.again().is_ok_and(|next| {
            self.next = next;
            true
        })
    }

    fn is_outrun(&self) -> bool {
        self.is_outrun
    }
}

/// How many bytes of rows a dictionary is trained from, as a multiple of its size.
const SAMPLED: usize = 100;

/// The most bytes of rows in groups that a dictionary is trained from: to find the texts that groups share takes a second per megabyte.
const SHARED: usize = 4 << 20;

/// Trains a dictionary from the last rows of the table, and makes it the current one.
pub struct Train {
    bytes: usize,
    samples: Vec<Value>,
    sampled: usize,
    step: TrainStep,
}

enum TrainStep {
    Sample(Page),
    Configure(Configure),
}

impl Train {
    pub(crate) fn new(table: &Table, bytes: usize) -> Result<Self, Problem> {
        let all = Rest::new(0, table.statements.ids().max(), true);
        Ok(Self {
            bytes,
            samples: Vec::new(),
            sampled: 0,
            step: TrainStep::Sample(Page::new(table, all)?),
        })
    }
}

impl Work for Train {
    fn is_done(&self) -> bool {
        matches!(&self.step, TrainStep::Configure(configure) if configure.is_done())
    }

    fn next(&self, table: &Table, dialect: Dialect) -> Option<Statement> {
        match &self.step {
            TrainStep::Sample(page) => page.next(table, dialect),
            TrainStep::Configure(configure) => configure.next(table, dialect),
        }
    }

    fn answer(&mut self, on: &On<'_>, answer: Answer) -> Result<(), Problem> {
        let page = match &mut self.step {
            TrainStep::Sample(page) => page,
            TrainStep::Configure(configure) => return configure.answer(on, answer),
        };
        page.answer(on, answer)?;
        let (rows, rest) = page.take_rows();
        // Rows that cannot be read are no samples.
        let samples = rows.into_iter().filter_map(|(_, row)| row.ok());
        self.samples.extend(samples.inspect(|row| self.sampled += row.len()));
        let enough = match on.state()?.groups {
            Some(_) => self.bytes.saturating_mul(SAMPLED).min(SHARED),
            None => self.bytes.saturating_mul(SAMPLED),
        };
        self.step = match rest.keys.is_some() && self.sampled < enough {
            true => TrainStep::Sample(Page::new(on.table, rest)?),
            false => TrainStep::Configure(Configure::new(
                None,
                Some(trained(on.table.name(), &self.samples, self.bytes)?),
            )),
        };
        Ok(())
    }

    fn lost_race(&mut self) -> bool {
        match &mut self.step {
            TrainStep::Sample(_) => false,
            TrainStep::Configure(configure) => configure.lost_race(),
        }
    }

    fn is_outrun(&self) -> bool {
        matches!(&self.step, TrainStep::Configure(configure) if configure.is_outrun())
    }
}
