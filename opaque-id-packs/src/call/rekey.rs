//! Encrypts everything again that is not under the current secret and dictionary.
//!
//! Each statement replaces a body only if it is unchanged since the read. If another client has changed it,
//! the next run finds it again. A sweep also rewrites the bodies that have rows of erased groups, and then
//! deletes unused dictionaries.

use std::sync::Arc;
use std::time::Duration;

use opaque_id_sql::statement::Statement;

use super::walk::{EVERY_BODY, Progress, Source, Walk, refused};
use super::{Disconnected, Session};
use crate::column::ColumnName;
use crate::error::TableError;
use crate::settings::unix_seconds;
use crate::split;
use crate::statement::IfLocked;
use crate::stored::{StoredRow, Tier};

/// The result of a rekeying.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rekeyed {
    /// The number of packs that were encrypted again.
    pub packs: u64,
    /// The number of recent rows, or values of a column, that were encrypted again.
    pub rows: u64,
    /// The number of bodies that another client has changed meanwhile, and of packs that another transaction
    /// has locked. The next run finds them.
    pub lost: u64,
    /// The number of dictionaries that a sweep has deleted.
    pub dictionaries: u64,
    /// The number of old dictionaries that a sweep has kept: something could not be encrypted again, or the
    /// current dictionary is too new.
    pub dictionaries_left: u64,
}

pub(crate) struct Rekey {
    /// The column of the values, unless the table has packs.
    pub(crate) column: Option<ColumnName>,
    /// A sweep deletes a dictionary that has not been current for this time. `None` means a plain rekeying.
    pub(crate) unused_for: Option<Duration>,
    pub(crate) progress: Progress,
}

pub(crate) async fn rekey(session: Disconnected, rekey: Rekey) -> Result<Rekeyed, TableError> {
    let mut session = session.connect().await;
    let Rekey { column, unused_for, progress } = rekey;
    let is_sweep = unused_for.is_some();
    let mut run = Run { is_sweep, progress, rekeyed: Rekeyed::default(), problem: None };
    run.rekey_meta(&mut session).await?;
    if session.state()?.groups.is_some() {
        run.walk(&mut session, Source::Tier(Tier::Keys)).await?;
    }
    if is_sweep {
        session.table.forget_keys();
    }
    // All bodies that the walks read from now on get this dictionary or a later one.
    let dictionary = session.state()?.contents.dictionary;
    match &column {
        Some(column) => run.walk(&mut session, Source::Column(column)).await?,
        None => {
            run.walk(&mut session, Source::Tier(Tier::Packs)).await?;
            run.walk(&mut session, Source::Tier(Tier::Recent)).await?;
        }
    }
    if let Some(unused_for) = unused_for {
        run.delete_dictionaries(&mut session, column.as_ref(), dictionary, unused_for).await?;
    }
    let Run { rekeyed, problem, .. } = run;
    session.end(()).await?;
    problem.map_or(Ok(rekeyed), Err)
}

struct Run {
    is_sweep: bool,
    progress: Progress,
    rekeyed: Rekeyed,
    /// The run continues with the other bodies.
    problem: Option<TableError>,
}

impl Run {
    async fn rekey_meta(&mut self, session: &mut Session) -> Result<(), TableError> {
        let rows = session.read_meta().await?;
        let reencrypted = session.table.reencrypt_meta(rows.clone())?;
        session.table.learn(session.context(), rows)?;
        // The settings come last. Therefore settings under the current secret imply that the dictionaries are
        // under it too.
        for stored in reencrypted.into_iter().rev() {
            match stored {
                Ok(stored) => {
                    let changed = session.write(session.sql().update_meta(&stored)).await?;
                    self.record(changed, |_| {});
                }
                Err(problem) => {
                    self.problem.get_or_insert(problem);
                }
            }
        }
        Ok(())
    }

    async fn walk(&mut self, session: &mut Session, source: Source<'_>) -> Result<(), TableError> {
        let mut walk = Walk::new(source);
        loop {
            // A sweep reads current bodies too, because they may have rows of erased groups.
            let is_key = matches!(source, Source::Tier(Tier::Keys));
            let reads_all = self.is_sweep && !is_key && session.state()?.groups.is_some();
            let current = source.current_header(session)?;
            let header = if reads_all { &EVERY_BODY[..] } else { &current };
            let Some(bodies) = walk.next(session, header).await? else { return Ok(()) };
            for stored in bodies {
                match self.rewrite(session, source, &stored) {
                    Ok(None) => {}
                    Ok(Some(write)) => {
                        let changed = match source {
                            Source::Tier(_) => Ok(session.write(write).await?),
                            Source::Column(_) => session.try_rows(write).await?,
                        };
                        let changed = match changed {
                            Ok(changed) => changed,
                            Err(failure) => {
                                self.problem.get_or_insert(refused(session, stored.id, failure));
                                continue;
                            }
                        };
                        self.record(changed, |rekeyed| match source {
                            Source::Tier(Tier::Packs) => rekeyed.packs += 1,
                            Source::Tier(Tier::Recent) | Source::Column(_) => rekeyed.rows += 1,
                            Source::Tier(Tier::Keys) => {}
                        });
                    }
                    Err(problem) => {
                        self.problem.get_or_insert(problem);
                    }
                }
            }
        }
    }

    fn record(&mut self, changed: u64, add: impl FnOnce(&mut Rekeyed)) {
        match changed {
            0 => self.rekeyed.lost += 1,
            _ => add(&mut self.rekeyed),
        }
        (self.progress)(self.rekeyed.packs + self.rekeyed.rows);
    }

    /// `None` leaves the body as it is.
    fn rewrite(
        &self,
        session: &Session,
        source: Source<'_>,
        stored: &StoredRow,
    ) -> Result<Option<Statement>, TableError> {
        let (table, sql, groups) = (&session.table, session.sql(), session.groups());
        let state = session.state()?;
        let is_current = stored.body.starts_with(&source.current_header(session)?);
        let tier = match source {
            Source::Column(column) => {
                let value = match table.open_value(&state, stored.id, &stored.body, groups) {
                    // A sweep replaces the ciphertext of an erased group by a mark.
                    Err(TableError::Erased { .. })
                        if self.is_sweep
                            && (!is_current
                                || table.group_of_value(stored.id, &stored.body).is_some()) =>
                    {
                        None
                    }
                    Ok(value) if !is_current => Some(value),
                    Ok(_) | Err(TableError::Erased { .. }) => return Ok(None),
                    Err(problem) => return Err(problem),
                };
                let is_mark = value.is_none();
                let new = table.encrypt_value(&state, stored.id, value, groups)?;
                let write = sql.replace_value(column, stored.id, &stored.body, &new, is_mark);
                return Ok(Some(write));
            }
            Source::Tier(tier) => tier,
        };
        if self.is_sweep && is_current && !table.has_erased(&state, tier, stored, groups) {
            return Ok(None);
        }
        Ok(Some(match tier {
            Tier::Packs => {
                let pack = table.open_pack(&state, session.context(), stored, groups)?;
                let pack = Arc::unwrap_or_clone(pack);
                let packs = split::encrypt(table, &state, stored.version, pack, groups)?;
                sql.write_packs(stored.version, &packs, IfLocked::Skip(stored.next))
            }
            Tier::Recent => {
                let row = table.open_row(&state, stored, groups)?;
                let row = table.encrypt_row(&state, stored.id, &row, groups)?;
                sql.replace(stored.version, &row, None)
            }
            Tier::Keys => sql.update_key(stored.version, &table.reencrypt_key(stored)?),
        }))
    }

    /// Deletes the dictionaries before the one that was current when the walk began. All bodies must be
    /// encrypted again, and no client may have trained another dictionary meanwhile or still write with the
    /// old ones. A transaction does not see the writes of others.
    async fn delete_dictionaries(
        &mut self,
        session: &mut Session,
        column: Option<&ColumnName>,
        dictionary: u16,
        unused_for: Duration,
    ) -> Result<(), TableError> {
        let state = session.state()?;
        let (contents, old) = (&state.contents, state.dictionaries_before(dictionary));
        let age = unix_seconds().saturating_sub(contents.dictionary_since);
        let is_unused = self.problem.is_none()
            && self.rekeyed.lost == 0
            && contents.dictionary == dictionary
            && age >= unused_for.as_secs()
            && !session.is_in_transaction();
        match (is_unused, old) {
            (_, 0) => {}
            (true, _) if has_value(session, column).await? => {
                let delete = session.sql().delete_dictionaries(dictionary);
                self.rekeyed.dictionaries = session.write(delete).await?;
            }
            (_, old) => self.rekeyed.dictionaries_left = old,
        }
        Ok(())
    }
}

/// Otherwise the caller may have named a wrong column, and the values of the right one still need the
/// dictionaries.
async fn has_value(session: &mut Session, column: Option<&ColumnName>) -> Result<bool, TableError> {
    let Some(column) = column else { return Ok(true) };
    let values = Walk::new(Source::Column(column)).next(session, &EVERY_BODY).await?;
    let (state, groups) = (session.state()?, session.groups());
    Ok(values.iter().flatten().any(|stored| {
        let opened = session.table.open_value(&state, stored.id, &stored.body, groups);
        matches!(opened, Ok(_) | Err(TableError::Erased { .. }))
    }))
}
