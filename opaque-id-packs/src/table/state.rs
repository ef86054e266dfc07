//! The settings and dictionaries that the client knows, and their comparison with the server's.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::metadata::Meta;
use super::{Context, Table};
use crate::error::TableError;
use crate::format::{Codec, Dictionary, FormatError, Kind, PackCipher};
use crate::group::Group;
use crate::index::IndexKey;
use crate::order::Permutation;
use crate::settings::TableMetadata;
use crate::stored::StoredRow;

/// After this time, the client asks the server for other settings and dictionaries.
const STATE_FOR: Duration = Duration::from_secs(60);

/// After this time without a check, the client writes without a dictionary. A sweep
/// deletes only dictionaries that have not been current for much longer.
const DICTIONARY_FOR: Duration = Duration::from_secs(600);

/// Untyped tools require nothing.
pub(crate) struct Requirements<'r> {
    pub(crate) encoding: &'r str,
    pub(crate) hides_keys: bool,
    pub(crate) is_grouped: bool,
}

impl Requirements<'_> {
    fn words(&self) -> [&str; 3] {
        let order = match self.hides_keys {
            true => "rows by encrypted key",
            false => "rows in the order of their keys",
        };
        let groups = match self.is_grouped {
            true => "rows in groups",
            false => "rows without groups",
        };
        [self.encoding, order, groups]
    }
}

pub(crate) struct State {
    pub(crate) contents: TableMetadata,
    pub(crate) version: i64,
    read: Instant,
    /// The last comparison of settings and dictionaries with the server's.
    checked: Mutex<Instant>,
    /// The caller's transaction may have been rolled back since.
    is_committed: bool,
    /// The settings have the number 0.
    meta: BTreeMap<i64, i64>,
    /// The codecs that decompress, with their versions, by dictionary. `row_codec` and `pack_codec` compress.
    pub(super) codecs: BTreeMap<u16, (i64, Arc<Codec>)>,
    /// The last number counts even if it is unreadable.
    pub(crate) last_dictionary: u16,
    row_codec: Codec,
    pack_codec: Codec,
    /// Whether bodies of this process may need its dictionaries.
    has_encrypted: Arc<AtomicBool>,
    /// Whether a check did not find the current dictionary.
    is_lost: AtomicBool,
    order: Option<Permutation>,
    pub(crate) groups: Option<Groups>,
    pub(crate) index: Option<IndexKey>,
}

/// The keys of a table with groups, in its settings. They encrypt rows and packs in place of the subkey, so
/// a rotation rewrites no row.
pub(crate) struct Groups {
    order: Permutation,
    pub(super) cipher: PackCipher,
}

impl State {
    pub(crate) fn place(&self, number: u128) -> u128 {
        let order = self.order.as_ref();
        order.map_or(number, |order| order.place(number))
    }

    pub(crate) fn number(&self, place: u128) -> u128 {
        let order = self.order.as_ref();
        order.map_or(place, |order| order.number(place))
    }

    pub(crate) fn group_id(&self, group: Group) -> Option<u128> {
        self.groups.as_ref().map(|groups| groups.order.place(group.0))
    }

    pub(crate) fn has_dictionary(&self, id: u16) -> bool {
        self.codecs.contains_key(&id)
    }

    pub(crate) fn dictionaries_before(&self, id: u16) -> u64 {
        self.meta.range(1..i64::from(id).max(1)).count() as u64
    }

    fn age(&self) -> Duration {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }

    fn set_checked(&self) {
        *self.checked.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    pub(super) fn row_codec(&self) -> &Codec {
        self.to_encrypt(&self.row_codec, self.is_old())
    }

    /// A sweep gives the processes with a column more time.
    pub(super) fn value_codec(&self) -> &Codec {
        self.to_encrypt(&self.row_codec, false)
    }

    pub(crate) fn pack_codec(&self) -> &Codec {
        self.to_encrypt(&self.pack_codec, self.is_old())
    }

    /// A sweep may have deleted the dictionary of an old state, and a body with it would be unreadable.
    fn is_old(&self) -> bool {
        self.age() >= DICTIONARY_FOR
    }

    /// This call sees a simultaneous [`lose_dictionary`](Self::lose_dictionary), or that call sees this one.
    fn to_encrypt<'s>(&'s self, codec: &'s Codec, is_old: bool) -> &'s Codec {
        self.has_encrypted.store(true, Ordering::SeqCst);
        match self.codecs.get(&0) {
            Some((_, plain)) if is_old || self.is_lost.load(Ordering::SeqCst) => plain,
            _ => codec,
        }
    }

    /// Returns whether bodies of this process may need the current dictionary. New bodies do not.
    fn lose_dictionary(&self) -> bool {
        self.is_lost.store(true, Ordering::SeqCst);
        self.has_encrypted.load(Ordering::SeqCst)
    }

    /// Returns whether the server still has the settings and all dictionaries of this state.
    pub(crate) fn matches_server(&self, meta: &BTreeMap<i64, i64>) -> bool {
        self.meta == *meta
    }

    fn current(&self) -> Option<(u16, i64)> {
        let id = self.contents.dictionary;
        let (version, _) = self.codecs.get(&id).filter(|_| id > 0)?;
        Some((id, *version))
    }
}

impl Table {
    /// The caller's transaction may be rolled back.
    pub(crate) fn is_uncommitted(&self) -> bool {
        self.state().is_some_and(|state| !state.is_committed)
    }

    #[cfg(test)]
    pub(crate) fn forget_check(&self, time: Duration) {
        if let Some(state) = self.state() {
            *state.checked.lock().unwrap_or_else(PoisonError::into_inner) -= time;
        }
    }

    pub(crate) fn is_check_due(&self) -> bool {
        self.state().is_some_and(|state| state.age() >= STATE_FOR)
    }

    /// Compares settings and dictionaries with the server's, and reads changed ones. If a crash or a failover
    /// has undone the current dictionary, returns it to be inserted again, because rows of this process may
    /// need it.
    pub(crate) fn check_state(
        &self,
        context: Context,
        stored: Meta,
    ) -> Result<Option<StoredRow>, TableError> {
        let state = self.opened()?;
        if !state.is_committed {
            let is_there = self.learn(context, stored)?;
            return if is_there { Ok(None) } else { Err(self.not_created()) };
        }
        let meta = versions(&stored);
        if state.matches_server(&meta) {
            state.is_lost.store(false, Ordering::SeqCst);
        } else {
            // A transaction may see the state at its beginning.
            let current = state.current().filter(|_| !context.is_in_transaction);
            // If a later dictionary exists, a sweep has deleted this one, and no crash has undone it.
            let last = meta.last_key_value().map(|(last, _)| *last);
            if let Some((id, version)) = current
                && meta.contains_key(&0)
                && last.is_none_or(|last| last < id.into())
                // A process that only reads may have no right to insert it.
                && state.lose_dictionary()
            {
                let bytes = state.pack_codec.dictionary();
                return Ok(Some(self.encrypt_meta(id, version, bytes)?));
            }
            match self.learn(context, stored) {
                // The client keeps its own settings until the server has shown older ones for a minute.
                Ok(_) | Err(TableError::Older { .. }) => {}
                Err(problem) => return Err(problem),
            }
            if context.is_in_transaction {
                return Ok(None);
            }
        }
        state.set_checked();
        Ok(None)
    }

    /// Reads the settings and the dictionaries, and returns whether there are settings. Older ones are
    /// ignored if another call's answer may have overtaken this one.
    pub(crate) fn learn(&self, context: Context, stored: Meta) -> Result<bool, TableError> {
        let known = self.state().filter(|known| known.is_committed);
        let meta = versions(&stored);
        let mut contents = None;
        let unreadable = |source| self.unreadable(Kind::Dictionary, 0, source);
        let mut codecs =
            BTreeMap::from([(0, (0, Arc::new(Codec::new(1, None).map_err(unreadable)?)))]);
        let mut last_dictionary = 0;
        for (id, stored) in stored {
            if id == 0 {
                contents = Some((stored.version, self.decode_settings(&stored)?));
                continue;
            }
            last_dictionary = last_dictionary.max(id);
            let codec = known.as_ref().and_then(|known| known.codecs.get(&id));
            let codec = codec.filter(|(version, _)| *version == stored.version).cloned();
            // A dictionary may be unreadable. Bodies with other dictionaries can still be read.
            if let Some(codec) = codec {
                codecs.insert(id, codec);
            } else if let Ok(bytes) = self.open_meta(Kind::Dictionary, &stored)
                && let Ok(codec) = Codec::new(1, Some(Dictionary::new(id, bytes)))
            {
                codecs.insert(id, (stored.version, Arc::new(codec)));
            }
        }
        let Some((version, contents)) = contents else {
            return Ok(false);
        };
        // Another dictionary has its number, so it must not be used any more.
        let is_lost = known.as_ref().is_some_and(|known| {
            let there = codecs.get(&known.contents.dictionary);
            there.is_some_and(|(_, codec)| codec.dictionary() != known.pack_codec.dictionary())
        });
        if !is_lost || context.is_in_transaction {
            if known.as_ref().is_some_and(|known| {
                known.version > version && (context.is_in_transaction || known.read > context.began)
            }) {
                return Ok(true);
            }
            self.check_age(context, Kind::Settings, 0, version)?;
        }
        self.check(&contents)?;
        let id = contents.dictionary;
        let (_, current) = codecs
            .get(&id)
            .ok_or_else(|| self.unreadable(Kind::Settings, 0, FormatError::NoDictionary { id }))?;
        let settings = &contents.settings;
        let row_codec = current.at_level(settings.row_level).map_err(unreadable)?;
        let pack_codec = current.at_level(settings.pack_level).map_err(unreadable)?;
        let order = contents.order.as_deref().map(|key| {
            let key = read_bytes(key).and_then(|key| key.try_into().ok());
            Ok(Permutation::new(&key.ok_or_else(|| self.wrong_columns())?))
        });
        let state = State {
            version,
            read: Instant::now(),
            checked: Mutex::new(Instant::now()),
            is_committed: !context.is_in_transaction
                || known.is_some_and(|it| it.matches_server(&meta)),
            meta,
            codecs,
            last_dictionary,
            row_codec,
            pack_codec,
            has_encrypted: Arc::clone(&self.has_encrypted),
            is_lost: AtomicBool::new(false),
            order: order.transpose()?,
            groups: self.groups(&contents)?,
            index: self.index(&contents)?,
            contents,
        };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(state));
        Ok(true)
    }

    pub(super) fn groups(&self, contents: &TableMetadata) -> Result<Option<Groups>, TableError> {
        let groups = contents.groups.as_deref().map(|keys| {
            let keys = Zeroizing::new(read_bytes(keys).ok_or_else(|| self.wrong_columns())?);
            let (order, key) = keys.split_first_chunk().ok_or_else(|| self.wrong_columns())?;
            let key = key.try_into().map(Zeroizing::new).map_err(|_| self.wrong_columns())?;
            Ok(Groups { order: Permutation::new(order), cipher: self.ciphers.with_key(&key) })
        });
        groups.transpose()
    }

    fn index(&self, contents: &TableMetadata) -> Result<Option<IndexKey>, TableError> {
        let read = |digits| {
            let key =
                read_bytes(digits).map(Zeroizing::new).and_then(|key| IndexKey::from_bytes(&key));
            key.ok_or_else(|| self.wrong_columns())
        };
        contents.index().map(read).transpose()
    }

    fn check(&self, contents: &TableMetadata) -> Result<(), TableError> {
        if let Some(expected) = &self.expected {
            let found = Requirements {
                encoding: &contents.encoding,
                hides_keys: contents.order.is_some(),
                is_grouped: contents.groups.is_some(),
            };
            for (expected, found) in expected.words().into_iter().zip(found.words()) {
                if expected != found {
                    return Err(self.mismatch(expected, found));
                }
            }
        }
        self.check_settings(contents)
    }

    pub(crate) fn check_settings(&self, contents: &TableMetadata) -> Result<(), TableError> {
        let is_written_through = contents.groups.is_some() && contents.settings.write_through;
        let through = "expected a table with groups to have recent rows, found write_through";
        let problem = contents.settings.problem();
        let problem = problem.or_else(|| is_written_through.then(|| through.to_owned()));
        problem.map_or(Ok(()), |problem| Err(self.settings_problem(problem)))
    }

    /// An `update` that inserts a recent row does not see another client's simultaneous write into the pack,
    /// so write-through must not change.
    pub(crate) fn check_change(
        &self,
        from: &TableMetadata,
        to: &TableMetadata,
    ) -> Result<(), TableError> {
        let name = |contents: &TableMetadata| match contents.settings.write_through {
            true => "rows that are written through",
            false => "rows that are written into the recent table",
        };
        match from.settings.write_through == to.settings.write_through {
            true => Ok(()),
            false => Err(self.mismatch(name(to), name(from))),
        }
    }

    pub(crate) fn fingerprint(&self, state: &State, text: &str) -> Result<Vec<u8>, TableError> {
        let index = state.index.as_ref().ok_or_else(|| self.no_index());
        index.map(|index| index.fingerprint(text))
    }
}

fn versions(stored: &[(u16, StoredRow)]) -> BTreeMap<i64, i64> {
    stored.iter().map(|(id, stored)| (i64::from(*id), stored.version)).collect()
}

fn read_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(byte).collect()).flatten()
}
