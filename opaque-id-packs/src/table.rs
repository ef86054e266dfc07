//! The state that all calls on a table share.

mod keys;
mod metadata;
mod state;
mod view;

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::statement::Cell;
use quick_cache::sync::Cache as QuickCache;

pub(crate) use self::metadata::Meta;
pub(crate) use self::state::{Groups, Requirements, State};
pub(crate) use self::view::{Unreadable, View};
use crate::cache::{Cache, CacheStats, PackBacklog, SeenVersions};
use crate::ciphers::Ciphers;
use crate::error::{Location, TableError};
use crate::format::{
    Codec, FormatError, GroupKey, GroupKeys, Kind, PackCipher, Padding, Place, Plaintext, Row,
};
use crate::id_column::IdColumn;
use crate::index::IndexKey;
use crate::name::TableName;
use crate::statement::Statements;
use crate::stored::{StoredRow, Tier};

/// A merger writes two such values with one statement. On MySQL and MariaDB it has them in hexadecimal
/// digits, and `max_allowed_packet` is 16 MiB by default.
const MAX_VALUE: usize = 3 << 20;

const KEYS: usize = 1 << 14;

pub(crate) struct Table {
    name: Box<str>,
    pub(crate) statements: Statements,
    /// The keys with the time of their read. `None` is an erased group.
    known_keys: QuickCache<u128, (Instant, Option<Arc<GroupKey>>)>,
    /// The groups that this process has erased, with the time.
    erased_groups: QuickCache<u128, Instant>,
    ciphers: Ciphers,
    expected: Option<Requirements<'static>>,
    plain: Codec,
    state: RwLock<Option<Arc<State>>>,
    seen: SeenVersions,
    pub(crate) waiting: Mutex<HashMap<u128, PackBacklog>>,
    cache: RwLock<Option<Arc<Cache>>>,
    has_encrypted: Arc<AtomicBool>,
}

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
            erased_groups: QuickCache::new(KEYS),
            ciphers: Ciphers::new(keyring, domain, name),
            expected,
            plain,
            state: RwLock::new(None),
            seen: SeenVersions::new(),
            waiting: Mutex::default(),
            cache: RwLock::new(None),
            has_encrypted: Arc::default(),
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

    pub(crate) fn derive_index(&self) -> Result<Box<IndexKey>, TableError> {
        let expected = "expected a secret of your own for a blind index, found the example secret";
        self.ciphers.derive_index().ok_or_else(|| self.settings_problem(expected))
    }

    pub(crate) fn state(&self) -> Option<Arc<State>> {
        let state = self.state.read();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn opened(&self) -> Result<Arc<State>, TableError> {
        self.state().ok_or_else(|| self.not_created())
    }

    pub(crate) fn is_grouped(&self) -> bool {
        self.state().is_some_and(|state| state.contents.groups.is_some())
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

    pub(crate) fn check_stored_len(
        &self,
        kind: Kind,
        id: u128,
        len: usize,
    ) -> Result<(), TableError> {
        match len <= MAX_VALUE {
            true => Ok(()),
            false => Err(self.invalid(kind, id, format!(
                "expected a value of at most {MAX_VALUE} bytes after compression, found {len}: split it, or keep it elsewhere"
            ))),
        }
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

    pub(crate) fn not_created(&self) -> TableError {
        TableError::NotCreated { table: self.name.to_string() }
    }

    pub(crate) fn settings_missing(&self) -> TableError {
        let name = &self.name;
        self.settings_problem(format!(
            "expected settings in {name}_meta because there are rows, found none: restore {name}_meta from a backup"
        ))
    }

    pub(crate) fn in_transaction(&self, call: &str) -> TableError {
        self.settings_problem(format!("expected {call} outside of a transaction, found one"))
    }

    /// A column has a blind index in its name only, or in its type only.
    pub(crate) fn no_index(&self) -> TableError {
        self.settings_problem(
            "expected a blind index, by `with_index` of the column and `ColumnName::index`, found only one of them or none",
        )
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
