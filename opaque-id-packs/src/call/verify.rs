//! Reads everything and lists corrupt and missing packs. It changes nothing.

use std::fmt;

use super::convert::{Reader, check};
use super::walk::{EVERY_BODY, Source, Walk};
use super::{Calls, PackCall, Session};
use crate::column::ColumnName;
use crate::error::{TableError, add};
use crate::format::{FormatError, Kind, PackCipher};
use crate::statement::ValueSource;
use crate::stored::{StoredRow, Tier};
use crate::table::View;

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

impl Calls {
    /// Reads all packs and recent rows, or all values of a column. With a reader, it also checks the column's plaintext and its index.
    pub fn verify<'c>(
        &self,
        column: Option<&ColumnName>,
        read: Option<Reader<'c>>,
        mut progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'c, Verified> {
        let column = column.cloned();
        self.connected(async move |mut session| {
            let mut run = Verification::default();
            let meta = session.read_meta().await?;
            session.table.verify_meta(meta).for_each(|problem| run.verified.add(problem));
            let without_key = session.no_primary_keys(column.is_none()).await?;
            without_key.into_iter().for_each(|problem| run.verified.add(problem));
            let keys = session.state()?.groups.is_some().then_some(Source::Tier(Tier::Keys));
            let tiers = [Tier::Packs, Tier::Recent].map(Source::Tier);
            let sources = match &column {
                Some(column) => vec![Source::Column(column, ValueSource::AllEncrypted)],
                None => keys.into_iter().chain(tiers).collect(),
            };
            for source in sources {
                let (mut walk, mut is_first) = (Walk::new(source), true);
                while let Some(bodies) = walk.next(&mut session, &EVERY_BODY).await? {
                    let (view, first) = (session.view()?, bodies.first().map(|stored| stored.id));
                    if matches!(source, Source::Tier(Tier::Packs)) && is_first && first != Some(0) {
                        let location = session.table.packs_location();
                        run.damaged(TableError::Gap { location }, Damage::from_packs(0, first));
                    }
                    for stored in &bodies {
                        run.body(&view, source, stored);
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
        })
    }
}

#[derive(Default)]
struct Verification {
    verified: Verified,
    dictionary: u16,
    can_open: [bool; 4],
    /// The places of damage that is certain only if the secret of this key id is the right one.
    in_doubt: Vec<(usize, usize)>,
}

impl Verification {
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

    fn body(&mut self, view: &View<'_>, source: Source<'_>, stored: &StoredRow) {
        let opened = match source {
            Source::Tier(Tier::Packs) => view.open_readable(stored).map(|(pack, unreadable)| {
                // The pack is authentic, so a backup has nothing better. The keys of its groups are missing.
                unreadable.into_iter().for_each(|(_, problem)| self.verified.add(problem));
                self.verified.packs += 1;
                self.verified.packed_rows += pack.rows.len() as u64;
                if let (true, Some(end)) = (pack.end != stored.next, pack.end) {
                    let gap =
                        TableError::Gap { location: view.table.location(Kind::Pack, pack.id) };
                    self.damaged(gap, Damage::from_packs(end, stored.next));
                }
            }),
            Source::Tier(Tier::Recent) => {
                view.open_row(stored).map(|_| self.verified.recent_rows += 1)
            }
            Source::Tier(Tier::Keys) => view.table.open_key(stored).map(drop),
            Source::Column(..) => match view.open_value(stored.id, &stored.body) {
                Ok(_) | Err(TableError::Erased { .. }) => {
                    self.verified.values += 1;
                    Ok(())
                }
                Err(problem) => Err(problem),
            },
        };
        match (opened, source) {
            (Ok(()), Source::Tier(Tier::Keys)) => {}
            (Ok(()), _) => self.has_opened(stored),
            // The row is authentic, so a backup has nothing better.
            (Err(problem @ TableError::Unreadable { source: FormatError::NoGroupKey, .. }), _) => {
                self.verified.add(problem);
            }
            (Err(problem), Source::Tier(Tier::Packs)) => {
                self.unreadable(problem, stored, Damage::from_packs(stored.id, stored.next));
            }
            (Err(problem), Source::Tier(Tier::Recent)) => {
                let end = view.table.statements.ids().after(stored.id);
                let damage = Damage::from_packs(stored.id, end);
                let recent = Some(stored.version);
                self.unreadable(problem, stored, Damage { recent, ..damage });
            }
            (Err(problem), _) => self.verified.add(problem),
        }
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
            self.verified.add(session.table.settings_problem(format!(
                "expected dictionary {expected} of the rows, or a later one, found {found}: the settings were deleted and written \
                 again, or are older than the rows"
            )));
        }
        Ok(())
    }
}

fn key_id(stored: &StoredRow) -> usize {
    stored.body.first().map_or(0, |first| usize::from(first & 0b11))
}
