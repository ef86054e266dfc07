//! Encrypts everything again that is not under the current secret and dictionary.
//!
//! Each statement replaces a body only if it is unchanged since the read. If another client has changed it,
//! the next run finds it again. A sweep also rewrites the bodies that have rows of erased groups, and then
//! deletes unused dictionaries.

use std::sync::Arc;
use std::time::Duration;

use opaque_id_sql::statement::Statement;

use super::walk::{EVERY_BODY, Source, Walk, refused};
use super::{Calls, PackCall, Session};
use crate::column::ColumnName;
use crate::error::TableError;
use crate::split;
use crate::statement::{IfLocked, ValueSource};
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
    /// The number of old dictionaries that a sweep has kept, because it had to encrypt something again, or
    /// because the current dictionary is too new.
    pub dictionaries_left: u64,
}

impl Calls {
    /// Encrypts everything again that is not current, in the packs or in a column. With a time, it also rewrites bodies with rows of erased
    /// groups, and deletes the dictionaries that have not been current for this time.
    pub fn rekey(
        &self,
        column: Option<&ColumnName>,
        unused_for: Option<Duration>,
        progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'static, Rekeyed> {
        let (column, progress) = (column.cloned(), Box::new(progress));
        self.connected(async move |mut session| {
            let is_sweep = unused_for.is_some();
            let rekeyed = Rekeyed::default();
            let mut run = Rekeying { is_sweep, progress, rekeyed, found_old: false, problem: None };
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
                Some(column) => {
                    run.walk(&mut session, Source::Column(column, ValueSource::AllEncrypted))
                        .await?;
                }
                None => {
                    session.check_binlog().await?;
                    run.walk(&mut session, Source::Tier(Tier::Packs)).await?;
                    run.walk(&mut session, Source::Tier(Tier::Recent)).await?;
                }
            }
            if let Some(unused_for) = unused_for {
                run.delete_dictionaries(&mut session, column.as_ref(), dictionary, unused_for)
                    .await?;
            }
            let Rekeying { rekeyed, problem, .. } = run;
            session.end(()).await?;
            problem.map_or(Ok(rekeyed), Err)
        })
    }
}

struct Rekeying {
    is_sweep: bool,
    /// Receives the number of bodies that are done.
    progress: Box<dyn FnMut(u64) + Send>,
    rekeyed: Rekeyed,
    /// Whether it has read a body under another secret or dictionary.
    found_old: bool,
    /// The run continues with the other bodies.
    problem: Option<TableError>,
}

impl Rekeying {
    async fn rekey_meta(&mut self, session: &mut Session) -> Result<(), TableError> {
        let meta = session.read_meta().await?;
        let reencrypted = session.table.reencrypt_meta(meta.clone());
        session.table.learn(session.context(), meta)?;
        // The settings come last. Therefore settings under the current secret imply that the dictionaries are
        // under it too.
        for stored in reencrypted.into_iter().rev() {
            let changed = match stored {
                Ok(stored) => Ok(session.write(session.sql().update_meta(&stored)).await?),
                Err(problem) => Err(problem),
            };
            self.record(changed, |_| {});
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
                self.found_old |= !is_key && !stored.body.starts_with(&current);
                let result = match self.rewrite(session, source, &stored) {
                    Ok(None) => continue,
                    Ok(Some(write)) => match source {
                        Source::Tier(_) => Ok(session.write(write).await?),
                        Source::Column(..) => session
                            .try_rows(write)
                            .await?
                            .map_err(|failure| refused(session, stored.id, failure)),
                    },
                    Err(problem) => Err(problem),
                };
                self.record(result, |rekeyed| match source {
                    Source::Tier(Tier::Packs) => rekeyed.packs += 1,
                    Source::Tier(Tier::Recent) | Source::Column(..) => rekeyed.rows += 1,
                    Source::Tier(Tier::Keys) => {}
                });
            }
        }
    }

    fn record(&mut self, changed: Result<u64, TableError>, add: impl FnOnce(&mut Rekeyed)) {
        match changed {
            Ok(0) => self.rekeyed.lost += 1,
            Ok(_) => add(&mut self.rekeyed),
            Err(problem) => {
                self.problem.get_or_insert(problem);
                return;
            }
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
        let (view, sql) = (session.view()?, session.sql());
        let is_current = stored.body.starts_with(&source.current_header(session)?);
        let tier = match source {
            Source::Column(column, _) => {
                let value = match view.open_value(stored.id, &stored.body) {
                    // A sweep replaces the ciphertext of an erased group by a mark.
                    Err(TableError::Erased { .. })
                        if self.is_sweep
                            && (!is_current
                                || view
                                    .table
                                    .group_of_value(stored.id, &stored.body)
                                    .is_some()) =>
                    {
                        None
                    }
                    Ok(value) if !is_current => Some(value),
                    Ok(_) | Err(TableError::Erased { .. }) => return Ok(None),
                    Err(problem) => return Err(problem),
                };
                let is_mark = value.is_none();
                let new = view.encrypt_value(stored.id, value)?;
                let write = sql.replace_value(column, stored.id, &stored.body, &new, is_mark);
                return Ok(Some(write));
            }
            Source::Tier(tier) => tier,
        };
        if self.is_sweep && is_current && !view.has_erased(tier.kind(), stored) {
            return Ok(None);
        }
        Ok(Some(match tier {
            Tier::Packs => {
                let pack = Arc::unwrap_or_clone(view.open_pack(stored)?);
                let packs = split::encrypt(&view, stored.version, pack)?;
                sql.write_packs(stored.version, &packs, IfLocked::Skip(stored.next))
            }
            Tier::Recent => {
                let row = view.encrypt_row(stored.id, &view.open_row(stored)?)?;
                sql.replace(stored.version, &row, None)
            }
            Tier::Keys => sql.update_key(stored.version, &view.table.reencrypt_key(stored)?),
        }))
    }

    /// Deletes the dictionaries before the one that was current when the walk began. This run must have found
    /// that all bodies are current, because a failover can undo its own writes, and an application may write
    /// back a value of a column that it has read before. No client may have trained another dictionary
    /// meanwhile or still write with the old ones. A transaction does not see the writes of others.
    async fn delete_dictionaries(
        &mut self,
        session: &mut Session,
        column: Option<&ColumnName>,
        dictionary: u16,
        unused_for: Duration,
    ) -> Result<(), TableError> {
        let state = session.state()?;
        let (contents, old) = (&state.contents, state.dictionaries_before(dictionary));
        let age = session.unix_seconds().await?.saturating_sub(contents.dictionary_since);
        let is_unused = self.problem.is_none()
            && self.rekeyed.lost == 0
            && !self.found_old
            && contents.dictionary == dictionary
            && age >= unused_for.as_secs()
            && !session.is_in_transaction();
        match (is_unused, old) {
            (_, 0) => {}
            (true, _) if has_body(session, column).await? => {
                let delete = session.sql().delete_dictionaries(dictionary);
                self.rekeyed.dictionaries = session.write(delete).await?;
            }
            (_, old) => self.rekeyed.dictionaries_left = old,
        }
        Ok(())
    }
}

/// Otherwise the caller may have named a wrong column, or none, and values still need the dictionaries. Tables
/// of packs always have a pack.
async fn has_body(session: &mut Session, column: Option<&ColumnName>) -> Result<bool, TableError> {
    let source = match column {
        Some(column) => Source::Column(column, ValueSource::AllEncrypted),
        None => Source::Tier(Tier::Packs),
    };
    let bodies = Walk::new(source).next(session, &EVERY_BODY).await?.unwrap_or_default();
    match column {
        Some(_) => session.opens_any(&bodies),
        None => Ok(!bodies.is_empty()),
    }
}
