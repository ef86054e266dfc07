//! Reads everything and lists corrupt and missing packs. It changes nothing.

use std::fmt;

use super::convert::{Reader, check};
use super::walk::{EVERY_BODY, Progress, Source, Walk};
use super::{Disconnected, Session};
use crate::column::ColumnName;
use crate::error::{TableError, add};
use crate::format::{FormatError, Kind, PackCipher};
use crate::stored::{StoredRow, Tier};

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verified {
    /// The number of readable packs.
    pub packs: u64,
    /// The number of their rows.
    pub packed_rows: u64,
    /// The number of readable recent rows, including the marks of deleted ones.
    pub recent_rows: u64,
    /// The number of readable values of a column.
    pub values: u64,
    /// The unreadable and missing packs and rows, up to 100 of each variant. [`TableError::location`] has the id in
    /// the database's form.
    pub problems: Vec<TableError>,
    /// How many other problems there are.
    pub more_problems: u64,
    pub(crate) damage: Vec<Damage>,
}

/// Keys with unreadable or missing packs, from the first one up to the next pack, or the key of an unreadable
/// recent row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Damage {
    pub(crate) first: u128,
    /// The id of the next pack.
    pub(crate) end: Option<u128>,
    pub(crate) recent: Option<i64>,
    pub(crate) is_certain: bool,
}

impl Verified {
    fn add(&mut self, problem: TableError) {
        add(&mut self.problems, &mut self.more_problems, problem);
    }
}

impl Damage {
    fn from_packs(first: u128, end: Option<u128>) -> Self {
        Self { first, end, recent: None, is_certain: true }
    }
}

impl fmt::Debug for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Damage(..)")
    }
}

pub(crate) async fn verify(
    session: Disconnected,
    column: Option<ColumnName>,
    read: Option<Reader<'_>>,
    mut progress: Progress,
) -> Result<Verified, TableError> {
    let mut session = session.connect().await;
    let mut run = Run::default();
    let meta = session.read_meta().await?;
    session.table.verify_meta(meta)?.into_iter().for_each(|problem| run.verified.add(problem));
    let keys = session.state()?.groups.is_some().then_some(Source::Tier(Tier::Keys));
    let tiers = [Tier::Packs, Tier::Recent].map(Source::Tier);
    let sources = match &column {
        Some(column) => vec![Source::Column(column)],
        None => keys.into_iter().chain(tiers).collect(),
    };
    for source in sources {
        let (mut walk, mut is_first) = (Walk::new(source), true);
        while let Some(bodies) = walk.next(&mut session, &EVERY_BODY).await? {
            match source {
                Source::Tier(Tier::Packs) => run.packs(&session, &bodies, is_first)?,
                Source::Tier(Tier::Recent) => run.recent(&session, &bodies)?,
                Source::Tier(Tier::Keys) => run.keys(&session, &bodies),
                Source::Column(_) => run.values(&session, &bodies)?,
            }
            is_first = false;
            progress(run.verified.packs + run.verified.recent_rows + run.verified.values);
        }
    }
    if let (Some(column), Some(read)) = (&column, &read) {
        check(&mut session, column, read, |problem| run.verified.add(problem)).await?;
    }
    run.settings(&mut session).await?;
    for (place, key_id) in run.in_doubt {
        run.verified.damage[place].is_certain &= run.can_open[key_id];
    }
    session.end(run.verified).await
}

#[derive(Default)]
struct Run {
    verified: Verified,
    dictionary: u16,
    can_open: [bool; 4],
    /// The places of damage that is certain only if the secret of this key id is the right one.
    in_doubt: Vec<(usize, usize)>,
}

impl Run {
    fn unreadable(&mut self, problem: TableError, stored: &StoredRow, damage: Damage) {
        if let TableError::Unreadable { source: FormatError::NotGenuine, .. } = problem {
            self.in_doubt.push((self.verified.damage.len(), key_id(stored)));
        }
        self.damaged(problem, damage);
    }

    fn damaged(&mut self, problem: TableError, damage: Damage) {
        use FormatError::{Dictionary, NoDictionary, NoGroupKey, UnknownKeyId, Version};
        let is_certain = !matches!(
            problem,
            TableError::Older { .. }
                | TableError::Unreadable {
                    source: Dictionary { .. }
                        | NoDictionary { .. }
                        | NoGroupKey
                        | UnknownKeyId { .. }
                        | Version { .. },
                    ..
                }
        );
        self.verified.add(problem);
        self.verified.damage.push(Damage { is_certain, ..damage });
    }

    fn packs(
        &mut self,
        session: &Session,
        found: &[StoredRow],
        is_first: bool,
    ) -> Result<(), TableError> {
        let state = session.state()?;
        let first = found.first().map(|stored| stored.id);
        if is_first && first != Some(0) {
            let location = session.table.packs_location();
            self.damaged(TableError::Gap { location }, Damage::from_packs(0, first));
        }
        for stored in found {
            match session.table.open_readable(&state, session.context(), stored, session.groups()) {
                Ok((pack, unreadable)) => {
                    // The pack is authentic, so a backup has nothing better. The keys of its groups are
                    // missing.
                    unreadable.into_iter().for_each(|(_, problem)| self.verified.add(problem));
                    self.verified.packs += 1;
                    self.verified.packed_rows += pack.rows.len() as u64;
                    self.has_opened(stored);
                    if let (true, Some(end)) = (pack.end != stored.next, pack.end) {
                        let location = session.table.location(Kind::Pack, pack.id);
                        self.damaged(
                            TableError::Gap { location },
                            Damage::from_packs(end, stored.next),
                        );
                    }
                }
                Err(problem) => {
                    self.unreadable(problem, stored, Damage::from_packs(stored.id, stored.next));
                }
            }
        }
        Ok(())
    }

    fn recent(&mut self, session: &Session, found: &[StoredRow]) -> Result<(), TableError> {
        let state = session.state()?;
        for stored in found {
            match session.table.open_row(&state, stored, session.groups()) {
                Ok(_) => {
                    self.verified.recent_rows += 1;
                    self.has_opened(stored);
                }
                // The row is authentic, so a backup has nothing better.
                Err(problem @ TableError::Unreadable { source: FormatError::NoGroupKey, .. }) => {
                    self.verified.add(problem);
                }
                Err(problem) => {
                    let end = session.table.statements.ids().after(stored.id);
                    let damage = Damage::from_packs(stored.id, end);
                    let recent = Some(stored.version);
                    self.unreadable(problem, stored, Damage { recent, ..damage });
                }
            }
        }
        Ok(())
    }

    fn keys(&mut self, session: &Session, found: &[StoredRow]) {
        let problems = found.iter().filter_map(|stored| session.table.open_key(stored).err());
        problems.for_each(|problem| self.verified.add(problem));
    }

    fn values(&mut self, session: &Session, found: &[StoredRow]) -> Result<(), TableError> {
        let state = session.state()?;
        for stored in found {
            match session.table.open_value(&state, stored.id, &stored.body, session.groups()) {
                Ok(_) | Err(TableError::Erased { .. }) => {
                    self.verified.values += 1;
                    self.has_opened(stored);
                }
                Err(problem) => self.verified.add(problem),
            }
        }
        Ok(())
    }

    fn has_opened(&mut self, stored: &StoredRow) {
        let found = PackCipher::dictionary_id(&stored.body).unwrap_or(0);
        self.dictionary = self.dictionary.max(found);
        self.can_open[key_id(stored)] = true;
    }

    /// The settings are read again after all bodies and must not be older than these, because the number of
    /// the dictionary only increases.
    async fn settings(&mut self, session: &mut Session) -> Result<(), TableError> {
        match session.learn().await {
            Ok(true) => {}
            Ok(false) => self.verified.add(session.table.settings_missing()),
            Err(problem) => self.verified.add(problem),
        }
        let (expected, found) = (self.dictionary, session.state()?.contents.dictionary);
        if found < expected {
            self.verified.add(TableError::Settings {
                table: session.table.name().to_owned(),
                reason: format!(
                    "expected dictionary {expected}, which rows have, or a later one, found {found}: the settings were deleted and written \
                     again, or are older than the rows"
                ),
            });
        }
        Ok(())
    }
}

fn key_id(stored: &StoredRow) -> usize {
    stored.body.first().map_or(0, |first| usize::from(first & 0b11))
}
