//! The state that all calls on a table share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::statement::Cell;
use quick_cache::sync::Cache as QuickCache;
use zeroize::Zeroizing;

use crate::cache::{Cache, CacheStats, Cached, PackBacklog, SeenVersions};
use crate::ciphers::Ciphers;
use crate::error::{Location, TableError};
use crate::format::{
    Codec, Dictionary, FormatError, GroupKey, GroupKeys, Kind, Pack, PackCipher, Padding, Place,
    Plaintext, Row, Value,
};
use crate::group::Group;
use crate::id_column::IdColumn;
use crate::index::IndexKey;
use crate::name::TableName;
use crate::order::Permutation;
use crate::settings::TableMetadata;
use crate::statement::Statements;
use crate::stored::{StoredRow, Tier};

/// A merger writes two such values with one statement. On MySQL and MariaDB it has them in hexadecimal
/// digits, and `max_allowed_packet` is 16 MiB by default.
const MAX_VALUE: usize = 3 << 20;

/// After this time, the client asks the server whether a group is erased.
const KEY_FOR: Duration = Duration::from_secs(60);

/// After this time, the client asks the server for other settings and dictionaries.
const STATE_FOR: Duration = Duration::from_secs(60);

/// After this time, the client asks the server whether a dictionary still exists before it writes. A sweep
/// deletes only dictionaries that have not been current for much longer.
const DICTIONARY_FOR: Duration = Duration::from_secs(600);

const KEYS: usize = 1 << 14;

pub(crate) struct Table {
    name: Box<str>,
    pub(crate) statements: Statements,
    /// The keys with the time of their read. `None` is an erased group.
    known_keys: QuickCache<u128, (Instant, Option<Arc<GroupKey>>)>,
    ciphers: Ciphers,
    expected: Option<Requirements<'static>>,
    plain: Codec,
    state: RwLock<Option<Arc<State>>>,
    seen: SeenVersions,
    pub(crate) waiting: Mutex<HashMap<u128, PackBacklog>>,
    cache: RwLock<Option<Arc<Cache>>>,
}

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
    codecs: BTreeMap<u16, (i64, Arc<Codec>)>,
    /// The last number counts even if it is unreadable.
    pub(crate) last_dictionary: u16,
    row_codec: Codec,
    pack_codec: Codec,
    order: Option<Permutation>,
    pub(crate) groups: Option<Groups>,
    pub(crate) index: Option<IndexKey>,
}

/// They replace subkeys, and the settings contain them.
pub(crate) struct Groups {
    order: Permutation,
    cipher: PackCipher,
}

pub(crate) type Unreadable = Vec<(u128, TableError)>;

/// The settings and the dictionaries by number.
pub(crate) type Meta = Vec<(u16, StoredRow)>;

#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) began: Instant,
    pub(crate) is_in_transaction: bool,
}

impl Context {
    pub(crate) fn outside() -> Self {
        Self { began: Instant::now(), is_in_transaction: false }
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
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

    fn row_codec(&self) -> &Codec {
        self.unless_old(&self.row_codec)
    }

    pub(crate) fn pack_codec(&self) -> &Codec {
        self.unless_old(&self.pack_codec)
    }

    /// A sweep may have deleted the dictionary of an old state, and a body with it would be unreadable.
    fn unless_old<'s>(&'s self, codec: &'s Codec) -> &'s Codec {
        match self.codecs.get(&0) {
            Some((_, plain)) if self.age() >= DICTIONARY_FOR => plain,
            _ => codec,
        }
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
    pub(crate) fn new(
        keyring: SharedKeyring,
        domain: &str,
        name: TableName,
        ids: IdColumn,
        expected: Option<Requirements<'static>>,
    ) -> Result<Self, TableError> {
        let table = name.table();
        let plain = Codec::new(9, None).map_err(|source| TableError::Unreadable {
            location: location(ids, table, Kind::Settings, 0),
            source,
        })?;
        Ok(Self {
            name: table.into(),
            statements: Statements::new(table, ids),
            known_keys: QuickCache::new(KEYS),
            ciphers: Ciphers::new(keyring, domain, name),
            expected,
            plain,
            state: RwLock::new(None),
            seen: SeenVersions::new(),
            waiting: Mutex::default(),
            cache: RwLock::new(None),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn set_cache(&self, bytes: u64) {
        let cache = (bytes > 0).then(|| Arc::new(Cache::new(bytes)));
        *self.cache.write().unwrap_or_else(PoisonError::into_inner) = cache;
    }

    pub(crate) fn cache(&self) -> Option<Arc<Cache>> {
        let cache = self.cache.read();
        cache.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn count_cached(&self, read: CacheStats) {
        if let Some(cache) = self.cache().filter(|_| read != CacheStats::default()) {
            cache.count(read);
            #[cfg(feature = "metrics")]
            crate::cache::record(&self.name, read);
        }
    }

    pub(crate) fn cipher(&self) -> Arc<PackCipher> {
        self.ciphers.current()
    }

    pub(crate) fn state(&self) -> Option<Arc<State>> {
        let state = self.state.read();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn opened(&self) -> Result<Arc<State>, TableError> {
        self.state().ok_or_else(|| self.not_created())
    }

    pub(crate) fn view<'v>(
        &'v self,
        context: Context,
        groups: &'v GroupKeys,
    ) -> Result<View<'v>, TableError> {
        Ok(View { table: self, state: self.opened()?, context, groups })
    }

    pub(crate) fn not_created(&self) -> TableError {
        TableError::NotCreated { table: self.name.to_string() }
    }

    pub(crate) fn settings_missing(&self) -> TableError {
        let name = &self.name;
        self.settings_problem(format!(
            "expected settings in {name}_meta, as there are rows, found none: restore {name}_meta from a backup"
        ))
    }

    pub(crate) fn read(&self, rows: Vec<Vec<Cell>>) -> Result<Vec<(Tier, StoredRow)>, TableError> {
        self.statements.ids().read(rows).ok_or_else(|| self.wrong_columns())
    }

    pub(crate) fn read_tier(
        &self,
        tier: Tier,
        rows: Vec<Vec<Cell>>,
    ) -> Result<Vec<StoredRow>, TableError> {
        let ids = if tier == Tier::Keys { IdColumn::Uuid } else { self.statements.ids() };
        let rows = ids.read(rows).ok_or_else(|| self.wrong_columns())?;
        Ok(rows.into_iter().map(|(_, stored)| stored).collect())
    }

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
    /// has undone the current dictionary, returns it to be inserted again, because rows may have been written
    /// with it since.
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
        if !state.matches_server(&meta) {
            // A transaction may see the state at its beginning.
            let current = state.current().filter(|_| !context.is_in_transaction);
            // If a later dictionary exists, a sweep has deleted this one, and no crash has undone it.
            let last = meta.last_key_value().map(|(last, _)| *last);
            if let Some((id, version)) = current
                && meta.contains_key(&0)
                && last.is_none_or(|last| last < id.into())
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
            order: order.transpose()?,
            groups: self.groups(&contents)?,
            index: self.index(&contents)?,
            contents,
        };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(state));
        Ok(true)
    }

    fn groups(&self, contents: &TableMetadata) -> Result<Option<Groups>, TableError> {
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

    pub(crate) fn in_transaction(&self, call: &str) -> TableError {
        self.settings_problem(format!("expected {call} outside of a transaction, found one"))
    }

    pub(crate) fn derive_index(&self) -> Result<Box<IndexKey>, TableError> {
        let expected = "expected a secret of your own for a blind index, found the example secret";
        self.ciphers.derive_index().ok_or_else(|| self.settings_problem(expected))
    }

    pub(crate) fn fingerprint(&self, state: &State, text: &str) -> Result<Vec<u8>, TableError> {
        let index = state.index.as_ref().ok_or_else(|| self.no_index());
        index.map(|index| index.fingerprint(text))
    }

    /// A column has a blind index in its name only, or in its type only.
    pub(crate) fn no_index(&self) -> TableError {
        self.settings_problem(
            "expected a blind index, by `with_index` of the column and `ColumnName::index`, found only one of them or none",
        )
    }

    pub(crate) fn decode_meta(&self, rows: Vec<Vec<Cell>>) -> Result<Meta, TableError> {
        let stored = |cells| match <[Cell; 3]>::try_from(cells) {
            Ok([Cell::Integer(id), Cell::Integer(version), Cell::Bytes(body)]) => {
                let number = u16::try_from(id).map_err(|_| self.wrong_columns())?;
                let id = number.into();
                Ok((number, StoredRow::new(id, version, body)))
            }
            _ => Err(self.wrong_columns()),
        };
        rows.into_iter().map(stored).collect()
    }

    /// Returns the settings and the dictionaries that are not under the current secret, encrypted again.
    pub(crate) fn reencrypt_meta(&self, mut stored: Meta) -> Vec<Result<StoredRow, TableError>> {
        let current = self.cipher().header(0);
        stored.retain(|(_, stored)| !stored.body.starts_with(&current));
        let reencrypt = |(id, stored): (u16, StoredRow)| {
            let plaintext = self.open_meta(meta_kind(id), &stored)?;
            self.encrypt_meta(id, stored.version + 1, &plaintext)
        };
        stored.into_iter().map(reencrypt).collect()
    }

    pub(crate) fn verify_meta(&self, stored: Meta) -> impl Iterator<Item = TableError> {
        let open = |(id, stored)| self.open_meta(meta_kind(id), &stored).err();
        stored.into_iter().filter_map(open)
    }

    pub(crate) fn current_header(&self, tier: Tier) -> Result<[u8; 3], TableError> {
        let state = self.opened()?;
        let dictionary = state.contents.dictionary;
        Ok(match (tier, &state.groups) {
            (Tier::Keys, _) => self.cipher().header(0),
            (_, Some(groups)) => groups.cipher.header(dictionary),
            (_, None) => self.cipher().header(dictionary),
        })
    }

    /// It is empty and has the smallest id.
    pub(crate) fn encrypt_first_pack(
        &self,
        contents: &TableMetadata,
        version: i64,
    ) -> Result<StoredRow, TableError> {
        let pack = Pack { id: 0, end: None, rows: Vec::new() };
        let plaintext = pack
            .encode(&self.plain, Padding::None, &GroupKeys::default())
            .map_err(|source| self.unwritable(Kind::Pack, 0, source))?;
        let groups = self.groups(contents)?;
        Ok(self.encrypt(groups.as_ref(), Kind::Pack, 0, version, &self.plain, &plaintext))
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

    fn decode_settings(&self, stored: &StoredRow) -> Result<TableMetadata, TableError> {
        let json = self.open_meta(Kind::Settings, stored)?;
        serde_json::from_slice(&json).map_err(|error| {
            let newer = "a newer version of this library may have written them";
            self.settings_problem(format!("{newer}: {error}"))
        })
    }

    fn open_meta(&self, kind: Kind, stored: &StoredRow) -> Result<Vec<u8>, TableError> {
        match self.read_small(kind, stored)? {
            Row::Value(value) => Ok(value.to_vec()),
            Row::Deleted => {
                Err(self.unreadable(kind, stored.id, FormatError::Invalid("it is deleted")))
            }
        }
    }

    /// The keyring's secrets encrypt settings, dictionaries and groups' keys.
    fn read_small(&self, kind: Kind, stored: &StoredRow) -> Result<Row, TableError> {
        let plaintext = self.decrypt(None, kind, stored, &self.plain)?;
        Row::decode(&plaintext, &self.plain, &GroupKeys::default())
            .map_err(|source| self.unreadable(kind, stored.id, source))
    }

    fn encrypt_small(
        &self,
        kind: Kind,
        id: u128,
        version: i64,
        row: &Row,
    ) -> Result<StoredRow, TableError> {
        // The mark of an erased group is as long as a key.
        let padding = if kind == Kind::Key { Padding::Steps(64) } else { Padding::Padme };
        let plaintext = row.encode(&self.plain, padding, &GroupKeys::default());
        let plaintext = plaintext.map_err(|source| self.unwritable(kind, id, source))?;
        Ok(self.encrypt(None, kind, id, version, &self.plain, &plaintext))
    }

    /// Returns a group's key if it was read within the last minute, or `Some(None)` if the group was erased.
    #[expect(clippy::option_option, reason = "not known, or known to be none")]
    pub(crate) fn known_key(&self, id: u128) -> Option<Option<Arc<GroupKey>>> {
        let (read, key) = self.known_keys.get(&id)?;
        (read.elapsed() < KEY_FOR).then_some(key)
    }

    /// The packs may have rows of the group.
    pub(crate) fn forget_key(&self, id: u128) {
        self.known_keys.remove(&id);
        if let Some(cache) = self.cache() {
            cache.clear();
        }
    }

    /// Erasures by others are then noticed at once.
    pub(crate) fn forget_keys(&self) {
        self.known_keys.clear();
    }

    /// Returns `None` if the group is erased.
    pub(crate) fn open_key(&self, stored: &StoredRow) -> Result<Option<Arc<GroupKey>>, TableError> {
        let Row::Value(value) = self.read_small(Kind::Key, stored)? else {
            return Ok(None);
        };
        let key = (*value).try_into().map(Zeroizing::new);
        let key = key.map_err(|_| FormatError::Invalid("a key has another length"));
        let key = key.map_err(|source| self.unreadable(Kind::Key, stored.id, source))?;
        let cipher = self.ciphers.with_key(&key);
        Ok(Some(Arc::new(GroupKey { id: stored.id, version: stored.version, cipher })))
    }

    /// An unreadable key is an error of a call that writes with it. Other calls treat it as missing, so that
    /// only the rows of its group fail.
    pub(crate) fn learn_keys(
        &self,
        context: Context,
        rows: Vec<Vec<Cell>>,
        is_to_write: bool,
        keys: &mut GroupKeys,
    ) -> Result<(), TableError> {
        for stored in self.read_tier(Tier::Keys, rows)? {
            let key = match self.open_key(&stored) {
                Err(_) if !is_to_write => continue,
                opened => opened?,
            };
            // A transaction may see keys that are later rolled back.
            if !context.is_in_transaction {
                self.known_keys.insert(stored.id, (context.began, key.clone()));
            }
            keys.insert(stored.id, key);
        }
        Ok(())
    }

    /// In order, so that two clients that make the same keys do not deadlock.
    pub(crate) fn new_keys(&self, ids: &[u128]) -> Result<Vec<StoredRow>, TableError> {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        let key = |id| {
            let mut key = vec![0; 32];
            getrandom::fill(&mut key).expect("the operating system has randomness");
            self.encrypt_small(Kind::Key, id, random_version(), &Row::Value(key.into()))
        };
        ids.into_iter().map(key).collect()
    }

    pub(crate) fn erased_key(&self, id: u128) -> Result<StoredRow, TableError> {
        self.encrypt_small(Kind::Key, id, random_version(), &Row::Deleted)
    }

    pub(crate) fn reencrypt_key(&self, stored: &StoredRow) -> Result<StoredRow, TableError> {
        let row = self.read_small(Kind::Key, stored)?;
        self.encrypt_small(Kind::Key, stored.id, random_version(), &row)
    }

    pub(crate) fn is_grouped(&self) -> bool {
        self.state().is_some_and(|state| state.contents.groups.is_some())
    }

    /// Stops at unreadable parts.
    pub(crate) fn groups_in(&self, rows: &[Vec<Cell>]) -> Vec<u128> {
        let Some(state) = self.state().filter(|state| state.groups.is_some()) else {
            return Vec::new();
        };
        let values = self.statements.read_values(rows).unwrap_or_default();
        let groups = values.iter().filter_map(|value| self.group_of_value(value.id, &value.body));
        let mut groups: Vec<_> = groups.collect();
        for (tier, stored) in self.statements.ids().read(rows.to_vec()).unwrap_or_default() {
            groups.extend(self.groups_of(&state, tier.kind(), &stored));
        }
        groups.sort_unstable();
        groups.dedup();
        groups
    }

    /// Stops at unreadable parts.
    fn groups_of(&self, state: &State, kind: Kind, stored: &StoredRow) -> Vec<u128> {
        match self.open(state, kind, stored) {
            Ok((_, plaintext)) if kind == Kind::Pack => Pack::groups(stored.id, &plaintext),
            Ok((_, plaintext)) => Row::group_in(&plaintext).into_iter().collect(),
            Err(_) => Vec::new(),
        }
    }

    pub(crate) fn encrypt_meta(
        &self,
        id: u16,
        version: i64,
        bytes: &[u8],
    ) -> Result<StoredRow, TableError> {
        let row = Row::Value(bytes.to_owned().into());
        self.encrypt_small(meta_kind(id), id.into(), version, &row)
    }

    pub(crate) fn encrypt_settings(
        &self,
        version: i64,
        contents: &TableMetadata,
    ) -> Result<StoredRow, TableError> {
        let json = serde_json::to_vec(contents);
        let json = json.map_err(|error| self.settings_problem(error.to_string()))?;
        self.encrypt_meta(0, version, &json)
    }

    pub(crate) fn group_of_value(&self, id: u128, body: &[u8]) -> Option<u128> {
        let state = self.state().filter(|state| state.groups.is_some())?;
        self.groups_of(&state, Kind::Value, &StoredRow::new(id, 0, body.to_owned())).pop()
    }

    pub(crate) fn check_len(&self, kind: Kind, id: u128, len: usize) -> Result<(), TableError> {
        match len <= MAX_VALUE {
            true => Ok(()),
            false => Err(self.invalid(kind, id, format!(
                "expected a value of at most {MAX_VALUE} bytes after compression, found {len}: split it, or keep it elsewhere"
            ))),
        }
    }

    fn encrypt(
        &self,
        groups: Option<&Groups>,
        kind: Kind,
        id: u128,
        version: i64,
        codec: &Codec,
        plaintext: &[u8],
    ) -> StoredRow {
        // A key may encrypt a limited number of bodies: see SECURITY.md.
        #[cfg(feature = "metrics")]
        ::metrics::counter!("opaque_id_packs_encrypted_total", "table" => self.name.to_string())
            .increment(1);
        let place = place(kind, id, version);
        let body = match groups {
            Some(groups) => groups.cipher.encrypt(place, codec, plaintext),
            None => self.cipher().encrypt(place, codec, plaintext),
        };
        StoredRow::new(id, version, body)
    }

    /// A pack must not reach into the next one (I4). An old body from before a split does.
    pub(crate) fn check_end(
        &self,
        stored: &StoredRow,
        end: Option<u128>,
    ) -> Result<(), TableError> {
        match (end, stored.next) {
            (_, None) => Ok(()),
            (Some(end), Some(next)) if end <= next => Ok(()),
            _ => Err(TableError::Overlap { location: self.location(Kind::Pack, stored.id) }),
        }
    }

    /// A pack or the settings must not be older than the state that was seen before the call. A transaction
    /// may see an older state.
    pub(crate) fn check_age(
        &self,
        context: Context,
        kind: Kind,
        id: u128,
        count: i64,
    ) -> Result<(), TableError> {
        if context.is_in_transaction {
            return Ok(());
        }
        match self.seen.later((kind, id), count, context.began) {
            None => Ok(()),
            Some(expected) => {
                Err(TableError::Older { location: self.location(kind, id), expected, found: count })
            }
        }
    }

    fn open<'s>(
        &self,
        state: &'s State,
        kind: Kind,
        stored: &StoredRow,
    ) -> Result<(&'s Codec, Plaintext), TableError> {
        let unreadable = |source| self.unreadable(kind, stored.id, source);
        let found = PackCipher::dictionary_id(&stored.body).map_err(unreadable)?;
        let codec = state.codecs.get(&found).map(|(_, codec)| codec);
        let codec = codec.ok_or_else(|| unreadable(FormatError::NoDictionary { id: found }))?;
        Ok((codec, self.decrypt(state.groups.as_ref(), kind, stored, codec)?))
    }

    fn decrypt(
        &self,
        groups: Option<&Groups>,
        kind: Kind,
        stored: &StoredRow,
        codec: &Codec,
    ) -> Result<Plaintext, TableError> {
        let place = place(kind, stored.id, stored.version);
        let opened = match groups {
            Some(groups) => groups.cipher.open(place, codec, &stored.body),
            None => self.cipher().open(place, codec, &stored.body),
        };
        opened.map_err(|source| self.unreadable(kind, stored.id, source))
    }

    pub(crate) fn wrong_columns(&self) -> TableError {
        TableError::Columns { table: self.name.to_string() }
    }

    pub(crate) fn settings_problem(&self, reason: impl Into<String>) -> TableError {
        TableError::Settings { table: self.name.to_string(), reason: reason.into() }
    }

    pub(crate) fn mismatch(&self, expected: &str, found: &str) -> TableError {
        TableError::Mismatch {
            table: self.name.to_string(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }

    pub(crate) fn invalid(&self, kind: Kind, id: u128, reason: impl Into<String>) -> TableError {
        TableError::Value { location: self.location(kind, id), reason: reason.into() }
    }

    pub(crate) fn unreadable(&self, kind: Kind, id: u128, source: FormatError) -> TableError {
        TableError::Unreadable { location: self.location(kind, id), source }
    }

    pub(crate) fn unwritable(&self, kind: Kind, id: u128, source: FormatError) -> TableError {
        TableError::Unwritable { location: self.location(kind, id), source }
    }

    pub(crate) fn location(&self, kind: Kind, id: u128) -> Location {
        location(self.statements.ids(), &self.name, kind, id)
    }

    pub(crate) fn location_of_row(&self, place: u128) -> Location {
        Location { name: format!("a row of {}", self.name), ..self.location(Kind::Row, place) }
    }

    pub(crate) fn column_location(&self) -> Location {
        Location { name: format!("a value of {}", self.name), id: None }
    }

    pub(crate) fn packs_location(&self) -> Location {
        Location { name: format!("{}_packs", self.name), id: None }
    }

    pub(crate) fn cached(&self, key: u128) -> Option<Cached> {
        let cached = self.cache()?.pack_of(key)?;
        let mut groups: Vec<_> =
            cached.pack.rows.iter().filter_map(|(_, value)| value.group).collect();
        groups.dedup();
        let are_known = groups.iter().all(|group| matches!(self.known_key(*group), Some(Some(_))));
        are_known.then_some(cached)
    }
}

/// The table as a call knows it, for the bodies of rows, values and packs.
pub(crate) struct View<'v> {
    pub(crate) table: &'v Table,
    pub(crate) state: Arc<State>,
    context: Context,
    pub(crate) groups: &'v GroupKeys,
}

impl View<'_> {
    pub(crate) fn has_erased(&self, kind: Kind, stored: &StoredRow) -> bool {
        let groups = self.table.groups_of(&self.state, kind, stored);
        groups.iter().any(|id| self.groups.is_erased(*id))
    }

    pub(crate) fn encrypt_row(&self, id: u128, row: &Row) -> Result<StoredRow, TableError> {
        self.encrypt(Kind::Row, id, random_version(), self.state.row_codec(), row)
    }

    /// `None` marks a value of an erased group.
    pub(crate) fn encrypt_value(
        &self,
        id: u128,
        value: Option<Value>,
    ) -> Result<Vec<u8>, TableError> {
        let row = value.map_or(Row::Deleted, Row::Value);
        Ok(self.encrypt(Kind::Value, id, 0, &self.state.row_codec, &row)?.body)
    }

    fn encrypt(
        &self,
        kind: Kind,
        id: u128,
        version: i64,
        codec: &Codec,
        row: &Row,
    ) -> Result<StoredRow, TableError> {
        let (table, groups) = (self.table, self.state.groups.as_ref());
        // A row without a group would survive the erasure.
        if groups.is_some() && matches!(row, Row::Value(value) if value.group.is_none()) {
            let reason = "expected a value of a group, because there are groups, found one without";
            return Err(table.invalid(kind, id, reason));
        }
        let plaintext = row
            .encode(codec, self.state.contents.settings.row_padding, self.groups)
            .map_err(|source| table.unwritable(kind, id, source))?;
        table.check_len(kind, id, plaintext.len())?;
        Ok(table.encrypt(groups, kind, id, version, codec, &plaintext))
    }

    /// The codec is that of the plaintext.
    pub(crate) fn encrypt_pack(
        &self,
        codec: &Codec,
        (id, version): (u128, i64),
        plaintext: &[u8],
    ) -> StoredRow {
        let groups = self.state.groups.as_ref();
        self.table.encrypt(groups, Kind::Pack, id, version, codec, plaintext)
    }

    pub(crate) fn open_value(&self, id: u128, body: &[u8]) -> Result<Value, TableError> {
        let dictionary = PackCipher::dictionary_id(body).unwrap_or(0);
        let location = || self.table.location(Kind::Value, id);
        if !self.state.has_dictionary(dictionary) {
            return Err(TableError::UnknownDictionary { location: location(), dictionary });
        }
        match self.open(Kind::Value, &StoredRow::new(id, 0, body.to_owned()))? {
            Row::Value(value) => Ok(value),
            Row::Deleted => Err(TableError::Erased { location: location() }),
        }
    }

    pub(crate) fn open_row(&self, stored: &StoredRow) -> Result<Row, TableError> {
        self.open(Kind::Row, stored)
    }

    fn open(&self, kind: Kind, stored: &StoredRow) -> Result<Row, TableError> {
        let (codec, plaintext) = self.table.open(&self.state, kind, stored)?;
        Row::decode(&plaintext, codec, self.groups)
            .map_err(|source| self.table.unreadable(kind, stored.id, source))
    }

    /// The pack must not be older than the version that was seen before the call.
    pub(crate) fn open_pack(&self, stored: &StoredRow) -> Result<Arc<Pack>, TableError> {
        let (pack, unreadable) = self.open_readable(stored)?;
        unreadable.into_iter().next().map_or(Ok(pack), |(_, problem)| Err(problem))
    }

    /// Omits the unreadable rows of groups. The second result has their places with the problem.
    pub(crate) fn open_readable(
        &self,
        stored: &StoredRow,
    ) -> Result<(Arc<Pack>, Unreadable), TableError> {
        let table = self.table;
        let (codec, plaintext) = self.open_body(stored)?;
        let (pack, unreadable) =
            Pack::decode_readable(stored.id, &plaintext, codec, self.groups)
                .map_err(|source| table.unreadable(Kind::Pack, stored.id, source))?;
        table.check_end(stored, pack.end)?;
        let problem = |(place, source)| {
            (place, TableError::Unreadable { location: table.location_of_row(place), source })
        };
        Ok((Arc::new(pack), unreadable.into_iter().map(problem).collect()))
    }

    /// Returns the pack's end and the value of one key.
    pub(crate) fn find_in_pack(
        &self,
        stored: &StoredRow,
        key: u128,
    ) -> Result<(Option<u128>, Option<Value>), TableError> {
        let table = self.table;
        let (codec, plaintext) = self.open_body(stored)?;
        let (end, value) =
            Pack::find(stored.id, &plaintext, codec, self.groups, key).map_err(|source| {
                match source {
                    FormatError::NoGroupKey => {
                        TableError::Unreadable { location: table.location_of_row(key), source }
                    }
                    source => table.unreadable(Kind::Pack, stored.id, source),
                }
            })?;
        table.check_end(stored, end)?;
        Ok((end, value))
    }

    fn open_body(&self, stored: &StoredRow) -> Result<(&Codec, Plaintext), TableError> {
        let opened = self.table.open(&self.state, Kind::Pack, stored)?;
        self.check_age(stored.id, stored.version)?;
        Ok(opened)
    }

    pub(crate) fn check_age(&self, pack: u128, version: i64) -> Result<(), TableError> {
        self.table.check_age(self.context, Kind::Pack, pack, count(version))
    }

    pub(crate) fn open_and_cache(
        &self,
        stored: &StoredRow,
    ) -> Result<(Arc<Pack>, Unreadable), TableError> {
        let (pack, unreadable) = self.open_readable(stored)?;
        // A transaction may see rows that are later rolled back.
        let is_whole = unreadable.is_empty() && !self.context.is_in_transaction;
        if let Some(cache) = self.table.cache().filter(|_| is_whole) {
            let (version, len) = (stored.version, stored.body.len());
            cache.insert(Cached { version, pack: Arc::clone(&pack), len });
        }
        Ok((pack, unreadable))
    }
}

fn location(ids: IdColumn, table: &str, kind: Kind, id: u128) -> Location {
    let (name, id) = match kind {
        Kind::Row => (format!("a row of {table}_recent"), Some(ids.display(id))),
        Kind::Pack => (format!("a pack of {table}_packs"), Some(ids.display(id))),
        Kind::Dictionary => (format!("the dictionary {id} of {table}_meta"), None),
        Kind::Settings => (format!("the settings (id 0) of {table}_meta"), None),
        Kind::Value => (format!("a value of {table}"), Some(ids.display(id))),
        Kind::Key | Kind::Group => {
            (format!("a key of {table}_keys"), Some(IdColumn::Uuid.display(id)))
        }
    };
    Location { name, id }
}

fn versions(stored: &[(u16, StoredRow)]) -> BTreeMap<i64, i64> {
    stored.iter().map(|(id, stored)| (i64::from(*id), stored.version)).collect()
}

fn meta_kind(id: u16) -> Kind {
    if id == 0 { Kind::Settings } else { Kind::Dictionary }
}

fn place(kind: Kind, id: u128, version: i64) -> Place {
    let version = version.cast_unsigned();
    Place { kind, id, version }
}

/// The version of a recent row identifies this write.
pub(crate) fn random_version() -> i64 {
    (getrandom::u64().expect("the operating system has randomness") >> 1).cast_signed()
}

/// The upper half of a pack's version counts replacements. The lower half is random, because a crash or a
/// failover can undo a body, and another body then has its count.
pub(crate) fn next_version(version: i64) -> i64 {
    // The server may claim any version of an unreadable pack.
    let next = count(version).wrapping_add(1) & i64::from(i32::MAX);
    next << 32 | random_version() >> 31
}

pub(crate) fn count(version: i64) -> i64 {
    version >> 32
}

fn read_bytes(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<_> = digits.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).ok();
    (digits.len() % 2 == 0).then(|| digits.chunks(2).map(byte).collect()).flatten()
}
